"""Test each cause on a recording of a lesson. The timeline must name it and no other."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.support.nonempty import each

from tcplab.experiments import cork, small_writes
from tcplab.experiments.recordings import shipped
from tcplab.timeline import Reason, Segment, Timeline

MSS = 1448


def sizes(timeline: Timeline) -> list[int]:
    return [segment.payload_bytes for segment in timeline.segments]


def held(segment: Segment) -> list[Reason]:
    return list(dict.fromkeys(hold.reason for hold in segment.holds))


def seen(timeline: Timeline) -> set[Reason]:
    return {hold.reason for hold in timeline.holds}


def cork_exchange(option: str) -> Any:
    return recorded("cork", variants=(option,))[option].exchange


def recorded(name: str, **arguments: Any) -> Any:
    """Return the shipped result of an experiment that was measured with these arguments."""
    for known, result in shipped(name):  # a list there may be a tuple here
        if all(np.array_equal(known[key], value) for key, value in arguments.items()):
            return result
    pytest.fail(f"{name}: no recording with {arguments}")


# ---- the programs of small-writes and cork -------------------------------------------------------


@pytest.fixture(scope="module")
def variants() -> dict[str, Timeline]:
    """Return the timeline of each variant's twenty messages, from the shipped recordings."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TCPLAB_MODE", "recorded")
        shown = small_writes.measure(segments=True)
        timelines: dict[str, Timeline] = {
            variant.mode: variant.timeline() for variant in shown.variants
        }
        return timelines | {"msg_more": cork.measure()["msg_more"].timeline()}


def test_default_holds_all_but_the_first_write(variants: dict[str, Timeline]) -> None:
    timeline = variants["default"]
    assert sizes(timeline) == [2, 28] * 20
    for first, rest in zip(timeline.segments[::2], timeline.segments[1::2], strict=True):
        assert first.reason is Reason.SENT_AT_ONCE
        assert first.holds == ()
        assert len(first.writes) == 1
        assert rest.reason is Reason.RELEASED_BY_ACK
        assert held(rest) == [Reason.HELD_BY_NAGLE]
        assert rest.writes == tuple(range(first.writes[0] + 1, first.writes[0] + 15))
        assert "2 bytes unacknowledged, 28 < MSS 1448" in rest.holds[0].evidence
    # After the first message, the ACK is a delayed one.
    for rest, sentence in zip(timeline.segments[3::2], timeline.sentences()[3::2], strict=True):
        assert sentence.startswith(f"message {rest.message}: 28 bytes of writes 2–15 held ")
        assert rest.released_by is not None
        ack = timeline.acks[rest.released_by]
        assert ack.newly_acked_bytes == 2
        assert ack.reason is Reason.ACK_DELAYED_BY_PEER
        assert rest.holds[0].duration_ms > 20
        assert "28 < MSS 1448; released by the peer's delayed ACK (" in sentence


def test_no_delay_holds_only_what_the_initial_window_forbids(variants: dict[str, Timeline]) -> None:
    timeline = variants["no_delay"]
    assert sizes(timeline)[:10] == [2] * 10
    assert sizes(timeline)[-270:] == [2] * 270
    assert {segment.reason for segment in timeline.segments[:10]} == {Reason.SENT_AT_ONCE}
    # The initial window is ten segments (RFC 6928); a write beyond it waits for an ACK.
    for segment in timeline.segments:
        waited = [Reason.CWND_LIMITED] if segment.reason is Reason.RELEASED_BY_ACK else []
        assert held(segment) == waited
        assert segment.reason is Reason.SENT_AT_ONCE or waited
        assert segment.payload_bytes == 2 or waited


@pytest.mark.parametrize(
    ("name", "reason", "waits"),
    [
        ("cork", Reason.UNCORKED, [Reason.CORKED]),
        ("msg_more", Reason.SENT_AT_ONCE, [Reason.MSG_MORE]),
        ("writev", Reason.SENT_AT_ONCE, []),
    ],
)
def test_a_message_leaves_whole_with_the_reason_of_its_option(
    variants: dict[str, Timeline], name: str, reason: Reason, waits: list[Reason]
) -> None:
    timeline = variants[name]
    assert sizes(timeline) == [30] * 20
    for segment in timeline.segments:
        assert (segment.reason, held(segment)) == (reason, waits)
        assert ("came without MSG_MORE" in segment.evidence) == (name == "msg_more")
        assert len(segment.writes) == (1 if name == "writev" else 15)
    assert seen(timeline) == {Reason.APPLICATION_IDLE, *waits}
    assert not timeline.missing


# ---- cork, MSG_MORE, TCP_NODELAY -----------------------------------------------------------------

FULL, CORKED = Reason.FULL_SIZED, [Reason.CORKED]


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("cork on, write 1000", [(MSS, FULL, CORKED), (552, Reason.UNCORKED, CORKED)]),
        (
            "cork on, write 100,",
            [(100, Reason.NODELAY_SET, CORKED), (200, Reason.UNCORKED, CORKED)],
        ),
        (
            "write 10, cork on, write 20, cork off",
            [
                (10, Reason.SENT_AT_ONCE, []),
                (20, Reason.RELEASED_BY_ACK, [Reason.CORKED, Reason.HELD_BY_NAGLE]),
            ],
        ),
        (
            "write 10, more 20",
            [(10, Reason.SENT_AT_ONCE, []), (20, Reason.RELEASED_BY_ACK, [Reason.MSG_MORE])],
        ),
    ],
)
def test_each_segment_has_the_reason_of_the_option(
    script: str, expected: list[tuple[int, Reason, list[Reason]]]
) -> None:
    results = [result for _arguments, result in shipped("cork-scenarios")]
    played = [scene for result in results for scene in result.variants]
    scene = next(scene for scene in played if scene.script.startswith(script))
    segments = scene.timeline().segments
    assert [
        (segment.payload_bytes, segment.reason, held(segment)) for segment in segments
    ] == expected


def test_a_forgotten_cork_is_pulled_by_the_timer() -> None:
    for segment in each(cork_exchange("forgotten").timeline().segments):
        assert (segment.reason, held(segment)) == (Reason.CORK_TIMEOUT, [Reason.CORKED])


def test_msg_more_that_is_not_in_the_log_is_not_guessed() -> None:
    exchange = cork_exchange("msg_more")
    log = [event._replace(name=event.name.replace("more", "write")) for event in exchange.log]
    segment = replace(exchange, log=log).timeline().segments[0]
    assert segment.reason is Reason.UNKNOWN
    assert held(segment) == [Reason.UNKNOWN]
    assert "MSG_MORE" in segment.missing


# ---- windows and the link ------------------------------------------------------------------------


def test_a_full_receive_window_holds_full_segments() -> None:
    timeline = recorded("zero-window").timeline()
    assert seen(timeline) == {Reason.WINDOW_LIMITED, Reason.CWND_LIMITED}
    waited = [segment for segment in timeline.segments if Reason.WINDOW_LIMITED in held(segment)]
    assert {segment.reason for segment in each(waited)} == {Reason.RELEASED_BY_ACK}
    assert timeline.waited_ms()[Reason.WINDOW_LIMITED] > 1400


def test_the_end_of_a_burst_is_deferred_for_an_ack_that_is_due() -> None:
    timeline = recorded("short-transfer", data_bytes=7_240_000).timeline()
    waited = [segment for segment in timeline.segments if Reason.DEFERRED in held(segment)]
    assert {segment.reason for segment in each(waited)} == {Reason.RELEASED_BY_ACK}
    assert "(tcp_tso_should_defer)" in waited[0].holds[-1].evidence


def test_a_slow_link_queues() -> None:
    result = recorded("short-transfer", rtt_ms=5.0)
    for known, source in ((None, "by the spacing of their arrivals"), (50, "which is the link's")):
        timeline = replace(result.exchange, rate_mbit=known).timeline()
        holds = [hold for hold in timeline.holds if hold.where == "wire"]
        assert {hold.reason for hold in each(holds)} == {Reason.RATE_LIMITED}
        assert holds[-1].evidence.endswith(f", at 50 Mbit/s ({source})")
        assert "in the queue of the link" in timeline.sentences()[9]
    near = replace(result.exchange, peer_segments=None, peer_log=None).timeline()
    assert Reason.RATE_LIMITED not in seen(near)


@pytest.mark.parametrize(
    ("lost", "evidence"),
    [
        ("one of many", "reported missing by 3 duplicate ACKs (SACK)"),
        ("the last", "no ACK of it for "),
    ],
)
def test_a_lost_segment_is_sent_again(lost: str, evidence: str) -> None:
    losses = recorded("lost-segment", more_segments=0, rtt_ms=40)
    timeline = next(loss for loss in losses.variants if loss.lost == lost).timeline()
    [again] = [segment for segment in timeline.segments if segment.reason is Reason.RETRANSMISSION]
    [first] = [segment for segment in timeline.segments if segment.offset == again.offset][:-1]
    assert first.arrived_ns is None
    assert again.arrived_ns is not None
    assert again.holds[0].start_ns == first.time_ns
    assert again.evidence.startswith(evidence)


# ---- missing evidence ----------------------------------------------------------------------------


def test_without_a_log_only_full_segments_are_explained() -> None:
    timeline = replace(cork_exchange("msg_more"), log=None).timeline()
    assert {segment.reason for segment in timeline.segments} == {Reason.UNKNOWN}
    assert "log" in timeline.segments[0].missing
    assert any("log" in note for note in timeline.missing)
    assert not timeline.holds


def test_without_the_options_nagle_is_not_assumed() -> None:
    [result] = [result for _arguments, result in shipped("small-writes")][:1]
    exchange = replace(result["default"].exchange, options=None, nodelay=None)
    timeline = exchange.timeline()
    tail = timeline.segments[1]
    assert held(tail) == [Reason.UNKNOWN]
    assert "TCP_NODELAY" in tail.holds[0].missing
    assert any("TCP_NODELAY" in note for note in timeline.missing)
