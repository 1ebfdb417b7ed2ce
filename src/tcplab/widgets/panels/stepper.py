"""The stepper: the sender's rules event by event, beside the same writes in the kernel.

The events are those of one message in the middle of a conversation: the first one is acknowledged
at once (quickack mode) and would hide the rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal

from tcplab.models import (
    NagleSender,
    Path,
    Peer,
    Reason,
    Segment,
    SenderState,
    message_calls,
    predict,
)
from tcplab.models.exchange import Call, Packet
from tcplab.widgets.controls import Choice, Number
from tcplab.widgets.instrument import Instrument, Job, Shown, Values
from tcplab.widgets.panels.small_writes import MODES, QUICKACK

if TYPE_CHECKING:
    from tcplab.timeline import Timeline

__all__ = ["INSTRUMENT", "Event", "kernel_events", "model_events"]

REPLY_BYTES: Final = 2
#: In both columns the last message of so many is shown, and one more follows in the model.
MESSAGES: Final = 4

Kind = Literal["call", "segment", "ack", "reply", "timer"]

WORDS: Final[Mapping[Reason, str]] = {
    Reason.SENT_AT_ONCE: "nothing forbids it",
    Reason.FULL_SIZED: "a full segment never waits for Nagle",
    Reason.RELEASED_BY_ACK: "the ACK it waited for has come",
    Reason.UNCORKED: "the cork was pulled",
    Reason.CORK_TIMEOUT: "the cork's time is up",
    Reason.TAIL_LOSS_PROBE: "an ACK is overdue, so it probes",
    Reason.RETRANSMISSION: "no ACK came in time",
    Reason.MSG_MORE: "MSG_MORE could not hold it any longer",
}


@dataclass(frozen=True, slots=True)
class Event:
    """One line of a column.

    Attributes:
        time_ms: since the first call of the message.
        kind: who acts.
        words: what happens.
        bytes: of a segment or reply, else 0.
        why: the rule, after the event.
        state: what can be seen inside the sender after it; empty for the kernel.
        match: the line of the kernel's column that is the same segment or ACK.
    """

    time_ms: float
    kind: Kind
    words: str
    bytes: int = 0
    why: str = ""
    state: Mapping[str, Any] | None = None
    match: int | None = None

    def as_data(self) -> dict[str, Any]:
        """Names and plain values."""
        return {name: getattr(self, name) for name in self.__slots__} | {"state": self.state or {}}


# ---- the model -----------------------------------------------------------------------------------


def model_events(values: Values) -> list[Event]:
    """The model's events of one message, with the sender's state after each.

    Args:
        values: as the panel's controls have them.
    """
    calls, packets = _conversation(*(values[name] for name in _SHAPE))
    count = len(message_calls(_pieces(values), values["mode"])) + 1
    sender = _sender(values)
    begin_ms, end_ms = calls[count * (MESSAGES - 1)][0], calls[count * MESSAGES][0]
    events = []
    for time_ms, what in _in_order(calls, packets, sender):
        if time_ms >= end_ms and not isinstance(what, Packet):
            break
        left, words, kind = _feed(sender, what, time_ms)
        if time_ms < begin_ms:
            continue
        state = sender.state
        why = " ".join(_sentence(part) for part in (*map(_leaves, left), state.why))
        events.append(Event(time_ms - begin_ms, kind, words, 0, why, _inside(state)))
        events += [
            Event(
                time_ms - begin_ms,
                "segment",
                f"{segment.payload_bytes} bytes, {WORDS.get(segment.reason, str(segment.reason))}",
                segment.payload_bytes,
                why,
                _inside(state),
            )
            for segment in left
        ]
    return events


_SHAPE: Final = ("mode", "writes", "size_bytes", "rtt_ms", "quickack")


def _pieces(values: Values) -> list[int]:
    return [values["size_bytes"]] * values["writes"]


@lru_cache(maxsize=8)
def _conversation(
    mode: str, writes: int, size_bytes: int, rtt_ms: float, quickack: str
) -> tuple[tuple[tuple[float, Call], ...], tuple[Packet, ...]]:
    """The client's calls with their times, and what arrives at it."""
    peer = Peer(reply_every_bytes=writes * size_bytes, reply_bytes=REPLY_BYTES, quickack=quickack)
    body = (*message_calls([size_bytes] * writes, mode), Call("read", REPLY_BYTES))
    schedule = body * (MESSAGES + 1)
    result = predict(schedule, Path(rtt_ms=rtt_ms), peer, nodelay=mode == "no_delay")
    arriving = tuple(packet for packet in result.packets if not packet.outgoing)
    return tuple(zip(result.call_ms, schedule, strict=False)), arriving


def _sender(values: Values) -> NagleSender:
    path = Path(rtt_ms=values["rtt_ms"])
    return NagleSender(nodelay=values["mode"] == "no_delay", rtt_ms=path.rtt_ms + path.wakeup_ms)


def _in_order(
    calls: Sequence[tuple[float, Call]], packets: Sequence[Packet], sender: NagleSender
) -> Iterator[tuple[float, Call | Packet | None]]:
    """Calls, packets and, as they come due, the sender's timers (None)."""
    known: list[tuple[float, Call | Packet]] = [*calls, *((each.time_ms, each) for each in packets)]
    for time_ms, what in sorted(known, key=lambda item: item[0]):
        while (due := sender.next_timer_ms) is not None and due < time_ms:
            yield due, None
        yield time_ms, what


def _feed(
    sender: NagleSender, what: Call | Packet | None, time_ms: float
) -> tuple[list[Segment], str, Kind]:
    """Hands one event to the sender: what leaves, the event in words, and its kind."""
    if what is None:
        return sender.timer(time_ms), f"{sender.state.timer or 'the timer'} is due", "timer"
    if isinstance(what, Packet):
        left = sender.ack(what.ack, time_ms)
        if what.segment is None:
            return left, f"all before byte {what.ack} has arrived ({what.why or 'pure ACK'})", "ack"
        return left, f"{what.segment.payload_bytes} bytes, and the ACK of byte {what.ack}", "reply"
    if what.kind in ("write", "more"):
        flag = " with MSG_MORE" if what.kind == "more" else ""
        left = sender.write(what.value, time_ms, more=what.kind == "more")
        return left, f"write of {what.value} bytes{flag}", "call"
    if what.kind == "cork":
        left = sender.set_cork(bool(what.value), time_ms)
        return left, f"TCP_CORK {'on' if what.value else 'off'}", "call"
    return [], f"read: waits for {what.value} bytes", "call"


def _leaves(segment: Segment) -> str:
    reason = WORDS.get(segment.reason, str(segment.reason))
    return f"{segment.payload_bytes} bytes leave: {reason}"


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}."


def _inside(state: SenderState) -> dict[str, Any]:
    timer = "none" if state.timer is None else state.timer
    return {
        "waiting": f"{state.queued_bytes} B",
        "un-ACKed": f"{state.unacked_bytes} B",
        "small one out": "yes" if state.small_outstanding else "no",
        "corked": "yes" if state.corked else "no",
        "timer": timer,
    }


# ---- the kernel ----------------------------------------------------------------------------------


def kernel_events(timeline: Timeline) -> list[Event]:
    """The same events of the last message as they were captured at the sender.

    Args:
        timeline: of a conversation of MESSAGES messages.
    """
    last = timeline.messages
    writes = [each for each in timeline.writes if each.message == last]
    begin_ns = min(each.time_ns for each in writes)
    before = {each.message: each.offset for each in writes}.get(last, 0)
    first_byte = min(each.offset for each in writes) if writes else before

    def ms(time_ns: int) -> float:
        return (time_ns - begin_ns) / 1e6

    events = [Event(ms(each.time_ns), "call", f"write of {each.bytes} bytes") for each in writes]
    events += [
        Event(
            ms(each.time_ns),
            "segment",
            f"{each.payload_bytes} bytes, {each.reason}: {each.evidence}",
            each.payload_bytes,
        )
        for each in timeline.segments
        if each.offset >= first_byte and each.payload_bytes
    ]
    end_byte = first_byte + sum(each.bytes for each in writes)
    for each in timeline.acks:
        if each.time_ns < begin_ns or not first_byte < each.ack <= end_byte:
            continue
        if each.payload_bytes:
            words = f"{each.payload_bytes} bytes, and the ACK of byte {each.ack}"
            events.append(Event(ms(each.time_ns), "reply", words, each.payload_bytes))
        else:
            words = f"all before byte {each.ack} has arrived"
            events.append(Event(ms(each.time_ns), "ack", words))
    return sorted(events, key=lambda event: event.time_ms)


def matched(model: Sequence[Event], kernel: Sequence[Event]) -> list[dict[str, Any]]:
    """The model's events as data, each with the kernel's line that is the same."""
    networks: dict[Kind, list[int]] = {}
    for index, event in enumerate(kernel):
        networks.setdefault(event.kind, []).append(index)
    taken = {kind: iter(indices) for kind, indices in networks.items()}
    data = []
    for event in model:
        row = event.as_data()
        is_pair = event.kind in ("segment", "ack", "reply") or event.words.startswith("write")
        row["match"] = next(taken[event.kind], None) if is_pair and event.kind in taken else None
        data.append(row)
    return data


def agreement(model: Sequence[Event], kernel: Sequence[Event]) -> str:
    """Whether both have the same segments in the same order, in words."""
    sizes = [[event.bytes for event in each if event.kind == "segment"] for each in (model, kernel)]
    acks = [sum(event.kind == "ack" for event in each) for each in (model, kernel)]
    if sizes[0] == sizes[1] and acks[0] == acks[1]:
        return f"the same: {_listed(sizes[0])}, {acks[0]} pure ACKs"
    return f"model {_listed(sizes[0])}, {acks[0]} ACKs; kernel {_listed(sizes[1])}, {acks[1]} ACKs"


def _listed(sizes: Sequence[int]) -> str:
    shown = " + ".join(map(str, sizes[:6]))
    return f"{shown} + … ({len(sizes)} segments)" if len(sizes) > 6 else f"{shown} bytes"


def _run(job: Job) -> Shown:
    from tcplab.experiments import small_writes as experiment
    from tcplab.figures import timeline as draw_timeline
    from tcplab.tables import Table

    values = dict(job.values)
    mode = values.pop("mode")
    job.stage("measuring")
    with job.lab(rtt_ms=values["rtt_ms"]) as lab:
        result = experiment.measure(MESSAGES, variants=[mode], network=lab, **values)
    job.stage("drawing")
    timeline = result[mode].timeline()
    model, kernel = model_events(job.values), kernel_events(timeline)
    rows = [
        (event.time_ms, who, event.kind, event.words)
        for who, events in (("model", model), ("kernel", kernel))
        for event in events
        if event.kind in ("segment", "ack", "reply")
    ]
    picture = draw_timeline(timeline, timeline.messages) if job.wants_picture else None
    return Shown.of(
        f"{mode}: {agreement(model, kernel)}",
        max(event.time_ms for event in kernel),
        picture,
        Table.of(["after (ms)", "who", "what", "in words"], rows),
        {**result.provenance, "model and kernel": agreement(model, kernel)},
        steps={
            "model": matched(model, kernel),
            "kernel": [event.as_data() for event in kernel],
        },
    )


def _code(values: Values) -> str:
    shape = {name: value for name, value in values.items() if name != "mode"}
    arguments = ", ".join(f"{name}={value!r}" for name, value in shape.items())
    return (
        "from tcplab.experiments import small_writes\n"
        "from tcplab.models import NagleSender\n\n"
        f"# The kernel:\nmode = {values['mode']!r}\n"
        f"result = small_writes.measure(\n    messages={MESSAGES}, variants=[mode],\n"
        f"    {arguments},\n)\n"
        'print("\\n".join(result[mode].timeline().sentences()))\n\n'
        "# The model, event by event:\n"
        f"sender = NagleSender(nodelay={values['mode'] == 'no_delay'})\n"
        f"print(sender.write({values['size_bytes']}, at_ms=0.0), sender.state.why)\n"
        f"print(sender.write({values['size_bytes']}, at_ms=0.1), sender.state.why)\n"
        f"print(sender.ack({values['size_bytes']}, at_ms=40.0), sender.state.why)\n"
    )


def _model(values: Values) -> dict[str, Any]:
    return {"steps": [event.as_data() for event in model_events(values)]}


INSTRUMENT = Instrument(
    name="stepper",
    title="Step through Nagle's algorithm",
    summary="One message, event by event: what the sender's rules say, and what this kernel did.",
    controls=(
        Choice("mode", "How to send", MODES, "default"),
        Number("writes", "Writes a message", 5, 1, 40),
        Number("size_bytes", "Bytes a write", 2, 1, 1448, unit="B", scale="log"),
        Number("rtt_ms", "RTT", 0.0, 0, 200, step=0.5, unit="ms"),
        Choice("quickack", "Receiver's ACKs", QUICKACK, "on"),
    ),
    predicts="Time of the message",
    unit="ms",
    run=_run,
    code=_code,
    model=_model,
    forecast=lambda values: max(event.time_ms for event in model_events(values)),
    figure="stepper",
)
