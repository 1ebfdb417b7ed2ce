"""Test the summary of connections, sizes, the share of headers and retransmissions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.forge import Talk
from tests.support.paths import DATA

from tcplab.segments import from_file, summary
from tcplab.segments.summary import SizeBin


@pytest.fixture
def talk() -> Talk:
    talk = Talk()
    talk.segment(0, "S", 0, options=[("MSS", 1460)])
    talk.segment(1, "SA", 0, 1, options=[("MSS", 1200)], step_ns=8_000_000)
    talk.segment(0, "A", 1, 1, step_ns=2_000_000)
    return talk


def test_summary_counts_bytes_headers_and_sizes(talk: Talk, tmp_path: Path) -> None:
    seq = 1
    for size in (2, 2, 2, 3, 4, 1200, 2400):
        talk.segment(0, "PA", seq, 1, size)
        seq += size
    total = summary(from_file(talk.save(tmp_path / "x")))
    assert total.segments == 10
    assert total.payload_bytes == 3613
    # Headers take 58 bytes in two segments with options, and 54 bytes in every other segment. The
    # last packet represents two segments.
    assert total.header_bytes == 2 * 58 + 7 * 54 + 2 * 54
    assert total.header_share == pytest.approx(602 / (602 + 3613))
    assert total.sizes[0] == SizeBin(0, 0, 3)
    assert total.sizes[1] == SizeBin(1, 1, 0)
    assert total.sizes[2] == SizeBin(2, 3, 4)
    assert total.sizes[3] == SizeBin(4, 7, 1)
    assert total.sizes[-1] == SizeBin(2048, 4095, 1)
    assert sum(size.segments for size in total.sizes) == 10
    assert total.common_sizes[2] == 3
    assert next(iter(total.common_sizes)) in (0, 2)
    (connection,) = total.connections
    assert connection.client_to_server.super_segments == 1
    assert str(connection.ends) == "tcp 192.0.2.1:40000 -> 192.0.2.2:80"


def test_retransmissions_and_pure_acks_per_direction(talk: Talk, tmp_path: Path) -> None:
    talk.segment(0, "A", 1, 1, 100, step_ns=1_000_000)
    talk.segment(1, "A", 1, 101, step_ns=5_000_000)
    talk.segment(0, "A", 101, 1, 100, step_ns=1_000_000)
    talk.segment(0, "A", 101, 1, 100, step_ns=300_000_000)  # sent again
    talk.segment(1, "A", 1, 201, step_ns=5_000_000)
    talk.segment(1, "PA", 1, 201, 50, step_ns=9_000_000)
    total = summary(from_file(talk.save(tmp_path / "x")))
    (connection,) = total.connections
    there, back = connection.client_to_server, connection.server_to_client
    assert (there.segments, there.payload_bytes, there.retransmissions) == (5, 300, 1)
    assert (back.segments, back.payload_bytes, back.retransmissions) == (4, 50, 0)
    assert (there.pure_acks, back.pure_acks) == (1, 2)
    assert total.retransmissions == 1
    assert connection.duration_s == total.duration_s == pytest.approx(0.331)


def test_summary_lists_every_tcp_and_udp_connection() -> None:
    total = summary(from_file(DATA / "tcpdump.pcap"))
    kinds = [connection.ends.protocol for connection in total.connections]
    assert "udp" in kinds
    assert kinds.count("tcp") == 4
    assert sum(
        connection.client_to_server.segments + connection.server_to_client.segments
        for connection in total.connections
    ) == (total.segments)
    assert total.connections[0].start_s >= 0
    assert [connection.number for connection in total.connections] == list(range(len(kinds)))


def test_summary_of_a_selection_has_only_its_connections() -> None:
    rows = from_file(DATA / "tcpdump.pcap")
    total = summary(rows[rows["connection"] == 1])
    (connection,) = total.connections
    assert connection.number == 1
    assert connection.ends == rows.connections[1]


def test_summary_of_no_segments_is_zero() -> None:
    total = summary(from_file(DATA / "tcpdump.pcap")[:0])
    assert (total.segments, total.header_share, total.sizes, total.connections) == (0, 0, (), ())
    assert "0 segments" in str(total)


def test_summary_is_available_as_text_and_as_json() -> None:
    total = summary(from_file(DATA / "tcpdump.pcap"))
    text = str(total)
    assert "tcp 192.0.2.1" in text
    assert "% headers" in text
    assert "Segment sizes" in text
    plain = json.loads(json.dumps(total.as_dict()))
    assert plain["connections"][0]["client_to_server"]["pure_acks"] > 0
