"""Plots as HTML that the browser fits to their column: places in percent, type in pixels.

A slider's next stop needs another picture at once: this takes a millisecond, matplotlib fifty. What
a narrow column has no room for has the class "minor", which panel.css hides there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final, Literal

from tcplab.tables import digits

#: Round values of a logarithmic axis over so many decades or fewer are 1, 2, 5; over more 1 alone.
DECADES_OF_THREE: Final = 3
#: The shape of a marker, by the number of its run: runs differ in more than their colour.
SHAPES: Final = ("M-6 -6h12v12h-12z", "M0 -8l8 14h-16z", "M-6 0a6 6 0 1 0 12 0a6 6 0 1 0 -12 0z")


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a plot."""

    low: float
    high: float
    scale: Literal["linear", "log"] = "linear"
    label: str = ""

    def part(self, value: float) -> float:
        """The place of a value from 0 to 1; one beyond an end is at that end."""
        value = min(max(value, self.low), self.high)
        if self.scale == "log":
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self, most: int) -> list[tuple[float, bool]]:
        """Round values, at most about so many if linear, and whether each is minor."""
        if self.scale == "log":
            decades = math.log10(self.high / self.low)
            leads = (1,) if decades > DECADES_OF_THREE else (1, 2, 5)
            powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            found = [(lead * 10.0**power, lead, power) for power in powers for lead in leads]
            return [
                (value, power % 2 == 1 if len(leads) == 1 else lead != 1 and decades > 1.5)
                for value, lead, power in found
                if 0.999 * self.low <= value <= 1.001 * self.high
            ]
        rough = (self.high - self.low) / most
        unit = 10.0 ** math.floor(math.log10(rough))
        step = unit * next((lead for lead in (1, 2, 5) if lead * unit >= rough), 10)
        first, last = math.ceil(self.low / step), math.floor(self.high / step * (1 + 1e-9))
        return [(number * step, number % 2 == 1) for number in range(first, last + 1)]


def percent(part: float) -> str:
    """Of a width or a height."""
    return f"{100 * part:.2f}%"


def short(value: float) -> str:
    """A round value in little room: 1.5M, 10k."""
    if value >= 1e6:
        return f"{digits(value / 1e6)}M"
    return f"{digits(value / 1e3)}k" if value >= 1e4 else digits(value)


def line(ends: Sequence[float], kind: str) -> str:
    """A line between two places: x and y of its ends as parts of the plot."""
    places = zip(("x1", "y1", "x2", "y2"), map(percent, ends), strict=True)
    return f'<line class="{kind}" ' + " ".join(f'{at}="{it}"' for at, it in places) + "/>"


def words(
    text: str, x: float, y: float, shift: tuple[float, float] = (0, 0), kind: str = ""
) -> str:
    """Text at a place, moved by so many pixels; `kind` has "middle" or "end" for its anchor."""
    dx, dy = shift
    place = f'x="{percent(x)}" y="{percent(y)}" dx="{dx:g}" dy="{dy:g}"'
    return f'<text {place} class="{kind}">{escape(text)}</text>'


def mark(shape: str, x: float, y: float, kind: str) -> str:
    """A shape in pixels at a place."""
    path = f'<path class="{kind}" d="{shape}"/>'
    return f'<svg class="at" x="{percent(x)}" y="{percent(y)}">{path}</svg>'


def curve(places: Iterable[tuple[float, float]], kind: str) -> str:
    """A line through many places."""
    path = "L".join(f"{1000 * x:.0f} {1000 * y:.0f}" for x, y in places)
    drawn = f'<path class="line {kind}" d="M{path}"/>' if path else ""
    return f'<svg viewBox="0 0 1000 1000" preserveAspectRatio="none">{drawn}</svg>'


def key(kind: str, label: str) -> str:
    """An entry of the legend."""
    if kind.startswith("run"):
        sign = mark(SHAPES[int(kind[3:])], 0.5, 0.5, f"marker {kind}")
    else:
        sign = line((0, 0.5, 1, 0.5), f"line {kind}")
    return f'<li><svg class="key">{sign}</svg>{escape(label)}</li>'


def upright(data: Mapping[str, Any]) -> list[str]:
    """The parts of a chart: axes, curves, marks of points, lines with labels at their ends.

    Args:
        data: "x" and "y", each an :class:`Axis`; "lines" of "kind" and "points"; "marks" of "x" and
            "label"; "level" of "y" and "label", or None.
    """
    xs, ys = data["x"], data["y"]
    parts = []
    if xs.label:
        for x, is_minor in xs.ticks(9):
            at = xs.part(x)
            parts.append(line((at, 0, at, 1), "grid"))
            parts.append(words(short(x), at, 1, (0, 20), "middle" + " minor" * is_minor))
    for y, is_minor in ys.ticks(6 if xs.label else 2):
        at = 1 - ys.part(y)
        parts.append(line((0, at, 1, at), "grid"))
        parts.append(
            words(short(y), 0, at, (-6, 5), "end" + " minor" * (is_minor and xs.label != ""))
        )
    for it in data["lines"]:
        places = [(xs.part(x), 1 - ys.part(y)) for x, y in it["points"]]
        if it["kind"].startswith("run"):
            shape = SHAPES[int(it["kind"][3:])]
            parts += [mark(shape, x, y, f"marker {it['kind']}") for x, y in places]
        else:
            parts.append(curve(places, it["kind"]))
    for number, it in enumerate(data["marks"]):
        at = xs.part(it["x"])
        is_right = at > 0.5
        shift = (-6 if is_right else 6, -8 - 19 * (number % 3))
        parts.append(line((at, 0, at, 1), "mark"))
        parts.append(words(it["label"], at, 1, shift, "end" if is_right else ""))
    if level := data["level"]:
        at = 1 - ys.part(level["y"])
        parts += [line((0, at, 1, at), "level"), words(level["label"], 1, at, (0, -6), "end")]
    return parts


def area(parts: Iterable[str]) -> str:
    """The plot itself; what is written beside its axes has room in its margins."""
    return f'<svg class="area">{"".join(parts)}</svg>'


def framed(kind: str, alt: str, *parts: str, rows: int = 1) -> str:
    """A whole plot with its words for those who cannot see it."""
    words = f'role="img" aria-label="{escape(alt)}"'
    return f'<div class="tcplab-{kind}" {words} style="--rows: {rows}">{"".join(parts)}</div>'
