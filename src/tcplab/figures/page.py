"""A figure in a page: matplotlib's SVG in the theme's colours, its parts with names.

A page gets the drawing as an image, so that it can be read where no script may run (a notebook that
is not trusted, a viewer). ``static/figure.js`` puts it into the page itself, in the page's type and
colours, where its parts can be pointed at and stepped through, and a timeline plays.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Final
from xml.etree import ElementTree

from tcplab.figures import canvas, style
from tcplab.tables import thin

_SVG: Final = "{http://www.w3.org/2000/svg}"

#: Stretches of a time axis that runs to the right: both ends in units, and their times in ms.
Times = Sequence[tuple[float, float, float, float]]


def markup(title: str, image: str, alt: str, note: str) -> str:
    """HTML of a figure; `image` is its SVG."""
    data = base64.b64encode(image.encode()).decode()
    below = f'<p style="margin:0;font-size:0.85em;opacity:0.8">{escape(note)}</p>' if note else ""
    return (
        '<figure class="tcplab-figure" style="margin:0 0 1em;max-width:960px;break-inside:avoid">'
        '<figcaption style="font-weight:600;font-size:var(--tcplab-title,1.15em);line-height:1.25">'
        f"{escape(unbroken(title))}</figcaption>"
        '<tcplab-figure style="display:block;overflow-x:auto">'
        f'<img src="data:image/svg+xml;base64,{data}" alt="{escape(alt)}"'
        f' style="width:100%;min-width:{canvas.WIDTH}px;max-width:none"></tcplab-figure>'
        f"{below}</figure>"
    )


def unbroken(text: str) -> str:
    """The text with thin spaces between thousands, and each number and its unit on one line."""
    text = re.sub(
        r"(?<![\w.:=])(?<!port )\d{5,}(?![\w.])", lambda number: f"{int(number[0]):,}", text
    )
    return re.sub(r"(\d) (?=[a-zµ%×A-Z])", "\\1\N{NO-BREAK SPACE}", thin(text))


def themed(svg: str, parts: Mapping[str, str], times: Times = (), unused: float = 0) -> str:
    """matplotlib's SVG for a page, which writes title and note itself.

    Args:
        svg: the drawing, without title and note.
        parts: what the marks say of themselves, by their gid.
        times: of a figure that plays.
        unused: units below the drawing with nothing in them.
    """
    # An HTML parser knows the attributes of SVG by these prefixes alone.
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
        if words := parts.get(name):
            named = {"class": "part", "data-part": name, "role": "img", "aria-label": words}
            group.attrib.update(named)
            ElementTree.SubElement(group, f"{_SVG}title").text = words
    for letters in root.iter(f"{_SVG}text"):
        letters.text = unbroken(letters.text or "")
    image = ElementTree.tostring(root, encoding="unicode")
    for colour, name in style.THEMED.items():
        image = image.replace(colour, f"var(--{name}, {colour})")
    return image
