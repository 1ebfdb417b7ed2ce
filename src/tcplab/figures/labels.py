"""Text in a figure that does not cover other text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from tcplab.figures.style import (
    DPI,
    HEIGHT_INCHES,
    ON_WHITE,
    SMALL,
    WIDTH_INCHES,
    text_width_px,
    write,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_POINTS: Final = 72


class Labels:
    """Labels in axes whose coordinates run from 0 to 1: one is left out rather than two hidden."""

    def __init__(self, axes: Axes) -> None:
        self._axes = axes
        box = axes.get_position()
        self._width_px = float(box.width) * WIDTH_INCHES * DPI
        self._height_px = float(box.height) * HEIGHT_INCHES * DPI
        self._taken: list[tuple[float, float, float, float]] = []

    def width(self, text: str, size: float = SMALL, *, bold: bool = False) -> float:
        """The width of a text, with a little room around it."""
        return (text_width_px(text, size, bold=bold) + 4) / self._width_px

    def height(self, size: float = SMALL) -> float:
        """The height of a line of text."""
        return 1.25 * size * DPI / _POINTS / self._height_px

    def put(
        self,
        text: str,
        x: float,
        rows: Sequence[float],
        colour: str,
        *,
        size: float = SMALL,
        box: bool = False,
    ) -> bool:
        """Centred on x, in the first of the rows that is free."""
        half = self.width(text, size) / 2
        x = min(max(x, half), 1 - half) if half < 0.5 else 0.5
        for y in rows:
            if self._claim(x - half, x + half, y, size):
                self._text(text, x, y, size, color=colour, bbox=ON_WHITE if box else None)
                return True
        return False

    def beside(
        self, text: str, x: float, rows: Sequence[float], colour: str, *, gap: float = 0.006
    ) -> bool:
        """Right of x, or left of it, in the first of the rows that is free; the gap between."""
        width = self.width(text)
        for align in ("left", "right"):
            start = x + gap if align == "left" else x - gap - width
            if start < 0 or start + width > 1:
                continue
            for y in rows:
                if self._claim(start, start + width, y, SMALL):
                    at = start if align == "left" else start + width
                    self._text(text, at, y, SMALL, color=colour, ha=align, bbox=ON_WHITE)
                    return True
        return False

    def on_bar(self, lines: Sequence[tuple[str, float, float]], x: float) -> bool:
        """Lines (text, row, size) centred on x, on a hatched bar; large type is bold."""
        taken = list(self._taken)
        for text, y, size in lines:
            half = self.width(text, size, bold=size > SMALL) / 2
            if not self._claim(x - half, x + half, y, size):
                self._taken = taken
                return False
        for text, y, size in lines:
            weight = "bold" if size > SMALL else "normal"
            self._text(text, x, y, size, bbox=ON_WHITE, fontweight=weight)
        return True

    def tick(self, text: str, x: float, y: float) -> None:
        """Below an axis, if there is room."""
        half = self.width(text, 12) / 2 + 0.004
        if self._claim(x - half, x + half, y, 12):
            self._text(text, x, y, 12, va="top")

    def _claim(self, left: float, right: float, y: float, size: float) -> bool:
        half = self.height(size) / 2
        mine = (left, right, y - half, y + half)
        for other in self._taken:
            apart = mine[0] >= other[1] or mine[1] <= other[0]
            if not (apart or mine[2] >= other[3] or mine[3] <= other[2]):
                return False
        self._taken.append(mine)
        return True

    def _text(self, text: str, x: float, y: float, size: float, **look: Any) -> None:
        write(self._axes, x, y, text, size, **{"zorder": 6, "fontweight": "normal"} | look)
