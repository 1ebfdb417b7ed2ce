"""Test captures by other programs: other links, several links in a file, odd handshakes."""

from pathlib import Path
from typing import Any

import pytest
from tests.support import forge
from tests.support.forge import Frame, Talk
from tests.support.segments.captures import FOREIGN

from tcplab.cli import main
from tcplab.segments import RST, SYN, SegmentArray, from_file, pcap
from tcplab.segments.left_out import opaque

ETHERNET_BYTES = 14


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "capture.pcapng"


def talk() -> Talk:
    """Return a handshake, a data segment, its ACK and a retransmission."""
    made = Talk()
    made.handshake(options=([("MSS", 1460), ("SAckOK", b"")], [("MSS", 1460)]))
    made.segment(0, "PA", 1, 1, 700)
    made.segment(1, "A", 1, 701)
    made.segment(0, "PA", 1, 1, 700, step_ns=300_000_000)
    return made


def plain(rows: SegmentArray) -> list[list[Any]]:
    """Return the columns that must not depend on the link."""
    columns = ["packet", "time_ns", "payload_bytes", "seq", "ack", "flags", "is_retransmission"]
    return [[row[name] for name in columns] for row in rows]


def relinked(path: Path, wrap: Any, link_type: int) -> SegmentArray:
    """Return the rows of the conversation, with each IP packet put into a frame by `wrap`."""
    frames = [Frame(wrap(f.data[ETHERNET_BYTES:]), f.time_ns) for f in talk().frames]
    path.write_bytes(forge.pcapng(frames, link_type=link_type))
    return from_file(path)


MACS = bytes.fromhex("020000000002 020000000001")


@pytest.mark.parametrize(
    ("header", "link_type"),
    [
        (b"\2\0\0\0", pcap.NULL),
        (b"\0\0\0\2", pcap.NULL),
        (b"\0\0\0\2", pcap.LOOP),
        (bytes(14) + b"\x08\x00", pcap.SLL),
        (b"\x08\x00" + bytes(18), pcap.SLL2),
        (b"", pcap.RAW),
        (b"", pcap.IPV4),
    ],
)
def test_every_link_type_gives_the_same_rows(path: Path, header: bytes, link_type: int) -> None:
    path.write_bytes(forge.pcapng(talk().frames))
    on_ethernet = plain(from_file(path))
    rows = relinked(path, lambda ip: header + ip, link_type)
    assert plain(rows) == on_ethernet
    assert rows.left_out == {}


# ---- what is left out ----


def mixed(path: Path) -> None:
    from scapy.layers.inet import ICMP, IP
    from scapy.layers.l2 import ARP, Ether

    link = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
    others = [
        bytes(link / ARP(pdst="192.0.2.1", psrc="192.0.2.2", hwdst="02:00:00:00:00:01")),
        bytes(link / ARP(pdst="192.0.2.1", psrc="192.0.2.2", hwdst="02:00:00:00:00:01")),
        bytes(link / IP(src="192.0.2.1", dst="192.0.2.2") / ICMP()),
        bytes(link / IP(src="192.0.2.1", dst="192.0.2.2", proto=47) / b"gre"),
        bytes(link / IP(src="192.0.2.1", dst="192.0.2.2", proto=6, frag=100) / bytes(30)),
        MACS + b"\x88\x47" + bytes(40),
        MACS + b"\x00\x26" + bytes.fromhex("424203") + bytes(40),
        MACS + b"\x08\x00" + bytes(4),
    ]
    frames = [*talk().frames, *(Frame(data, 1_700_000_001 * 10**9) for data in others)]
    radio = [Frame(bytes(60), 1_700_000_002 * 10**9, interface=1)] * 4
    radio += [Frame(b"", interface=2), Frame(talk().frames[0].data[:53], 0, 62)]
    parts = [forge.section_header(), *(forge.interface(link_type=link) for link in (1, 127, 101))]
    path.write_bytes(b"".join([*parts, *(forge.enhanced(f) for f in [*frames, *radio])]))


LEFT_OUT = {
    "IEEE 802.11 with radiotap": 4,
    "ARP": 2,
    "ICMP": 1,
    "GRE": 1,
    "later fragments of IP packets": 1,
    "MPLS": 1,
    "LLC": 1,
    "packets with too little of a header": 3,
}


def test_unreadable_packets_are_counted_by_type(path: Path) -> None:
    mixed(path)
    rows = from_file(path)
    assert rows.left_out == LEFT_OUT
    assert len(rows) == 6
    assert len(rows) + sum(LEFT_OUT.values()) == len(pcap.read_packets(path))
    assert rows.data("client").left_out == LEFT_OUT


def in_ip(protocol: int) -> bytes:
    return MACS + b"\x08\x00\x45" + bytes(8) + bytes([protocol]) + bytes(10)


@pytest.mark.parametrize(
    ("wrap", "link_type", "kind"),
    [
        (lambda ip: MACS + b"\x81\x00\x00\x07\x88\x64" + bytes(8) + ip, 1, "PPPoE"),
        (lambda ip: bytes(8) + ip, 51, "PPPoE"),
        (lambda ip: in_ip(4) + ip, 1, "IPv4 in IP"),
        (lambda ip: in_ip(41) + ip, 1, "IPv6 in IP"),
        (lambda ip: MACS + b"\x00\x80" + bytes.fromhex("aaaa030000000800") + ip, 1, "LLC"),
        (lambda ip: bytes(14) + b"\x00\x04" + bytes(8) + ip, 113, "LLC"),
        (lambda ip: ip, 147, "link type 147"),
    ],
)
def test_unread_link_or_tunnel_is_named(path: Path, wrap: Any, link_type: int, kind: str) -> None:
    rows = relinked(path, wrap, link_type)
    assert len(rows) == 0
    assert rows.left_out == {kind: 6}
    assert opaque(rows.left_out) == ({} if kind == "LLC" else rows.left_out)


def test_outputs_name_the_packets_left_out(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mixed(path)
    message = "left out: 14 packets (4 IEEE 802.11 with radiotap, 3 packets with too little"
    assert main(["segments", str(path)]) == 0
    assert message in capsys.readouterr().out
    assert main(["explain", str(path)]) == 0
    assert "packets that were not read: 4 IEEE 802.11 with radiotap" in capsys.readouterr().out


# ---- odd handshakes ----


def refused_first() -> Talk:
    """Return a handshake whose first SYN is refused by a RST with sequence number 0."""
    made = Talk(isn=(1000, 3_000_000_000))
    made.segment(0, "S", 0)
    made.segment(1, "RA", -3_000_000_000, 1, window=0)
    made.segment(0, "S", 0, step_ns=10**9)
    made.segment(1, "SA", 0, 1)
    made.segment(0, "A", 1, 1)
    made.segment(1, "PA", 1, 1, 500)
    made.segment(1, "PA", 501, 1, 500)
    made.segment(0, "A", 1, 1001)
    return made


def two_answers() -> Talk:
    """Return a handshake with two different SYN-ACKs; the client accepts only the second."""
    made = Talk(isn=(1000, 3_000_000_000))
    made.segment(0, "S", 0)
    made.segment(1, "SA", -2_000_000_000, 1)
    made.segment(0, "R", -2_000_000_000 + 1)
    made.segment(1, "SA", 0, 1)
    made.segment(0, "A", 1, 1)
    made.segment(1, "PA", 1, 1, 500)
    made.segment(0, "A", 1, 501)
    return made


@pytest.mark.parametrize("made", [refused_first(), two_answers()], ids=["refused", "two answers"])
def test_server_numbers_are_relative_to_the_accepted_syn_ack(path: Path, made: Talk) -> None:
    rows = from_file(made.save(path))
    assert len(rows.connections) == 1
    server = rows.sent_by("server")
    data = server.data()
    assert data["seq"].tolist() == [1, 501][: len(data)]
    assert int(server[server.is_syn]["seq"][-1]) == 0
    client = rows.sent_by("client")
    assert int(client[client["flags"] & (SYN | RST) == 0]["ack"][0]) == 1
    assert not data["is_retransmission"].any()
    assert not rows["is_out_of_order"].any()


# ---- those of tests/data ----


def test_foreign_captures_contain_the_cases_in_their_names() -> None:
    every = {path.name: from_file(path) for path in FOREIGN}
    assert every["tcpdump-stall.pcap"]["is_zero_window"].any()
    assert every["tcpdump-gso.pcap"]["gso_count"].max() > 1
    assert len(every["tcpdump-reuse.pcap"].connections) == 3
    assert every["tcpdump-plain.pcap"]["window_shift"].max() == 0
    assert every["tcpdump-one-way.pcap"].from_client.all()
    assert not every["tcpdump-middle.pcap"][:5].is_syn.any()
    assert (every["tcpdump-ipv6.pcap"]["protocol"] == 17).any()
    assert every["tcpdump-sll.pcap"]["wire_bytes"].min() == 16 + 20 + 8
    assert every["tcpdump-sll2.pcap"]["wire_bytes"].min() == 20 + 20 + 8
