"""Provide the canvas of a figure, with its size, the style sheet and the layout of its axes.

One unit of a figure is at least one pixel of a page. In a column that is narrower than a figure,
the figure scrolls in a box. Text of size 12 is therefore never smaller than 12 pixels.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Width and height in units, with a projector's ratio of 16 to 9. Many rows make a figure higher.
WIDTH: Final = 640
HEIGHT: Final = 360
#: Heights reserved for the title and the note of an exported figure.
TITLE: Final = 46
NOTE: Final = 15

#: matplotlib's points per inch, used to convert units to the size of a figure in inches.
POINTS: Final = 72

#: Width of the mark next to a name in a legend, with its gaps, in units.
_HANDLE: Final = 44

#: A lock for matplotlib's settings, which are global. It is reentrant, because drawings are nested.
_SETTINGS: Final = threading.RLock()
_SHEET: Final = Path(__file__).with_name("tcplab.mplstyle")


@contextmanager
def drawing() -> Iterator[None]:
    """Apply the course's style sheet instead of the user's settings, in one thread at a time."""
    from matplotlib import style

    with _SETTINGS, style.context(["default", _SHEET]):
        yield


def new_figure(height: float = HEIGHT) -> Figure:
    """Return an empty figure. Any thread may draw it, because it does not use pyplot."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH / POINTS, height / POINTS))
    FigureCanvasAgg(figure)
    return figure


def body(figure: Figure) -> tuple[float, float]:
    """Return the bottom and top of the area between note and title, as shares of the height."""
    height = figure.get_figheight() * POINTS
    return NOTE / height, 1 - TITLE / height


def new_axes(grid: Literal["both", "x", "y"] | None = None) -> tuple[Figure, Axes]:
    """Return a figure with one Axes that fills the space left by title, note and labels."""
    figure, [axes] = new_panels([1])
    if grid:
        axes.grid(axis=grid)
    return figure, axes


def new_panels(
    shares: Sequence[float], *, height: float = HEIGHT, stacked: bool = False
) -> tuple[Figure, list[Axes]]:
    """Return a figure with axes that share its width, or its height if `stacked`."""
    figure = new_figure(height)
    low, high = body(figure)
    figure.set_layout_engine("constrained", rect=(0, low, 1, high - low), w_pad=0.05, h_pad=0.03)
    if stacked:
        axes = figure.subplots(len(shares), 1, squeeze=False, height_ratios=shares)
    else:
        axes = figure.subplots(1, len(shares), squeeze=False, width_ratios=shares)
    return figure, list(axes.flat)


def legend(figure: Figure, *axes: Axes) -> None:
    """Draw a legend above the axes that lists each name in the given axes (default: all) once."""
    from tcplab.figures.style import SMALL, text_width_px

    named: dict[str, Any] = {}
    for panel in axes or figure.axes:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            named.setdefault(label, handle)
    if not named:
        return
    wide = max(text_width_px(line, SMALL) for label in named for line in label.split("\n"))
    columns = max(int(WIDTH / (wide + _HANDLE)), 1)
    lines = -(-len(named) // columns) + sum(label.count("\n") for label in named)
    low, high = body(figure)
    height = (15.5 * lines + 4) / (figure.get_figheight() * POINTS)
    engine: Any = figure.get_layout_engine()
    engine.set(rect=(0, low, 1, high - height - low))
    figure.legend(
        named.values(),
        named.keys(),
        loc="upper left",
        bbox_to_anchor=(0, high),
        ncols=columns,
        borderpad=0.1,
        borderaxespad=0.2,
        labelspacing=0.25,
    )
