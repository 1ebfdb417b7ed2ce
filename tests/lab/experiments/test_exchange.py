"""record_exchange() returns both captures and logs, and works where recording is not allowed."""

import pytest

from tcplab import Lab, Loopback
from tcplab.experiments.exchange import record_exchange
from tcplab.programs import small_writes
from tcplab.programs.messages import records


@pytest.mark.needs_lab
def test_both_ends_and_both_logs_are_recorded() -> None:
    with Lab(rtt_ms=20) as lab:
        exchange = record_exchange(lab, small_writes, "cork", 2, writes=3)
    assert (exchange.result.mode, exchange.result.writes) == ("cork", 3)
    assert exchange.options == exchange.result.options
    assert exchange.tcp_info == exchange.result.tcp_info
    assert [event.name for event in exchange.log or ()].count("write") == 6
    assert "read" in [event.name for event in exchange.peer_log or ()]
    assert exchange.peer_segments is not None
    left = exchange.captured.data("client")["time_ns"][0]
    arrived = exchange.peer_segments.data("client")["time_ns"][0]
    assert arrived - left >= 10_000_000  # half of the round trip
    assert exchange.drops == lab.capture_drops == 0
    assert len(exchange.timeline().writes) == 6


def test_loopback_has_logs_and_no_segments() -> None:
    with Loopback() as network:
        exchange = record_exchange(network, records, count=2, unbuffered=True)
        silent = record_exchange(network, records, count=2, log=None)
    assert [event.name for event in exchange.log or ()] == ["write", "acknowledged"] * 2
    assert (exchange.peer_log, silent.log, exchange.segments) == (None, None, None)
    assert exchange.drops is network.capture_drops is None
    with pytest.raises(ValueError, match="no segments were recorded on plain loopback"):
        exchange.timeline()
