from __future__ import annotations

import pytest

from tcplab import figures
from tcplab.experiments import connection, table


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
