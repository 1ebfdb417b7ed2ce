"""The tour of the laboratory: shapes, pictures, and mistakes on the command line."""

from __future__ import annotations

import pytest

from tcplab import Lab, figures
from tcplab.cli import main
from tcplab.experiments import lab_tour, recordings, table


@pytest.fixture(scope="module")
def tour() -> lab_tour.LabTour:
    with Lab(rtt_ms=4) as lab:
        return lab_tour.measure(network=lab)


def test_watching_by_hand_is_what_the_lesson_shows() -> None:
    with Lab() as lab:
        lines = lab_tour.watch(lab)
    assert "  S   seq " in lines[0]
    assert any("5 bytes: b'HELLO'" in line for line in lines)


def test_the_handshake_as_a_picture(tour: lab_tour.LabTour) -> None:
    picture = figures.handshake(tour)
    assert "packets for ten bytes" in picture.title
    assert "client SYN  seq 0, MSS 1460" in picture.alt
    assert picture.table.text() == table(tour).text()
    assert picture.png()[:4] == b"\x89PNG"


def test_the_timeline_knows_the_write(tour: lab_tour.LabTour) -> None:
    timeline = tour.timeline()
    assert [each.payload_bytes for each in timeline.segments] == [5]
    assert "sent at once" in timeline.sentences()[0]


def test_it_can_be_recorded(tour: lab_tour.LabTour) -> None:
    again = recordings.decode(recordings.encode(tour))
    assert again.rows() == tour.rows()
    assert again.lines == tour.lines


def test_what_scapy_misses_as_a_picture() -> None:
    watched = [
        lab_tour.Watched(500, 500, 502, 502, 0, 0, 1.0, 1.0, ""),
        lab_tour.Watched(None, 1000, 1002, 402, 600, 0, 1.0, 0.01, "scapy was too slow"),
    ]
    result = lab_tour.SniffingLoss(watched, {})
    picture = figures.sniffing_loss(result)
    assert picture.title == "At 100,000 packets a second scapy has 40% of them, the recorder 100%"
    assert "no limit" in table(result).text()


def test_bad_values_are_named() -> None:
    with pytest.raises(ValueError, match="packets_per_s=5 must be from 10"):
        lab_tour.measure_loss([5])
    with pytest.raises(ValueError, match="packets_per_s is empty"):
        lab_tour.measure_loss([])
    with pytest.raises(ValueError, match="most=1 must be from 100"):
        lab_tour.measure_loss(most=1)
    with pytest.raises(ValueError, match="seconds=0 must be from"):
        lab_tour.measure_goodput(seconds=0)
    with pytest.raises(ValueError, match="mtu=10 must be from 576"):
        lab_tour.measure_goodput(mtu=10)
    with pytest.raises(ValueError, match="rates_mbit is empty"):
        lab_tour.measure_goodput([])


def test_a_mistake_on_the_command_line_costs_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "goodput", "--rates-mbit", "0"]) == 2
    assert "rates_mbit: 0 must be from 1 to 10000 Mbit/s" in capsys.readouterr().err
