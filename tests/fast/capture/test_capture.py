"""Test a capture's packets in scapy, its file, and its count of missing packets."""

import warnings
from pathlib import Path

import pytest
from tests.support import forge
from tests.support.forge import Frame

from tcplab.capture import Capture, open_capture
from tcplab.errors import CaptureError
from tcplab.segments.pcap import CaptureLossWarning, CaptureTruncatedWarning


@pytest.fixture
def talk(tmp_path: Path) -> Capture:
    talk = forge.Talk()
    talk.handshake()
    for n in range(5):
        talk.segment(0, "PA", 1 + 10 * n, 1, 10)
    return open_capture(talk.save(tmp_path / "talk.pcapng"))


# ---- packets ----


def test_packets_are_a_scapy_packet_list(talk: Capture) -> None:
    from scapy.plist import PacketList

    packets = talk.packets()
    assert isinstance(packets, PacketList)
    assert len(packets) == len(talk) == 8
    assert packets[0]["TCP"].flags == "S"
    assert packets[-1]["TCP"].seq == 1041
    assert bytes(packets[3]["TCP"].payload) == b"x" * 10
    assert [len(p["TCP"].payload) for p in packets] == [0, 0, 0, 10, 10, 10, 10, 10]


def test_a_row_of_the_segments_leads_to_its_packet(talk: Capture) -> None:
    row = talk.segments[5]
    assert talk.packets()[row["packet"]]["TCP"].seq == 1021


def test_times_are_exact_to_the_nanosecond(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(forge.pcapng([Frame(bytes(60), 1_700_000_000_123_456_789, 1514)]))
    packet = open_capture(path).packets()[0]
    assert str(packet.time) == "1700000000.123456789"
    assert packet.wirelen == 1514


@pytest.mark.parametrize(
    ("link_type", "header", "layers"),
    [
        (0, b"\2\0\0\0", ["Loopback", "IP", "TCP"]),
        (0, b"\0\0\0\2", ["Loopback", "IP", "TCP"]),
        (108, b"\0\0\0\2", ["Loopback", "IP", "TCP"]),
        (1, bytes(12) + b"\x08\0", ["Ether", "IP", "TCP"]),
        (113, bytes(14) + b"\x08\0", ["CookedLinux", "IP", "TCP"]),
        (276, b"\x08\0" + bytes(18), ["CookedLinuxV2", "IP", "TCP"]),
        (101, b"", ["IP", "TCP"]),
        (228, b"", ["IP", "TCP"]),
        (101, None, ["IPv6", "TCP"]),
        (229, None, ["IPv6", "TCP"]),
    ],
)
def test_scapy_gets_the_right_layers(
    tmp_path: Path, link_type: int, header: bytes | None, layers: list[str]
) -> None:
    talk = forge.Talk(ipv6=header is None)
    talk.handshake()
    frame = Frame((header or b"") + talk.frames[0].data[14:])
    path = tmp_path / "x"
    path.write_bytes(forge.pcapng([frame], link_type=link_type))
    [packet] = open_capture(path).packets()
    assert [layer.__name__ for layer in packet.layers()] == layers


def test_a_packet_of_an_unknown_link_type_is_raw(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(forge.pcapng([Frame(b"strange")], link_type=147))
    capture = open_capture(path)
    assert capture.packets()[0].load == b"strange"
    assert len(capture.segments) == 0


# ---- the file ----


def test_save_makes_a_lasting_copy(talk: Capture, tmp_path: Path) -> None:
    copy = talk.save(tmp_path / "copy.pcapng")
    assert copy.read_bytes() == talk.path.read_bytes()
    with pytest.raises(CaptureError, match=r"saving to .*: No such file or directory"):
        talk.save(tmp_path / "no" / "copy")
    with pytest.raises(CaptureError, match="saving to"):
        talk.save(talk.path)


# ---- what is missing ----


def test_losses_are_reported_when_the_capture_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "lossy"
    path.write_bytes(forge.pcapng([Frame(b"x")]) + forge.statistics(received=8, if_drop=7))
    with pytest.warns(CaptureLossWarning, match="7 packets are missing from the capture") as caught:
        capture = open_capture(path)
    assert caught[0].filename == __file__
    assert "ring_mib" not in str(caught[0].message)  # advice about our own recorder
    assert (capture.drops, capture.table.interfaces[0].received) == (7, 8)
    assert "drops: 7" in repr(capture)


def test_a_cut_file_is_reported_when_it_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "cut"
    path.write_bytes(forge.pcapng([Frame(b"x" * 100)] * 3)[:-10])
    with pytest.warns(CaptureTruncatedWarning, match="in the middle of a block, after 2 packets"):
        capture = open_capture(path)
    assert len(capture) == 2
    assert capture.table.truncated is not None


def test_a_whole_file_without_losses_is_quiet(talk: Capture) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(open_capture(talk.path).segments) == 8
    assert talk.drops is None
    assert "drops: not known" in repr(talk)
    assert talk.table.truncated is None
