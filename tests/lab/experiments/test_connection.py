"""The connection of ten bytes: lines, picture, timeline and recording."""

from __future__ import annotations

import pytest

from tcplab import Lab, figures
from tcplab.experiments import connection, recordings, table


@pytest.fixture(scope="module")
def tour() -> connection.Connection:
    with Lab(rtt_ms=4) as lab:
        return connection.measure(network=lab)


def test_watching_by_hand_is_what_the_lesson_shows() -> None:
    with Lab() as lab:
        lines = connection.watch(lab)
    assert "  S   seq " in lines[0]
    assert any("5 bytes: b'HELLO'" in line for line in lines)


def test_handshake_as_a_picture(tour: connection.Connection) -> None:
    picture = figures.handshake(tour)
    assert "packets for ten bytes" in picture.title
    assert "client SYN seq 0, MSS 1460" in picture.alt
    assert picture.table.text() == table(tour).text()
    assert picture.png()[:4] == b"\x89PNG"


def test_timeline_knows_the_write(tour: connection.Connection) -> None:
    timeline = tour.timeline()
    assert [each.payload_bytes for each in timeline.segments] == [5]
    assert "sent at once" in timeline.sentences()[0]


def test_result_survives_a_recording(tour: connection.Connection) -> None:
    again = recordings.decode(recordings.encode(tour))
    assert again.rows() == tour.rows()
    assert again.lines == tour.lines
