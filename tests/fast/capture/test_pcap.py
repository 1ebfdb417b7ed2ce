"""Test the reader of capture files. It returns the packets before any damage, and reports it."""

import contextlib
import os
import random
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support import forge
from tests.support.forge import Frame
from tests.support.segments.captures import FOREIGN

from tcplab.errors import CaptureError
from tcplab.segments import from_packets
from tcplab.segments.pcap import PacketTable, blocks, commented, packets_in, read_packets


@pytest.fixture
def capture_file(tmp_path: Path) -> Path:
    return tmp_path / "capture"


def read(path: Path, content: bytes) -> PacketTable:
    path.write_bytes(content)
    return read_packets(path)


def frames_of(packets: PacketTable) -> list[tuple[bytes, int, int]]:
    columns = zip(packets.original_bytes.tolist(), packets.time_ns.tolist(), strict=True)
    return [(packets.bytes_of(i), *values) for i, values in enumerate(columns)]


def expected(frames: Sequence[Frame]) -> list[tuple[bytes, int, int]]:
    return [(frame.data, frame.length, frame.time_ns) for frame in frames]


def some_frames(count: int, *, unit_ns: int = 1) -> list[Frame]:
    """Return frames of various sizes."""
    chance = random.Random(0)
    frames = []
    for i in range(count):
        data = chance.randbytes(chance.choice([0, 1, 54, 60, 128, 1514, chance.randrange(300)]))
        time_ns = (1_700_000_000 * 10**9 + i * 123_456_789) // unit_ns * unit_ns
        frames.append(Frame(data, time_ns, len(data) + chance.randrange(3) * 1000))
    return frames


# ---- what is there is found ----


@pytest.mark.parametrize("path", FOREIGN, ids=lambda path: path.name)
def test_a_foreign_file_reads_as_scapy_reads_it(path: Path) -> None:
    from scapy.utils import RawPcapNgReader, RawPcapReader

    packets = read_packets(path)
    assert packets.truncated is None
    theirs = []
    if path.suffix == ".pcapng":
        with RawPcapNgReader(str(path)) as reader:
            meta: Any
            for frame, meta in reader:
                ticks = (meta.tshigh << 32) + meta.tslow
                theirs.append((frame, meta.wirelen, ticks * 10**9 // meta.tsresol))
    else:
        with RawPcapReader(str(path)) as reader:
            unit = 1 if reader.nano else 1000
            for frame, meta in reader:
                theirs.append((frame, meta.wirelen, meta.sec * 10**9 + meta.usec * unit))
    assert frames_of(packets) == theirs
    assert len(theirs) > 3


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("nanoseconds", [False, True])
def test_pcap_of_either_order_and_unit(capture_file: Path, order: str, nanoseconds: bool) -> None:
    frames = some_frames(50, unit_ns=1 if nanoseconds else 1000)
    # The high bits of the link type describe a frame check sequence.
    link_type = 0x2400_0000 + 276
    content = forge.pcap(frames, order=order, nanoseconds=nanoseconds, link_type=link_type)
    packets = read(capture_file, content)
    assert frames_of(packets) == expected(frames)
    assert packets.interfaces[0].link_type == 276
    assert packets.interfaces[0].drops is None
    assert packets.truncated is None


@pytest.mark.parametrize(
    ("resolution", "ticks", "time_ns"),
    [
        (None, 1_700_000_000_123_456, 1_700_000_000_123_456_000),
        (None, 2**64 - 1, 2**63 - 1),
        (0, 1_700_000_000, 1_700_000_000 * 10**9),
        (9, 1_700_000_000_123_456_789, 1_700_000_000_123_456_789),
        (12, 1_700_000_000_123, 1_700_000_000),
        (128 + 32, 1_700_000_000 << 32 | 1 << 31, 1_700_000_000_500_000_000),
    ],
)
def test_times_of_any_resolution(
    capture_file: Path, resolution: int | None, ticks: int, time_ns: int
) -> None:
    content = forge.section_header() + forge.interface(resolution=resolution)
    content += forge.enhanced(Frame(b"x"), ticks=ticks)
    assert read(capture_file, content).time_ns.tolist() == [time_ns]


def test_a_time_offset_is_added(capture_file: Path) -> None:
    described = struct.pack("<HHI", 1, 0, 0) + forge.option("<", 14, struct.pack("<q", -5))
    content = forge.section_header() + forge.block("<", 1, described)
    content += forge.enhanced(Frame(b"x"), ticks=7 * 10**6)
    assert read(capture_file, content).time_ns.tolist() == [2 * 10**9]


def test_sections_have_their_own_byte_order_and_interfaces(capture_file: Path) -> None:
    first = forge.section_header("<") + forge.interface("<", name="a") + forge.interface(name="b")
    first += forge.enhanced(Frame(b"1", 1, interface=1))
    second = forge.section_header(">") + forge.interface(">", name="c", resolution=6)
    second += forge.enhanced(Frame(b"22", 2), ">")
    second += forge.statistics(">", received=9, if_drop=2)
    packets = read(capture_file, first + second)
    assert [i.name for i in packets.interfaces] == ["a", "b", "c"]
    assert packets.interface.tolist() == [1, 2]
    assert frames_of(packets) == [(b"1", 1, 1), (b"22", 2, 2000)]
    assert [i.drops for i in packets.interfaces] == [None, None, 2]
    assert packets.interfaces[2].received == 9


def test_the_last_statistics_count_and_losses_add_up(capture_file: Path) -> None:
    content = forge.pcapng([Frame(b"x")])
    content += forge.statistics(received=5, if_drop=1)
    content += forge.statistics(received=50, if_drop=10, os_drop=7)
    (interface,) = read(capture_file, content).interfaces
    assert (interface.received, interface.drops) == (50, 17)


def test_the_direction_of_each_packet(capture_file: Path) -> None:
    frames = [Frame(b"x" * n, n, flags=flags) for n, flags in enumerate([1, 2, None, 0, 6, 3])]
    packets = read(capture_file, forge.pcapng(frames))
    assert packets.outbound.tolist() == [0, 1, -1, -1, 1, -1]


def test_comments_keep_the_half_block_at_the_end() -> None:
    whole = forge.pcapng([Frame(bytes(60)), Frame(bytes(61))])
    *_earlier, (last, _order, _kind, _block) = blocks(whole)
    cut = whole[: last + 20]
    made = commented(cut, {0: "why it left"})
    assert made.endswith(whole[last : last + 20])
    assert b"why it left" in made
    assert len(packets_in(made, "made")) == len(packets_in(cut, "cut")) == 1


def test_unknown_blocks_are_stepped_over(capture_file: Path) -> None:
    frames = some_frames(200)
    content = forge.section_header() + forge.interface()
    for frame in frames:
        content += forge.block("<", 0x0BAD, b"who knows") + forge.enhanced(frame)
    assert frames_of(read(capture_file, content)) == expected(frames)


@pytest.mark.parametrize("kind", [2, 3])  # an obsolete Packet Block and a Simple Packet Block
def test_packet_blocks_of_a_rare_kind_are_refused(capture_file: Path, kind: int) -> None:
    content = forge.section_header() + forge.interface()
    content += forge.block("<", kind, struct.pack("<I", 4) + b"four")
    with pytest.raises(CaptureError, match="of a rare kind; convert with editcap"):
        read(capture_file, content)


# ---- what is cut short or damaged is read up to there ----


@pytest.mark.parametrize("form", ["pcap", "pcapng"])
def test_a_file_cut_at_any_byte_gives_the_packets_before(capture_file: Path, form: str) -> None:
    frames = [Frame(bytes([n]) * n, n * 1000) for n in range(6)]
    make = forge.pcap if form == "pcap" else forge.pcapng
    whole = make(frames)
    header = 24 if form == "pcap" else len(forge.section_header())
    ends = {header} | {len(make(frames[:n])) for n in range(len(frames) + 1)}
    seen = set()
    for size in range(header, len(whole) + 1):
        packets = read(capture_file, whole[:size])
        intact = frames_of(packets)
        assert intact == expected(frames[: len(intact)])
        assert (packets.truncated is None) == (size in ends)
        if packets.truncated:
            assert f"after {len(intact)} packets" in packets.truncated
            assert f"of {size}" in packets.truncated
        seen.add(len(intact))
    assert seen == set(range(7))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (struct.pack("<III", 6, 4_000_000_000, 0), "impossible length 4000000000"),
        (struct.pack("<III", 6, 0, 0), "impossible length 0"),
        (struct.pack("<III", 6, 33, 0), "impossible length 33"),
        (forge.block("<", 6, bytes(16)), "impossible length 28"),
        (forge.enhanced(Frame(b"x"))[:-4] + b"\0\0\0\1", "two lengths differ"),
        (forge.enhanced(Frame(b"x", interface=3)), "interface 3, which was not described"),
        (forge.block("<", 0x0A0D0D0A, bytes(16)), "byte order is unknown"),
        (
            forge.block("<", 6, struct.pack("<IIIII", 0, 0, 0, 900, 900) + b"x"),
            "900 bytes in a block of 36",
        ),
        (
            forge.block("<", 6, struct.pack("<IIIII", 0, 0, 0, 5, 5) + b"four"),
            "5 bytes in a block of 36",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_damage_in_pcapng_is_located(capture_file: Path, damage: bytes, message: str) -> None:
    frames = some_frames(40)
    whole = forge.pcapng(frames)
    packets = read(capture_file, whole + damage + forge.enhanced(Frame(b"after")))
    assert frames_of(packets) == expected(frames)
    assert packets.truncated is not None
    assert message in packets.truncated
    assert f"after 40 packets, at byte {len(whole)} of" in packets.truncated


def test_damage_in_pcap_is_located(capture_file: Path) -> None:
    frames = some_frames(40, unit_ns=1000)
    whole = forge.pcap(frames)
    packets = read(capture_file, whole + struct.pack("<IIII", 1, 1, 262145, 9) + bytes(300_000))
    assert frames_of(packets) == expected(frames)
    assert packets.truncated == (
        "reading stopped at a packet of 262145 bytes, more than the 262144 there can be,"
        f" after 40 packets, at byte {len(whole)} of {len(whole) + 300_016}"
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a capture: it has 0 bytes"),
        (b"\xd4\xc3\xb2\xa1", "not a capture: it has 4 bytes"),
        (b"#!/bin/sh\n" * 9, "not a capture: it begins 23 21 2f 62"),
        (b"\x1f\x8b\x08\x00" + bytes(30), "compressed with gzip; run gunzip first"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_other_files_are_one_line_errors(capture_file: Path, content: bytes, message: str) -> None:
    with pytest.raises(CaptureError, match=message) as caught:
        read(capture_file, content)
    assert str(capture_file) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_file_and_directory_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="none: No such file or directory"):
        read_packets(tmp_path / "none")
    with pytest.raises(CaptureError, match="Is a directory"):
        read_packets(tmp_path)


# ---- fuzzing: an answer or a CaptureError ----

fuzzed = settings(
    max_examples=int(os.environ.get("TCPLAB_FUZZ_EXAMPLES", "50")),  # tests/fuzz/run sets more
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def check_sanity(packets: PacketTable, size: int) -> None:
    end = packets.offset + packets.captured_bytes
    assert (packets.offset >= 24).all()
    assert (end <= size).all()
    assert (np.diff(packets.offset) > 0).all()
    assert (packets.interface < len(packets.interfaces)).all()
    rows = from_packets(packets)
    assert len(rows) <= len(packets)
    if len(rows):
        assert int(rows["connection"].max()) < len(rows.connections)


def try_to_read(path: Path, content: bytes) -> None:
    with contextlib.suppress(CaptureError):
        check_sanity(read(path, content), len(content))


@fuzzed
@given(
    st.sampled_from(FOREIGN),
    st.lists(st.tuples(st.integers(0, 2**31), st.binary(min_size=1, max_size=6)), max_size=8),
    st.integers(0, 2**31),
)
def test_a_real_file_with_bytes_changed_and_cut(
    tmp_path: Path, path: Path, changes: list[tuple[int, bytes]], cut: int
) -> None:
    content = bytearray(path.read_bytes())
    for at, value in changes:
        at %= len(content)
        content[at : at + len(value)] = value
    del content[cut % (2 * len(content)) :]
    try_to_read(tmp_path / "fuzz", bytes(content))


@fuzzed
@given(st.binary(min_size=400, max_size=800))
def test_malformed_tcp_headers_are_read_or_refused(tmp_path: Path, chance: bytes) -> None:
    """Only Ethernet, IP, the ports and, in half of the headers, the data offset are valid."""
    frames: list[Frame] = []
    while len(chance) >= 21:
        size = 20 + chance[0] % 41
        header, chance = bytearray(chance[1 : 1 + size]), chance[1 + size :]
        header[0:4] = (b"\0\1\0\2", b"\0\2\0\1", b"\0\3\0\1")[header[0] % 3]
        if header[4] % 2:
            header[12] = len(header) // 4 << 4
        ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(header), 0, 0, 64, 6, 0) + b"\1" * 8
        frames.append(Frame(bytes(12) + b"\x08\0" + ip + bytes(header), len(frames)))
    try_to_read(tmp_path / "fuzz", forge.pcapng(frames))
