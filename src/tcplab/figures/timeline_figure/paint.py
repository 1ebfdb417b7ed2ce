"""Draw the timeline in lanes for application, kernel, link and peer."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from tcplab.figures import canvas, style
from tcplab.figures.labels import Labels, Place, Point, along, beside, height_of
from tcplab.figures.picture import Picture, drawn
from tcplab.figures.style import HOLD_STYLES, SMALL, TEXT, Line, Style, text_width_px
from tcplab.figures.timeline_figure.view import View, side_by_side
from tcplab.figures.timescale import TimeScale, nice
from tcplab.models import Reason
from tcplab.tables import count, ms, run_lengths
from tcplab.timeline import Ack, Hold, Mark, Timeline, Write

if TYPE_CHECKING:
    from matplotlib.axes import Axes


T = TypeVar("T")


#: What each lane shows, and its height.
_LANES: Final = {
    "application": ("calls write()", 46),
    "kernel": ("queues, holds", 60),
    "link": ("segments", 78),
    "peer": ("receives", 48),
}
_GUTTER: Final = 98  # width of the area to the left of the lanes
_AXIS, _STRIP = 34, 32  # heights of the time axis, and of the strip that is to scale
_MARK: Final = 7.0  # depth of a break's mark below the axis; it rises half as far above
_DELAYED_ACK: Final = Style(style.ORANGE, "|||", "ACK delayed")
_RELEASES: Final = style.ACK._replace(line="-", width=3.0)

_Ends: TypeAlias = tuple[tuple[int, float], tuple[int, float]]  # time and height of each end
_Lines: TypeAlias = tuple[tuple[str, float], ...]  # lines of a label, with their font sizes
_SAME: Final = 4.0  # arrows closer than this look like one arrow
_MANY: Final = 4  # at least this many similar arrows in a row share a label
_CROWD: Final = 60  # at least this many similar arrows in a row are hairlines


@drawn
def timeline(
    explained: Timeline,
    first_message: int | None = None,
    messages: int = 1,
    *,
    compare_ms: float = 0,
) -> Picture:
    """Draw the events of some messages, lane by lane, on one time axis.

    The axis is linear, unless that would hide how the segments pass through the wire. In that case,
    at most two quiet times are shortened, and the strip on top shows the waits to scale. In a page,
    the figure can be played. With `compare_ms`, the strip compares the time of another run.

    The first message of the connection has the number 1. By default, `first_message` is the message
    with the median time, ignoring the connection's first message, which differs from the rest.
    """
    view = View.of(explained, first_message, messages)
    height = sum(high for _about, high in _LANES.values())
    has_strip = view.scale.broken or compare_ms > 0
    height += _AXIS + _STRIP if has_strip else _AXIS - 14
    figure = canvas.new_figure()
    wide, high = canvas.WIDTH, canvas.HEIGHT
    top = canvas.body(figure)[1]
    width = wide - _GUTTER - 6
    at = (_GUTTER / wide, top - height / high, width / wide, height / high)
    axes = figure.add_axes(at)
    axes.set(xlim=(0, width), ylim=(0, height))
    axes.axis("off")
    _Painter(axes, view, width, height, compare_ms if has_strip else None).paint()
    times = [
        (_GUTTER + start * width, _GUTTER + end * width, from_ms, to_ms)
        for start, end, from_ms, to_ms in view.stretches()
    ]
    unused = max(top * high - height - canvas.NOTE, 0)
    texts = view.finding(), view.table(), view.note(), view.parts()
    return Picture(figure, *texts, times, unused)


class _Painter:
    def __init__(
        self, axes: Axes, view: View, width: float, height: float, compare_ms: float | None
    ) -> None:
        self.axes = axes
        self.compare_ms = compare_ms  #: None for a figure without the strip that is to scale
        self.view = view
        self.timeline = view.timeline
        self.width = width
        self.labels = Labels(axes, width)
        self._named: set[Style] = set()  # styles of bars that already have a label
        self._later: list[Callable[[], Any]] = []  # labels to place once all arrows are drawn
        self.top = self.bottom = height - (0 if compare_ms is None else _STRIP)
        #: The bottom and top of each lane, by its name.
        self.lanes: dict[str, tuple[float, float]] = {}
        for name, (_about, high) in _LANES.items():
            self.lanes[name] = self.bottom - high + 3, self.bottom - 2
            self.bottom -= high

    def x(self, time_ns: float) -> float:
        return self.view.x(time_ns) * self.width

    def paint(self) -> None:
        self._background()
        self._time_axis()
        self._kernel()
        self._peer()
        self._wire()
        self._application()
        for put in self._later:
            put()

    def _background(self) -> None:
        axes = self.axes
        for part in self.view.scale.parts:
            if not part.busy:
                left, right = part.left * self.width, part.right * self.width
                look: dict[str, Any] = {"color": style.PALE, "lw": 0, "zorder": 0}
                axes.fill_betweenx([self.bottom - _AXIS, self.top], left, right, **look)
        for name, (about, _high) in _LANES.items():
            bottom, top = self.lanes[name]
            edge = bottom - 3
            axes.plot(
                [-_GUTTER + 6, self.width], [edge] * 2, color=style.FAINT, lw=1, clip_on=False
            )
            middle = (bottom + top) / 2
            axes.text(-8, middle + 1, name, ha="right", fontweight="bold")
            axes.text(-8, middle - 2, about, ha="right", va="top", color=style.ink(style.GREY))

    # -- lanes --

    def _application(self) -> None:
        bottom, top = self.lanes["application"]
        for number, group in enumerate(self.view.write_groups()):
            xs = [self.x(write.time_ns) for write in group]
            gid, y = f"writes-{number}", bottom + 11
            self.axes.plot(
                xs, [y] * len(xs), "|", ms=17, mew=2, color=style.BLUE, zorder=4, gid=gid
            )
            for x in xs:
                self.labels.keep_free(x, y)
            middle, name = (xs[0] + xs[-1]) / 2, _group_label(group)
            places = [Place(middle, top - 9), *beside(xs[-1], [y]), *beside(xs[0], [y])]
            self._label(name, places, style.BLUE, gid)
        for number, mark in enumerate(self.view.marks()):
            self._mark(mark, bottom + 11, [bottom + 11, top - 9], f"mark-{number}")

    def _label(self, text: str, places: Sequence[Place], colour: str, gid: str) -> None:
        def put() -> None:
            placed = self.labels.put(text, places, colour, gid=gid)
            if not placed and gid.startswith("segment"):
                self.labels.put(text, places, colour, gid=gid, on_lines=True)

        self._later.append(put)

    def _mark(self, mark: Mark, y: float, rows: Sequence[float], gid: str) -> None:
        x = self.x(mark.time_ns)
        shape, colour = {"cork": (">", style.PURPLE), "uncork": ("<", style.PURPLE)}.get(
            mark.name, ("v", style.GREEN)
        )
        self.axes.plot([x], [y], shape, ms=8, color=colour, zorder=5, clip_on=False, gid=gid)
        self.labels.keep_free(x, y)
        name = {"reply": "reply read", "read": "read"}.get(mark.name, mark.name)
        self._label(name, [*beside(x, rows, 8), Place(x, rows[-1])], colour, gid)

    def _kernel(self) -> None:
        bottom, top = self.lanes["kernel"]
        waits = self.view.waits()
        rows = side_by_side(waits)
        height = (top - bottom - 4) / len(rows) if rows else 0.0
        bars = [(hold, top - 2 - (i + 1) * height) for i, row in enumerate(rows) for hold in row]
        names = {id(hold): f"hold-{i}" for i, hold in enumerate(waits)}
        # The longest hold comes first, because it has priority for a label.
        for hold, low in sorted(bars, key=lambda bar: -bar[0].duration_ms):
            self._hold(hold, low, height - 3, names[id(hold)])

    def _ends(self, hold: Hold) -> tuple[float, float]:
        return max(self.x(hold.start_ns), 0.0), min(self.x(hold.end_ns), self.width)

    def _hold(self, hold: Hold, low: float, height: float, gid: str) -> None:
        look = HOLD_STYLES[hold.reason]
        waiting = f"{count(hold.waiting_bytes, 'byte')} " if hold.waiting_bytes else ""
        who, how_long = f"{waiting}{look.name}", ms(hold.duration_ms)
        why = hold.missing if hold.reason is Reason.UNKNOWN else hold.evidence
        choices: list[_Lines] = [
            ((f"{who} {how_long}", TEXT), (why, SMALL)),
            ((f"{who} {how_long}", TEXT),),
            ((who, TEXT), (how_long, TEXT)),
            ((who, SMALL), (how_long, SMALL)),
            ((waiting.strip(), SMALL), (look.name, SMALL), (how_long, SMALL)),
        ]
        left, right = ends = self._ends(hold)
        middle = low + height / 2
        places = [Place(right + 5, middle, "left"), Place(left - 5, middle, "right")]
        self._bar(look, ends, low, height, choices, places, gid)

    def _bar(
        self,
        look: Style,
        ends: tuple[float, float],
        low: float,
        height: float,
        choices: Sequence[_Lines],
        places: Sequence[Place],
        gid: str,
        on_lines: bool = False,
    ) -> None:
        """Draw a bar with the first choice of lines that fits in it, or label it at a place.

        If the look has a label already, its hatch identifies the reason, and the last word is
        enough.
        """
        left, right = ends
        style.fill(self.axes, look, left, low, max(right - left, 2), height, gid=gid)
        step = height_of(SMALL) + 2
        brief = [((choices[-1][-1][0], SMALL),)] if look in self._named else []
        for lines in [*choices, *brief]:
            wide = max(text_width_px(text, size, bold=size > SMALL) for text, size in lines)
            if wide > right - left - 6 or height < step * len(lines):
                continue
            top = low + height / 2 + step * (len(lines) - 1) / 2
            placed = [(text, top - step * i, size) for i, (text, size) in enumerate(lines)]
            if self.labels.on_bar(placed, (left + right) / 2, gid):
                self._named.add(look)
                return
        text = choices[0][0][0]
        if not brief and self.labels.put(text, places, "black", on_lines=on_lines, gid=gid):
            self._named.add(look)

    # -- the wire --

    def _wire(self) -> None:
        bottom, top = self.lanes["link"]
        self._queue(bottom, top)
        step = height_of()
        rows = [top - 8 - i * step for i in range(int((top - bottom) / step))]
        kind = lambda item: (item.payload_bytes, item.message, item.reason)  # noqa: E731
        names = self._segment_names()
        for segments in _runs(self.timeline.segments, kind):
            times: list[int] = []
            for segment in segments:
                ends = (segment.time_ns, top), (self.view.arrival_ns(segment), bottom)
                again = segment.reason is Reason.RETRANSMISSION
                look = style.SENT_AGAIN if again else style.SENT
                if self.view.is_lost(segment):
                    ends = self._lost(ends)
                gid = f"segment-{segment.number}"
                name = names.get(segment.number, "")
                self._arrow(ends, *self._thinned(look, name, len(segments)), rows, gid)
                times += [ends[0][0], ends[1][0]]
            self._many(len(segments), times, f"{segments[0].payload_bytes} B", style.SENT)
        rows = rows[::-1]
        numbers = {id(ack): i for i, ack in enumerate(self.timeline.acks)}
        causes = [i for i, _ack in self.view.delayed_acks()]
        for acks in _runs(self.timeline.acks, lambda ack: ack.payload_bytes):
            size = acks[0].payload_bytes
            name, look = (f"{size} B + ACK", style.REPLY) if size else ("ACK", style.ACK)
            times = []
            for ack in acks:
                number, start_ns = numbers[id(ack)], self.view.departure_ns(ack)
                ends = (start_ns, bottom), (ack.time_ns, top)
                if number in causes:  # from the end of the delay to the release of held bytes
                    ends = (start_ns, bottom - 10), (ack.time_ns, top + 12)
                thinned = self._thinned(_RELEASES if number in causes else look, name, len(acks))
                self._arrow(ends, *thinned, rows, f"ack-{number}")
                times += [start_ns, ack.time_ns]
            self._many(len(acks), times, name, look)

    def _segment_names(self) -> dict[int, str]:
        """Map segment numbers to labels. Segments that cannot be told apart share one label."""
        names: dict[int, str] = {}
        alike: list[int] = []  # sizes of the segments that share the last label
        first, last_x = 0, 0.0
        for segment in self.timeline.segments:
            x = self.x(segment.time_ns)
            if segment.reason is Reason.RETRANSMISSION:
                names[segment.number] = f"{segment.payload_bytes} B again"
            else:
                if not (alike and x - last_x < _SAME and len(alike) < _MANY - 1):
                    first, alike = segment.number, []
                alike.append(segment.payload_bytes)
                names[first] = f"{run_lengths(alike)} B"
            last_x = x
        return names

    def _queue(self, bottom: float, top: float) -> None:
        for number, hold in enumerate(self.view.merged_holds()):
            if hold.where != "wire":
                continue
            look, gid, ends = HOLD_STYLES[hold.reason], f"queue-{number}", self._ends(hold)
            known = hold.reason is Reason.RATE_LIMITED
            cause = look.name if known else "late on the link"
            text = f"{cause} up to {ms(self.view.longest_queue_ms)}"
            lines, places = ((text, SMALL),), [Place(ends[1], bottom + 8)]
            self._bar(look, ends, top - 17, 16, [lines], places, gid, on_lines=True)

    def _lost(self, ends: _Ends) -> _Ends:
        (start_ns, start), (end_ns, end) = ends
        halfway = (start_ns + end_ns) // 2, (start + end) / 2
        x = self.x(start_ns) + (self.x(end_ns) - self.x(start_ns)) / 2
        self.axes.plot([x], [halfway[1]], "x", ms=11, mew=3, color=style.BLACK, zorder=7)
        self.labels.keep_free(x, halfway[1], 7)
        places = list(beside(x, [halfway[1]], 10))
        self._later.append(lambda: self.labels.put("lost", places, style.BLACK))
        return ends[0], (halfway[0], halfway[1])

    def _thinned(self, look: Line, name: str, many: int) -> tuple[Line, str]:
        if many < _MANY:
            return look, name
        return look._replace(width=1.2 if many < _CROWD else 0.6), ""

    def _many(self, many: int, times_ns: Sequence[int], name: str, look: Line) -> None:
        if many < _MANY:
            return
        bottom, top = self.lanes["link"]
        x = sum(map(self.x, times_ns)) / len(times_ns)
        middle, step = (bottom + top) / 2, height_of(TEXT) + 2
        places = [Place(x, middle + i * step) for i in (0, 1, -1, 2, -2)]
        text, colour = f"{many} × {name}", look.colour
        self._later.append(lambda: self.labels.put(text, places, colour, size=TEXT, on_lines=True))

    def _arrow(self, ends: _Ends, look: Line, name: str, rows: Sequence[float], gid: str) -> None:
        start, end = ((self.x(time_ns), y) for time_ns, y in ends)
        style.arrow(self.axes, start, end, look, gid=gid)
        self.labels.keep_clear(start, end)
        if name:
            low, high = sorted((start[1], end[1]))
            places = list(along(start, end, [y for y in rows if low < y < high]))
            self._label(name, places, look.colour, gid)

    # -- the peer --

    def _peer(self) -> None:
        bottom, top = self.lanes["peer"]
        for number, ack in self.view.delayed_acks():
            self._delayed_ack(ack, bottom + 15, top - 2, number)
        y = bottom + 8  # above the axis's breaks
        marks = list(enumerate(self.timeline.peer_marks))
        for run in _runs(marks, lambda mark: (mark[1].name, mark[1].bytes)):
            points: list[Point] = []
            for number, mark in run:
                is_read, gid = mark.name == "read", f"peer-{number}"
                points.append((self.x(mark.time_ns), y if is_read else y + 14))
                shape = "^" if is_read else "s"
                self.axes.plot(*points[-1], shape, ms=8, color=style.GREEN, zorder=5, gid=gid)
                self.labels.keep_free(*points[-1])
            first, mark = run[0]
            text = f"{mark.name} {mark.bytes} B"
            if len(run) < _MANY:
                for (number, _mark), point in zip(run, points, strict=True):
                    places = list(beside(point[0], [y, y + 15, y + 30], 8))
                    self._label(text, places, style.GREEN, f"peer-{number}")
            else:
                middle = (points[0][0] + points[-1][0]) / 2
                places = [Place(middle, y + 15), Place(middle, y + 30)]
                self._label(f"{len(run)} × {text}", places, style.GREEN, f"peer-{first}")

    def _delayed_ack(self, ack: Ack, bottom: float, top: float, number: int) -> None:
        assert ack.delay_ms is not None
        left_ns, gid, how_long = self.view.departure_ns(ack), f"delay-{number}", ms(ack.delay_ms)
        ends = max(self.x(left_ns - ack.delay_ms * 1e6), 0.0), self.x(left_ns)
        text, look = f"ACK delayed {how_long}", _DELAYED_ACK
        choices: list[_Lines] = [((text, TEXT),), ((text, SMALL),)]
        if look in self._named:
            choices.append(((how_long, SMALL),))
        places = [Place(sum(ends) / 2, (bottom + top) / 2)]
        self._bar(look, ends, bottom, top - bottom, choices, places, gid, on_lines=True)

    # -- the axis --

    def _time_axis(self) -> None:
        y, scale = self.bottom, self.view.scale
        # Quiet times get their labels first. Ticks of busy parts may then be omitted.
        for part in sorted(scale.parts, key=lambda part: part.busy and scale.broken):
            left, right = part.left * self.width, part.right * self.width
            if part.busy or not scale.broken:
                self._ticks(part, left, right)
            else:
                self._break(ms((part.end_ns - part.start_ns) / 1e6), left, right)
        self.axes.text(-8, y - 9, "time (ms)", ha="right", va="center")
        if scale.broken:
            self._scale_bar(y - 25)
        if self.compare_ms is not None:
            self._to_scale(self.top + _STRIP - 8, self.compare_ms)

    def _scale_bar(self, y: float) -> None:
        """Draw a short time, at the scale that all busy parts share, to the left of the axis."""
        part = self.view.scale.parts[0]
        units = (part.right - part.left) * self.width / (part.end_ns - part.start_ns)
        time_ns = nice(18 / units)
        look: dict[str, Any] = {"color": "black", "lw": 2, "marker": "|", "clip_on": False}
        self.axes.plot([-8 - time_ns * units, -8], [y, y], **look)
        self.axes.text(-14 - time_ns * units, y, ms(time_ns / 1e6), ha="right", va="center")

    def _break(self, how_long: str, left: float, right: float) -> None:
        y = self.bottom
        for x in (left - 3, left + 3, right - 3, right + 3):
            start, end = (x - 2, y - _MARK), (x + 2, y + _MARK / 2)
            self.axes.plot(*zip(start, end, strict=True), color="black", lw=1.2, gid="break")
            self.labels.keep_clear(start, end)
        middle, room = (left + right) / 2, right - left - 16
        if room < text_width_px("shortened", SMALL):
            self.labels.put(how_long, [Place(middle, y - 18)], style.GREY)
            return
        for row, text in enumerate((how_long, "shortened")):
            self.labels.put(text, [Place(middle, y - 9 - row * 15)], style.GREY)

    def _ticks(self, part: Any, left: float, right: float) -> None:
        room = 46 / self.width
        for share, label in self.view.scale.ticks(part, room):
            x = share * self.width
            half = text_width_px(label, SMALL) / 2
            edges = [edge for edge in (left, right) if 0 < edge < self.width]
            if any(abs(x - edge) < half + 8 for edge in edges):
                continue
            self.axes.plot([x, x], [self.bottom, self.bottom - 3], color="black", lw=1)
            self.labels.put(label, [Place(x, self.bottom - 10)], "black")

    def _to_scale(self, y: float, compare_ms: float) -> None:
        scale, width = self.view.scale, self.width
        end_ns = max(scale.end_ns, scale.start_ns + round(compare_ms * 1e6))
        whole = TimeScale((scale.start_ns, end_ns), end_ns - scale.start_ns)
        if compare_ms:
            start, other, end = (
                whole.x(scale.start_ns + took_ms * 1e6) * width
                for took_ms in (0, compare_ms, self.view.span_ms)
            )
            style.fill(self.axes, Style(style.GREY, "", ""), start, y - 6, other - start, 12)
            style.fill(self.axes, Style(style.BLUE, "", ""), start, y - 6, max(end - start, 2), 5)
            places = [Place(other + 5, y, "left"), Place((start + other) / 2, y)]
            self.labels.put(f"another run: {ms(compare_ms)}", places, "black", on_lines=True)
        self.axes.text(-8, y, "to scale (ms)", ha="right", va="center")
        for hold in self.view.merged_holds():
            if hold.reason is not Reason.APPLICATION_IDLE:
                left, right = whole.x(hold.start_ns), whole.x(hold.end_ns)
                at = left * width, y - 6, max(right - left, 0.0015) * width, 5 if compare_ms else 12
                style.fill(self.axes, HOLD_STYLES[hold.reason], *at)
        self.axes.plot([0, width], [y - 6, y - 6], color="black", lw=1, clip_on=False)
        for share, label in whole.ticks(whole.parts[0], 46 / width):
            self.axes.plot([share * width] * 2, [y - 9, y - 6], color="black", lw=1)
            self.labels.put(label, [Place(share * width, y - 16)], "black")


def _runs(events: Sequence[T], kind: Callable[[T], Any]) -> list[list[T]]:
    return [list(group) for _kind, group in itertools.groupby(events, kind)]


def _group_label(group: Sequence[Write]) -> str:
    sizes = {write.bytes for write in group}
    if len(group) == 1:
        return f"write {group[0].bytes} B"
    if len(sizes) == 1:
        return f"{len(group)} × write {group[0].bytes} B"
    return f"{len(group)} writes, {sum(write.bytes for write in group)} B"
