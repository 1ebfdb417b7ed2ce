from __future__ import annotations

import pytest
from tests.support.nonempty import each

from tcplab import figures
from tcplab.experiments import capture_loss, connection, table

# ---- a connection of ten bytes ----


def test_ten_bytes_take_ten_packets_and_three_round_trips() -> None:
    tour = connection.measure(rtt_ms=20)
    packets = [(row["from"], row["variant"], row["payload_bytes"]) for row in tour.rows()]
    assert packets == [
        ("client", "SYN", 0),
        ("server", "SYN ACK", 0),
        ("client", "ACK", 0),
        ("client", "PSH ACK", 5),
        ("server", "ACK", 0),
        ("server", "PSH ACK", 5),
        ("client", "ACK", 0),
        ("client", "FIN ACK", 0),
        ("server", "FIN ACK", 0),
        ("client", "ACK", 0),
    ]
    assert tour.rows()[-1]["time_ms"] == pytest.approx(3 * 20, abs=2)
    assert min(row["frame_bytes"] for row in tour.rows()) == 66
    assert tour.provenance["capture_drops"] == 0


def test_handshake_figure_describes_the_packets() -> None:
    tour = connection.measure(rtt_ms=20)
    picture = figures.handshake(tour)
    assert "packets for ten bytes" in picture.note
    assert "from the client: SYN seq 0, MSS 1460" in picture.parts["packet-0"]
    assert picture.table.text() == table(tour).text()
    assert picture.png()[:4] == b"\x89PNG"


# ---- what scapy misses ----


def test_scapy_loses_packets_that_come_fast_and_says_how_many() -> None:
    loss = capture_loss.measure()
    for run in each(loss.variants):
        assert run.recorder_drops == 0
        assert run.scapy_kept + run.scapy_drops == run.passed >= run.sent
    assert loss[500].scapy_drops == loss[2000].scapy_drops == 0
    assert 0 < loss[20_000].scapy_drops < loss[None].scapy_drops
    assert loss[None].scapy_drops > 0.4 * loss[None].passed
