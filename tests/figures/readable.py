"""The check of every picture: nothing leaves it, and no text covers another."""

from __future__ import annotations

from itertools import combinations

from matplotlib.text import Text
from matplotlib.transforms import Bbox

from tcplab import figures

WIDTH, HEIGHT = 1280, 720


def assert_readable(picture: figures.Picture) -> None:
    """Every text is within the picture, and none covers more than a corner of another."""
    found = written(picture)
    assert len(found) > 8
    for text, box in found:
        assert min(box.x0, box.y0) >= -1, text
        assert box.x1 <= WIDTH + 1, text
        assert box.y1 <= HEIGHT + 1, text
    for (one, a), (other, b) in combinations(found, 2):
        overlap = Bbox.intersection(a, b)
        area = 0 if overlap is None else overlap.width * overlap.height
        assert area < 0.12 * min(a.width * a.height, b.width * b.height), f"{one!r} on {other!r}"


def written(picture: figures.Picture) -> list[tuple[str, Bbox]]:
    """Each text of a picture, and its box."""
    picture.figure.canvas.draw()
    outside = set()  # ticks beyond the ends of their axis exist, but are not drawn
    for axes in picture.figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
                if not low <= tick.get_loc() <= high:
                    outside.add(tick.label1)
    return [
        (each.get_text(), each.get_window_extent())
        for each in picture.figure.findobj(Text)
        if isinstance(each, Text)
        and each.get_visible()
        and each.get_text().strip()
        and each not in outside
    ]
