"""The paper of a figure: its two sizes, the style sheet, and axes that lay themselves out.

One unit of a drawing is one pixel of a page, or more: a page shows the wide drawing where a column
has at least its width, and elsewhere the narrow one. So type of 12 is never smaller than 12 pixels.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Size(NamedTuple):
    """A drawing's width and height, and the heights kept free for title and note, in units."""

    width: float
    height: float
    title: float
    note: float


#: A projector's 16 to 9; with its title and its note for export and print.
WIDE: Final = Size(640, 360, 46, 15)
#: A telephone's column; title and note are the page's.
NARROW: Final = Size(336, 340, 0, 0)

#: matplotlib's points per inch, of which a figure's size is made.
POINTS: Final = 72

#: Lines of a legend for which a narrow drawing has room; units of a name's mark and gaps.
_NARROW_LINES: Final = 3
_HANDLE: Final = 44

_size: contextvars.ContextVar[Size | None] = contextvars.ContextVar("size", default=None)
#: matplotlib's settings belong to the whole process. Drawing calls drawing: hence reentrant.
_SETTINGS: Final = threading.RLock()
_SHEET: Final = Path(__file__).with_name("tcplab.mplstyle")


@contextmanager
def drawing(size: Size | None = None) -> Iterator[None]:
    """The course's style sheet, whatever the user has set for figures of his own; and a size."""
    from matplotlib import style

    token = _size.set(size or _size.get())
    try:
        with _SETTINGS, style.context(["default", _SHEET]):
            yield
    finally:
        _size.reset(token)


def is_drawing() -> bool:
    """A figure is being drawn."""
    return _size.get() is not None


def is_narrow() -> bool:
    """The drawing is for a narrow column."""
    return _size.get() is NARROW


def new_figure(narrow_height: float = NARROW.height, height: float = WIDE.height) -> Figure:
    """An empty figure of the current size; drawn without pyplot, so in any thread.

    Args:
        narrow_height: of a narrow drawing, which may be as high as it needs to be.
        height: of a wide drawing, more than a projector's only for many rows.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    width = (_size.get() or WIDE).width
    height = narrow_height if is_narrow() else height
    figure = Figure(figsize=(width / POINTS, height / POINTS))
    FigureCanvasAgg(figure)
    return figure


def body(figure: Figure) -> tuple[float, float]:
    """Bottom and top of what is between note and title, in parts of the figure's height."""
    height, size = figure.get_figheight() * POINTS, _size.get() or WIDE
    return size.note / height, 1 - size.title / height


def new_axes(
    grid: Literal["both", "x", "y"] | None = None,
    *,
    narrow_height: float = NARROW.height,
    height: float = WIDE.height,
) -> tuple[Figure, Axes]:
    """A figure with one pair of axes, as large as what stands around them leaves room for."""
    figure, [axes] = new_panels([1], narrow_height=narrow_height, height=height)
    if grid:
        axes.grid(axis=grid)
    return figure, axes


def new_panels(
    shares: Sequence[float],
    *,
    narrow_height: float = NARROW.height,
    height: float = WIDE.height,
    stacked: bool = False,
) -> tuple[Figure, list[Axes]]:
    """A figure with axes beside each other, in a narrow drawing or `stacked` one below the other.

    They share the width, or the height of those that are stacked. Heights are those of new_figure.
    """
    figure = new_figure(narrow_height, height)
    low, high = body(figure)
    figure.set_layout_engine("constrained", rect=(0, low, 1, high - low), w_pad=0.05, h_pad=0.03)
    ratios: dict[str, Any] = {"width_ratios": shares}
    shape = 1, len(shares)
    if stacked or is_narrow():
        shape = len(shares), 1
        ratios = {"height_ratios": shares if stacked else None}
    axes = figure.subplots(*shape, squeeze=False, **ratios)
    return figure, list(axes.flat)


def legend(figure: Figure, *axes: Axes, ncols: int | None = None) -> None:
    """The names of all that has one, once, in a line or more above the axes.

    Args:
        figure: of new_axes or new_panels.
        axes: where to look for names; all axes unless given.
        ncols: names in a line; as many as have room unless given.
    """
    from tcplab.figures.style import SMALL, text_width_px

    named: dict[str, Any] = {}
    for each in axes or figure.axes:
        for handle, label in zip(*each.get_legend_handles_labels(), strict=True):
            named.setdefault(label, handle)
    if not named:
        return
    width = figure.get_figwidth() * POINTS
    widths = [max(text_width_px(line, SMALL) for line in label.split("\n")) for label in named]
    columns = ncols or _most_columns(widths, width)
    lines = -(-len(named) // columns) + sum(label.count("\n") for label in named)
    if is_narrow():  # a long legend takes no room from the axes
        more = 15.5 * max(lines - _NARROW_LINES, 0)
        figure.set_figheight(figure.get_figheight() + more / POINTS)
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


def _most_columns(widths: Sequence[float], room: float) -> int:
    """The most columns of a legend, filled one after the other, that have room side by side."""
    for columns in range(len(widths), 1, -1):
        most, longer = divmod(len(widths), columns)
        used, first = 0.0, 0
        for column in range(columns):
            end = first + most + (column < longer)
            used += max(widths[first:end]) + _HANDLE
            first = end
        if used <= room:
            return columns
    return 1


def folded(text: str, narrow: int = 44) -> str:
    """The text in lines of 96 characters, or of so many in a narrow drawing."""
    import textwrap

    return textwrap.fill(text, narrow if is_narrow() else 96, break_on_hyphens=False)
