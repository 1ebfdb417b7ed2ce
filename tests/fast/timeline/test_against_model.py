"""The timeline must infer from a capture what the model of the sender does on purpose.

hypothesis makes up schedules of calls. tcplab.models.simulate plays them, and gives the reason for
each segment. The timeline sees only a capture of the packets and a log of the calls.
"""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.timeline.made_up import (
    ack,
    capture,
    data,
    explain_evidence,
    handshake,
    ns,
    socket_options,
)

from tcplab.models import Call, NetworkPath, Peer, simulate
from tcplab.models.conversation import Simulation
from tcplab.programs import Event
from tcplab.timeline import Reason, Timeline
from tcplab.timeline.replay import RACE_NS

RTT_MS = 4.0
TOGGLES = ("cork", "nodelay")

calls = st.lists(
    st.builds(
        lambda kind, size, delay: Call(kind, int(size > 700) if kind in TOGGLES else size, delay),
        st.sampled_from(["write", "write", "write", "more", "cork", "nodelay"]),
        st.one_of(st.integers(1, 1400), st.sampled_from([1448, 1449, 2896, 3000])),
        st.sampled_from([0.013, 0.057, 1.03, 9.07, 300.0]),
    ),
    min_size=1,
    max_size=14,
)


def played(schedule: list[Call]) -> tuple[Simulation, Timeline]:
    prediction = simulate(schedule, peer=Peer(), path=NetworkPath(rtt_ms=RTT_MS))
    log = [
        Event(ns(time_ms), _event(call), call.value if call.kind not in TOGGLES else 0)
        for call, time_ms in zip(schedule, prediction.call_ms, strict=False)
    ]
    rows = handshake(RTT_MS)
    for packet in prediction.packets:
        segment = packet.segment
        if not packet.outgoing:
            rows.append(ack(packet.time_ms, packet.ack))
        elif segment is not None:
            flags: dict[str, Any] = {"is_retransmission": segment.reason == "retransmission"}
            rows.append(data(packet.time_ms, segment.seq, segment.payload_bytes, **flags))
    return prediction, explain_evidence(log, capture(rows), socket_options())


def _event(call: Call) -> str:
    if call.kind == "cork":
        return "cork" if call.value else "uncork"
    if call.kind == "nodelay":
        return "nodelay" if call.value else "delay"
    return call.kind


@settings(max_examples=150, database=None)
@given(calls)
def test_the_timeline_finds_the_reasons_of_the_model(schedule: list[Call]) -> None:
    if not any(call.kind in ("write", "more") for call in schedule):
        return
    prediction, timeline = played(schedule)
    assert len(timeline.segments) == len(prediction.data)
    for truth, segment in zip(prediction.data, timeline.segments, strict=True):
        story = f"{truth}\n{segment}\n{schedule}"
        assert (segment.offset, segment.payload_bytes) == (truth.seq, truth.payload_bytes), story
        assert segment.reason == truth.reason, story
        if truth.reason is Reason.RETRANSMISSION:
            continue
        held = {hold.reason for hold in segment.holds}
        if truth.waited_for is None:
            assert not held, story
        elif not _acks_in_a_row(truth.time_ms, prediction):
            assert truth.waited_for in held, story


def _acks_in_a_row(time_ms: float, prediction: Simulation) -> bool:
    """Return whether two ACKs came just before this time, too close to show a wait between them."""
    shortly_before = time_ms - RACE_NS / 1e6
    acks = [packet.time_ms for packet in prediction.packets if not packet.outgoing]
    return len([ack_ms for ack_ms in acks if shortly_before <= ack_ms <= time_ms]) > 1
