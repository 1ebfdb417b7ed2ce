"""The course of one message on an axis of time, as data and as HTML: the model's, then the runs'.

A row has the writes, the segments that leave, the ACKs and the reply, and the waits between them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tcplab.figures.timeline_figure import choose_message
from tcplab.models import Call, NetworkPath, simulate
from tcplab.models.steps import Step
from tcplab.tables import digits
from tcplab.timeline import Timeline
from tcplab.timeline.steps import recorded_steps
from tcplab.widgets import plot
from tcplab.widgets.spec import KEPT_RUNS

#: Shorter ones are the time of a system call.
LEAST_WAIT_MS: Final = 0.01

#: The mark of an event, from the line of its row: a write stands, a segment leaves downwards.
SHAPES: Final = {
    "call": "M0 0v-15",
    "segment": "M0 0v18m-4 -6l4 6l4 -6",
    "ack": "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0",
    "reply": "M0 -8l8 8l-8 8l-8 -8z",
}
#: Of a wait, as part of the column.
LEAST_WIDTH: Final = 0.003
#: Widths as shares of a wide column: an arrow, and each letter of its label. In a narrow column
#: the same letters take NARROW times the share.
ROOM_OF_ARROW: Final = 0.03
ROOM_OF_LETTER: Final = 0.014
NARROW: Final = 2.3
#: Room for "data wait", as parts of a wide and of a narrow column.
ROOM_IN_WAIT: Final = (0.11, 0.26)

#: [ms, kind of step, bytes]
Event = Sequence[Any]


def model_course(models: Mapping[str, Sequence[Event]]) -> dict[str, Any]:
    """The data of a course before anything is measured: a row for each name."""
    return {"rows": [_row("model", name, events) for name, events in models.items()]}


def simulated_course(calls: Sequence[Call], path: NetworkPath) -> list[Event]:
    """The events of some calls and the end of the stream, up to the last ACK."""
    calls = [*calls, Call("shutdown")]
    simulation = simulate(calls, path)
    called = zip(simulation.call_ms, calls, strict=True)
    writes = [(ms, "call", call.value) for ms, call in called if call.kind in ("write", "more")]
    sent = [(each.time_ms, "segment", each.payload_bytes) for each in simulation.data]
    back = [(each.time_ms, "ack", 0) for each in simulation.packets if not each.outgoing]
    return sorted([*writes, *sent, *back], key=lambda event: event[0])


def recorded_course(timeline: Timeline) -> list[Event]:
    """The events of a recorded message, a typical one: that of :func:`tcplab.figures.timeline`."""
    return course(recorded_steps(timeline, choose_message(timeline, 1)))


def course(steps: Sequence[Step]) -> list[Event]:
    """The steps that are seen in a course; not the timers, nor calls that hand over no data."""
    seen = (step for step in steps if step.bytes or step.kind == "ack")
    return [(round(step.time_ms, 4), step.kind, step.bytes) for step in seen]


def with_runs(
    data: Mapping[str, Any],
    runs: Sequence[Mapping[str, Any]],
    names: Sequence[str],
    prediction: float | None,
    unit: str,
) -> dict[str, Any]:
    """A :func:`model_course` with a row for each run, and the prediction as a line across."""
    measured = [
        _row(f"run{run['number'] % KEPT_RUNS}", name, run["events"])
        for run, name in zip(runs, names, strict=True)
        if run["events"]
    ]
    rows = [*data["rows"], *measured]
    level = None
    if prediction is not None:
        level = {"x": prediction, "label": f"your prediction: {prediction:g} {unit}"}
    return {"rows": rows, "level": level, "alt": words_of(rows)}


def without_result(data: Mapping[str, Any]) -> dict[str, Any]:
    """A :func:`model_course` with the writes alone: what a room may see before it has voted."""
    rows = []
    for row in data["rows"]:
        calls = [event for event in row["events"] if event[1] == "call"]
        rows.append(_row("model", "the writes; what leaves, and when?", calls))
    alt = f"{len(rows[0]['events'])} writes of a message; Run shows what leaves, and when"
    return {"rows": rows[:1], "level": None, "alt": alt}


def html(data: Mapping[str, Any]) -> str:
    """The rows for the page, on one axis of time."""
    rows, level = data["rows"], data.get("level")
    longest_ms = max([row["end"] for row in rows] + ([level["x"]] if level else []))
    time = plot.Axis(0, 1.12 * longest_ms or 0.01)
    parts = []
    for ms, is_minor in time.ticks(9):
        at = time.part(ms)
        parts.append(plot.line((at, 0, at, 1), "grid"))
        parts.append(plot.words(plot.short(ms), at, 1, (0, 18), "middle" + " minor" * is_minor))
    for number, row in enumerate(rows):
        parts += _drawn(row, time, (number + 0.55) / len(rows))
    if level:
        at = time.part(level["x"])
        parts.append(plot.line((at, 0, at, 1), "level"))
        # A narrow column has room for the words, but not to one side of its middle.
        anchor = ("", "middle", "end")[(at > 0.33) + (at > 0.67)]
        parts.append(plot.words(level["label"], at, 0, (0, -6), anchor))
    legend = "ms since the first write   ( | write   ↓ segment   ○ ACK   ◇ reply )"
    axis = f'<p class="x-label">{legend}</p>'
    alt = data.get("alt") or words_of(rows)
    return plot.framed("course", alt, plot.area(parts), axis, rows=len(rows))


def words_of(rows: Sequence[Mapping[str, Any]]) -> str:
    """All rows for those who cannot see them."""
    said = "; ".join(f"{row['label']}: {row['words']}" for row in rows)
    return f"The course of one message. {said}."


def _drawn(row: Mapping[str, Any], time: plot.Axis, y: float) -> Iterator[str]:
    """A row: its line, over it the waits, on it the events; panel.css gives them their height."""
    kind, end = row["kind"], time.part(row["end"])
    yield plot.line((0, y, end, y), f"line base {kind}")
    yield plot.words(row["label"], 0, y, kind="heading")
    for wait in row["waits"]:
        start, stop = map(time.part, wait)
        box = f'x="{plot.percent(start)}" y="{plot.percent(y)}" height="18"'
        box += f' width="{plot.percent(max(stop - start, LEAST_WIDTH))}"'
        yield f'<rect class="line wait {kind}" {box}/>'
        if stop - start > ROOM_IN_WAIT[0]:
            is_minor = stop - start < ROOM_IN_WAIT[1]
            place = "middle" + " minor" * is_minor
            yield plot.words("data wait", (start + stop) / 2, y, (0, 5), place)
    arrows = [time.part(ms) for ms, what, _bytes in row["events"] if what == "segment"]
    free = 0.0  # from here on
    for ms, what, size_bytes in row["events"]:
        at = time.part(ms)
        yield plot.mark(SHAPES[what], at, y, f"line {what} {kind}")
        if what != "segment" or at < free:
            continue
        words = f"{size_bytes} B"
        need = ROOM_OF_ARROW + ROOM_OF_LETTER * len(words)
        # Up to the next arrow, but for one that stands at the same place.
        room = min((each - at for each in arrows if each - at > ROOM_OF_ARROW / 2), default=1.0)
        if room >= need:
            yield plot.words(words, at, y, kind="bytes" + " minor" * (room < NARROW * need))
            free = at + need
    yield plot.words(row["shown"], end, y, kind="took")


def _row(kind: str, label: str, events: Sequence[Event]) -> dict[str, Any]:
    end_ms = max(event[0] for event in events)
    sizes = [event[2] for event in events if event[1] == "segment"]
    waits = list(_waits(events))
    words = f"{len(sizes)} segment{'s' * (len(sizes) != 1)} of data, over after {digits(end_ms)} ms"
    for start, end in waits:
        words += f", data waiting from {digits(start)} to {digits(end)} ms"
    row = {"kind": kind, "label": label, "events": events, "waits": waits, "words": words}
    return row | {"end": end_ms, "shown": f"{digits(end_ms)} ms" if sizes else ""}


def _waits(events: Sequence[Event]) -> Iterator[tuple[float, float]]:
    """When data that were written had not left."""
    waiting, since = 0, 0.0
    for time_ms, kind, size in events:
        if kind == "call":
            since = since if waiting else time_ms
            waiting += size
        elif kind == "segment":
            waiting -= size
            if waiting <= 0 and time_ms - since > LEAST_WAIT_MS:
                yield since, time_ms
            waiting = max(waiting, 0)
