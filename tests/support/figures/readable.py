"""Check that the texts in a picture stay inside it and do not cover each other."""

from itertools import combinations

from matplotlib.text import Text
from matplotlib.transforms import Bbox
from tests.support.nonempty import each

from tcplab import figures
from tcplab.figures import style


def assert_readable(picture: figures.Picture, fewest: int = 8) -> None:
    """Assert that texts are inside the picture and apart, and large enough except for notes."""
    shown = texts(picture)
    labels = [(one.get_text(), one.get_window_extent()) for one in shown]
    assert len(labels) >= fewest
    whole = picture.figure.bbox
    for text, box in labels:
        assert min(box.x0, box.y0) >= -1, text
        assert box.x1 <= whole.x1 + 1, text
        assert box.y1 <= whole.y1 + 1, text
    assert_apart(labels, 0.12)
    for letters in each(shown):
        is_note = letters.get_gid() == "note"
        assert is_note or float(letters.get_fontsize()) >= style.SMALL, letters.get_text()


def assert_apart(labels: list[tuple[str, Bbox]], share: float) -> None:
    """Assert that any overlap of two texts is less than this share of the smaller text."""
    for (one, a), (other, b) in combinations(labels, 2):
        width, height = min(a.x1, b.x1) - max(a.x0, b.x0), min(a.y1, b.y1) - max(a.y0, b.y0)
        smaller = min(a.width * a.height, b.width * b.height)
        assert min(width, height) < 0 or width * height < share * smaller, f"{one!r} on {other!r}"


def texts(picture: figures.Picture) -> list[Text]:
    """Lay out the picture; return each text that is drawn."""
    picture.figure.draw_without_rendering()
    outside = set()  # ticks beyond the ends of their axis exist, but are not drawn
    for axes in picture.figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
                if not (low <= tick.get_loc() <= high and axes.axison):
                    outside.add(tick.label1)
    return [
        text
        for text in picture.figure.findobj(Text)
        if isinstance(text, Text)
        and text.get_visible()
        and text.get_text().strip()
        and text not in outside
    ]
