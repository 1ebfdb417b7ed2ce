"""Test each cause on a recorded conversation. The timeline must name it and no other.

The conversations of tests/data/conversations were recorded on a real kernel by
tests/support/timeline/record.py. Those of small-writes and cork are their lessons' recordings.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest
from tests.support.nonempty import each
from tests.support.timeline.recorded import counters, load

from tcplab.experiments import cork, small_writes
from tcplab.timeline import Reason, Segment, Timeline

MSS = 1448


def sizes(timeline: Timeline) -> list[int]:
    return [segment.payload_bytes for segment in timeline.segments]


def held(segment: Segment) -> list[Reason]:
    return list(dict.fromkeys(hold.reason for hold in segment.holds))


def seen(timeline: Timeline) -> set[Reason]:
    return {hold.reason for hold in timeline.holds}


def last_message(timeline: Timeline) -> Sequence[Segment]:
    return timeline.only([timeline.messages]).segments


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


def test_default_waits_for_delayed_acks_after_the_first_message(
    variants: dict[str, Timeline],
) -> None:
    timeline = variants["default"]
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
        assert len(segment.writes) == (1 if name == "writev" else 15)
    assert seen(timeline) == {Reason.APPLICATION_IDLE, *waits}


def test_nothing_is_unknown_in_the_variants(variants: dict[str, Timeline]) -> None:
    for timeline in each(variants.values()):
        assert Reason.UNKNOWN not in {segment.reason for segment in timeline.segments}
        assert Reason.UNKNOWN not in seen(timeline)
        assert not timeline.missing


# ---- cork, MSG_MORE, TCP_NODELAY -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("forgotten-cork", [(30, Reason.CORK_TIMEOUT, [Reason.CORKED])]),
        (
            "full-segment-in-a-cork",
            [
                (MSS, Reason.FULL_SIZED, [Reason.CORKED]),
                (2000 - MSS, Reason.UNCORKED, [Reason.CORKED]),
            ],
        ),
        ("msg-more", [(35, Reason.SENT_AT_ONCE, [Reason.MSG_MORE])]),
        ("forgotten-msg-more", [(30, Reason.CORK_TIMEOUT, [Reason.MSG_MORE])]),
        (
            "nodelay-set",
            [(10, Reason.SENT_AT_ONCE, []), (11, Reason.NODELAY_SET, [Reason.HELD_BY_NAGLE])],
        ),
    ],
)
def test_each_segment_has_the_reason_of_the_option(
    name: str, expected: list[tuple[int, Reason, list[Reason]]]
) -> None:
    segments = last_message(load(name).timeline())
    assert [
        (segment.payload_bytes, segment.reason, held(segment)) for segment in segments
    ] == expected


def test_a_write_without_msg_more_ends_the_wait() -> None:
    sentence = load("msg-more").timeline().sentences()[0]
    assert "the last write came without MSG_MORE" in sentence


def test_msg_more_that_is_not_in_the_log_is_not_guessed() -> None:
    recorded = load("msg-more")
    log = [event._replace(name=event.name.replace("more", "write")) for event in recorded.log or ()]
    [segment] = replace(recorded, log=log).timeline().segments
    assert segment.reason is Reason.UNKNOWN
    assert held(segment) == [Reason.UNKNOWN]
    assert "MSG_MORE" in segment.missing


# ---- Nagle's algorithm, as Linux has it ----------------------------------------------------------


@pytest.mark.parametrize(
    ("writes", "expected", "waits"),
    [
        ("4+100", [4, 100], True),
        ("1448+100", [MSS, 100], False),
        ("2896+100", [MSS, MSS, 100], False),
        ("1449+100", [MSS, 1, 100], True),
        ("1548", [MSS, 100], False),
    ],
)
def test_minshall_holds_a_tail(writes: str, expected: list[int], waits: bool) -> None:
    segments = last_message(load(writes).timeline())
    assert [segment.payload_bytes for segment in segments] == expected
    tail = segments[-1]
    assert held(tail) == ([Reason.HELD_BY_NAGLE] if waits else [])
    assert tail.reason is (Reason.RELEASED_BY_ACK if waits else Reason.SENT_AT_ONCE)
    for segment in segments:
        if segment.payload_bytes == MSS:
            assert (segment.reason, segment.holds) == (Reason.FULL_SIZED, ())


def test_the_delay_of_an_ack_is_measured_where_it_is_made() -> None:
    timeline = load("4+100").timeline()
    tail = timeline.segments[-1]
    assert tail.released_by is not None
    ack = timeline.acks[tail.released_by]
    assert ack.reason is Reason.ACK_DELAYED_BY_PEER
    assert ack.evidence == "by the capture at the peer"
    assert ack.delay_ms is not None
    assert ack.sent_ns is not None
    # The hold is a round trip longer than the delay, since data and ACK had to travel.
    assert tail.holds[0].duration_ms > ack.delay_ms + 3


# ---- windows, buffers, the application -----------------------------------------------------------


def test_a_full_receive_window_holds_full_segments() -> None:
    timeline = load("receive-window").timeline()
    # A tail loss probe repeats a segment that had arrived, so no wait counts as a loss. After the
    # last segment, the application waits for the answer.
    assert seen(timeline) == {Reason.WINDOW_LIMITED, Reason.APPLICATION_IDLE}
    waited = [segment for segment in timeline.segments if Reason.WINDOW_LIMITED in held(segment)]
    assert {segment.reason for segment in each(waited)} == {Reason.RELEASED_BY_ACK}
    longest = max(timeline.holds, key=lambda hold: hold.duration_ms)
    assert longest.reason is Reason.WINDOW_LIMITED
    assert longest.duration_ms > 50


def test_the_initial_congestion_window_holds_the_eleventh_segment() -> None:
    timeline = load("initial-window").timeline()
    assert sizes(timeline) == [MSS] * 14
    for segment in timeline.segments[:10]:
        assert (segment.reason, segment.holds) == (Reason.FULL_SIZED, ())
    for segment in timeline.segments[10:]:
        assert segment.reason is Reason.RELEASED_BY_ACK
        assert held(segment) == [Reason.CWND_LIMITED]
    assert "10 of the 10 segments" in timeline.segments[10].holds[0].evidence
    assert seen(timeline) == {Reason.CWND_LIMITED}


def test_a_small_send_buffer_blocks_the_application() -> None:
    timeline = load("send-buffer").timeline()
    waited = timeline.waited_ms()
    assert waited.get(Reason.SNDBUF_LIMITED, 0) > 15
    assert not seen(timeline) & {Reason.WINDOW_LIMITED, Reason.HELD_BY_NAGLE, Reason.CORKED}
    sentence = next(sentence for sentence in timeline.sentences() if "full send buffer" in sentence)
    assert "blocked in its write" in sentence


def test_an_application_that_pauses_is_idle() -> None:
    timeline = load("pause").timeline()
    assert {segment.reason for segment in timeline.segments} == {Reason.SENT_AT_ONCE}
    [idle] = timeline.holds
    assert idle.reason is Reason.APPLICATION_IDLE
    assert idle.duration_ms >= 55


def test_an_application_that_awaits_an_answer_is_idle() -> None:
    timeline = load("two-exchanges").timeline()
    assert seen(timeline) == {Reason.APPLICATION_IDLE}
    assert "waited for 2 bytes from the peer" in timeline.holds[0].evidence


# ---- the wire ------------------------------------------------------------------------------------


def test_a_slow_link_queues() -> None:
    for known in (None, 5.0):
        timeline = replace(load("slow-link"), rate_mbit=known).timeline()
        assert seen(timeline) == {Reason.RATE_LIMITED}
        [hold] = timeline.holds
        # An unknown rate is estimated from the segments' arrivals.
        (rate_mbit,) = map(float, re.findall(r"([\d.]+) Mbit/s", hold.evidence))
        assert rate_mbit == pytest.approx(5, rel=1e-6 if known else 0.1)
        queued = [segment.queued_ms for segment in timeline.segments]
        assert queued == sorted(queued, key=lambda queued_ms: queued_ms or 0)
        assert all(segment.reason is Reason.FULL_SIZED for segment in each(timeline.segments))
        assert "in the queue of the link" in timeline.sentences()[-1]


def test_without_a_capture_at_the_peer_a_queue_is_not_guessed() -> None:
    timeline = replace(load("slow-link"), peer_segments=None, peer_log=None).timeline()
    assert not timeline.holds
    late = [ack for ack in timeline.acks if ack.reason is Reason.UNKNOWN]
    assert late, "ACKs that came late, for the data or the ACK waited somewhere"
    assert "a capture at the peer" in late[0].missing


def test_a_lost_segment_is_sent_again_when_nothing_is_acknowledged() -> None:
    lost, again = last_message(load("lost").timeline())
    assert lost.reason is Reason.SENT_AT_ONCE
    assert lost.arrived_ns is None
    assert (again.payload_bytes, again.reason) == (50, Reason.RETRANSMISSION)
    assert again.arrived_ns is not None
    assert again.holds[0].start_ns == lost.time_ns
    assert again.evidence.startswith("no ACK of it for ")


def test_duplicate_acks_trigger_a_fast_retransmission() -> None:
    timeline = load("lost-and-more").timeline()
    [again] = [segment for segment in timeline.segments if segment.reason is Reason.RETRANSMISSION]
    assert again.payload_bytes == 50
    assert "duplicate ACK" in again.evidence
    others = [segment for segment in last_message(timeline) if segment is not again]
    assert {segment.reason for segment in others[:-1]} == {Reason.SENT_AT_ONCE}


def test_nagle_holds_behind_a_lost_segment_until_it_has_arrived() -> None:
    timeline = load("lost-two").timeline()
    sixty = next(segment for segment in last_message(timeline) if segment.payload_bytes == 60)
    assert held(sixty) == [Reason.HELD_BY_NAGLE]
    assert sixty.reason is Reason.TAIL_LOSS_PROBE
    assert Reason.RETRANSMISSION in {segment.reason for segment in timeline.segments}


# ---- missing evidence ----------------------------------------------------------------------------


def test_without_a_log_only_full_segments_are_explained() -> None:
    timeline = replace(load("one-exchange"), log=None).timeline()
    full, tail = timeline.segments
    assert full.reason is Reason.FULL_SIZED
    assert tail.reason is Reason.UNKNOWN
    assert "log" in tail.missing
    assert any("log" in note for note in timeline.missing)
    assert not timeline.holds


def test_without_the_options_nagle_is_not_assumed() -> None:
    timeline = replace(load("4+100"), options=None).timeline()
    tail = timeline.segments[-1]
    assert held(tail) == [Reason.UNKNOWN]
    assert "TCP_NODELAY" in tail.holds[0].missing
    assert any("TCP_NODELAY" in note for note in timeline.missing)


def test_a_log_of_another_run_is_refused() -> None:
    first, second = load("forgotten-cork"), load("forgotten-msg-more")
    with pytest.raises(ValueError, match="the log does not belong to the capture: it is from"):
        replace(second, log=first.log).timeline()
    with pytest.raises(ValueError, match="no connection between ports"):
        replace(second, options=first.options).timeline()
    with pytest.raises(ValueError, match="peer_segments do not belong"):
        replace(second, peer_segments=first.peer_segments).timeline()


def test_autocorking_is_recognised_by_its_counter() -> None:
    recorded, grown = load("autocorking"), counters("autocorking")
    assert grown["TCPAutoCorking"] > 0
    timeline = replace(recorded, counters=grown).timeline()
    assert sizes(timeline) == [MSS, MSS, 400]
    assert Reason.AUTOCORKED in held(timeline.segments[-1])
    assert not seen(timeline) & {Reason.HELD_BY_NAGLE, Reason.CORKED, Reason.MSG_MORE}
    assert Reason.AUTOCORKED not in seen(recorded.timeline())


def test_the_end_of_a_burst_is_deferred_for_an_ack_that_is_due() -> None:
    """With one of 10 segments of the window unacknowledged, 8 of the burst leave and 2 wait."""
    timeline = load("deferred-burst").timeline()
    waited = [segment for segment in timeline.segments if Reason.DEFERRED in held(segment)]
    assert [segment.payload_bytes for segment in waited] == [MSS, MSS]
    assert {segment.reason for segment in waited} == {Reason.RELEASED_BY_ACK}, timeline.sentences()
    assert "tcp_tso_should_defer" in waited[0].holds[0].evidence
