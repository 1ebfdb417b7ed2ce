from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from tests.support.nonempty import each

from tcplab.experiments import buffers
from tcplab.models import goodput_mbyte_s
from tcplab.segments import SegmentArray

# ---- windows -------------------------------------------------------------------------------------


def test_granted_buffers_and_windows_are_as_predicted() -> None:
    grants = buffers.measure_grants()
    for grant in each(grants.variants[:-1]):
        assert grant.sndbuf_bytes == grant.model_sndbuf_bytes
        assert grant.rcvbuf_bytes == grant.model_rcvbuf_bytes == grant.rcvbuf_end_bytes
        assert grant.model_window_bytes is not None
        assert grant.largest_window_bytes <= grant.model_window_bytes
    assert grants[1].sndbuf_bytes > 2
    assert grants[1 << 30].rcvbuf_bytes < 1 << 30
    for requested in (32_768, 65_536, 200_000):
        assert grants[requested].rcvbuf_bytes == 2 * requested
        share = grants[requested].largest_window_bytes / grants[requested].rcvbuf_bytes
        assert share == pytest.approx(5 / 8, rel=0.05)
    assert grants[None].model_window_bytes is None
    assert grants[None].rcvbuf_end_bytes > grants[None].rcvbuf_bytes == 131_072


def test_window_is_limited_by_its_scale_and_an_offer_is_kept() -> None:
    order = buffers.measure_order()
    assert [case.window_scale for case in order.variants] == [3, 7, 0, 3]
    before, after, late, shrunk = order.variants
    # The three buffers end with the same size, but setting one late leaves the window small.
    assert late.rcvbuf_bytes == before.rcvbuf_bytes == after.rcvbuf_bytes
    assert before.largest_window_bytes == pytest.approx(after.largest_window_bytes, rel=0.01)
    assert late.largest_window_bytes == 65_535
    assert shrunk.largest_window_bytes > 30 * shrunk.rcvbuf_bytes
    assert min(shrunk.retransmissions, shrunk.zero_windows) > 0
    assert shrunk.mbit < late.mbit / 10


def test_closed_window_is_probed_until_the_program_reads() -> None:
    result = buffers.measure_zero_window(pause_ms=1500)
    rows = result.rows()
    assert [row["variant"] for row in rows] == [
        "the window is closed",
        "the sender asks (window probe)",
        "still closed",
        "the sender asks (window probe)",
        "the window is open again",
    ]
    first, second = result.probes_ms()
    assert second - first == pytest.approx(2 * (first - rows[0]["time_ms"]), rel=0.02)
    assert rows[-1]["time_ms"] == result.reopened_ms > result.read_at_ms > 1500
    assert any("window" in sentence for sentence in result.timeline().sentences())


def test_window_may_close_again_after_it_opened() -> None:
    """A reader may fall behind a second time, which happens only on a busy machine."""
    moments = [  # time in ms, 1 if from the receiver, window, seq, ack
        (0, 1, 500, 0, 1),
        (10, 1, 0, 0, 1001),
        (20, 0, 64, 1000, 1),  # a probe, which repeats the last sequence number
        (30, 1, 0, 0, 1001),
        (40, 1, 400, 0, 1001),
        (50, 1, 0, 0, 1401),
        (60, 1, 900, 0, 1401),
    ]
    numbers = ["time_ns", "direction", "window", "seq", "ack", "payload_bytes"]
    rows = np.array(
        [
            (ms * 1_000_000, direction, window, seq, ack, 0, True, window == 0)
            for ms, direction, window, seq, ack in moments
        ],
        [*((name, "i8") for name in numbers), ("is_pure_ack", "?"), ("is_zero_window", "?")],
    )
    options: Any = None
    result = buffers.ZeroWindow(1, 1, 1, [], options, rows.view(SegmentArray), {})
    assert result.probes_ms() == [20]
    assert [(row["time_ms"], row["variant"]) for row in result.rows()] == [
        (10, "the window is closed"),
        (20, "the sender asks (window probe)"),
        (30, "still closed"),
        (40, "the window is open again"),
        (50, "the window is closed again"),
        (60, "the window is open again"),
    ]


# ---- throughput ----------------------------------------------------------------------------------


def test_twice_the_window_is_twice_the_throughput_up_to_the_knee() -> None:
    sweep = buffers.measure(rtts_ms=[10, 20, 40])
    assert sweep.knee_bytes(40) == pytest.approx(50e6 / 8 * 0.04 * 0.94, rel=0.02)
    assert sweep.knee_bytes(40) == pytest.approx(2 * sweep.knee_bytes(20))
    for rtt_ms in (10, 20, 40):
        points = sweep.of(rtt_ms)
        left = [point for point in points if point.window_bytes < sweep.knee_bytes(rtt_ms)]
        for less, more in each(itertools.pairwise(left)):
            assert 1.9 < more.mbit / less.mbit < 2.3
        for point in left:
            assert point.mbit < point.model_mbit
            assert point.rwnd_share > 0.7
        for point in each(points[len(left) :]):
            assert point.mbit > 0.97 * sweep.goodput_mbit
    assert sweep[40, 65_536].mbit < sweep[10, 65_536].mbit / 2


def test_send_buffer_bounds_the_throughput_of_writes_of_whole_segments() -> None:
    sweep = buffers.measure(rtts_ms=[20], side="send")
    assert [point.mbit for point in sweep.variants] == sorted(p.mbit for p in sweep.variants)
    for point in each(sweep.variants):
        assert 0.6 * point.model_mbit < point.mbit < 1.01 * point.model_mbit
        assert point.rwnd_share < 0.1


def test_autotuning_beats_its_initial_size() -> None:
    auto = buffers.measure_autotuning()
    near, far = ([auto[rtt_ms, size] for size in (32_768, 65_536, None)] for rtt_ms in (2, 40))
    assert min(case.mbit for case in near) > 0.9 * max(case.mbit for case in near)
    small, fixed, free = far
    for case in (small, fixed):
        assert case.end_bytes == case.start_bytes
    assert free.start_bytes == fixed.start_bytes == 131_072
    assert free.end_bytes > 10 * free.start_bytes
    assert free.mbit > 5 * fixed.mbit
    assert free.mbit > 90


def test_tcp_info_names_the_limit() -> None:
    limits = buffers.measure_limits()
    assert {limit.case: limit.verdict for limit in limits.variants} == {
        "receive buffer": "receive window",
        "send buffer": "send buffer",
        "network": "congestion window",
        "application": "application",
    }
    receive, send = limits["receive buffer"], limits["send buffer"]
    assert receive.rwnd_share > 0.9
    assert receive.in_flight_bytes == receive.peer_window_bytes
    assert send.rwnd_share < 0.1
    assert send.in_flight_bytes < min(send.peer_window_bytes, send.cwnd_bytes)
    assert send.unsent_bytes == 0 < limits["network"].unsent_bytes
    # The kernel's counter stays near zero, although the buffer is full most of the time.
    assert send.sndbuf_share < 0.1
    assert send.sndbuf_full_share > 0.9 > limits["application"].sndbuf_full_share


# ---- the send buffer, and queues -----------------------------------------------------------------


def test_send_buffer_bounds_only_writes_of_whole_segments() -> None:
    """The buffer does not bound the published programs' writes of 1440, 8000 or 8192 bytes."""
    held, goodput_mbit = buffers.measure_held(), 8 * goodput_mbyte_s(50)
    for size in (1448, 2896):
        assert held[size].held_bytes < held[size].granted_bytes == 16_384
        assert held[size].mbit < 0.06 * goodput_mbit
    for size in (1440, 4096, 8000, 8192, 65_536):
        assert held[size].held_bytes > 15 * held[size].granted_bytes
        assert held[size].mbit > goodput_mbit / 2


def test_one_segment_send_buffer_stalls_on_delayed_acks() -> None:
    result = buffers.measure_one_segment()
    for nodelay in (False, True):
        one, two = (result[size, "delaying", nodelay] for size in (1, 8192))
        assert (one.segments, two.segments, two.stalls) == (1, 2, 0)
        assert one.stalls >= 8
        assert 15 < one.ms_per_write < 25
        assert result[1, "linux", nodelay].ms_per_write < 1
    assert result[13_422, "delaying", False].segments == 3
