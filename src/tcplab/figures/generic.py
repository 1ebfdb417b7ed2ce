"""Draw any result as its experiment declares, or as bars or curves; provide rows for figures.

::

    figures.draw(result)  # the figure that the experiment declares
    figures.draw_bars(result, "mb_per_s", "cpu_s_per_gb")  # a row per variant, a panel per quantity
    figures.draw_curves(result, "rtt_ms", "cork_ms", "model_ms")  # the first is the x axis

A quantity is identified by its KEY in the rows. Its column supplies the label of the axis and the
format of the numbers. If rows have KEY_min and KEY_max, draw_bars() draws a line between the two,
and a diamond at published_KEY.
"""

from __future__ import annotations

import importlib
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


#: The colours and shapes of marks on the axis of a bar.
_MARKS: Final = ((style.BLACK, "D"), (style.VERMILION, "s"), (style.GREEN, "^"))
#: A value and a mark that differ by a smaller share are the same, which the label says.
_SAME: Final = 0.1
#: Number of characters in a line of a row's name.
_CHARACTERS: Final = 26
#: If the longest bar is more than this many times as long as another, the other is invisible.
_MOST_TIMES: Final = 100


@dataclass(frozen=True, slots=True)
class _Panel:
    """The rows of one quantity."""

    label: str  #: label of the axis
    values: Sequence[float]
    words: Sequence[str]  #: labels at the ends of the rows
    spread: Sequence[tuple[float, float]]  #: minimum and maximum of each row, drawn as a line
    #: other values on the same axis by name, and by the number of the row
    marks: Mapping[str, Mapping[int, float]]

    @property
    def every(self) -> list[float]:
        marks = chain.from_iterable(mark.values() for mark in self.marks.values())
        return [*self.values, *chain(*self.spread), *marks]

    @property
    def is_log(self) -> bool:
        """Return whether a bar would be invisible on a linear axis."""
        return max(self.every) > _MOST_TIMES * min(self.every) > 0

    def draw(self, axes: Axes, look: Style, end: float) -> None:
        """Draw the rows and their labels. A linear axis ends at `end`."""
        rows, ends = range(len(self.values)), list(self.values)
        dots: dict[str, Any] = {"ms": 8, "ls": "", "zorder": 4}
        if self.is_log:
            axes.plot(self.values, rows, "o", color=look.colour, mec="white", **dots)
            axes.set(xscale="log", xlim=(min(self.every) / 2, 8 * max(self.every)))
            axes.set_xlabel(f"{self.label} (logarithmic)")
            tick_decades(axes, most=3 if len(axes.figure.axes) > 1 else 4)
            axes.grid(axis="x")
        else:
            axes.barh(rows, self.values, 0.6, **look_of(look))
            axes.set(xlim=(0, end), xlabel=self.label)
            axes.xaxis.set_major_formatter(lambda value, _at: digits(value))
        for y, (least, most) in enumerate(self.spread):
            axes.plot([least, most], [y, y], color="black", lw=1.6, zorder=3)
            ends[y] = max(ends[y], most)
        for (name, mark), (colour, shape) in zip(self.marks.items(), _MARKS, strict=False):
            # A mark is hollow and larger than a dot, so that both are visible in one place.
            hollow = dots | {"ms": 11, "mfc": "none", "mec": colour, "mew": 2, "label": name}
            axes.plot([*mark.values()], [*mark], shape, **hollow)
            ends = [max(end, mark.get(y, end)) for y, end in enumerate(ends)]
        # The labels are drawn over the grid but below the data.
        look_of_words: dict[str, Any] = {"va": "center", "bbox": ON_WHITE, "zorder": 0.9}
        for at, text in zip(zip(ends, rows, strict=True), self.words, strict=True):
            axes.annotate(text, at, (11, 0), textcoords="offset points", **look_of_words)


# ---- figures of any result -----------------------------------------------------------------------


def draw(result: Any) -> Picture:
    """Draw the figure that the result's experiment declares."""
    figure = find(result.provenance["experiment"]).figure
    if callable(figure):
        picture: Picture = figure(importlib.import_module("tcplab.figures"), result)
        return picture
    return draw_bars(result, *figure)


@drawn
def draw_bars(
    result: Tabular, *keys: str, marks: Sequence[str] = (), claim: str = "", note: str = ""
) -> Picture:
    """Draw a bar for each variant with a value of the first quantity, in one panel per quantity.

    Quantities in `marks` are marks on the axis of the first one, which reaches a mark if the two
    are nearly the same. `claim` is the template of the title (see `tcplab.figures.finding`).

    Quantities whose keys end in the same unit share a scale. If only a logarithmic axis can show
    the smallest value, dots are drawn instead, because the length of a bar has no meaning on such
    an axis. Without a claim, the title is the finding that the experiment declares.
    """
    rows = some([row for row in result.rows() if row.get(keys[0]) is not None])
    panels = {key: _panel(result, key, rows, marks if key == keys[0] else ()) for key in keys}
    names = [cell(row[result.columns[0].key], result.columns[0].format) for row in rows]
    if not (are_unique := len({*names}) == len(names)):
        names = [row["variant"] for row in rows]
    lines = [textwrap.fill(name, _CHARACTERS) for name in names]
    for y, row in enumerate(rows if marks else ()):
        value = row[keys[0]]
        reached = (mark for mark in marks if abs(row[mark] - value) < _SAME * value)
        lines[y] += f": {_shown(result, keys[0], row)}"
        lines[y] += "".join(f"\nreaches the {column_of(result, mark).heading}" for mark in reached)
    most = 1 + max(name.count("\n") for name in lines)
    # A single bar would be huge.
    least = canvas.HEIGHT if len(rows) > 1 else canvas.HEIGHT // 2
    height = max(least, 140 + max(24, 16 * most + 6) * len(rows))
    shares = [2.5 if panel.is_log else 1 for panel in panels.values()]
    figure, every = canvas.new_panels(shares, height=height)
    for axes, (key, panel), look in zip(every, panels.items(), LOOKS, strict=False):
        alike = [panels[other] for other in keys if _unit(other) == _unit(key)]
        longest = max([max(one.every) for one in alike if not one.is_log], default=0)
        panel.draw(axes, look, 1.35 * longest or 1)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_yticks(range(len(rows)), lines)
        axes.tick_params(axis="y", length=0)
        if key != keys[0]:
            axes.set_yticks([])
        if not panel.is_log:
            axes.locator_params(axis="x", nbins=max(2, 9 - 2 * len(panels)))
    canvas.legend(figure)
    if result.columns[0].format and are_unique:
        figure.axes[0].set_ylabel(result.columns[0].heading)
    return _titled(figure, result, [*keys, *marks], note, claim)


def _titled(
    figure: Figure, result: Tabular, keys: Sequence[str], note: str = "", claim: str = ""
) -> Picture:
    title, why = finding(result, keys, claim)
    return Picture(figure, title, table(result), " · ".join(filter(None, [note, why])))


def _panel(
    result: Tabular, key: str, rows: Sequence[Mapping[str, Any]], marks: Sequence[str]
) -> _Panel:
    names = {f"published_{key}": "published"}
    names |= {mark: column_of(result, mark).heading for mark in marks}
    marked = {
        name: {y: row[mark] for y, row in enumerate(rows) if row.get(mark)}
        for mark, name in names.items()
    }
    return _Panel(
        column_of(result, key).heading,
        [float(row[key] or 0) for row in rows],
        ["" if marks else _shown(result, key, row) for row in rows],
        [(row[f"{key}_min"], row[f"{key}_max"]) for row in rows if f"{key}_max" in row],
        {name: mark for name, mark in marked.items() if mark},
    )


def _unit(key: str) -> str:
    """Return the unit at the end of a key, such as "mbit", or "s_per_gb" of "cpu_s_per_gb"."""
    found = re.search(r"(?:[a-z]+_per_)?[a-z]+$", key)
    return found[0] if found else key


@drawn
def draw_curves(result: Tabular, x: str, *keys: str, by: str = "", log: str = "") -> Picture:
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
    return _titled(figure, result, keys)


def _shown(result: Tabular, key: str, row: Mapping[str, Any]) -> str:
    return cell(row[key], column_of(result, key).format)


# ---- names and ticks ----------------------------------------------------------------------


def named_once(axes: Axes, name: str) -> str | None:
    """Return the name, or None if the axes' legend already has it."""
    return None if name in axes.get_legend_handles_labels()[1] else name


def tick_decades(axes: Axes, which: str = "x", most: int = 4) -> None:
    """Put ticks of a logarithmic axis at powers of ten, or at 1, 2, 5, 10, … on a short axis."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    low, high = axis.get_view_interval()
    ticks = [10.0**power for power in range(-6, 12) if low <= 10.0**power <= high]
    if len(ticks) < 3:
        many = (times * 10.0**power for power in range(-6, 12) for times in (1, 2, 5))
        ticks = [value for value in many if low <= value <= high]
    elif len(ticks) > most:  # in a narrow panel, long numbers would overlap
        ticks = ticks[::2]
    axis.set_ticks(ticks, [digits(tick) for tick in ticks])
    axis.set_ticks([], minor=True)
