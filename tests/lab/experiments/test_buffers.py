import json

import pytest

from tcplab.cli import main
from tcplab.experiments import buffers, recordings, table

pytestmark = pytest.mark.needs_lab


def test_grants_are_a_table_and_a_recording() -> None:
    grants = buffers.measure_grants((65_536, None))
    assert grants.provenance["rmem_max_bytes"] > grants.provenance["capture_drops"] == 0
    assert len(table(grants).text().splitlines()) == 2 + len(grants.variants)
    assert recordings.decode(recordings.encode(grants)) == grants


def test_a_sweep_from_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    for side in ("receive", "send"):
        command = f"run buffers --rtts-ms 5 --requests 8192 --side {side} --json"
        assert main(command.split()) == 0
        (row,) = json.loads(capsys.readouterr().out)["rows"]
        assert row["granted_bytes"] == 16_384
        assert 1448 <= row["window_bytes"] < row["granted_bytes"]
        assert 0 < row["mbit"] < 50


def test_scale_of_the_syn_ack_and_the_offered_window_stay() -> None:
    late, shrunk = buffers.measure_order([(16_384, 262_144), (262_144, 4096)], 5).variants
    assert (late.window_scale, late.rcvbuf_bytes) == (0, 524_288)
    assert late.largest_window_bytes <= 65_535
    assert shrunk.rcvbuf_bytes == 8192
    # The shrunk buffer is too small for the data that the larger window had allowed.
    assert shrunk.retransmissions + shrunk.zero_windows > 0


def test_only_a_buffer_that_was_not_set_grows() -> None:
    result = buffers.measure_autotuning([5], [65_536, None], duration_s=0.2)
    fixed, free = result[5, 65_536], result[5, None]
    assert fixed.start_bytes == fixed.end_bytes == free.start_bytes == 131_072
    assert free.end_bytes > free.start_bytes
    with pytest.raises(KeyError):
        result[5, 1]


def test_limits_of_slow_transfers() -> None:
    receive, send, network, application = buffers.measure_limits(rtt_ms=5).variants
    assert receive.peer_window_bytes < 16_384 < application.peer_window_bytes
    assert receive.rwnd_share > application.rwnd_share
    assert send.in_flight_bytes < min(send.cwnd_bytes, send.peer_window_bytes)
    assert send.sndbuf_full_share > 0
    assert network.unsent_bytes > 0
    assert min(limit.mbit for limit in (receive, send, network, application)) > 0


def test_receiver_that_does_not_read_closes_its_window_and_offers_no_silly_one() -> None:
    result = buffers.measure_zero_window(pause_ms=300, read_bytes=1, rtt_ms=0)
    assert result.variants[0].event == "the window is closed"
    assert result.variants[0].time_ms < result.read_at_ms
    assert result.provenance["reads"] == 100_000
    assert min(result.openings()) >= 1448
    assert any("window" in sentence for sentence in result.timeline().sentences())


def test_send_buffer_is_exceeded_by_writes_that_leave_a_rest() -> None:
    whole, odd = buffers.measure_held([1448, 4096], rtt_ms=5).variants
    assert whole.granted_bytes == odd.granted_bytes == 16_384
    assert whole.held_bytes < 16_384
    assert odd.held_bytes > 2 * 16_384


def test_send_buffer_of_one_segment_waits_for_delayed_acks() -> None:
    (one,) = buffers.measure_one_segment([1], writes=6).variants
    assert (one.segments, one.stalls > 0) == (1, True)
    # TCP_NODELAY does not help.
    assert one.delaying_nodelay > 5
