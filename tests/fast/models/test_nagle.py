"""Test NagleSender alone: each rule step by step, and properties of every schedule."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.models.playground import apply

from tcplab.models import (
    Call,
    Clock,
    NagleSender,
    Reason,
    RttEstimator,
    SimulatedSegment,
    segment_sizes,
)
from tcplab.models.sndbuf import NO_LIMIT_BYTES, SendBuffer

MSS = 1448


def sizes(segments: list[SimulatedSegment]) -> list[int]:
    return [segment.payload_bytes for segment in segments]


# ---- step by step ----


def test_second_small_write_waits_for_the_ack_of_the_first() -> None:
    sender = NagleSender()
    (first,) = sender.write(2, 0.0)
    assert (first.payload_bytes, first.reason, first.waited_for) == (2, "sent-at-once", None)
    assert sender.write(2, 0.1) == []
    assert sender.write(26, 0.2) == []
    state = sender.state
    assert (state.queued_bytes, state.unacked_bytes, state.small_outstanding) == (28, 2, True)
    assert state.held_because == Reason.HELD_BY_NAGLE
    assert "28 bytes wait" in state.why
    (rest,) = sender.ack(2, 40.1)
    assert (rest.seq, rest.payload_bytes, rest.reason) == (2, 28, Reason.RELEASED_BY_ACK)
    assert rest.waited_for == Reason.HELD_BY_NAGLE
    assert rest.waited_ms == pytest.approx(40.0)
    assert sender.state.why == "nothing waits"


def test_a_full_segment_never_waits_for_nagle() -> None:
    sender = NagleSender()
    sender.write(10, 0)
    assert sizes(sender.write(MSS - 1, 0)) == []
    filled = sender.write(2, 0)
    assert sizes(filled) == [MSS]
    assert filled[0].reason == Reason.FULL_SIZED
    assert sender.state.queued_bytes == 1


def test_minshall_and_rfc_896_differ_on_the_tail_of_a_bulk() -> None:
    assert segment_sizes([MSS, 100]) == ((MSS, 100),)
    assert segment_sizes([MSS, 100], nagle="rfc896") == ((MSS,), (100,))
    assert segment_sizes([MSS + 1, 100]) == ((MSS, 1), (100,))
    assert segment_sizes([MSS + 1, 100], nagle="rfc896") == ((MSS,), (101,))
    assert segment_sizes([4, 100]) == segment_sizes([4, 100], nagle="rfc896") == ((4,), (100,))


def test_nodelay_too_must_obey_the_congestion_window() -> None:
    assert segment_sizes([2] * 15, "no_delay") == ((2,) * 10, (10,))


def test_cork_is_stronger_than_nodelay_but_setting_nodelay_flushes() -> None:
    sender = NagleSender(cork=True, nodelay=True)
    assert sender.write(100, 0) == []
    assert sender.state.held_because == Reason.CORKED
    (flushed,) = sender.set_nodelay(True, 1)
    assert flushed.reason == Reason.NODELAY_SET
    assert sender.write(100, 2) == []  # later data obeys the cork again
    assert sizes(sender.set_cork(False, 3)) == [100]  # TCP_NODELAY makes uncorking send


def test_data_uncorked_by_nodelay_stays_uncorked() -> None:
    sender = NagleSender(cork=True, nodelay=True, cwnd_segments=1)
    assert sizes(sender.write(MSS + 100, 0)) == [MSS]
    assert sender.set_cork(False, 1) == []
    assert sender.state.held_because == Reason.CWND_LIMITED
    sender.set_cork(True, 2)  # too late for the data in the queue
    assert sizes(sender.ack(MSS, 10)) == [100]


def test_msg_more_lasts_until_the_next_event() -> None:
    sender = NagleSender()
    sender.write(1, 0)
    assert sender.write(100, 0, more=True) == []
    assert sender.state.held_because == Reason.MSG_MORE
    (released,) = sender.ack(1, 10)
    assert (released.reason, released.waited_for) == (Reason.RELEASED_BY_ACK, Reason.MSG_MORE)
    assert not released.push  # the message has not been declared complete


@pytest.mark.parametrize(("rtt_ms", "rto_ms"), [(1, 201), (50, 250), (100, 300), (300, 900)])
def test_a_cork_comes_out_after_a_retransmission_timeout(rtt_ms: float, rto_ms: float) -> None:
    """The timeout is RTT + 200 ms, or at least 3 RTT if only the handshake has measured the RTT."""
    sender = NagleSender(cork=True, rtt_ms=rtt_ms)
    sender.write(100, 0)
    state = sender.state
    assert state.timer == "probe"
    assert state.timer_ms is not None
    assert state.rto_ms == pytest.approx(rto_ms)
    assert rto_ms <= state.timer_ms <= rto_ms + 40
    assert sender.timer(state.timer_ms - 1) == []
    (late,) = sender.timer(state.timer_ms)
    assert (late.reason, late.waited_for) == (Reason.CORK_TIMEOUT, Reason.CORKED)


def test_a_segment_sent_by_the_corks_timer_does_not_count_as_small() -> None:
    sender = NagleSender(cork=True)
    sender.write(100, 0)
    sender.timer(sender.next_timer_ms or 0)
    sender.set_cork(False, 300)
    assert sizes(sender.write(50, 301)) == [50]


def test_a_loss_probe_sends_new_data_through_a_cork() -> None:
    sender = NagleSender(nodelay=True, rtt_ms=10)
    sender.write(10, 0)
    sender.write(10, 0)
    sender.set_cork(True, 0)
    sender.write(10, 0)
    due = sender.next_timer_ms
    assert due is not None
    assert 22 <= due <= 22 + 2 * sender.clock.tick_ms
    (probe,) = sender.timer(due)
    assert (probe.seq, probe.reason) == (20, Reason.TAIL_LOSS_PROBE)


def test_without_sack_no_loss_probe_comes() -> None:
    sender = NagleSender(nodelay=True, rtt_ms=10)
    sender.sack = False
    sender.write(10, 0)
    sender.write(10, 1)
    assert sender.state.timer == "retransmit"
    assert (sender.next_timer_ms or 0) >= 210
    (again,) = sender.timer(sender.next_timer_ms or 0)
    assert (again.seq, again.reason) == (0, Reason.RETRANSMISSION)


def test_a_small_window_cuts_a_segment_at_its_edge() -> None:
    sender = NagleSender(window_bytes=8000)
    assert sizes(sender.write(10_000, 0)) == [*[MSS] * 5, 8000 - 5 * MSS]
    assert sender.state.held_because == Reason.WINDOW_LIMITED
    assert sizes(sender.ack(8000, 10, window_bytes=1000)) == []
    assert sizes(sender.ack(8000, 20, window_bytes=20_000)) == [MSS, 552]


def test_a_window_of_less_than_four_segments_cuts_none() -> None:
    """Each socket buffer then holds one segment, which leaves only if all of it fits the window."""
    sender = NagleSender(window_bytes=4000)
    assert sizes(sender.write(10_000, 0)) == [MSS, MSS]


def test_the_initial_window_is_ten_and_doubles() -> None:
    flights = segment_sizes([100 * MSS])
    assert [len(flight) for flight in flights] == [10, 20, 40, 30]


def test_a_shutdown_sends_what_is_held_with_the_fin() -> None:
    sender = NagleSender(cork=True)
    sender.write(100, 0)
    (last,) = sender.close(1)
    assert (last.payload_bytes, last.fin, last.reason) == (100, True, Reason.SHUTDOWN)
    assert last.end_seq == 101
    assert sender.close(2) == []
    with pytest.raises(ValueError, match="after close"):
        sender.write(1, 3)


def test_a_shutdown_with_nothing_held_is_a_fin_alone() -> None:
    sender = NagleSender()
    (fin,) = sender.close(0)
    assert (fin.payload_bytes, fin.fin) == (0, True)
    assert sender.ack(1, 1) == []


# ---- the send buffer ----


@pytest.mark.parametrize("header_bytes", [256, 320])
def test_a_write_blocks_and_wakes_as_in_the_kernels_own_test(header_bytes: int) -> None:
    """The numbers are those of tools/testing/selftests/net/packetdrill, "blocking write"."""
    buffer = SendBuffer(42_000, header_bytes)
    sender = NagleSender(mss_bytes=1000, window_bytes=50_000, rtt_ms=1, send_buffer=buffer)
    assert len(sender.write(61_000, 0)) == 10
    assert sender.unwritten_bytes == 1000
    with pytest.raises(ValueError, match="resume"):
        sender.write(1, 0)
    for number, upto in enumerate((10_000, 30_000), 1):
        sender.ack(upto, number)
        assert not sender.is_writable
    sender.ack(36_000, 3)
    assert sender.is_writable
    sender.resume(3)
    assert sender.unwritten_bytes == 0


def test_only_a_new_buffer_needs_memory() -> None:
    """One write may exceed the limit, and six segments of one byte may fill it."""
    large = NagleSender(cork=True, send_buffer=SendBuffer(4608))
    large.write(20_000, 0)
    assert large.unwritten_bytes == 0
    small = NagleSender(nodelay=True, send_buffer=SendBuffer(4608))
    for _ in range(6):
        assert small.unwritten_bytes == 0
        small.write(1, 0)
    small.write(1, 0)
    assert small.unwritten_bytes == 1
    small.ack(2, 10)
    assert not small.is_writable  # two thirds of the limit are still in use
    small.ack(3, 10)
    assert small.is_writable


@pytest.mark.parametrize(("sndbuf_bytes", "push"), [(4608, True), (NO_LIMIT_BYTES, False)])
def test_a_write_that_waits_for_memory_pushes_what_it_has_copied(
    sndbuf_bytes: int, push: bool
) -> None:
    """Each socket buffer holds up to half of the window, here two segments."""
    buffer = SendBuffer(sndbuf_bytes)
    sender = NagleSender(cwnd_segments=1, window_bytes=5 * MSS, send_buffer=buffer)
    sender.write(MSS, 0)
    assert sender.write(3 * MSS, 0, more=True) == []
    assert [s.push for s in sender.ack(MSS, 1)] == [False, push]


# ---- always ----


def resume(sender: NagleSender, now_ms: float) -> list[SimulatedSegment]:
    return sender.resume(now_ms) if sender.is_writable else []


STEPS = st.one_of(
    st.builds(Call, st.just("write"), st.integers(1, 5000), st.sampled_from([0, 0, 1, 50, 500])),
    st.builds(Call, st.just("more"), st.integers(1, 5000), st.sampled_from([0, 0, 1, 50])),
    st.builds(Call, st.sampled_from(["cork", "nodelay"]), st.integers(0, 1)),
    st.just("ack"),
    st.just("timer"),
)


@given(
    st.lists(STEPS, max_size=40),
    st.sampled_from(["minshall", "rfc896"]),
    st.sampled_from([1, 536, MSS]),
    st.sampled_from([0.05, 10.0, 200.0]),
    st.sampled_from([NO_LIMIT_BYTES, 4608, 20_000]),
)
def test_bytes_leave_in_order_for_any_calls(
    steps: list[Call | str], nagle: str, mss: int, rtt_ms: float, sndbuf_bytes: int
) -> None:
    sender = NagleSender(
        mss_bytes=mss,
        nagle=nagle,
        rtt_ms=rtt_ms,
        window_bytes=20_000,
        send_buffer=SendBuffer(sndbuf_bytes),
    )
    now, written, sent = 0.0, 0, 0
    for step in [*steps, Call("shutdown")]:
        if isinstance(step, Call) and sender.unwritten_bytes:
            continue
        if isinstance(step, Call):
            now += step.delay_ms
            written += step.value if step.kind in ("write", "more") else 0
            segments = apply(sender, step, now)
        elif step == "ack":
            now += rtt_ms
            segments = sender.ack(sender.next_seq, now) + resume(sender, now)
        else:
            now = max(now, sender.next_timer_ms or now)
            segments = sender.timer(now)
        for segment in segments:
            assert segment.time_ms == now
            assert segment.payload_bytes <= mss
            assert segment.reason in list(Reason)
            if segment.reason == Reason.RETRANSMISSION:
                continue
            assert segment.seq == sent
            sent += segment.payload_bytes
            assert segment.waited_ms >= 0
            assert (segment.waited_for is None) or segment.waited_ms > 0
        state = sender.state
        assert state.queued_bytes == written - sent - sender.unwritten_bytes
        assert state.unacked_bytes <= 20_000 + 1
        assert (state.held_because is not None) == (state.queued_bytes > 0)
        # Queued data leaves when data in flight is acknowledged or a timer expires.
        assert not state.queued_bytes or state.unacked_bytes or state.timer
    for _ in range(100_000):
        if sent == written:
            break
        now += rtt_ms
        segments = sender.ack(sender.next_seq, now) or sender.timer(
            max(now, sender.next_timer_ms or now)
        )
        now = max(now, sender.state.time_ms)
        segments += resume(sender, now)
        sent += sum(s.payload_bytes for s in segments if s.reason != Reason.RETRANSMISSION)
    assert sent == written


@given(st.lists(st.integers(1, 4000), min_size=1, max_size=30))
def test_nagle_never_has_two_small_segments_out(writes: list[int]) -> None:
    sender = NagleSender(cwnd_segments=100)
    out = [segment for size in writes for segment in sender.write(size, 0.0)]
    assert sum(segment.payload_bytes < MSS for segment in out) <= 1
    free = NagleSender(cwnd_segments=100, nodelay=True)
    assert sum(size for size in writes) == sum(
        segment.payload_bytes for size in writes for segment in free.write(size, 0.0)
    )


@given(st.lists(st.integers(1, 4000), min_size=1, max_size=30))
def test_rfc_896_sends_a_small_segment_only_when_nothing_is_out(writes: list[int]) -> None:
    letter = NagleSender(cwnd_segments=100, nagle="rfc896")
    out = [segment for size in writes for segment in letter.write(size, 0.0)]
    assert {segment.payload_bytes for segment in out[1:]} <= {MSS}
    assert out


# ---- timers and the round-trip time ----


def test_a_timer_is_never_early_and_a_tick_late_at_most() -> None:
    clock = Clock(250)
    assert clock.expiry_ms(0.0, 10) == 44.0
    assert clock.expiry_ms(3.9, 10) == 44.0
    assert clock.expiry_ms(4.0, 10) == 48.0
    assert Clock(1000).expiry_ms(0.0, 40) == 41.0
    assert clock.ticks(40) == 10
    assert clock.ticks(40.001) == 11


@given(
    st.sampled_from([100, 250, 300, 1000]), st.floats(0, 1e6), st.integers(1, 5000), st.floats(0, 1)
)
def test_the_timer_wheel_rounds_up(hz: int, now: float, ticks: int, phase: float) -> None:
    clock = Clock(hz, phase * 1000 / hz * 0.99)
    late = clock.expiry_ms(now, ticks) - now - ticks * clock.tick_ms
    assert -1e-6 <= late <= clock.tick_ms * max(1.0, ticks / 4) + 1e-6


def test_the_timeout_is_the_round_trip_and_200_ms() -> None:
    assert RttEstimator().rto_ms == 1000
    estimate = RttEstimator(20)
    for number in range(20):
        estimate.sample(20, number + 1, number + 2)
    assert estimate.srtt_ms == pytest.approx(20)
    assert estimate.rto_ms == pytest.approx(220)


# ---- bursts: PSH, deferral, idle windows ---------------------------------------------------------


def test_half_a_window_without_a_push_gets_one() -> None:
    sender = NagleSender(window_bytes=20 * MSS, cwnd_segments=100)
    pushes = [s.push for n in range(22) for s in sender.write(MSS, n / 10, more=True)]
    assert [n for n, push in enumerate(pushes) if push] == [10]


def test_a_short_burst_is_deferred_while_an_ack_is_due() -> None:
    """The window allows a tenth segment, but it waits for the first one's ACK, which is overdue."""
    sender = NagleSender(nodelay=True, rtt_ms=10.0)
    sender.write(100, 0.0)
    left = sender.write(10 * MSS, 18.0)
    assert len(left) == 8
    assert sender.state.held_because is Reason.DEFERRED
    assert "an ACK is due" in sender.state.why
    released = sender.ack(100 + MSS, 28.0)
    assert [s.payload_bytes for s in released] == [MSS, MSS]
    assert {s.waited_for for s in released} == {Reason.DEFERRED}


def test_a_burst_is_deferred_for_less_than_a_millisecond() -> None:
    sender = NagleSender(nodelay=True, rtt_ms=10.0)
    sender.write(100, 0.0)
    sender.write(10 * MSS, 18.0)
    assert sender.write(1, 18.9) == []
    assert sizes(sender.write(1, 19.0)) == [MSS]


@pytest.mark.parametrize(
    ("why", "first_ms", "then_ms", "nagle"),
    [
        ("the ACK is far away", 0.0, 0.9, "minshall"),
        ("RFC 896 knows no deferral", 0.0, 18.0, "rfc896"),
    ],
)
def test_burst_is_not_deferred_when(why: str, first_ms: float, then_ms: float, nagle: str) -> None:
    sender = NagleSender(nodelay=True, rtt_ms=10.0, nagle=nagle)
    sender.write(100, first_ms)
    assert len(sender.write(10 * MSS, then_ms)) == 9, why


def test_a_window_that_opens_after_long_finds_ten_segments_allowed() -> None:
    sender = NagleSender(rtt_ms=10.0, window_bytes=1 << 20)
    sender.write(400 * MSS, 0.0)
    for now in (10.0, 20.0):
        sender.ack(sender.next_seq, now)
    assert sender.state.cwnd_segments == 40
    sender.ack(sender.next_seq, 30.0, 0)
    assert sender.state.cwnd_segments == 80
    assert sender.state.held_because is Reason.WINDOW_LIMITED
    assert len(sender.ack(sender.next_seq, 3000.0, 1 << 20)) == 10
