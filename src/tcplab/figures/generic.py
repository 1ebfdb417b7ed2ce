"""Draw any result as its experiment declares, or as bars or curves; provide rows for figures.

::

    figures.draw(result)  # the figure that the experiment declares
    figures.draw_bars(result, "mb_per_s", "cpu_s_per_gb")  # a row per variant, a panel per quantity
    figures.draw_curves(result, "rtt_ms", "cork_ms", "model_ms")  # the first is the x axis

A quantity is identified by its KEY in the rows. Its column supplies the label of the axis and the
format of the numbers. If rows have KEY_min and KEY_max, draw_bars() draws a line between the two,
and a diamond at published_KEY. A figure that needs more draws its rows with `draw_rows`.
"""

from __future__ import annotations

import importlib
import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, cycle, product
from typing import TYPE_CHECKING, Any, Final

from tcplab.experiments import table
from tcplab.experiments.declaration import find
from tcplab.experiments.result import Tabular
from tcplab.figures import canvas, style
from tcplab.figures.finding import column_of, finding
from tcplab.figures.picture import Picture, drawn, some
from tcplab.figures.style import ON_WHITE, Style, look_of
from tcplab.tables import cell, digits

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


#: The styles of bars, one per panel. draw_bars() ignores further quantities.
LOOKS: Final = (
    Style(style.BLUE, "", ""),
    Style(style.ORANGE, "//", ""),
    Style(style.GREY, "--", ""),
    Style(style.GREEN, "xx", ""),
)


#: If the longest bar is more than this many times as long as another, the other is invisible.
_MOST_TIMES: Final = 100


@dataclass(frozen=True, slots=True)
class Dots:
    """Marks of one kind, with a value or None for each row."""

    values: Sequence[float | None]
    name: str = ""  #: name in the legend, or "" for none
    marker: str = "o"
    colour: str = style.BLUE
    is_filled: bool = True

    def draw(self, axes: Axes) -> dict[int, float]:
        """Draw the marks; return the value of each row that has one."""
        look: dict[str, Any] = {
            "color": self.colour,
            "mec": "white",
            "ms": 8,
            "ls": "",
            "zorder": 4,
        }
        look |= {} if self.is_filled else {"mfc": "white", "mec": "black", "mew": 1.5}
        known = {
            y: value
            for y, value in enumerate(self.values)
            if value is not None and math.isfinite(value)
        }
        label = self.name if known and self.name else None
        axes.plot([*known.values()], [*known], self.marker, label=label, **look)
        return known


@dataclass(slots=True)
class Subplot:
    """The rows of one quantity, with bars of one or more parts, dots, and labels."""

    label: str  #: label of the axis
    bars: Sequence[Sequence[tuple[Style, float]]] = ()  #: the parts of each row's bar
    spread: Sequence[tuple[float, float]] = ()  #: minimum and maximum of each row, drawn as a line
    dots: Sequence[Dots] = ()
    words: Sequence[str] = ()  #: labels at the ends of the rows
    limits: tuple[float, float] | None = None  #: limits of a logarithmic axis, or None if linear
    room: float = 1.3  #: length of a linear axis relative to the longest row
    share: float = 1.0  #: share of the figure's width, relative to the other panels
    end: float = 0.0  #: end of a linear axis, or 0 to choose it by the longest row

    @property
    def longest(self) -> float:
        """The end of the longest row."""
        marks = [value for dots in self.dots for value in dots.values if value is not None]
        bars = [sum(length for _look, length in parts) for parts in self.bars]
        return max([*marks, *bars, *chain(*self.spread)], default=0.0)

    def draw(self, axes: Axes) -> None:
        """Draw the bars, dots and labels of each row, and the axis below them."""
        ends = {y: bar(axes, y, *parts) for y, parts in enumerate(self.bars)}
        for y, (least, most) in enumerate(self.spread):
            axes.plot([least, most], [y, y], color="black", lw=1.6, zorder=3)
            ends[y] = max(ends.get(y, most), most)
        for dots in self.dots:
            ends |= {y: max(ends.get(y, end), end) for y, end in dots.draw(axes).items()}
        if self.limits:
            axes.set(xscale="log", xlim=self.limits, xlabel=f"{self.label} (logarithmic)")
            tick_decades(axes)
        else:
            end = self.end or self.room * self.longest or 1
            axes.set(xlim=(0, end), xlabel=self.label)
            axes.xaxis.set_major_formatter(lambda value, _at: digits(value))
        for y, text in enumerate(self.words):
            beside(axes, text, ends[y], y, mark=bool(self.dots))
        if not self.bars:
            axes.grid(axis="x")


def draw_rows(
    names: Sequence[str], *panels: Subplot, characters: int = 26, row: float = 24
) -> Figure:
    """Draw named rows, each at least `row` units high, with the panels next to each other."""
    lines = max(len(textwrap.wrap(name, characters)) for name in some(names))
    height = max(canvas.HEIGHT, 140 + max(row, 16 * lines + 6) * len(names))
    figure, every = canvas.new_panels([panel.share for panel in panels], height=height)
    for number, (axes, panel) in enumerate(zip(every, panels, strict=True)):
        panel.draw(axes)
        name_rows(axes, names, characters=characters)
        if number:
            axes.set_yticks([])
        if not panel.limits:
            axes.locator_params(axis="x", nbins=max(2, 9 - 2 * len(panels)))
    canvas.legend(figure)
    return figure


# ---- figures of any result -----------------------------------------------------------------------


def draw(result: Any) -> Picture:
    """Draw the figure that the result's experiment declares, by default its first quantity."""
    figure = find(result.provenance["experiment"]).figure
    if callable(figure):
        picture: Picture = figure(importlib.import_module("tcplab.figures"), result)
        return picture
    return draw_bars(result, *(figure or [_first_quantity(result)]))


def _first_quantity(result: Tabular) -> str:
    rows = some(result.rows())
    for column in result.columns[1:]:
        values = [row.get(column.key) for row in rows]
        if not column.is_setting and any(isinstance(value, int | float) for value in values):
            return column.key
    raise ValueError("the result has no number to draw")


@drawn
def draw_bars(result: Tabular, *keys: str, note: str = "") -> Picture:
    """Draw a bar for each variant with a value of the first quantity, in one panel per quantity.

    Quantities whose keys end in the same unit share a scale. If only a logarithmic axis can show
    the smallest value, dots are drawn instead, because the length of a bar has no meaning on such
    an axis. The title is the finding that the experiment declares.
    """
    rows = some([row for row in result.rows() if row.get(keys[0]) is not None])
    panels = [
        _panel(result, key, rows, look) for key, look in zip(keys, LOOKS[: len(keys)], strict=True)
    ]
    for unit in {_unit(key) for key in keys}:
        _share_scale([panel for panel, key in zip(panels, keys, strict=True) if _unit(key) == unit])
    figure = draw_rows(_names(result, rows), *panels)
    if result.columns[0].format:
        figure.axes[0].set_ylabel(result.columns[0].heading)
    return _titled(figure, result, keys, note)


def _titled(figure: Figure, result: Tabular, keys: Sequence[str], note: str) -> Picture:
    title, why = finding(result, keys)
    return Picture(figure, title, table(result), " · ".join(filter(None, [note, why])))


def _panel(result: Tabular, key: str, rows: Sequence[Mapping[str, Any]], look: Style) -> Subplot:
    label, values = column_of(result, key).heading, [float(row[key] or 0) for row in rows]
    ends = [(row[f"{key}_min"], row[f"{key}_max"]) for row in rows if f"{key}_max" in row]
    published = [row.get(f"published_{key}") or None for row in rows]
    dots = [Dots(published, "published", "D", is_filled=False)] if any(published) else []
    words = [_shown(result, key, row) for row in rows]
    every = [*values, *chain(*ends), *(number for number in published if number)]
    if max(every) > _MOST_TIMES * min(every) > 0:
        dots.append(Dots(values, colour=look.colour))
        limits = min(every) / 2, 8 * max(every)
        return Subplot(label, spread=ends, dots=dots, words=words, limits=limits, share=2.5)
    return Subplot(label, [[(look, value)] for value in values], ends, dots, words, room=1.35)


def _unit(key: str) -> str:
    """Return the unit at the end of a key, such as "mbit", or "s_per_gb" of "cpu_s_per_gb"."""
    found = re.search(r"(?:[a-z]+_per_)?[a-z]+$", key)
    return found[0] if found else key


def _share_scale(panels: Sequence[Subplot]) -> None:
    """Give the linear panels of one unit the scale of the longest row."""
    linear = [panel for panel in panels if not panel.limits]
    longest = max((panel.longest for panel in linear), default=0.0)
    for panel in linear:
        panel.end = panel.room * longest


@drawn
def draw_curves(
    result: Tabular,
    x: str,
    *keys: str,
    by: str = "",
    note: str = "",
    log: str = "",
) -> Picture:
    """Draw quantities against another one, as lines for models and as points for measurements.

    Keys that begin with "model" or "formula" become lines, and settings become dashed lines. With
    `by`, the points of each value of this quantity have their own look. `log` names the axes that
    are logarithmic: "x", "y" or "xy".
    """
    rows = sorted(some(result.rows()), key=lambda row: float(row[x]))
    figure, axes = canvas.new_axes("both")
    looks = cycle(style.CURVES)
    groups = list(dict.fromkeys(row[by] for row in rows)) if by else [None]
    for key, group in product(keys, groups):
        column = column_of(result, key)
        chosen = [row for row in rows if not by or row[by] == group]
        points = [row[x] for row in chosen], [row[key] for row in chosen]
        look: dict[str, Any] = {"ls": "", "ms": 8, "mec": "white", "zorder": 4}
        label: str | None = column.heading
        if by:
            label = f"{column_of(result, by).heading}: {group}"
        if key.startswith(("model", "formula")):
            label = named_once(axes, column.heading)
            look = {"color": "black", "lw": 1.3}
        elif column.is_setting:
            look = {"color": next(looks)[0], "ls": "--"}
        else:
            look["color"], look["marker"], _line = next(looks)
        axes.plot(*points, label=label, **look)
        if key == keys[0] and not by:
            for row, at in zip(rows, zip(*points, strict=True), strict=True):
                place: dict[str, Any] = {"textcoords": "offset points", "ha": "right"}
                axes.annotate(_shown(result, key, row), at, (-6, 6), bbox=ON_WHITE, **place)
    for axis in log:
        axes.set(**{f"{axis}scale": "log"})
        tick_decades(axes, axis)
    axes.margins(0.08)
    if "y" not in log:
        axes.set_ylim(bottom=0)
    suffixes = [" (logarithmic)" if axis in log else "" for axis in "xy"]
    axes.set_xlabel(column_of(result, x).heading + suffixes[0])
    axes.set_ylabel(column_of(result, keys[0]).heading + suffixes[1])
    canvas.legend(figure)
    return _titled(figure, result, keys, note)


def _names(result: Tabular, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    names = [cell(row[result.columns[0].key], result.columns[0].format) for row in rows]
    return names if len(set(names)) == len(names) else [row["variant"] for row in rows]


def _shown(result: Tabular, key: str, row: Mapping[str, Any]) -> str:
    return cell(row[key], column_of(result, key).format)


# ---- rows, labels and ticks ----------------------------------------------------------------------


def name_rows(axes: Axes, names: Sequence[str], *, characters: int = 26) -> None:
    """Write the names of the rows 0, 1, ... to the left of the axes, from top to bottom."""
    axes.set_ylim(len(names) - 0.5, -0.5)
    lines = ["\n".join(textwrap.fill(part, characters) for part in n.split("\n")) for n in names]
    axes.set_yticks(range(len(names)), lines)
    axes.tick_params(axis="y", length=0)


def bar(
    axes: Axes,
    row: float,
    *parts: tuple[Style, float],
    left: float = 0.0,
    thick: float = 0.6,
) -> float:
    """Draw a bar of several parts, each with a style and a length; return the bar's right end."""
    for look, length in parts:
        label = named_once(axes, look.name)
        axes.barh(row, length, thick, left=left, label=label, **look_of(look))
        left += length
    return left


def named_once(axes: Axes, name: str) -> str | None:
    """Return the name, or None if the axes' legend already has it."""
    return None if name in axes.get_legend_handles_labels()[1] else name


def beside(
    axes: Axes, words: str, x: float, y: float, *, above: bool = False, mark: bool = False
) -> None:
    """Write a label to the right of (x, y), or `above` it. `mark` leaves room for a mark there."""
    where: dict[str, Any] = {"xytext": (9 if mark else 6, 0), "va": "center"}
    if above:
        where = {"xytext": (0, 4), "ha": "center"}
    # The label is drawn over the grid but below the data.
    where |= {"textcoords": "offset points", "bbox": ON_WHITE, "zorder": 0.9}
    axes.annotate(words, (x, y), **where)


def tick_decades(axes: Axes, which: str = "x") -> None:
    """Put ticks of a logarithmic axis at powers of ten, or at 1, 2, 5, 10, … on a short axis."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    low, high = axis.get_view_interval()
    ticks = [10.0**power for power in range(-6, 12) if low <= 10.0**power <= high]
    if len(ticks) < 3:
        many = (times * 10.0**power for power in range(-6, 12) for times in (1, 2, 5))
        ticks = [value for value in many if low <= value <= high]
    elif len(ticks) > 4:  # in a narrow panel, long numbers would overlap
        ticks = ticks[::2]
    axis.set_ticks(ticks, [digits(tick) for tick in ticks])
    axis.set_ticks([], minor=True)
