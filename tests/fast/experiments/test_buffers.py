"""Check lessons buffers and send-buffer against their recordings, beyond the bounds of claims."""

import itertools

import pytest
from tests.support.nonempty import each

from tcplab.experiments import buffers
from tcplab.models import bdp_bytes, goodput_mbyte_s

# ---- windows -------------------------------------------------------------------------------------


def test_windows_are_those_of_the_model() -> None:
    """An unscaled window has exactly the model's size. Scaling and slow growth change 1 percent."""
    grants, sweep = buffers.measure_grants(), buffers.measure(rtts_ms=[10, 20, 40])
    windows = [
        (case.largest_window_bytes, case.model_window_bytes) for case in grants.variants[:-1]
    ]
    windows += [(case.window_bytes, case.model_window_bytes) for case in sweep.variants]
    assert sum(window < 1 << 16 for window, _model in windows) == 12
    for window, model in windows:
        assert window == pytest.approx(model, abs=0.01 * window if window >= 1 << 16 else 0)
    assert grants[1 << 30].rcvbuf_bytes < 1 << 30
    assert grants[None].model_window_bytes is None
    assert grants[None].rcvbuf_end_bytes > grants[None].rcvbuf_bytes == 131_072


def test_closed_window_is_probed_until_the_program_reads() -> None:
    result = buffers.measure_zero_window(pause_ms=1500)
    assert [event.event for event in result.variants] == [
        "the window is closed",
        "the sender asks (window probe)",
        "still closed",
        "the sender asks (window probe)",
        "the window is open again",
    ]
    closed_ms, first_ms, _still, second_ms, open_ms = (event.time_ms for event in result.variants)
    # The kernel rounds each timer up, by at most an eighth.
    assert second_ms - first_ms == pytest.approx(2 * (first_ms - closed_ms), rel=0.13)
    assert open_ms > result.read_at_ms > 1500
    assert any("window" in sentence for sentence in result.timeline().sentences())


# ---- throughput ----------------------------------------------------------------------------------


def test_twice_the_window_is_twice_the_throughput_up_to_the_knee() -> None:
    sweep = buffers.measure(rtts_ms=[10, 20, 40])
    full_mbit = 8 * goodput_mbyte_s(sweep.rate_mbit)
    for rtt_ms in (10, 20, 40):
        points = [point for point in sweep.variants if point.rtt_ms == rtt_ms]
        left = [point for point in points if point.window_bytes < bdp_bytes(full_mbit, rtt_ms)]
        for less, more in each(itertools.pairwise(left)):
            assert 1.9 < more.mbit / less.mbit < 2.3
        for point in left:
            assert 0.85 * point.model_mbit < point.mbit < point.model_mbit
            assert point.rwnd_share > 0.7
        for point in each(points[len(left) :]):
            assert point.mbit > 0.97 * full_mbit


def test_send_buffer_bounds_the_throughput_of_writes_of_whole_segments() -> None:
    for point in each(buffers.measure(rtts_ms=[20], side="send").variants):
        assert 0.6 * point.model_mbit < point.mbit < 1.01 * point.model_mbit
        assert point.rwnd_share < 0.1


def test_tcp_info_names_the_limit() -> None:
    limits = buffers.measure_limits()
    assert {limit.case: limit.verdict for limit in limits.variants} == {
        "receive buffer": "receive window",
        "send buffer": "send buffer",
        "network": "congestion window",
        "application": "application",
    }
    receive, send = limits["receive buffer"], limits["send buffer"]
    assert receive.in_flight_bytes == receive.peer_window_bytes
    assert send.in_flight_bytes < min(send.peer_window_bytes, send.cwnd_bytes)
    assert send.unsent_bytes == 0 < limits["network"].unsent_bytes
