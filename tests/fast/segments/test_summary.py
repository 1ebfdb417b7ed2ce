"""Test the summary of connections, sizes, the share of headers and retransmissions."""

from __future__ import annotations

from pathlib import Path

from tests.support.forge import Talk
from tests.support.paths import DATA

from tcplab.segments import from_file, summary


def test_summary_counts_bytes_headers_and_retransmissions(tmp_path: Path) -> None:
    talk = Talk()
    talk.handshake(options=([("MSS", 1460)], [("MSS", 1200)]))
    talk.segment(0, "A", 1, 1, 2400)
    talk.segment(1, "A", 1, 2401)
    talk.segment(0, "A", 2401, 1, 100)
    talk.segment(0, "A", 2401, 1, 100, step_ns=300_000_000)  # sent again
    talk.segment(0, "S", 0, ports=(40001, 80))
    lines = summary(from_file(talk.save(tmp_path / "x"))).splitlines()
    # Headers take 58 bytes in a SYN with an MSS, and 54 in each other segment. The packet of 2400
    # bytes represents two segments.
    headers = 2 * 58 + 7 * 54
    assert lines[0] == (
        f"8 segments in 0.306000 s: 2600 bytes of data, {100 * headers / (headers + 2600):.1f} %"
        " headers, 1 retransmissions"
    )
    there, back, other = (
        line.split() for line in lines if "-> 192.0.2.2:80" in line or "back" in line
    )
    assert there[-5:] == ["5", "2600", str(58 + 5 * 54), "1", "1"]
    assert back[-5:] == ["2", "0", "112", "1", "0"]
    assert other[-5:] == ["1", "0", "54", "0", "0"]
    assert ["100", "2", "25.0"] in [line.split() for line in lines]


def test_summary_of_a_selection_has_only_its_connections() -> None:
    rows = from_file(DATA / "tcpdump.pcap")
    text = summary(rows.of(4))
    assert str(rows.connections[4]) in text
    assert str(rows.connections[0]) not in text
