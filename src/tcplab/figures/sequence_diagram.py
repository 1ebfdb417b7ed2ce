"""The sequence diagram: sender and peer as two lines, time downwards, one arrow per packet."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING, Final

from tcplab.figures import style
from tcplab.figures.style import HOLD_STYLES, SMALL, TEXT, Line, Picture, Style, count, drawing, ms
from tcplab.figures.timeline_figure.view import View, side_by_side
from tcplab.models import Reason
from tcplab.timeline import Ack, Hold, Segment, Timeline
from tcplab.timeline.sentences import writes_carried

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["sequence"]

_SENDER, _PEER = 0.355, 0.645  # x of their lines
_AXES: Final = (0.01, 0.02, 0.98, 0.86)
_ROW: Final = 0.037  # height of a line of small type
_TOP: Final = 0.94  # y where the lines begin


@drawing()
def sequence(timeline: Timeline, first_message: int | None = None, messages: int = 1) -> Picture:
    """Draws the packets of some messages as arrows between sender and peer, time downwards.

    Args:
        timeline: of tcplab.timeline.explain.
        first_message: number of the first message, from 1; a typical one unless given.
        messages: number of messages to draw, from there on.

    Raises:
        ValueError: there is no such message, the timeline has no log, or too much happens in it.
    """
    view = View.of(timeline, first_message, messages)
    figure, axes = style.new_axes(_AXES)
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


class _Painter:
    """Draws a view into axes from 0 to 1, time from top to bottom."""

    def __init__(self, axes: Axes, view: View) -> None:
        self.axes = axes
        self.view = view
        self._sender_labels: list[_Label] = []
        self._peer_labels: list[_Label] = []
        self._named: set[Style] = set()  # kinds of waits that have a label by now

    def y(self, time_ns: float) -> float:
        return 0.93 - 0.91 * self.view.scale.x(time_ns)

    def paint(self) -> None:
        axes, timeline = self.axes, self.view.timeline
        axes.set(xlim=(0, 1), ylim=(0, 1))
        axes.axis("off")
        sender, _, peer = timeline.connection.partition(" -> ")
        for x, name, where in ((_SENDER, "sender", sender), (_PEER, "peer", peer)):
            axes.plot([x, x], [0.01, _TOP], color="black", lw=2.5)
            axes.text(x, 0.955, f"{name} {where}", ha="center", fontsize=TEXT, fontweight="bold")
        self._quiet_times()
        columns = side_by_side(self.view.waits())
        for i, column in enumerate(columns):
            width = 0.05 / len(columns)
            for stretch in sorted(column, key=lambda each: -each.duration_ms):
                self._wait(stretch, _SENDER - 0.012 - (i + 1) * width, width - 0.003)
        for ack in timeline.acks:
            self._ack(ack)
        for segment in timeline.segments:
            self._segment(segment)
        self._write_labels(self._sender_labels, _SENDER - 0.075, "right")
        self._write_labels(self._peer_labels, _PEER + 0.075, "left")

    def _quiet_times(self) -> None:
        for part in self.view.scale.parts:
            if part.busy:
                continue
            top, bottom = self.y(part.start_ns), self.y(part.end_ns)
            self.axes.axhspan(bottom, top, color=style.PALE, lw=0, zorder=0)
            if top - bottom < _ROW:
                continue
            text = f"{ms((part.end_ns - part.start_ns) / 1e6)}, shortened"
            self.axes.text(
                (_SENDER + _PEER) / 2,
                (top + bottom) / 2,
                text,
                ha="center",
                va="center",
                fontsize=12,
                color=style.ink(style.GREY),
                bbox={"facecolor": style.PALE, "edgecolor": "none", "pad": 1},
                zorder=4,
            )

    def _segment(self, segment: Segment) -> None:
        start, end = segment.time_ns, self.view.arrival_ns(segment)
        again = segment.reason is Reason.RETRANSMISSION
        look = style.SENT_AGAIN if again else style.SENT
        lost = self.view.is_lost(segment)
        self._packet((_SENDER, start), (_PEER, end), look, lost=lost)
        carried = writes_carried(self.view.timeline, segment)
        size = count(segment.payload_bytes, "byte")
        what = f"{size} ({carried})" if carried else size
        text = f"{self.view.ms(start):.3f} ms  {what}"
        self._sender_labels.append(_Label(self.y(start), text, look.colour))
        if lost:
            self._peer_labels.append(_Label(self.y(end), "(lost)", style.BLACK))

    def _ack(self, ack: Ack) -> None:
        look = style.REPLY if ack.payload_bytes else style.ACK
        left = self.view.departure_ns(ack)
        self._packet((_PEER, left), (_SENDER, ack.time_ns), look)
        what = f"{count(ack.payload_bytes, 'byte')}, ACK" if ack.payload_bytes else "ACK"
        text = f"{what} {ack.ack}"
        if ack.reason is Reason.ACK_DELAYED_BY_PEER and ack.delay_ms is not None:
            text += f", delayed {ms(ack.delay_ms)}"
        text += f"  {self.view.ms(left):.3f} ms"
        self._peer_labels.append(_Label(self.y(left), text, look.colour))

    def _packet(
        self, start: tuple[float, int], end: tuple[float, int], look: Line, *, lost: bool = False
    ) -> None:
        x0, x1, y0, y1 = start[0], end[0], self.y(start[1]), self.y(end[1])
        if lost:
            x1, y1 = (x0 + x1) / 2, (y0 + y1) / 2
            self.axes.plot([x1], [y1], "x", ms=14, mew=3.5, color=style.BLACK, zorder=5)
        style.arrow(self.axes, (x0, y0), (x1, y1), look)

    def _wait(self, stretch: Hold, left: float, width: float) -> None:
        """A bar along the sender's line."""
        top, bottom = self.y(stretch.start_ns), self.y(stretch.end_ns)
        look = HOLD_STYLES[stretch.reason]
        style.fill(self.axes, look, left, bottom, width, max(top - bottom, 0.004))
        size = count(stretch.waiting_bytes, "byte") if stretch.waiting_bytes else ""
        how_long = ms(stretch.duration_ms)
        lines = [each for each in (size, *textwrap.wrap(look.name, 26), how_long) if each]
        middle = (top + bottom) / 2
        if top - bottom > 0.045 * len(lines):
            self._sender_labels.append(_Label(middle, "\n".join(lines), "black", TEXT))
            self._named.add(look)
        elif look not in self._named:
            text = f"{size} {look.name} {how_long}".strip()
            self._sender_labels.append(_Label(middle, text, "black", SMALL))
            self._named.add(look)

    def _write_labels(self, labels: list[_Label], x: float, align: str) -> None:
        """Beside a line, small ones joined to where they belong."""
        room = x if align == "right" else 1 - x
        room *= _AXES[2] * style.WIDTH_INCHES * style.DPI
        for label, y in _spread([label.wrapped(room) for label in labels]):
            if label.size == SMALL:
                near, far = (x + 0.003, x + 0.013) if align == "right" else (x - 0.003, x - 0.07)
                self.axes.plot([near, far], [y, label.y], color="#B0B0B0", lw=0.8, zorder=1)
            weight = "bold" if label.size > SMALL else "normal"
            self.axes.text(
                x,
                y,
                label.text,
                ha=align,
                va="center",
                fontsize=label.size,
                fontweight=weight,
                color=style.ink(label.colour),
                zorder=4,
            )


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
