"""Convert matplotlib's SVG for a page, with the theme's colours and a description of each part.

A page gets the drawing as an image, so that it is visible without scripts, as in an untrusted
notebook. ``static/figure.js`` replaces the image with inline SVG in the page's font and colours.
Readers can then point at the parts of a figure, step through them and play a timeline.
"""

import base64
import functools
import json
import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from tcplab.figures import canvas, style
from tcplab.tables import grouped

STATIC: Final = Path(__file__).parent / "static"
_SVG: Final = "{http://www.w3.org/2000/svg}"

#: Parts of a horizontal time axis, as (left, right, start, end), in drawing units and in ms.
Times = Sequence[tuple[float, float, float, float]]


@functools.cache
def script() -> str:
    """Return the JavaScript of <tcplab-figure> with its style. A page may contain it repeatedly."""
    style, script = (STATIC / f"figure.{kind}" for kind in ("css", "js"))
    return f"{{\nconst STYLE = {json.dumps(style.read_text())};\n{script.read_text()}}}\n"


def markup(title: str, image: str, alt: str, note: str) -> str:
    """Return the HTML of a figure whose SVG is `image`."""
    data = base64.b64encode(image.encode()).decode()
    below = f'<p style="margin:0;font-size:0.85em;opacity:0.8">{escape(note)}</p>' if note else ""
    return (
        '<figure class="tcplab-figure" style="margin:0 0 1em;max-width:960px;break-inside:avoid">'
        '<figcaption style="font-weight:600;font-size:var(--tcplab-title,1.15em);line-height:1.25;'
        'margin-bottom:0.25em">'
        f"{escape(unbroken(title))}</figcaption>"
        '<tcplab-figure style="display:block;overflow-x:auto">'
        f'<img src="data:image/svg+xml;base64,{data}" alt="{escape(alt)}"'
        f' style="width:100%;min-width:{canvas.WIDTH}px;max-width:none"></tcplab-figure>'
        f"{below}</figure>"
    )


def unbroken(text: str) -> str:
    """Add commas to numbers above 9999, except ports; keep each number and its unit together."""
    text = re.sub(
        r"(?<![\w.:=])(?<!port )\d{5,}(?![\w.])", lambda number: f"{int(number[0]):,}", text
    )
    return re.sub(r"(\d) (?=[a-zµ%×A-Z])", "\\1\N{NO-BREAK SPACE}", grouped(text))


def themed(svg: str, parts: Mapping[str, str], times: Times = (), unused: float = 0) -> str:
    """Convert matplotlib's SVG for a page, which shows title and note separately.

    `parts` maps gids to descriptions of the marks. `times` are the parts of the time axis if the
    figure can be played. `unused` is the height, in units, of the empty area below the drawing.
    """
    # An HTML parser recognises SVG's attributes only with these prefixes.
    ElementTree.register_namespace("", _SVG[1:-1])
    ElementTree.register_namespace("xlink", "http://www.w3.org/1999/xlink")
    root = ElementTree.fromstring(svg)
    _left, _top, width, height = map(float, root.attrib["viewBox"].split())
    height -= canvas.TITLE + canvas.NOTE + unused
    root.set("viewBox", f"0 {canvas.TITLE} {width:g} {height:g}")
    root.set("width", f"{width:g}")
    root.set("height", f"{height:g}")
    if times:
        root.set("data-times", json.dumps(times))
    for group in root.iter(f"{_SVG}g"):
        name = group.attrib.pop("id", "")
        if description := parts.get(name):
            named = {"class": "part", "data-part": name, "role": "img", "aria-label": description}
            group.attrib.update(named)
            ElementTree.SubElement(group, f"{_SVG}title").text = description
    for letters in root.iter(f"{_SVG}text"):
        letters.text = unbroken(letters.text or "")
    image = ElementTree.tostring(root, encoding="unicode")
    for colour, name in style.THEMED.items():
        image = image.replace(colour, f"var(--{name}, {colour})")
    return image
