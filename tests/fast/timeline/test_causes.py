"""Each cause was provoked in the laboratory, and the timeline must name it, and no other.

The conversations are in tests/data/conversations; the scenario of each stands in its test.
tests/support/timeline/recorded.py says how to record them again.
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Sequence

import pytest
from tests.support.nonempty import each
from tests.support.timeline.conversation import Conversation
from tests.support.timeline.explained import explain_evidence
from tests.support.timeline.recorded import Recorder, recorded, variant

from tcplab.programs import SmallWritesMode
from tcplab.timeline import Reason, Segment, Timeline

__all__ = ["recorded"]

MSS = 1448


def sizes(timeline: Timeline) -> list[int]:
    return [segment.payload_bytes for segment in timeline.segments]


def held(segment: Segment) -> list[Reason]:
    return list(dict.fromkeys(hold.reason for hold in segment.holds))


def seen(timeline: Timeline) -> set[Reason]:
    """All reasons of all waits."""
    return {hold.reason for hold in timeline.holds}


def last_message(timeline: Timeline) -> Sequence[Segment]:
    return timeline.only([timeline.messages]).segments


# ---- the programs of lesson 05 -------------------------------------------------------------------


MODES: Sequence[SmallWritesMode] = ("default", "no_delay", "cork", "msg_more", "writev")


@pytest.fixture(scope="module")
def variants() -> dict[str, Timeline]:
    """Six messages of each variant, as the client's log and capture show them."""
    return {mode: variant(mode) for mode in MODES}


def test_default_holds_all_but_the_first_write(variants: dict[str, Timeline]) -> None:
    timeline = variants["default"]
    assert sizes(timeline) == [2, 28] * 6
    for first, rest in zip(timeline.segments[::2], timeline.segments[1::2], strict=True):
        assert first.reason is Reason.SENT_AT_ONCE
        assert first.holds == ()
        assert len(first.writes) == 1
        assert rest.reason is Reason.RELEASED_BY_ACK
        assert held(rest) == [Reason.HELD_BY_NAGLE]
        assert rest.writes == tuple(range(first.writes[0] + 1, first.writes[0] + 15))
        assert "2 bytes unacknowledged, 28 < MSS 1448" in rest.holds[0].evidence


def test_default_is_released_by_a_delayed_ack_from_the_second_message_on(
    variants: dict[str, Timeline],
) -> None:
    timeline = variants["default"]
    late = 0
    for rest, words in zip(timeline.segments[3::2], timeline.sentences()[3::2], strict=True):
        assert words.startswith(f"message {rest.message}: 28 bytes of writes 2–15 held ")
        assert rest.released_by is not None
        ack = timeline.acks[rest.released_by]
        assert ack.newly_acked_bytes == 2
        if ack.reason is Reason.ACK_DELAYED_BY_PEER:
            assert rest.holds[0].duration_ms > 20
            assert "28 < MSS 1448; released by the peer's delayed ACK (" in words
            late += 1
    assert late == 5


def test_no_delay_holds_nothing_but_what_the_initial_window_forbids(
    variants: dict[str, Timeline],
) -> None:
    timeline = variants["no_delay"]
    assert sizes(timeline)[:10] == [2] * 10
    assert sizes(timeline)[-75:] == [2] * 75
    assert {each.reason for each in timeline.segments[:10]} == {Reason.SENT_AT_ONCE}
    # RFC 6928: ten segments; a write that comes too early waits for an ACK.
    for segment in timeline.segments:
        waited = [Reason.CWND_LIMITED] if segment.reason is Reason.RELEASED_BY_ACK else []
        assert held(segment) == waited
        assert segment.reason is Reason.SENT_AT_ONCE or waited
        assert segment.payload_bytes == 2 or waited


def test_cork_waits_for_the_cork_to_be_pulled(variants: dict[str, Timeline]) -> None:
    timeline = variants["cork"]
    assert sizes(timeline) == [30] * 6
    for segment in timeline.segments:
        assert segment.reason is Reason.UNCORKED
        assert held(segment) == [Reason.CORKED]
        assert len(segment.writes) == 15


def test_writev_goes_at_once(variants: dict[str, Timeline]) -> None:
    timeline = variants["writev"]
    assert sizes(timeline) == [30] * 6
    assert {each.reason for each in timeline.segments} == {Reason.SENT_AT_ONCE}
    assert seen(timeline) <= {Reason.APPLICATION_IDLE}


def test_msg_more_waits_for_the_last_write(variants: dict[str, Timeline]) -> None:
    timeline = variants["msg_more"]
    assert sizes(timeline) == [30] * 6
    for segment in timeline.segments:
        assert segment.reason is Reason.SENT_AT_ONCE
        assert held(segment) == [Reason.MSG_MORE]


def test_nothing_is_unknown_in_the_variants(variants: dict[str, Timeline]) -> None:
    for timeline in each(variants.values()):
        assert Reason.UNKNOWN not in {each.reason for each in timeline.segments}
        assert Reason.UNKNOWN not in seen(timeline)
        assert not timeline.missing


# ---- cork, MSG_MORE, TCP_NODELAY -----------------------------------------------------------------


def test_a_forgotten_cork_is_ended_by_the_timer(recorded: Recorder) -> None:
    def scenario(talk: Conversation) -> None:
        talk.cork()
        talk.write(10, 20)
        talk.read_all(30)
        talk.uncork()
        talk.answer()

    talk = recorded(scenario)
    [segment] = talk.timeline().segments
    assert segment.payload_bytes == 30
    assert segment.reason is Reason.CORK_TIMEOUT
    assert held(segment) == [Reason.CORKED]


def test_a_full_segment_does_not_wait_for_the_cork(recorded: Recorder) -> None:
    def scenario(talk: Conversation) -> None:
        talk.cork()
        talk.write(1000, 1000)
        talk.read_all(MSS)
        talk.uncork()
        talk.read_all(2000 - MSS)
        talk.answer()

    talk = recorded(scenario)
    full, rest = talk.timeline().segments
    assert (full.payload_bytes, full.reason) == (MSS, Reason.FULL_SIZED)
    assert (rest.payload_bytes, rest.reason) == (2000 - MSS, Reason.UNCORKED)
    assert held(rest) == [Reason.CORKED]


def test_msg_more_waits_for_a_write_without_it(recorded: Recorder) -> None:
    def scenario(talk: Conversation) -> None:
        talk.write(10, 20, more=True)
        talk.write(5)
        talk.read_all(35)
        talk.answer()

    talk = recorded(scenario)
    timeline = talk.timeline()
    [segment] = timeline.segments
    assert segment.payload_bytes == 35
    assert segment.reason is Reason.SENT_AT_ONCE
    assert held(segment) == [Reason.MSG_MORE]
    assert "the last write came without MSG_MORE" in timeline.sentences()[0]


def test_a_forgotten_msg_more_is_ended_by_the_timer(recorded: Recorder) -> None:
    def scenario(talk: Conversation) -> None:
        talk.write(10, 20, more=True)
        talk.read_all(30)
        talk.answer()

    talk = recorded(scenario)
    [segment] = talk.timeline().segments
    assert segment.reason is Reason.CORK_TIMEOUT
    assert held(segment) == [Reason.MSG_MORE]


def test_msg_more_that_is_not_in_the_log_is_not_guessed(recorded: Recorder) -> None:
    def scenario(talk: Conversation) -> None:
        talk.write(10, 20, more=True)
        talk.write(5)
        talk.read_all(35)
        talk.answer()

    talk = recorded(scenario)
    talk.log = [each._replace(name=each.name.replace("more", "write")) for each in talk.log]
    [segment] = talk.timeline().segments
    assert segment.reason is Reason.UNKNOWN
    assert held(segment) == [Reason.UNKNOWN]
    assert "MSG_MORE" in segment.missing


def test_setting_nodelay_sends_what_nagle_held(recorded: Recorder) -> None:
    def scenario(talk: Conversation) -> None:
        talk.become_interactive()
        talk.write(10, 11)
        talk.option(socket.TCP_NODELAY, 1, "nodelay")
        talk.read_all(21)
        talk.answer()

    talk = recorded(scenario)
    first, second = last_message(talk.timeline())
    assert first.reason is Reason.SENT_AT_ONCE
    assert (second.payload_bytes, second.reason) == (11, Reason.NODELAY_SET)
    assert held(second) == [Reason.HELD_BY_NAGLE]


# ---- Nagle's algorithm, as Linux has it ----------------------------------------------------------


@pytest.mark.parametrize(
    ("writes", "expected", "waits"),
    [
        ((4, 100), [4, 100], True),
        ((MSS, 100), [MSS, 100], False),
        ((2 * MSS, 100), [MSS, MSS, 100], False),
        ((MSS + 1, 100), [MSS, 1, 100], True),
        ((MSS + 100,), [MSS, 100], False),
    ],
)
def test_minshall(
    recorded: Recorder, writes: tuple[int, ...], expected: list[int], waits: bool
) -> None:
    def scenario(talk: Conversation) -> None:
        talk.become_interactive()
        talk.exchange(*writes)

    talk = recorded(scenario)
    segments = last_message(talk.timeline())
    assert [each.payload_bytes for each in segments] == expected
    tail = segments[-1]
    assert held(tail) == ([Reason.HELD_BY_NAGLE] if waits else [])
    assert tail.reason is (Reason.RELEASED_BY_ACK if waits else Reason.SENT_AT_ONCE)
    for segment in segments:
        if segment.payload_bytes == MSS:
            assert (segment.reason, segment.holds) == (Reason.FULL_SIZED, ())


def test_the_delay_of_an_ack_is_measured_where_it_is_made(recorded: Recorder) -> None:
    def scenario(talk: Conversation) -> None:
        talk.become_interactive()
        talk.exchange(4, 100)

    talk = recorded(scenario)
    timeline = talk.timeline()
    tail = timeline.segments[-1]
    assert tail.released_by is not None
    ack = timeline.acks[tail.released_by]
    assert ack.reason is Reason.ACK_DELAYED_BY_PEER
    assert ack.evidence == "by the capture at the peer"
    assert ack.delay_ms is not None
    assert ack.sent_ns is not None
    # The hold is a round trip longer than the delay: the data had to get there, the ACK back.
    assert tail.holds[0].duration_ms > ack.delay_ms + 3


# ---- windows, buffers, the application -----------------------------------------------------------


def test_a_full_receive_window_holds_full_segments(recorded: Recorder) -> None:
    def scenario(talk: Conversation) -> None:
        talk.write(10_000)
        time.sleep(0.1)
        talk.read_all(10_000)
        talk.answer()

    talk = recorded(scenario, rcvbuf_bytes=4096)
    timeline = talk.timeline()
    assert sum(sizes(timeline)) >= 10_000
    assert Reason.WINDOW_LIMITED in seen(timeline)
    assert not seen(timeline) & {Reason.HELD_BY_NAGLE, Reason.CWND_LIMITED, Reason.CORKED}
    waited = [each for each in timeline.segments if Reason.WINDOW_LIMITED in held(each)]
    assert {segment.reason for segment in each(waited)} <= {
        Reason.RELEASED_BY_ACK,
        Reason.WINDOW_LIMITED,
        Reason.RETRANSMISSION,
    }
    longest = max(timeline.holds, key=lambda hold: hold.duration_ms)
    assert longest.reason is Reason.WINDOW_LIMITED
    assert longest.duration_ms > 50


def test_the_initial_congestion_window_holds_the_eleventh_segment(recorded: Recorder) -> None:
    def scenario(talk: Conversation) -> None:
        talk.reader()
        talk.write(14 * MSS)
        time.sleep(0.05)

    talk = recorded(scenario)
    timeline = talk.timeline()
    assert sizes(timeline) == [MSS] * 14
    for segment in timeline.segments[:10]:
        assert (segment.reason, segment.holds) == (Reason.FULL_SIZED, ())
    for segment in timeline.segments[10:]:
        assert segment.reason is Reason.RELEASED_BY_ACK
        assert held(segment) == [Reason.CWND_LIMITED]
    assert "10 of the 10 segments" in timeline.segments[10].holds[0].evidence
    assert seen(timeline) == {Reason.CWND_LIMITED}


def test_a_small_send_buffer_blocks_the_application(recorded: Recorder) -> None:
    def scenario(talk: Conversation) -> None:
        talk.reader()
        talk.write(400_000)
        time.sleep(0.05)

    talk = recorded(scenario, {"rtt_ms": 20}, sndbuf_bytes=16_384, sample_ms=2)
    timeline = talk.timeline()
    waited = timeline.waited_ms()
    assert waited.get(Reason.SNDBUF_LIMITED, 0) > 15
    assert not seen(timeline) & {Reason.WINDOW_LIMITED, Reason.HELD_BY_NAGLE, Reason.CORKED}
    sentence = next(each for each in timeline.sentences() if "full send buffer" in each)
    assert "blocked in its write" in sentence


def test_an_application_that_pauses_is_idle(recorded: Recorder) -> None:
    def scenario(talk: Conversation) -> None:
        talk.reader()
        talk.write(100)
        time.sleep(0.06)
        talk.write(100)
        time.sleep(0.02)

    talk = recorded(scenario)
    timeline = talk.timeline()
    assert {each.reason for each in timeline.segments} == {Reason.SENT_AT_ONCE}
    [idle] = timeline.holds
    assert idle.reason is Reason.APPLICATION_IDLE
    assert idle.duration_ms >= 55


def test_an_application_that_awaits_an_answer_is_idle(recorded: Recorder) -> None:
    def scenario(talk: Conversation) -> None:
        talk.exchange(10)
        talk.exchange(10)

    talk = recorded(scenario)
    timeline = talk.timeline()
    assert seen(timeline) == {Reason.APPLICATION_IDLE}
    assert "waited for 2 bytes from the peer" in timeline.holds[0].evidence


# ---- the wire ------------------------------------------------------------------------------------


def ten_segments(talk: Conversation) -> None:
    """As many as the initial window allows, at once."""
    talk.reader()
    talk.write(10 * MSS)
    time.sleep(0.1)


def test_a_slow_wire_queues(recorded: Recorder) -> None:
    talk = recorded(ten_segments, {"rate_mbit": 5})
    for known in (None, 5.0):
        timeline = talk.timeline(rate_mbit=known)
        assert seen(timeline) == {Reason.RATE_LIMITED}
        [hold] = timeline.holds
        # A rate that was not told is read off the segments' arrivals.
        (rate_mbit,) = map(float, re.findall(r"([\d.]+) Mbit/s", hold.evidence))
        assert rate_mbit == pytest.approx(5, rel=1e-6 if known else 0.1)
        queued = [each.queued_ms for each in timeline.segments]
        assert queued == sorted(queued, key=lambda each: each or 0)
        assert all(segment.reason is Reason.FULL_SIZED for segment in each(timeline.segments))
        assert "in the queue of the wire" in timeline.sentences()[-1]


def test_without_a_capture_at_the_peer_a_queue_is_not_guessed(recorded: Recorder) -> None:
    talk = recorded(ten_segments, {"rate_mbit": 5})
    timeline = talk.timeline("peer_segments", "peer_log")
    assert seen(timeline) <= {Reason.RETRANSMISSION}  # a loss probe, if the queue looks like a loss
    late = [each for each in timeline.acks if each.reason is Reason.UNKNOWN]
    assert late, "ACKs that came late, for the data or the ACK waited somewhere"
    assert "a capture at the peer" in late[0].missing


def lose(talk: Conversation, *sizes: int) -> None:
    """The wire drops what these writes send."""
    talk.lab.link.update("client->server", loss=1.0)
    talk.write(*sizes)
    time.sleep(0.02)
    talk.lab.link.update("client->server", loss=0.0)


def test_a_lost_segment_is_sent_again_when_nothing_is_acknowledged(recorded: Recorder) -> None:
    def scenario(talk: Conversation) -> None:
        talk.exchange(10)
        lose(talk, 50)
        talk.read_all(50)
        talk.answer()

    talk = recorded(scenario)
    lost, again = last_message(talk.timeline())
    assert lost.reason is Reason.SENT_AT_ONCE
    assert lost.arrived_ns is None
    assert (again.payload_bytes, again.reason) == (50, Reason.RETRANSMISSION)
    assert again.arrived_ns is not None
    assert again.holds[0].start_ns == lost.time_ns
    assert again.evidence.startswith("no ACK of it for ")


def test_duplicate_acks_bring_a_lost_segment_back_sooner(recorded: Recorder) -> None:
    def scenario(talk: Conversation) -> None:
        talk.exchange(10)
        lose(talk, 50)
        talk.write(60, 70, 80, 90)
        talk.read_all(350)
        talk.answer()

    talk = recorded(scenario, nodelay=True)
    timeline = talk.timeline()
    [again] = [each for each in timeline.segments if each.reason is Reason.RETRANSMISSION]
    assert again.payload_bytes == 50
    assert "duplicate ACK" in again.evidence
    others = [each for each in last_message(timeline) if each is not again]
    assert {each.reason for each in others[:-1]} == {Reason.SENT_AT_ONCE}


def test_nagle_holds_behind_a_lost_segment_until_it_has_arrived(recorded: Recorder) -> None:
    def scenario(talk: Conversation) -> None:
        talk.exchange(10)
        lose(talk, 50, 60)
        talk.read_all(110)
        talk.answer()

    talk = recorded(scenario)
    timeline = talk.timeline()
    sixty = next(each for each in last_message(timeline) if each.payload_bytes == 60)
    assert held(sixty) == [Reason.HELD_BY_NAGLE]
    assert sixty.reason in (Reason.RELEASED_BY_ACK, Reason.TAIL_LOSS_PROBE)
    assert Reason.RETRANSMISSION in {each.reason for each in timeline.segments}


# ---- missing evidence ----------------------------------------------------------------------------


def test_without_a_log_only_full_segments_are_explained(recorded: Recorder) -> None:
    def scenario(talk: Conversation) -> None:
        talk.exchange(MSS + 10)

    talk = recorded(scenario)
    timeline = talk.timeline("log")
    full, tail = timeline.segments
    assert full.reason is Reason.FULL_SIZED
    assert tail.reason is Reason.UNKNOWN
    assert "log" in tail.missing
    assert any("log" in each for each in timeline.missing)
    assert not timeline.holds


def test_without_the_options_nagle_is_not_assumed(recorded: Recorder) -> None:
    def scenario(talk: Conversation) -> None:
        talk.become_interactive()
        talk.exchange(4, 100)

    talk = recorded(scenario)
    timeline = talk.timeline("options")
    tail = timeline.segments[-1]
    assert held(tail) == [Reason.UNKNOWN]
    assert "TCP_NODELAY" in tail.holds[0].missing
    assert any("TCP_NODELAY" in each for each in timeline.missing)


def test_a_log_of_another_run_is_refused(recorded: Recorder) -> None:
    def scenario(talk: Conversation) -> None:
        talk.exchange(10)

    first, second = (recorded(scenario) for _ in range(2))
    with pytest.raises(ValueError, match="the log does not belong to the capture: it is from"):
        explain_evidence(first.log, second.segments, second.options)
    with pytest.raises(ValueError, match="no connection between ports"):
        explain_evidence(first.log, second.segments, first.options)
    with pytest.raises(ValueError, match="peer_segments do not belong"):
        second.timeline(peer_segments=first.peer_segments)


def test_autocorking_is_recognised_by_its_counter(recorded: Recorder) -> None:
    """The second full segment waits for the interface, and with it what is small behind it."""

    def scenario(talk: Conversation) -> None:
        talk.write(2 * MSS, 100, 100, 100, 100)
        talk.read_all(2 * MSS + 400)
        talk.answer()

    talk = recorded(scenario, slow_interface=True, nodelay=True)
    assert talk.evidence["counters"]["TCPAutoCorking"] > 0
    timeline = talk.timeline()
    [small] = [each for each in timeline.segments if each.payload_bytes < MSS]
    assert small.payload_bytes == 400
    assert Reason.AUTOCORKED in held(small)
    assert not seen(timeline) & {Reason.HELD_BY_NAGLE, Reason.CORKED, Reason.MSG_MORE}
    assert Reason.AUTOCORKED not in seen(talk.timeline("counters"))


def test_the_end_of_a_burst_is_deferred_for_an_ack_that_is_due(recorded: Recorder) -> None:
    """Of 10 segments that the window allows one is out, its ACK delayed: 8 go, and 2 wait."""

    def scenario(talk: Conversation) -> None:
        talk.become_interactive()
        talk.write(115)
        time.sleep(0.018)
        talk.write(10 * MSS)
        talk.read_all(115 + 10 * MSS)
        talk.answer()

    timeline = recorded(scenario, link={"rtt_ms": 10}, nodelay=True).timeline()
    waited = [each for each in timeline.segments if Reason.DEFERRED in held(each)]
    assert [each.payload_bytes for each in waited] == [MSS, MSS]
    assert {each.reason for each in waited} == {Reason.RELEASED_BY_ACK}, timeline.sentences()
    assert "tcp_tso_should_defer" in waited[0].holds[0].evidence
