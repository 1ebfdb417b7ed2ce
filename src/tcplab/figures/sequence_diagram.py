"""Draw sequence diagrams, with packets as arrows between two hosts and time running down."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING, Final

from tcplab.figures import canvas, style
from tcplab.figures.page import unbroken
from tcplab.figures.picture import Picture, drawn
from tcplab.figures.style import HOLD_STYLES, SMALL, TEXT, Line, Style
from tcplab.figures.timeline_figure.view import View, side_by_side
from tcplab.models import Reason
from tcplab.tables import count, ms
from tcplab.timeline import Ack, Hold, Segment, Timeline
from tcplab.timeline.timeline import writes_carried

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["sequence"]

_ROW: Final = 0.047  # height of a line of small type, as a share of the drawing
_TOP: Final = 0.93  # y at which the hosts' lines begin
_STAY: Final = "\N{NO-BREAK SPACE}"  # a space at which a line is not broken
#: Distances from the left host's line, if it has bars, to its labels and their leader lines.
_GAP, _NEAR = 0.075, 0.062
_APART: Final = 0.012  # distance between arrows that would otherwise cover each other


@drawn
def sequence(timeline: Timeline, first_message: int | None = None, messages: int = 1) -> Picture:
    """Draw the packets of some messages as arrows between sender and peer; time runs down.

    The arguments are those of :func:`tcplab.figures.timeline`.
    """
    view = View.of(timeline, first_message, messages)
    figure = canvas.new_figure()
    painter = _Painter(axes_of(figure), view)
    painter.paint()
    return Picture(figure, view.finding(), view.table(), view.note(), view.parts())


def axes_of(figure: Figure) -> Axes:
    """Return axes from 0 to 1 that fill the figure between note and title."""
    low, high = canvas.body(figure)
    return figure.add_axes((0.01, low, 0.98, high - low))


@dataclass(frozen=True, slots=True)
class _Label:
    """A text next to a host's line, at the height of the mark that it names."""

    y: float
    text: str
    colour: str
    size: float = SMALL
    gid: str | None = None  # gid of the mark

    def wrapped(self, room_px: float) -> _Label:
        """Return the label with its lines wrapped to a width."""
        bold = self.size > SMALL
        lines = []
        for line in unbroken(self.text).split("\n"):
            wide = style.text_width_px(line, self.size, bold=bold)
            many = int(len(line) * room_px / wide) if wide else 0
            folded = textwrap.wrap(line, max(many, 8))
            # A separator next to a line break is needless.
            lines += [line] if wide <= room_px else [line.strip(f"{_STAY} ·") for line in folded]
        return replace(self, text="\n".join(lines))

    def height(self, row: float) -> float:
        """Return the label's height in units of the axes, if a line of small type is `row` high."""
        lines = self.text.count("\n") + 1
        return row * lines * self.size / SMALL


class Diagram:
    """Draw two hosts as vertical lines in axes from 0 to 1, and an arrow per packet.

    Time runs downwards. Labels are outside the lines, and `bars` reserves room for bars between the
    left line and its labels.
    """

    def __init__(self, axes: Axes, names: tuple[str, str], *, bars: bool = False) -> None:
        self.axes = axes
        self._bars = bars
        wide, high = axes.get_figure().get_size_inches() * canvas.POINTS  # type: ignore[union-attr]
        box = axes.get_position()
        self._width, self._row = wide * box.width, 1.25 * SMALL / (high * box.height)
        #: The x coordinates of the hosts' lines.
        self.left, self.right = 0.36, 0.64
        self._labels: list[tuple[float, _Label]] = []
        self._arrows: list[tuple[float, float, bool]] = []
        axes.set(xlim=(0, 1), ylim=(0, 1))
        axes.axis("off")
        for x, name in ((self.left, names[0]), (self.right, names[1])):
            axes.plot([x, x], [0.005, _TOP], color="black", lw=2)
            style.write(axes, x, 0.965, name, TEXT)

    def y(self, share: float) -> float:
        """Return the height of a moment that is given as a share of the time, 0 to 1."""
        return _TOP - 0.02 - (_TOP - 0.05) * share

    def label(
        self,
        x: float,
        y: float,
        text: str,
        colour: str,
        size: float = SMALL,
        *,
        gid: str | None = None,
    ) -> None:
        """Add a label next to the line at x, for the mark with this gid."""
        self._labels.append((x, _Label(y, text, colour, size, gid)))

    def packet(
        self,
        start: tuple[float, float],
        end: tuple[float, float],
        look: Line,
        text: str,
        *,
        lost: bool = False,
        gid: str | None = None,
    ) -> None:
        """Draw a labelled arrow. The arrow of a lost packet ends half-way, with a cross."""
        start, end = self._apart(start, end)
        self.label(*start, text, look.colour, gid=gid)
        if lost:
            self.label(*end, "(lost)", style.BLACK, gid=gid)
            end = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2
            self.axes.plot(*end, "x", ms=11, mew=3, color=style.BLACK, zorder=5)
        style.arrow(self.axes, start, end, look, gid=gid)

    def _apart(
        self, start: tuple[float, float], end: tuple[float, float]
    ) -> tuple[tuple[float, float], tuple[float, float]]:
        """Return the arrow's ends, moved down until the arrow covers no earlier one."""
        right, shift = end[0] > start[0], 0.0
        while any(
            right is other
            and abs(start[1] - shift - y0) < _APART
            and abs(end[1] - shift - y1) < _APART
            for y0, y1, other in self._arrows
        ):
            shift += _APART
        self._arrows.append((start[1] - shift, end[1] - shift, right))
        return (start[0], start[1] - shift), (end[0], end[1] - shift)

    def write_labels(self) -> None:
        """Write the labels next to the lines, and connect small ones to their marks."""
        for line in (self.left, self.right):
            labels = [label for x, label in self._labels if abs(x - line) < 0.2]
            barred = self._bars and line == self.left
            outside = -1 if line == self.left else 1
            near = line + outside * (_NEAR if barred else 0.005)
            self._write(labels, line + outside * (_GAP if barred else 0.03), near)

    def _write(self, labels: list[_Label], x: float, line: float) -> None:
        align, room, near = ("right", x, 0.003) if x < line else ("left", 1 - x, -0.003)
        room *= self._width
        for label, y in _spread([label.wrapped(room) for label in labels], self._row):
            if label.size == SMALL:
                self.axes.plot([x + near, line], [y, label.y], color=style.FAINT, lw=0.8, zorder=1)
            look = {"ha": align, "color": label.colour, "gid": label.gid}
            style.write(self.axes, x, y, label.text, label.size, **look)


class _Painter:
    def __init__(self, axes: Axes, view: View) -> None:
        sender, _, peer = view.timeline.connection.partition(" -> ")
        self.axes = axes
        self.view = view
        self.diagram = Diagram(axes, (f"sender {sender}", f"peer {peer}"), bars=True)
        self.numbers = {id(ack): i for i, ack in enumerate(view.timeline.acks)}
        self._named: set[Style] = set()  # styles of waits that already have a label

    def y(self, time_ns: float) -> float:
        return self.diagram.y(self.view.scale.x(time_ns))

    def paint(self) -> None:
        self._quiet_times()
        waits = self.view.waits()
        columns = side_by_side(waits)
        names = {id(hold): f"hold-{i}" for i, hold in enumerate(waits)}
        for i, column in enumerate(columns):
            width = 0.05 / len(columns)
            left = self.diagram.left - 0.012 - (i + 1) * width
            for hold in sorted(column, key=lambda hold: -hold.duration_ms):
                self._wait(hold, left, width - 0.003, names[id(hold)])
        for ack in self.view.timeline.acks:
            self._ack(ack)
        for segment in self.view.timeline.segments:
            self._segment(segment)
        self.diagram.write_labels()

    def _quiet_times(self) -> None:
        for part in self.view.scale.parts:
            if part.busy:
                continue
            top, bottom = self.y(part.start_ns), self.y(part.end_ns)
            self.axes.axhspan(bottom, top, color=style.PALE, lw=0, zorder=0)
            if top - bottom < _ROW:
                continue
            text = f"{ms((part.end_ns - part.start_ns) / 1e6)}, shortened"
            box = {"facecolor": style.PALE, "edgecolor": "none", "pad": 1}
            at = (self.diagram.left + self.diagram.right) / 2, (top + bottom) / 2
            style.write(self.axes, *at, text, color=style.GREY, bbox=box)

    def _when(self, time_ns: int) -> str:
        return f"{self.view.ms(time_ns):.{2 if self.view.span_ms > 1 else 3}f} ms"

    def _segment(self, segment: Segment) -> None:
        again = segment.reason is Reason.RETRANSMISSION
        look = style.SENT_AGAIN if again else style.SENT
        start = self.diagram.left, self.y(segment.time_ns)
        end = self.diagram.right, self.y(self.view.arrival_ns(segment))
        carried = writes_carried(self.view.timeline, segment)
        size = count(segment.payload_bytes, "byte")
        content = f"{size} ({carried.replace(' ', _STAY)})" if carried else size
        text = f"{self._when(segment.time_ns)} · {content}"
        gid = f"segment-{segment.number}"
        self.diagram.packet(start, end, look, text, lost=self.view.is_lost(segment), gid=gid)

    def _ack(self, ack: Ack) -> None:
        look = style.REPLY if ack.payload_bytes else style.ACK
        left_ns = self.view.departure_ns(ack)
        content = f"{count(ack.payload_bytes, 'byte')}, ACK" if ack.payload_bytes else "ACK"
        text = f"{content} {ack.ack}"
        if ack.reason is Reason.ACK_DELAYED_BY_PEER and ack.delay_ms is not None:
            text += f", delayed {ms(ack.delay_ms)}"
        text += f" ·{_STAY}{self._when(left_ns)}"
        diagram, gid = self.diagram, f"ack-{self.numbers[id(ack)]}"
        start, end = (diagram.right, self.y(left_ns)), (diagram.left, self.y(ack.time_ns))
        diagram.packet(start, end, look, text, gid=gid)

    def _wait(self, hold: Hold, left: float, width: float, gid: str) -> None:
        """Draw a wait as a bar; label it if there is room, or if it is the first of its kind."""
        top, bottom = self.y(hold.start_ns), self.y(hold.end_ns)
        look = HOLD_STYLES[hold.reason]
        style.fill(self.axes, look, left, bottom, width, max(top - bottom, 0.004), gid=gid)
        size = count(hold.waiting_bytes, "byte") if hold.waiting_bytes else ""
        how_long = ms(hold.duration_ms)
        lines = [text for text in (size, *textwrap.wrap(look.name, 26), how_long) if text]
        middle = (top + bottom) / 2
        if top - bottom > 0.055 * len(lines):
            label = "\n".join(lines)
            self.diagram.label(self.diagram.left, middle, label, "black", TEXT, gid=gid)
            self._named.add(look)
        elif look not in self._named:
            text = f"{size} {look.name} {how_long}".strip()
            self.diagram.label(self.diagram.left, middle, text, "black", gid=gid)
            self._named.add(look)


def _spread(labels: Sequence[_Label], row: float = _ROW) -> list[tuple[_Label, float]]:
    """Return the labels with their y coordinates, from top to bottom and without overlap.

    Each label is as near to its mark as possible. If there is not enough room, labels at regular
    intervals are left out.
    """
    labels = wanted = sorted(labels, key=lambda label: -label.y)
    while sum(label.height(row) for label in labels) > _TOP:
        count = len(labels) - 1
        labels = [wanted[i * (len(wanted) - 1) // max(count - 1, 1)] for i in range(count)]
    # Each label is shifted up by the height of all labels above it. Then the order only requires
    # that the values do not increase, and neighbours that violate this share their mean (isotonic
    # regression).
    pushed, offset = [], 0.0
    for before, label in zip([*labels[:1], *labels], labels, strict=False):
        offset += 0.0 if label is before else (before.height(row) + label.height(row)) / 2
        pushed.append((label.y + offset, offset))
    blocks: list[list[float]] = []
    for value, _offset in pushed:
        blocks.append([value])
        while len(blocks) > 1 and fmean(blocks[-1]) > fmean(blocks[-2]):
            last = blocks.pop()
            blocks[-1] += last
    if not labels:
        return []
    highest, lowest = _TOP - labels[0].height(row) / 2, labels[-1].height(row) / 2 + offset
    means = [fmean(block) for block in blocks for _label in block]
    return [
        (label, min(max(mean, lowest), highest) - shift)
        for label, mean, (_wanted, shift) in zip(labels, means, pushed, strict=True)
    ]
