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

    @property
    def body(self) -> tuple[float, float]:
        """Bottom and top of what is between note and title, in parts of the height."""
        return self.note / self.height, 1 - self.title / self.height


#: A projector's 16 to 9; with its title and its note for export and print.
WIDE: Final = Size(640, 360, 46, 15)
#: A telephone's column; title and note are the page's.
NARROW: Final = Size(336, 340, 0, 0)

#: matplotlib's points per inch, of which a figure's size is made.
POINTS: Final = 72

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


def new_figure(narrow_height: float = NARROW.height) -> Figure:
    """An empty figure of the current size; drawn without pyplot, so in any thread.

    Args:
        narrow_height: of a narrow drawing, which may be as high as it needs to be.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    width, height = (_size.get() or WIDE)[:2]
    if is_narrow():
        height = narrow_height
    figure = Figure(figsize=(width / POINTS, height / POINTS))
    FigureCanvasAgg(figure)
    return figure


def body() -> tuple[float, float]:
    """Bottom and top of what is between note and title, in parts of the figure's height."""
    return (0.0, 1.0) if is_narrow() else WIDE.body


def new_axes(
    grid: Literal["both", "x", "y"] | None = None, *, narrow_height: float = NARROW.height
) -> tuple[Figure, Axes]:
    """A figure with one pair of axes, as large as what stands around them leaves room for."""
    figure, [axes] = new_panels([1], narrow_height=narrow_height)
    if grid:
        axes.grid(axis=grid)
    return figure, axes


def new_panels(
    shares: Sequence[float], *, narrow_height: float = NARROW.height, stacked: bool = False
) -> tuple[Figure, list[Axes]]:
    """A figure with axes beside each other, in a narrow drawing one below the other.

    Args:
        shares: of the width, or of the height of those that are stacked.
        narrow_height: see new_figure.
        stacked: one below the other in a wide drawing too.
    """
    figure = new_figure(narrow_height)
    low, high = body()
    figure.set_layout_engine("constrained", rect=(0, low, 1, high - low), w_pad=0.05, h_pad=0.03)
    ratios: dict[str, Any] = {"width_ratios": shares}
    shape = 1, len(shares)
    if stacked or is_narrow():
        shape = len(shares), 1
        ratios = {"height_ratios": shares if stacked else None}
    axes = figure.subplots(*shape, squeeze=False, **ratios)
    return figure, list(axes.flat)
