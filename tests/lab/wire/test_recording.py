"""The wire's recordings are complete, in order, and readable by other programs."""

import socket
import struct
from pathlib import Path

import pytest
from tests.support.nonempty import each
from tests.support.wire.bench import Bench, WireError, stopped_wire
from tests.support.wire.frames import numbered, udp
from tests.support.wire.model import Settings
from tests.support.wire.recording import (
    INTERFACE,
    SECTION,
    STATISTICS,
    blocks,
    options,
    packets,
    statistics,
)

from tcplab import Lab
from tcplab.capture import Capture
from tcplab.segments.pcap import CaptureLossWarning


def test_every_frame_is_recorded_twice_or_with_its_drop_reason(
    bench: Bench, tmp_path: Path
) -> None:
    bench.use(Settings(rate_bps=100_000_000, queue_packets=20, delay_ns=1_000_000, loss=0.05))

    def work() -> int:
        for number in range(500):
            bench.ends[number % 2].send(numbered(46 + number, number))
        return 500

    path = tmp_path / "all.pcapng"
    recorded = bench.record(path, work)
    counters = bench.counters().values()
    entries = [p for p in recorded if p.inbound]
    left = [p for p in recorded if not p.inbound]
    dropped = [p for p in entries if p.dropped]
    assert len(entries) == 500
    assert len(dropped) == sum(sum(way["dropped"].values()) for way in counters)
    assert {p.id for p in entries} - {p.id for p in dropped} == {p.id for p in left}
    assert len({p.id for p in entries}) == 500
    times = [p.time_ns for p in recorded]
    assert times == sorted(times)
    side = {p.id: p.side for p in entries}
    assert all(p.side == 1 - side[p.id] for p in each(left))
    assert statistics(path) == {0: (250, 0), 1: (250, 0)}


def test_blocks_hold_interface_names_and_snaplen(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "blocks.pcapng"
    bench.record(path, lambda: 0, snaplen=96)
    kinds = [kind for kind, _ in blocks(path)]
    assert kinds == [SECTION, INTERFACE, INTERFACE, STATISTICS, STATISTICS]
    for name, body in zip(bench.interfaces, [b for k, b in blocks(path) if k == 1], strict=True):
        assert struct.unpack_from("<HHI", body) == (1, 0, 96)
        assert options(body[8:])[2] == name.encode()
        assert options(body[8:])[9] == b"\x09"


@pytest.mark.parametrize("snaplen", [14, 128, 131072])
def test_the_snaplen_cuts_and_the_length_stays(bench: Bench, tmp_path: Path, snaplen: int) -> None:
    frame = udp(bytes(range(256)) * 5)

    def work() -> int:
        bench.ends[0].send(frame)
        return 1

    entry, departure = bench.record(tmp_path / "with spaces.pcapng", work, snaplen=snaplen)
    assert entry.data == departure.data == frame[:snaplen]
    assert entry.length == departure.length == len(frame)


def test_a_recording_that_cannot_start_says_why(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "one.pcapng"
    with pytest.raises(WireError, match="No such file"):
        bench.command(f"capture 128 {tmp_path}/no/where.pcapng")
    with pytest.raises(WireError, match="Is a directory"):
        bench.command(f"capture 128 {tmp_path}")
    with pytest.raises(WireError, match="No space left"):
        bench.command("capture 128 /dev/full")
    with pytest.raises(WireError, match="from 14 to 131072"):
        bench.command(f"capture 13 {path}")
    with pytest.raises(WireError, match="the path of a file"):
        bench.command("capture 128 ")
    with pytest.raises(WireError, match="none is on"):
        bench.command("capture off")
    bench.command(f"capture 128 {path}")
    with pytest.raises(WireError, match=f"already writing {path}"):
        bench.command(f"capture 128 {path}2")
    bench.command("capture off")
    assert packets(path) == []


@pytest.mark.parametrize("how", ["end of input", "SIGTERM"])
def test_the_file_is_complete_however_the_wire_ends(lab: Lab, tmp_path: Path, how: str) -> None:
    path = tmp_path / "ended.pcapng"
    with Bench(lab) as own:
        own.command(f"capture 128 {path}")
        own.ends[0].send(*[numbered(60, number) for number in range(10)])
        own.drain(10)
        if how == "end of input":
            own.end_input()
        else:
            own.process.terminate()
        assert own.process.wait(10) == 0
        assert own.last_words() == ""
    assert len(packets(path)) == 20
    assert len(statistics(path)) == 2


def test_a_full_disk_is_reported_and_the_link_goes_on(lab: Lab, tmp_path: Path) -> None:
    """A limit on the file size makes writes fail in the same place as a full disk does."""
    with Bench(lab, program="prlimit", options=["--fsize=200000", "--", "wire"]) as own:
        own.command(f"capture 128 {tmp_path / 'full.pcapng'}")
        for first in range(0, 2000, 100):
            own.ends[0].send(*[numbered(128, n) for n in range(first, first + 100)])
        own.drain(2000)
        with pytest.raises(WireError, match="File too large"):
            own.command("capture off")
        assert own.counters()["ab"]["packets_out"] == 2000


@pytest.mark.needs_lab
def test_frames_that_the_wire_itself_missed_are_reported() -> None:
    with Lab() as lab:
        with pytest.warns(CaptureLossWarning, match="while the wire's receive ring was full"):
            capture = _capture_what_is_too_much(lab)
        lost = lab.link.counters()["client->server"]["dropped"]["ring"]
    assert capture.drops == lost > 0


def _capture_what_is_too_much(lab: Lab) -> Capture:
    with (
        lab.client.socket(socket.AF_INET, socket.SOCK_DGRAM) as flood,
        lab.link.capture() as capture,
    ):
        flood.connect((lab.server.address, 9))
        with stopped_wire(lab):
            for _ in range(20_000):  # an 8 MiB ring holds about 5000 frames
                flood.send(bytes(1000))
    return capture
