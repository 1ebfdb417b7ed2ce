"""The sequence diagram: sender and peer as two lines, time downwards, one arrow per packet."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING, Final

from tcplab.figures import style
from tcplab.figures.picture import Picture, old
from tcplab.figures.style import HOLD_STYLES, SMALL, TEXT, Line, Style, count, ms
from tcplab.figures.timeline_figure.view import View, side_by_side
from tcplab.models import Reason
from tcplab.timeline import Ack, Hold, Segment, Timeline
from tcplab.timeline.sentences import writes_carried

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["sequence"]

LEFT, RIGHT = 0.355, 0.645  # x of the lines
AXES: Final = (0.01, 0.02, 0.98, 0.86)
_ROW: Final = 0.037  # height of a line of small type
_TOP: Final = 0.94  # y where the lines begin


@old
def sequence(timeline: Timeline, first_message: int | None = None, messages: int = 1) -> Picture:
    """Draws the packets of some messages as arrows between sender and peer, time downwards.

    Arguments and errors are those of :func:`tcplab.figures.timeline`.
    """
    view = View.of(timeline, first_message, messages)
    figure, axes = style.new_axes(AXES)
    _Painter(axes, view).paint()
    return Picture(figure, view.finding(), f"Sequence diagram. {view.alt()}", view.table())


@dataclass(frozen=True, slots=True)
class _Label:
    """Words beside a line, at the height where they belong."""

    y: float
    text: str
    colour: str
    size: float = SMALL

    def wrapped(self, room_px: float) -> _Label:
        """The same, folded to the room."""
        bold = self.size > SMALL
        lines = []
        for line in self.text.split("\n"):
            wide = style.text_width_px(line, self.size, bold=bold)
            many = int(len(line) * room_px / wide) if wide else 0
            lines += [line] if wide <= room_px else textwrap.wrap(line, max(many, 8))
        return replace(self, text="\n".join(lines))

    @property
    def height(self) -> float:
        """In units of the axes."""
        lines = self.text.count("\n") + 1
        return _ROW * lines * self.size / SMALL


class Diagram:
    """Two hosts as vertical lines in axes from 0 to 1, time downwards, one arrow per packet.

    Args:
        axes: of AXES.
        left: name of the host on the left, at x = LEFT.
        right: the same for x = RIGHT.
        bars: keep room between the left host's line and its labels.
    """

    def __init__(self, axes: Axes, left: str, right: str, *, bars: bool = False) -> None:
        self.axes = axes
        self._bars = bars
        self._labels: dict[float, list[_Label]] = {LEFT: [], RIGHT: []}
        axes.set(xlim=(0, 1), ylim=(0, 1))
        axes.axis("off")
        for x, name in ((LEFT, left), (RIGHT, right)):
            axes.plot([x, x], [0.01, _TOP], color="black", lw=2.5)
            axes.text(x, 0.955, name, ha="center", fontsize=TEXT, fontweight="bold")

    def y(self, share: float) -> float:
        """The height of a moment, given as a part of the time, 0 to 1."""
        return 0.93 - 0.91 * share

    def label(self, x: float, y: float, text: str, colour: str, size: float = SMALL) -> None:
        """Words beside the line at x."""
        self._labels[x].append(_Label(y, text, colour, size))

    def packet(
        self,
        start: tuple[float, float],
        end: tuple[float, float],
        look: Line,
        text: str,
        *,
        lost: bool = False,
    ) -> None:
        """An arrow with words at its start; that of a lost packet ends half-way, with a cross."""
        self.label(*start, text, look.colour)
        if lost:
            self.label(*end, "(lost)", style.BLACK)
            end = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2
            self.axes.plot(*end, "x", ms=14, mew=3.5, color=style.BLACK, zorder=5)
        style.arrow(self.axes, start, end, look)

    def write_labels(self) -> None:
        """Writes the words beside the lines, small ones joined to where they belong."""
        self._write(self._labels[LEFT], LEFT - 0.075, LEFT - (0.062 if self._bars else 0.005))
        self._write(self._labels[RIGHT], RIGHT + 0.075, RIGHT + 0.005)

    def _write(self, labels: list[_Label], x: float, line: float) -> None:
        align, room, near = ("right", x, 0.003) if x < line else ("left", 1 - x, -0.003)
        room *= AXES[2] * style.WIDTH_INCHES * style.DPI
        for label, y in _spread([label.wrapped(room) for label in labels]):
            if label.size == SMALL:
                self.axes.plot([x + near, line], [y, label.y], color="#B0B0B0", lw=0.8, zorder=1)
            style.write(self.axes, x, y, label.text, label.size, ha=align, color=label.colour)


class _Painter:
    """Draws a view as a diagram."""

    def __init__(self, axes: Axes, view: View) -> None:
        sender, _, peer = view.timeline.connection.partition(" -> ")
        self.axes = axes
        self.view = view
        self.diagram = Diagram(axes, f"sender {sender}", f"peer {peer}", bars=True)
        self._named: set[Style] = set()  # kinds of waits that have a label by now

    def y(self, time_ns: float) -> float:
        return self.diagram.y(self.view.scale.x(time_ns))

    def paint(self) -> None:
        self._quiet_times()
        columns = side_by_side(self.view.waits())
        for i, column in enumerate(columns):
            width = 0.05 / len(columns)
            for hold in sorted(column, key=lambda each: -each.duration_ms):
                self._wait(hold, LEFT - 0.012 - (i + 1) * width, width - 0.003)
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
            at = (LEFT + RIGHT) / 2, (top + bottom) / 2
            style.write(self.axes, *at, text, 12, color=style.GREY, bbox=box)

    def _segment(self, segment: Segment) -> None:
        again = segment.reason is Reason.RETRANSMISSION
        look = style.SENT_AGAIN if again else style.SENT
        start = LEFT, self.y(segment.time_ns)
        end = RIGHT, self.y(self.view.arrival_ns(segment))
        carried = writes_carried(self.view.timeline, segment)
        size = count(segment.payload_bytes, "byte")
        what = f"{size} ({carried})" if carried else size
        text = f"{self.view.ms(segment.time_ns):.3f} ms  {what}"
        self.diagram.packet(start, end, look, text, lost=self.view.is_lost(segment))

    def _ack(self, ack: Ack) -> None:
        look = style.REPLY if ack.payload_bytes else style.ACK
        left_ns = self.view.departure_ns(ack)
        what = f"{count(ack.payload_bytes, 'byte')}, ACK" if ack.payload_bytes else "ACK"
        text = f"{what} {ack.ack}"
        if ack.reason is Reason.ACK_DELAYED_BY_PEER and ack.delay_ms is not None:
            text += f", delayed {ms(ack.delay_ms)}"
        text += f"  {self.view.ms(left_ns):.3f} ms"
        start, end = (RIGHT, self.y(left_ns)), (LEFT, self.y(ack.time_ns))
        self.diagram.packet(start, end, look, text)

    def _wait(self, hold: Hold, left: float, width: float) -> None:
        """A bar along the sender's line."""
        top, bottom = self.y(hold.start_ns), self.y(hold.end_ns)
        look = HOLD_STYLES[hold.reason]
        style.fill(self.axes, look, left, bottom, width, max(top - bottom, 0.004))
        size = count(hold.waiting_bytes, "byte") if hold.waiting_bytes else ""
        how_long = ms(hold.duration_ms)
        lines = [each for each in (size, *textwrap.wrap(look.name, 26), how_long) if each]
        middle = (top + bottom) / 2
        if top - bottom > 0.045 * len(lines):
            self.diagram.label(LEFT, middle, "\n".join(lines), "black", TEXT)
            self._named.add(look)
        elif look not in self._named:
            text = f"{size} {look.name} {how_long}".strip()
            self.diagram.label(LEFT, middle, text, "black")
            self._named.add(look)


def _spread(labels: Sequence[_Label]) -> list[tuple[_Label, float]]:
    """Labels from top to bottom, each with its place: in order, none on another, as near to where
    it belongs as that allows. Where there are too many, some are left out evenly.
    """
    labels = sorted(labels, key=lambda each: -each.y)
    most = int(_TOP / max((each.height for each in labels), default=1.0))
    if sum(each.height for each in labels) > _TOP:
        labels = [labels[i * (len(labels) - 1) // (most - 1)] for i in range(most)]
    # Pushed up by all that has to stand above it, each label wants to be no higher than the one
    # before: then neighbours that disagree share their mean (isotonic regression).
    pushed, offset = [], 0.0
    for before, label in zip([*labels[:1], *labels], labels, strict=False):
        offset += 0.0 if label is before else (before.height + label.height) / 2
        pushed.append((label.y + offset, offset))
    blocks: list[list[float]] = []
    for wanted, _offset in pushed:
        blocks.append([wanted])
        while len(blocks) > 1 and fmean(blocks[-1]) > fmean(blocks[-2]):
            last = blocks.pop()
            blocks[-1] += last
    if not labels:
        return []
    highest, lowest = _TOP - labels[0].height / 2, labels[-1].height / 2 + offset
    means = [fmean(block) for block in blocks for _label in block]
    return [
        (label, min(max(mean, lowest), highest) - shift)
        for label, mean, (_wanted, shift) in zip(labels, means, pushed, strict=True)
    ]
