"""Test the columns of the array on conversations written by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support import forge
from tests.support.forge import Frame, Talk
from tests.support.paths import DATA

from tcplab import segments
from tcplab.segments import SegmentArray, from_file

SCALE = [("WScale", 7)]
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


# ---- numbers and flags ----


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


def test_without_a_syn_the_first_byte_seen_or_acknowledged_is_1(path: Path) -> None:
    talk = Talk()
    talk.segment(1, "PA", 700, 300, 50)
    talk.segment(0, "A", 300, 750)
    talk.segment(0, "PA", 300, 750, 20)
    rows = rows_of(talk, path)
    assert rows["seq"].tolist() == [1, 1, 1]
    assert rows["ack"].tolist() == [1, 51, 51]
    assert rows["direction"].tolist() == [1, 0, 0]  # the client has the larger port
    assert rows["window"].tolist() == [512] * 3
    assert rows["window_shift"].tolist() == [-1] * 3


def test_flags_are_decoded_and_pure_acks_marked(path: Path) -> None:
    talk = Talk()
    talk.handshake()
    talk.segment(0, "PA", 1, 1, 5)
    talk.segment(1, "A", 1, 6)
    talk.segment(0, "FA", 6, 1)
    talk.segment(1, "RA", 1, 7)
    talk.segment(1, "R", 1)
    rows = rows_of(talk, path)
    assert rows["flags"].tolist() == [2, 18, 16, 24, 16, 17, 20, 4]
    assert where(rows, "is_pure_ack") == [2, 4]
    assert rows["ack"][7] == 0
    assert segments.flag_names(18) == "SYN ACK"
    assert segments.flag_names(0) == ""


def test_options_of_each_segment_are_decoded(path: Path) -> None:
    talk = Talk()
    syn = [("MSS", 1460), ("SAckOK", b""), ("Timestamp", (7, 0)), ("NOP", None), ("WScale", 9)]
    talk.segment(0, "S", 0, options=syn)
    talk.segment(1, "SA", 0, 1, options=[("MSS", 1000), ("WScale", 20)])
    stamps = [("NOP", None), ("NOP", None), ("Timestamp", (1000, 7))]
    talk.segment(0, "A", 1, 1, options=stamps)
    talk.segment(1, "A", 1, 1, options=[*stamps, ("NOP", None), ("NOP", None), ("SAck", (9, 10))])
    talk.segment(1, "A", 1, 1, options=[*stamps, ("SAck", (9, 10, 20, 21, 30, 31))])
    talk.segment(0, "A", 1, 1, options=[("EOL", None), ("Timestamp", (5, 5))])
    rows = rows_of(talk, path)
    assert rows["mss"].tolist() == [1460, 1000, 0, 0, 0, 0]
    assert rows["wscale"].tolist() == [9, 14, -1, -1, -1, -1]  # 20 exceeds the maximum, 14
    assert rows["has_timestamps"].tolist() == [True, False, True, True, True, False]
    assert rows["ts_val"].tolist() == [7, 0, 1000, 1000, 1000, 0]
    assert rows["ts_ecr"].tolist() == [0, 0, 7, 7, 7, 0]
    assert rows["sack_blocks"].tolist() == [0, 0, 0, 1, 3, 0]


def test_the_window_is_scaled_when_both_syns_say_so(path: Path) -> None:
    talk = Talk()
    talk.handshake(options=(SCALE, [("WScale", 2)]))
    talk.segment(1, "A", 1, 1, window=100)
    talk.segment(0, "A", 1, 1, window=0)
    talk.segment(0, "R", 1, window=0)
    rows = rows_of(talk, path)
    assert rows["window"].tolist() == [512, 512, 512 << 7, 400, 0, 0]
    assert rows["window_shift"].tolist() == [0, 0, 7, 2, 7, 7]
    assert where(rows, "is_zero_window") == [4]


def test_the_window_is_not_scaled_when_one_syn_lacks_the_option(path: Path) -> None:
    talk = Talk()
    talk.handshake(options=(SCALE, ()))
    rows = rows_of(talk, path)
    assert rows["window"].tolist() == [512, 512, 512]
    assert rows["window_shift"].tolist() == [0, 0, 0]


def test_super_segment_is_counted_in_full_segments(path: Path) -> None:
    talk = Talk()
    talk.handshake(options=([("MSS", 1460)], [("MSS", 1400)]))
    stamps = [("NOP", None), ("NOP", None), ("Timestamp", (1, 1))]
    seq = 1
    sizes = [0, 1, 1400, 1401, 14000, 14001]
    for size in sizes:
        talk.segment(0, "A", seq, 1, size)
        seq += size
    talk.segment(0, "A", seq, 1, 1388, options=stamps)
    talk.segment(0, "A", seq + 1388, 1, 1389, options=stamps)
    rows = rows_of(talk, path)
    assert rows["gso_count"].tolist()[3:] == [1, 1, 1, 2, 10, 11, 1, 2]


def test_without_an_mss_a_super_segment_is_not_counted(path: Path) -> None:
    talk = Talk()
    talk.segment(0, "A", 1, 1, 9000)
    talk.segment(0, "A", 9001, 1)
    assert rows_of(talk, path)["gso_count"].tolist() == [0, 1]


# ---- connections ----


#: Ways to open a connection: the segments (side, flags, seq, ack), and columns of their rows.
OPENED: dict[str, tuple[list[tuple[int, str, int, int]], dict[str, list[int]]]] = {
    "SYN from the smaller port": ([(0, "S", 0, 0), (1, "SA", 0, 1)], {"direction": [0, 1]}),
    "SYN-ACK only": ([(1, "SA", 0, 1), (0, "A", 1, 1)], {"direction": [1, 0]}),
    "simultaneous open": (
        [(0, "S", 0, 0), (1, "S", 0, 0), (0, "SA", 0, 1), (1, "SA", 0, 1)],
        {"connection": [0] * 4, "direction": [0, 1, 0, 1]},
    ),
    "SYN overtaken by its answer": (
        [(1, "SA", 0, 1), (0, "S", 0, 0), (0, "A", 1, 1)],
        {"connection": [0] * 3, "seq": [0, 0, 1]},
    ),
    "SYN sent again, and a new SYN": (
        [
            *((0, "S", 0, 0), (0, "S", 0, 0), (1, "SA", 0, 1), (0, "R", 1, 0)),
            *((0, "S", 90_000, 0), (1, "SA", 70_000, 90_001), (0, "A", 90_001, 70_001)),
        ],
        {
            "connection": [0, 0, 0, 0, 1, 1, 1],
            "seq": [0, 0, 0, 1, 0, 0, 1],
            "is_retransmission": [0, 1, 0, 0, 0, 0, 0],
        },
    ),
}


@pytest.mark.parametrize("name", OPENED)
def test_handshake_determines_client_and_connection(name: str, path: Path) -> None:
    sent, columns = OPENED[name]
    talk = Talk()
    for side, flags, seq, ack in sent:
        talk.segment(side, flags, seq, ack, ports=(80, 50_000))
    rows = rows_of(talk, path)
    assert {column: rows[column].tolist() for column in columns} == columns
    assert len(set(rows.connections)) == 1
    if name == "SYN from the smaller port":
        assert rows.connections[0].client == ("192.0.2.1", 80)


# ---- retransmissions and overtaking ----


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


@pytest.mark.parametrize(("stamp", "column"), [(49, "is_out_of_order"), (51, "is_retransmission")])
def test_time_stamps_tell_retransmission_from_reordering(
    talk: Talk, path: Path, stamp: int, column: str
) -> None:
    """An older time stamp shows that a segment was sent earlier, however late it arrives.

    A newer time stamp shows that it is a retransmission, however soon it arrives.
    """
    for number, value, late in ((0, 49, 0), (2, 50, 0), (1, stamp, 100_000_000 * (stamp < 50))):
        talk.segment(
            0, "A", 1 + number * 100, 1, 100, options=[("Timestamp", (value, 0))], step_ns=late
        )
    rows = rows_of(talk, path)
    assert where(rows, column) == [5]
    assert rows["is_out_of_order"].sum() + rows["is_retransmission"].sum() == 1


def test_data_from_before_the_capture_counts_as_out_of_order(path: Path) -> None:
    talk = Talk()
    talk.segment(0, "A", 1001, 1, 100)
    talk.segment(0, "A", 501, 1, 100)
    talk.segment(0, "A", 501, 1, 100)
    rows = rows_of(talk, path)
    assert where(rows, "is_out_of_order") == [1]
    assert where(rows, "is_retransmission") == [2]


@pytest.mark.parametrize(("stamp", "again"), [(70, []), (71, [4])])
def test_ack_recorded_before_its_data_proves_no_retransmission(
    talk: Talk, path: Path, stamp: int, again: list[int]
) -> None:
    """A recorder of both sides may see an ACK before its data, as the echoed time stamp shows."""
    talk.segment(1, "A", 1, 101, options=[("Timestamp", (5, 70))])
    talk.segment(0, "A", 1, 1, 100, options=[("Timestamp", (stamp, 4))], step_ns=20_000)
    assert where(rows_of(talk, path), "is_retransmission") == again


def test_keep_alives_are_not_retransmissions(talk: Talk, path: Path) -> None:
    data(talk, 0)
    talk.segment(
        0, "A", 100, 1, 0, step_ns=10**10
    )  # Linux's keep-alive is one byte back, without data
    talk.segment(1, "A", 1, 101)
    assert where(rows_of(talk, path), "is_retransmission") == []


def test_repeated_fin_and_syn_ack_are_retransmissions(path: Path) -> None:
    talk = Talk()
    talk.segment(0, "S", 0)
    talk.segment(1, "SA", 0, 1)
    talk.segment(1, "SA", 0, 1)
    talk.segment(0, "A", 1, 1)
    talk.segment(0, "FA", 1, 1)
    talk.segment(0, "FA", 1, 1)
    assert where(rows_of(talk, path), "is_retransmission") == [2, 5]


def test_ipv6_is_read_although_the_clock_steps_back(path: Path) -> None:
    talk = Talk(ipv6=True)
    talk.handshake()
    talk.time_ns -= 3600 * 10**9
    data(talk, 0, 1, 0)
    rows = rows_of(talk, path)
    assert rows["payload_bytes"].tolist() == [0, 0, 0, 100, 100, 100]
    assert where(rows, "is_retransmission") == [5]
    assert str(rows.connections[0]) == "tcp [2001:db8::1]:40000 -> [2001:db8::2]:80"


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
