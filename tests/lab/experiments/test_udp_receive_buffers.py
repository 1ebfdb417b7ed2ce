"""Datagrams and the receive buffer: its room, losses, bad input."""

from __future__ import annotations

from typing import Any

import pytest

from tcplab import Lab
from tcplab.experiments import recordings, udp_receive_buffers
from tcplab.experiments.lab_loopback import LabLoopback


def test_buffer_nobody_reads_from_is_filled() -> None:
    with Lab() as lab:
        host = LabLoopback(lab).client
        small = udp_receive_buffers.fill_receive_buffer(host, 32_768)
        double = udp_receive_buffers.fill_receive_buffer(host, 65_536)
        shorter = udp_receive_buffers.fill_receive_buffer(host, 32_768, 300)
    assert (small[0], double[0]) == (65_536, 131_072)
    assert 10 <= small[1] <= 65_536 // 1440
    assert 1.8 <= double[1] / small[1] <= 2.2
    assert small[1] < shorter[1] < 65_536 // 300  # what the kernel adds weighs more


def test_nothing_is_lost_where_all_have_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """On plain loopback, with the least that any system grants: 212992 bytes, doubled."""
    monkeypatch.setenv("TCPLAB_MODE", "loopback")
    result = udp_receive_buffers.measure([2304, 212_992], runs=2, count=120)
    tiny, large = result.variants
    assert tiny.room_datagrams < 10
    assert large.room_datagrams >= 120
    assert list(large.lost) == [0, 0]
    assert result.provenance["network"] == "loopback"
    assert [row["lost_elsewhere"] for row in result.rows()] == [0, 0]
    assert recordings.decode(recordings.encode(result)) == result


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"requests": []}, "requests is empty"),
        ({"requests": [0]}, "requests=0 must be a whole number from 1"),
        ({"count": 0}, "count=0 must be"),
    ],
)
def test_bad_values_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        udp_receive_buffers.measure(**arguments)
