"""A drawing of matplotlib's for a page: letters as letters, the theme's colours, parts with names.

A page gets two drawings as images, so that a figure can be read where no script may run (a notebook
that is not trusted, a viewer). ``static/figure.js`` puts the one that fits the column into the page
itself, in the page's type and colours, where its parts can be pointed at, stepped through, played.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Final

from tcplab.figures import style
from tcplab.tables import thin

#: Colours that a theme changes, by the name of the variable that figure.css sets.
_VARIABLES: Final = {
    "#000000": "ink",
    "#ffffff": "paper",
    style.GREY: "grey",
    style.ink(style.GREY): "grey",
    style.FAINT: "faint",
    "#d8d8d8": "faint",
    style.PALE: "pale",
    style.ORANGE: "orange",
    style.SKY: "sky",
    style.GREEN: "green",
    style.YELLOW: "yellow",
    style.BLUE: "blue",
    style.VERMILION: "vermilion",
    style.PURPLE: "purple",
    style.ink(style.ORANGE): "orange-ink",
    style.ink(style.GREEN): "green-ink",
    style.ink(style.VERMILION): "vermilion-ink",
    style.ink(style.PURPLE): "purple-ink",
}
#: A hatch repeats itself after so many units, whatever its density.
_TILE: Final = 24
_NUMBER: Final = r"-?\d+(?:\.\d+)?"


@dataclass(frozen=True, slots=True)
class Drawing:
    """An SVG file of matplotlib's, and what its parts say."""

    svg: str
    parts: Mapping[str, str] = field(default_factory=dict)  #: by gid
    times: Sequence[tuple[float, float, float, float]] = ()
    axis: str = "y"  #: along which time runs: x, or downwards
    prefix: str = ""  #: of its ids
    top: float = 0  #: units to cut off, where the title is
    bottom: float = 0  #: and the note


def markup(drawings: Sequence[Drawing], title: str, alt: str, note: str) -> str:
    """HTML of a figure, its narrow drawing first if there are two."""
    images = [_image(each) for each in drawings]
    source = f'<source media="(max-width: 660px)" srcset="{images[0]}">' if images[1:] else ""
    below = f'<p style="margin:0;font-size:0.85em;opacity:0.8">{escape(note)}</p>' if note else ""
    return (
        '<figure class="tcplab-figure" style="margin:0 0 1em;max-width:960px;break-inside:avoid">'
        '<figcaption style="font-weight:600;font-size:var(--tcplab-title,1.15em);line-height:1.25">'
        f"{escape(unbroken(title))}</figcaption>"
        f"<tcplab-figure><picture>{source}"
        f'<img src="{images[-1]}" alt="{escape(alt)}" style="max-width:100%"></picture>'
        f"</tcplab-figure>{below}</figure>"
    )


def unbroken(text: str) -> str:
    """The text with thin spaces between thousands, and each number and its unit on one line."""
    text = re.sub(
        r"(?<![\w.:=])(?<!port )\d{5,}(?![\w.])", lambda number: f"{int(number[0]):,}", text
    )
    return re.sub(r"(\d) (?=[a-zµ%×A-Z])", "\\1\N{NO-BREAK SPACE}", thin(text))


def _image(drawing: Drawing) -> str:
    data = base64.b64encode(themed(drawing).encode()).decode()
    return f"data:image/svg+xml;base64,{data}"


def themed(drawing: Drawing) -> str:
    """The drawing with variables for colours, names for its parts, and no more than it needs."""
    svg = re.sub(
        r"<\?xml.*?\?>|<!DOCTYPE.*?>|<metadata>.*?</metadata>", "", drawing.svg, flags=re.S
    )
    svg = re.sub(r"> <", "><", re.sub(r"\s+", " ", svg)).strip()
    svg = re.sub(r"; font-family: [^;\"]*", "; font-family: sans-serif", svg)
    svg = re.sub(r' transform="rotate\(-0 [^"]*\)"', "", svg)
    # A hatch is as strong as its edge; only what it lies on is pale.
    pale = dict(re.findall(r"fill: url\(#(\w+)\); fill-opacity: ([\d.]+)", svg))
    svg = re.sub(r"<pattern.*?</pattern>", lambda found: _tile(found[0], pale), svg)
    svg = re.sub(r"(fill: url\(#\w+\)); fill-opacity: [\d.]+", r"\1", svg)
    svg = re.sub(r"<[^>]*>", lambda tag: re.sub(r"-?\d+\.\d{2,}", _rounded, tag[0]), svg)
    svg = re.sub(r">[^<]+</text>", lambda letters: unbroken(letters[0]), svg)
    svg = _coloured(svg)
    svg = re.sub(
        r'(?<=id=")[\w.-]+(?=")|(?<=url\(#)\w+|(?<=href="#)\w+', rf"{drawing.prefix}\g<0>", svg
    )
    svg = re.sub(rf'<g id="{drawing.prefix}([^"]*)">', lambda found: _group(drawing, found[1]), svg)
    return _cropped(drawing, svg)


def _rounded(number: re.Match[str]) -> str:
    return f"{float(number[0]):.1f}".removesuffix(".0")


def _tile(pattern: str, pale: Mapping[str, str]) -> str:
    """One period of a hatch, its dots as round ends of lines without length."""
    face = re.search(r'<rect[^>]*fill="([^"]+)"', pattern)
    line = re.search(r'<path d="([^"]*)" style="([^"]*)"', pattern)
    if face is None or line is None:
        return pattern
    kept = []
    for stroke in line[1].replace("M", "|M").split("|")[1:]:
        numbers = list(map(float, re.findall(_NUMBER, stroke)))
        xs, ys = numbers[::2], numbers[1::2]
        if min(xs) > _TILE + 1 or max(xs) < -1 or min(ys) > _TILE + 1 or max(ys) < -1:
            continue
        if "C" in stroke and max(xs) - min(xs) < 3:
            kept.append(f"M{(min(xs) + max(xs)) / 2:.1f} {(min(ys) + max(ys)) / 2:.1f}h0")
        else:
            kept.append(stroke.strip())
    look = line[2].replace("stroke-linecap: butt", "stroke-linecap: round")
    if any(each.endswith("h0") for each in kept):
        look = re.sub(r"stroke-width: [\d.]+", "stroke-width: 1.8", look)
    elif "C" not in line[1]:
        look = re.sub(r"fill: [^;]+", "fill: none", look)
    name = re.search(r'id="(\w+)"', pattern)
    assert name is not None
    size = f'width="{_TILE}" height="{_TILE}"'
    return (
        f'<pattern id="{name[1]}" patternUnits="userSpaceOnUse" {size}>'
        f'<rect {size} style="fill: {face[1]}; fill-opacity: {pale.get(name[1], 1)}"/>'
        f'<path d="{" ".join(kept)}" style="{look}"/></pattern>'
    )


def _coloured(svg: str) -> str:
    """Colours of the palette as variables, which stay what they are where nobody sets them."""

    def variable(found: re.Match[str]) -> str:
        name = _VARIABLES.get(found[0].lower()) or _VARIABLES.get(found[0].upper())
        return f"var(--{name}, {found[0]})" if name else found[0]

    svg = re.sub(r'fill="(#\w{6})"', r'style="fill: \1"', svg)
    # What has no fill of its own is black, letters above all.
    svg = re.sub(r'<text style="(?![^"]*fill:)', '<text style="fill: #000000; ', svg)
    return re.sub(r"#[0-9a-fA-F]{6}\b", variable, svg)


def _group(drawing: Drawing, name: str) -> str:
    """A part that says what it is, or a group that needs no name."""
    words = drawing.parts.get(name)
    if words is None:
        return "<g>"
    said = escape(words)
    return (
        f'<g class="part" data-part="{name}" role="img" aria-label="{said}"><title>{said}</title>'
    )


def _cropped(drawing: Drawing, svg: str) -> str:
    size = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)
    assert size is not None
    height = float(size[2]) - drawing.top - drawing.bottom
    times = f' data-axis="{drawing.axis}"'
    times += f" data-times='{json.dumps(drawing.times)}'" if drawing.times else ""
    head = f'viewBox="0 {drawing.top:g} {size[1]} {height:g}"{times}'
    head += f' width="{size[1]}" height="{height:g}"'
    svg = re.sub(r' (?:width|height)="[\d.]+pt"', "", svg)
    return svg.replace(size[0], head, 1)
