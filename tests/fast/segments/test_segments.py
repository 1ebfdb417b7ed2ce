"""Test the columns of the array on conversations written by hand."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support import forge
from tests.support.forge import Frame, Talk
from tests.support.paths import DATA
from tests.support.segments.captures import CONVERSATIONS, written

from tcplab import segments
from tcplab.segments import SegmentArray, from_file

# Without given MAC addresses, scapy would ask the network for them.
HERE, THERE = "02:00:00:00:00:01", "02:00:00:00:00:02"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "capture.pcapng"


def rows_of(talk: Talk, path: Path) -> SegmentArray:
    return from_file(talk.save(path))


def where(rows: SegmentArray, column: str) -> list[int]:
    return np.flatnonzero(rows[column]).tolist()


# ---- the array ----


def test_the_manual_describes_each_column() -> None:
    assert [name for name in segments.DTYPE.names or () if name not in str(segments.__doc__)] == []


def test_slices_and_selections_keep_the_connections(path: Path) -> None:
    talk = Talk()
    talk.handshake()
    rows = rows_of(talk, path)
    for part in (rows[1:], rows.sent_by("server"), rows[["seq", "ack"]]):
        assert isinstance(part, SegmentArray)
        assert part.connections == rows.connections
    assert str(rows.connections[0]) == "tcp 192.0.2.1:40000 -> 192.0.2.2:80"


def test_verbs_select_rows_by_their_columns(path: Path) -> None:
    talk = Talk()
    talk.handshake()
    talk.segment(0, "PA", 1, 1, 100)
    talk.segment(1, "A", 1, 101)
    talk.segment(1, "PA", 1, 101, 30)
    talk.segment(0, "PA", 1, 31, 100)  # sent again
    talk.segment(0, "FA", 101, 31)
    talk.segment(1, "RA", 31, 102)
    rows = rows_of(talk, path)
    selections = {
        "server's data": rows.data("server"),
        "data, once": rows.data("client", retransmissions=False),
        "server's ACKs": rows.acks("server"),
        "client's": rows.sent_by("client"),
        "SYN": rows[rows.is_syn],
        "FIN": rows[rows.is_fin],
        "RST": rows[rows.is_rst],
        "client's ACK flags": rows[rows.from_client & rows.has_ack],
        "server's bare": rows[rows.from_server & ~rows.carries_data],
        "port": rows.at_port(80),
        "other port": rows.at_port(81),
        "other connection": rows.of(1),
    }
    assert {name: chosen["packet"].tolist() for name, chosen in selections.items()} == {
        "server's data": [5],
        "data, once": [3],
        "server's ACKs": [4],
        "client's": [0, 2, 3, 6, 7],
        "SYN": [0, 1],
        "FIN": [7],
        "RST": [8],
        "client's ACK flags": [2, 3, 6, 7],
        "server's bare": [1, 4, 8],
        "port": list(range(9)),
        "other port": [],
        "other connection": [],
    }
    assert rows.data("server").first_time_ns == rows["time_ns"][5]
    with pytest.raises(ValueError, match="no segments"):
        _ = rows.of(1).first_time_ns
    sender: Any = "me"
    with pytest.raises(ValueError, match="sender 'me' is not known; use one of client, server"):
        rows.data(sender)


# ---- conversations ----


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_columns_of_a_conversation(name: str, path: Path) -> None:
    columns = CONVERSATIONS[name]["columns"]
    rows = rows_of(written(name), path)
    assert {column: rows[column].tolist() for column in columns} == columns
    connection = CONVERSATIONS[name].get("connection", "tcp 192.0.2.1:40000 -> 192.0.2.2:80")
    assert {*map(str, rows.connections)} == {connection}


def test_flags_have_names() -> None:
    assert [segments.flag_names(flags) for flags in (18, 0)] == ["SYN ACK", ""]


def test_sequence_numbers_are_relative_and_do_not_wrap(path: Path) -> None:
    talk = Talk(isn=(2**32 - 3000, 2**32 - 10))
    talk.handshake()
    seq = 1
    for _ in range(5):
        talk.segment(0, "PA", seq, 1, 1448)
        seq += 1448
        talk.segment(1, "A", 1, seq)
    talk.segment(1, "PA", 1, seq, 100)
    talk.segment(0, "A", seq, 101)
    far = [n << 30 for n in range(1, 6)]  # most of the segments before were not captured
    for seq in far:
        talk.segment(0, "A", seq, 101, 1448)
        talk.segment(1, "A", 101, seq + 1448)
    rows = rows_of(talk, path)
    sent = rows.data("client")
    assert sent["seq"].tolist() == [1, 1449, 2897, 4345, 5793, *far]
    acks = [1449, 2897, 4345, 5793, 7241, 101, *(seq + 1448 for seq in far)]
    assert rows.acks()["ack"].tolist()[1:] == acks
    assert not rows["is_retransmission"].any()


def data(talk: Talk, *numbers: int, size: int = 100, step_ns: int = 1_000_000) -> None:
    """Let the client send data segments, given by their numbers from 0."""
    for number in numbers:
        talk.segment(0, "A", 1 + number * size, 1, size, step_ns=step_ns)


@pytest.fixture
def talk() -> Talk:
    """Return a conversation just after a handshake with a 20 ms round-trip time."""
    talk = Talk(step_ns=10_000_000)
    talk.handshake()
    return talk


@pytest.mark.parametrize(
    ("numbers", "again", "overtaken"),
    [
        ((0, 1, 2, 1, 3), [6], []),
        ((0, 2, 1, 3), [], [5]),  # the gap is filled within a round trip
        ((0, 2, *range(3, 24), 1, 24), [26], []),  # the gap is filled after 22 ms
        ((0, 2, 4, 6, 5, 1, 3, 3, 5, 7), [10, 11], [7, 8, 9]),
    ],
)
def test_late_data_is_a_retransmission_or_out_of_order(
    talk: Talk, path: Path, numbers: tuple[int, ...], again: list[int], overtaken: list[int]
) -> None:
    data(talk, *numbers)
    rows = rows_of(talk, path)
    assert where(rows, "is_retransmission") == again
    assert where(rows, "is_out_of_order") == overtaken


# ---- links, fragments, what is left out ----


def test_vlan_tags_add_to_the_wire_bytes_only(path: Path) -> None:
    talk = Talk()
    talk.handshake()
    tags = bytes.fromhex("88a80007 91000007 81000007")
    frames = [Frame(f.data[:12] + tags + f.data[12:], f.time_ns) for f in talk.frames]
    path.write_bytes(forge.pcapng(frames))
    rows = from_file(path)
    assert rows["seq"].tolist() == [0, 0, 1]
    assert rows["wire_bytes"].tolist() == [54 + 12] * 3


def test_ipv6_extension_headers_are_skipped(path: Path) -> None:
    from scapy.layers import inet6
    from scapy.layers.inet import TCP
    from scapy.layers.l2 import Ether

    ip = Ether(src=HERE, dst=THERE) / inet6.IPv6()
    tcp = TCP(sport=1000, dport=80) / (b"x" * 11)
    chains = [
        ip / inet6.IPv6ExtHdrHopByHop() / inet6.IPv6ExtHdrDestOpt() / tcp,
        ip / inet6.IPv6ExtHdrFragment(offset=0, m=1) / tcp,
        ip / inet6.IPv6ExtHdrFragment(offset=5, m=0) / tcp,  # a later fragment has no TCP header
    ]
    path.write_bytes(forge.pcapng([Frame(bytes(chain)) for chain in chains]))
    rows = from_file(path)
    assert rows["packet"].tolist() == [0, 1]
    assert rows["payload_bytes"].tolist() == [11, 11]


def test_jumbo_lengths_of_0_mean_the_whole_packet(path: Path) -> None:
    """Linux gives a super-segment of more than 64 KiB an IP length of 0."""
    talk = Talk()
    talk.segment(0, "A", 1, 1, 100)
    four = bytearray(talk.frames[0].data)
    four[16:18] = b"\0\0"
    talk = Talk(ipv6=True)
    talk.segment(0, "A", 1, 1, 100)
    six = bytearray(talk.frames[0].data)
    six[18:20] = b"\0\0"
    path.write_bytes(
        forge.pcapng([Frame(bytes(four), 1, 54 + 200_000), Frame(bytes(six), 2, 74 + 200_000)])
    )
    assert from_file(path)["payload_bytes"].tolist() == [200_000, 200_000]


def test_a_syn_whose_length_is_damaged_carries_no_data(path: Path) -> None:
    talk = Talk()
    talk.segment(1, "SA", 0, 1)
    talk.segment(1, "PA", 1, 1, 100)
    frame = bytearray(talk.frames[0].data)
    frame[16:18] = (0x1034).to_bytes(2, "big")
    path.write_bytes(forge.pcapng([Frame(bytes(frame)), talk.frames[1]]))
    rows = from_file(path)
    assert rows["payload_bytes"].tolist() == [0, 100]
    assert not rows["is_retransmission"].any()


def test_udp_datagrams_are_read_from_their_first_fragments(path: Path) -> None:
    from scapy.layers.inet import IP, UDP, fragment
    from scapy.layers.l2 import Ether

    ether = Ether(src=HERE, dst=THERE)
    packets = [
        ether / IP(dst="192.0.2.9") / UDP(sport=5, dport=6),
        ether / IP(dst="192.0.2.9") / UDP(sport=5, dport=6) / (b"x" * 100),
        *[
            ether / f
            for f in fragment(  # type: ignore[no-untyped-call]
                IP(dst="192.0.2.9") / UDP(sport=5, dport=6) / (b"x" * 4000), 1480
            )
        ],
    ]
    path.write_bytes(forge.pcapng([Frame(bytes(p)) for p in packets]))
    rows = from_file(path)
    assert rows["packet"].tolist() == [0, 1, 2]
    assert rows["payload_bytes"].tolist() == [0, 100, 4000]
    assert rows["protocol"].tolist() == [17, 17, 17]
    assert rows.connections[0].protocol == "udp"
    assert not rows["flags"].any()


def test_ethernet_padding_is_not_data(path: Path) -> None:
    talk = Talk()
    talk.segment(0, "A", 1, 1)
    path.write_bytes(forge.pcapng([Frame(talk.frames[0].data + bytes(6))]))
    (row,) = from_file(path)
    assert (row["payload_bytes"], row["wire_bytes"]) == (0, 60)


# ---- a capture at several interfaces ----


def test_a_packet_seen_at_both_ends_of_the_wire_was_not_sent_twice(talk: Talk, path: Path) -> None:
    data(talk, 0, 1, 2, 3)
    talk.segment(0, "A", 101, 1, 100, step_ns=50_000_000)
    lost = 4  # the second data segment, on the wire between the interfaces
    frames = []
    for n, frame in enumerate(talk.frames):
        frames.append(Frame(frame.data, frame.time_ns, interface=0))
        if n != lost:
            frames.append(Frame(frame.data, frame.time_ns + 400_000, interface=1))
    content = forge.section_header() + forge.interface(name="a") + forge.interface(name="b")
    path.write_bytes(content + b"".join(forge.enhanced(frame) for frame in frames))
    rows = from_file(path)
    assert len(rows) == 2 * len(talk.frames) - 1
    for interface in 0, 1:
        again = rows[(rows["interface"] == interface) & rows["is_retransmission"]]
        assert again["seq"].tolist() == [101]
    assert not rows["is_out_of_order"].any()


def test_maximum_of_a_column_is_a_plain_number() -> None:
    rows = from_file(DATA / "tcpdump.pcap")
    assert type(rows["window"].max() / 1e6) is np.float64
    assert isinstance(rows["window"] + 1, SegmentArray)
