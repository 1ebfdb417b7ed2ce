"""Test NagleSender alone: each rule step by step, and properties of every schedule."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tools import kernels

from tcplab.models import Call, Reason, segment_sizes
from tcplab.models.kernel import Clock, RttEstimator
from tcplab.models.nagle import NagleSender, SimulatedSegment

MSS = 1448


def corked(*, nodelay: bool = False, rtt_ms: float = 0.05) -> NagleSender:
    sender = NagleSender(nodelay=nodelay, rtt_ms=rtt_ms)
    sender.set_cork(True, 0)
    return sender


def sizes(segments: list[SimulatedSegment]) -> list[int]:
    return [segment.payload_bytes for segment in segments]


# ---- step by step ----


def test_a_full_segment_never_waits_for_nagle() -> None:
    sender = NagleSender()
    sender.write(10, 0)
    assert sizes(sender.write(MSS - 1, 0)) == []
    filled = sender.write(2, 0)
    assert sizes(filled) == [MSS]
    assert filled[0].reason == Reason.FULL_SIZED
    assert sender.queued_bytes == 1


def test_only_a_small_segment_in_flight_holds_a_small_write() -> None:
    """The docstring of segment_sizes() has the plain cases."""
    assert segment_sizes([MSS + 1, 100]) == ((MSS, 1), (100,))


def test_nodelay_too_must_obey_the_congestion_window() -> None:
    assert segment_sizes([2] * 15, "no_delay") == ((2,) * 10, (10,))


def test_the_initial_window_is_ten_and_doubles() -> None:
    flights = segment_sizes([100 * MSS])
    assert [len(flight) for flight in flights] == [10, 20, 40, 30]


def test_data_uncorked_with_nodelay_stays_uncorked() -> None:
    sender = corked(nodelay=True)
    assert sizes(sender.write(10 * MSS + 100, 0)) == [MSS] * 10
    assert sender.set_cork(False, 1) == []
    assert sender.held_because == Reason.CWND_LIMITED
    sender.set_cork(True, 2)  # too late for the data in the queue
    assert sizes(sender.ack(10 * MSS, 10)) == [100]


@pytest.mark.parametrize(("rtt_ms", "rto_ms"), [(1, 201), (300, 900)])
def test_a_cork_comes_out_after_a_retransmission_timeout(rtt_ms: float, rto_ms: float) -> None:
    """The timeout is RTT + 200 ms, or at least 3 RTT if only the handshake has measured the RTT."""
    sender = corked(rtt_ms=rtt_ms)
    sender.write(100, 0)
    due_ms = sender.next_timer_ms
    assert due_ms is not None
    assert rto_ms <= due_ms <= rto_ms + 40
    assert sender.timer(due_ms - 1) == []
    (late,) = sender.timer(due_ms)
    assert (late.reason, late.waited_for) == (Reason.CORK_TIMEOUT, Reason.CORKED)
    # A segment that this timer sends does not count as small.
    sender.set_cork(False, 1000)
    assert sizes(sender.write(50, 1001)) == [50]


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


def test_a_small_window_cuts_a_segment_at_its_edge() -> None:
    sender = NagleSender(window_bytes=8000)
    assert sizes(sender.write(10_000, 0)) == [*[MSS] * 5, 8000 - 5 * MSS]
    assert sender.held_because == Reason.WINDOW_LIMITED


@pytest.mark.parametrize("pause_ms", [100, 300, 600, 1000])
def test_a_pause_shrinks_the_window_as_on_the_kernel(pause_ms: int) -> None:
    (measured,) = [
        facts[f"segments at once after a pause of {pause_ms} ms (cwnd 80, RTO 244 ms)"]
        for facts in kernels.shipped()
        if facts["kernel"].startswith("6.18")
    ]
    sender = NagleSender(rtt_ms=40, window_bytes=200_000)
    sender.write(70 * MSS, 0)
    for flight in range(1, 4):
        sender.ack(sender.next_seq, 40 * flight)
    assert len(sender.write(70 * MSS, 160 + pause_ms)) == int(measured)


def test_a_burst_has_half_the_window_and_ends_with_a_push() -> None:
    burst = NagleSender().write(10 * MSS, 0)
    assert [s.push for s in burst] == [*[False] * 4, True] * 2


# ---- always ----


STEPS = st.one_of(
    st.builds(Call, st.just("write"), st.integers(1, 5000), st.sampled_from([0, 0, 1, 50, 500])),
    st.builds(Call, st.just("more"), st.integers(1, 5000), st.sampled_from([0, 0, 1, 50])),
    st.builds(Call, st.sampled_from(["cork", "nodelay"]), st.integers(0, 1)),
    st.just("ack"),
    st.just("timer"),
)


def apply(sender: NagleSender, call: Call, now_ms: float) -> list[SimulatedSegment]:
    if call.kind in ("write", "more"):
        return sender.write(call.value, now_ms, more=call.kind == "more")
    setter = sender.set_cork if call.kind == "cork" else sender.set_nodelay
    return setter(bool(call.value), now_ms)


@given(
    st.lists(STEPS, max_size=40),
    st.sampled_from([1, 536, MSS]),
    st.sampled_from([0.05, 10.0, 200.0]),
)
def test_bytes_leave_in_order_for_any_calls(
    steps: list[Call | str], mss: int, rtt_ms: float
) -> None:
    sender = NagleSender(mss_bytes=mss, rtt_ms=rtt_ms, window_bytes=20_000)
    now, written, sent = 0.0, 0, 0
    for step in steps:
        if isinstance(step, Call):
            now += step.delay_ms
            written += step.value if step.kind in ("write", "more") else 0
            segments = apply(sender, step, now)
        elif step == "ack":
            now += rtt_ms
            segments = sender.ack(sender.next_seq, now)
        else:
            now = max(now, sender.next_timer_ms or now)
            segments = sender.timer(now)
        for segment in segments:
            assert segment.time_ms == now
            assert segment.payload_bytes <= mss
            if segment.reason == Reason.RETRANSMISSION:
                continue
            assert segment.seq == sent
            sent += segment.payload_bytes
            assert (segment.waited_for is None) or segment.waited_ms > 0
        assert sender.queued_bytes == written - sent
        assert (sender.held_because is not None) == (sender.queued_bytes > 0)
        # Queued data leaves when data in flight is acknowledged or a timer expires.
        assert not sender.queued_bytes or not sender.is_drained


@given(st.lists(st.integers(1, 4000), min_size=1, max_size=30))
def test_nagle_never_has_two_small_segments_out(writes: list[int]) -> None:
    sender = NagleSender()
    out = [segment for size in writes for segment in sender.write(size, 0.0)]
    assert sum(segment.payload_bytes < MSS for segment in out) <= 1


# ---- timers and the round-trip time ----


def test_a_timer_is_never_early_and_a_tick_late_at_most() -> None:
    clock = Clock(250)
    assert clock.expiry_ms(0.0, 10) == 44.0
    assert clock.expiry_ms(3.9, 10) == 44.0
    assert clock.expiry_ms(4.0, 10) == 48.0
    assert Clock(1000).expiry_ms(0.0, 40) == 41.0
    assert Clock(250, phase_ms=1.0).expiry_ms(0.9, 10) == 41.0
    # Timers of at least 63 ticks have slots of 8 ticks, and those of at least 504 have slots of 64.
    assert Clock(1000).expiry_ms(0.0, 100) == 104.0
    assert Clock(1000).expiry_ms(0.0, 600) == 640.0
    assert clock.ticks(40) == 10
    assert clock.ticks(40.001) == 11


def test_the_timeout_is_the_round_trip_and_200_ms() -> None:
    assert RttEstimator().rto_ms == 1000
    estimate = RttEstimator(20)
    for number in range(20):
        estimate.sample(20, number + 1, number + 2)
    assert estimate.srtt_ms == pytest.approx(20)
    assert estimate.rto_ms == pytest.approx(220)
