"""Batches: one system call per batch, bad input."""

from __future__ import annotations

from typing import Any

import pytest

from tcplab.experiments import recordings, table, udp_batching


def test_a_batch_is_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCPLAB_MODE", "loopback")
    result = udp_batching.measure(runs=1, count=2000, datagram_bytes=1000)
    rows = {row["variant"]: row for row in result.rows()}
    assert list(rows) == ["udp", "udp-gso", "udp-gso-gro", "tcp", "tcp-large"]
    assert rows["udp"]["calls"] == 2000
    assert rows["udp-gso"]["calls"] == rows["udp-gso-gro"]["calls"] == 32  # 2000 / 64, rounded up
    assert rows["udp-gso"]["bytes_per_call"] == rows["tcp-large"]["bytes_per_call"] == 64_000
    assert rows["udp"]["times_plain"] == 1
    assert rows["tcp"]["lost_percent"] is None
    assert "UDP_SEGMENT" in table(result).text()
    assert recordings.decode(recordings.encode(result)) == result


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"datagram_bytes": 32001}, "datagram_bytes=32001 must be"),
        ({"runs": 0}, "runs=0 must be"),
    ],
)
def test_bad_values_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        udp_batching.measure(**arguments)
