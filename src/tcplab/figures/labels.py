"""Place text in a figure so that it covers neither other text nor an arrow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from tcplab.figures.style import ON_WHITE, SMALL, text_width_px, write

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Point: TypeAlias = tuple[float, float]
_ROOM: Final = 2.0  # margin around a text
_GAP: Final = 5.0  # distance between a mark and its name


class Place(NamedTuple):
    """A possible place for a text, given as a point and the part of the text that is there."""

    x: float
    y: float
    align: Literal["left", "center", "right"] = "center"


def height_of(size: float = SMALL) -> float:
    """Return the height of a line of text."""
    return 1.2 * size


def beside(x: float, ys: Iterable[float], gap: float = _GAP) -> Iterator[Place]:
    """Yield the places right and left of x at each of the heights."""
    for y in ys:
        yield Place(x + gap, y, "left")
        yield Place(x - gap, y, "right")


def along(start: Point, end: Point, ys: Iterable[float]) -> Iterator[Place]:
    """Yield places right and left of an arrow at each of the heights, clear of the arrow itself."""
    (x0, y0), (x1, y1) = start, end
    for y in ys:
        half = height_of() / 2
        edges = (min(max((edge - y0) / (y1 - y0), 0), 1) for edge in (y - half, y + half))
        xs = [x0 + share * (x1 - x0) for share in edges]
        yield Place(max(xs) + _GAP, y, "left")
        yield Place(min(xs) - _GAP, y, "right")


class Labels:
    """Write labels in axes that use the drawing's units; omit a label without a free place."""

    def __init__(self, axes: Axes, width: float) -> None:
        self._axes = axes
        self._width = width
        self._boxes: list[tuple[float, float, float, float]] = []  # left, right, bottom and top
        self._lines: list[tuple[Point, Point]] = []

    def keep_clear(self, start: Point, end: Point) -> None:
        """Keep labels off the line from `start` to `end`."""
        self._lines.append((start, end))

    def keep_free(self, x: float, y: float, half: float = 6) -> None:
        """Keep labels off the mark at this point, which extends by `half` in each direction."""
        self._boxes.append((x - half, x + half, y - half, y + half))

    def put(
        self,
        text: str,
        places: Iterable[Place],
        colour: str,
        *,
        size: float = SMALL,
        on_lines: bool = False,
        gid: str | None = None,
    ) -> bool:
        """Write a text in the first free place; return False if there is none."""
        wide = text_width_px(text, size, bold=size > SMALL) + 2 * _ROOM
        for x, y, align in places:
            left = {"left": x - _ROOM, "center": x - wide / 2, "right": x - wide + _ROOM}[align]
            if align == "center":
                left = min(max(left, 0.0), self._width - wide)
            if left < 0 or left + wide > self._width:
                continue
            if self._claim([(left, left + wide, y, size)], on_lines=on_lines):
                look: dict[str, Any] = {"bbox": ON_WHITE} if on_lines else {}
                at = {"left": x, "center": left + wide / 2, "right": x}[align]
                look |= {"color": colour, "ha": align, "gid": gid, "zorder": 6}
                write(self._axes, at, y, text, size, **look)
                return True
        return False

    def on_bar(self, lines: Sequence[tuple[str, float, float]], x: float, gid: str) -> bool:
        """Write lines (text, y, size) on a bar, centred on x; return False if a place is taken."""
        boxes = []
        for text, y, size in lines:
            half = text_width_px(text, size, bold=size > SMALL) / 2
            boxes.append((x - half, x + half, y, size))
        if not self._claim(boxes, on_lines=True):
            return False
        for text, y, size in lines:
            write(self._axes, x, y, text, size, bbox=ON_WHITE, gid=gid, zorder=6)
        return True

    def _claim(self, boxes: Sequence[tuple[float, float, float, float]], *, on_lines: bool) -> bool:
        mine = [(a, b, y - height_of(s) / 2, y + height_of(s) / 2) for a, b, y, s in boxes]
        for box in mine:
            if any(_overlap(box, other) for other in self._boxes):
                return False
            if not on_lines and any(_crosses(box, *line) for line in self._lines):
                return False
        self._boxes += mine
        return True


def _overlap(one: Sequence[float], other: Sequence[float]) -> bool:
    beside_it = one[0] >= other[1] or one[1] <= other[0]
    return not (beside_it or one[2] >= other[3] or one[3] <= other[2])


def _crosses(box: Sequence[float], start: Point, end: Point) -> bool:
    """Return whether a part of the line is in the box."""
    from matplotlib.path import Path
    from matplotlib.transforms import Bbox

    left, right, bottom, top = box
    extent = Bbox.from_extents(left, bottom, right, top)
    return bool(Path([start, end]).intersects_bbox(extent, filled=False))
