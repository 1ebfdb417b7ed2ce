"""Every column against tshark's field of the same meaning; each difference has to be explained."""

from __future__ import annotations

import functools
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import forge, wireshark
from tests.forge import Frame, Talk
from tests.nonempty import each

from tcplab import Lab
from tcplab.capture import Capture
from tcplab.segments import FIN, SYN, SegmentArray, from_file

pytestmark = [wireshark.needs_tshark]

DATA = Path(__file__).resolve().parent.parent / "data"
FOREIGN = sorted(DATA.glob("*.pcap*"))


def unexplained(rows: SegmentArray, path: Path) -> dict[str, Any]:
    """Differences from tshark without a reason that holds; only what is judged may have one."""
    return without_reason(rows, wireshark.differences(rows, wireshark.dissect(path)))


def without_reason(rows: SegmentArray, differences: dict[str, list[int]]) -> dict[str, Any]:
    found = dict(differences)
    tcp = rows[rows["protocol"] == 6]
    judged = set(found.pop("is_retransmission", [])) | set(found.pop("is_out_of_order", []))
    left: dict[str, Any] = {name: where[:5] for name, where in found.items()}
    if strange := [i for i in sorted(judged) if not explanation(tcp, i)]:
        left["judgement"] = [(int(tcp["packet"][i]) + 1, strange) for i in strange[:5]]
    return left


def explanation(rows: SegmentArray, i: int) -> str | None:
    """Why our judgement of segment i is right where tshark's is another; worked out afresh."""
    row = rows[i]
    same = (rows["connection"] == row["connection"]) & (rows["direction"] == row["direction"])
    earlier = rows[:i][same[:i]]
    seq, end = int(row["seq"]), _end(row)
    if row["is_retransmission"]:
        if any(int(each["seq"]) < end and seq < _end(each) for each in earlier):
            # tshark: out-of-order, if less than an RTT after the newest data; or a keep-alive,
            # if it is one byte.
            return "these bytes passed before"
        opener = next(each for each in earlier if int(each["seq"]) >= end)
        if row["has_timestamps"] and 0 < _later(row, opener) < 2**31:
            return "stamped later than the segment that left the gap"
        if int(row["time_ns"]) - int(opener["time_ns"]) >= 3_000_000:
            # tshark measures from the newest data, and new data goes on while a gap is open.
            return "the gap was open for long"
    if row["is_out_of_order"]:
        opener = next(each for each in earlier if int(each["seq"]) >= end)
        if row["has_timestamps"] and _later(opener, row) < 2**31:
            return "stamped before the segment that passed it"
        syn, ack = int(rows["time_ns"][0]), int(rows["time_ns"][2])
        if int(row["time_ns"]) - int(opener["time_ns"]) < ack - syn:
            # tshark: a fast retransmission, if the receiver's duplicate ACKs passed before it.
            return "nobody can have asked for it in so short a time"
    return None


def _later(row: Any, other: Any) -> int:
    """By how many ticks of the sender's clock."""
    return (int(row["ts_val"]) - int(other["ts_val"])) % 2**32


def _end(row: Any) -> int:
    flags = int(row["flags"])
    return int(row["seq"]) + int(row["payload_bytes"]) + bool(flags & SYN) + bool(flags & FIN)


# ---- foreign captures ----


@pytest.mark.parametrize("path", FOREIGN, ids=lambda path: path.name)
def test_foreign_captures(path: Path) -> None:
    rows = from_file(path)
    assert unexplained(rows, path) == {}
    assert (rows["protocol"] == 6).sum() >= 3


def test_the_foreign_captures_hold_what_they_are_for() -> None:
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


# ---- written by hand ----


def keep_alives() -> Talk:
    talk = Talk(step_ns=10_000_000)
    talk.handshake()
    talk.segment(0, "PA", 1, 1, 100)
    talk.segment(1, "A", 1, 101)
    for _ in range(2):
        talk.segment(0, "A", 100, 1, step_ns=10**9)
        talk.segment(1, "A", 1, 101)
    return talk


def one_byte_again() -> Talk:
    talk = Talk(step_ns=10_000_000)
    talk.handshake()
    talk.segment(0, "PA", 1, 1, 1)
    talk.segment(0, "PA", 1, 1, 1, step_ns=250_000_000)
    talk.segment(1, "A", 1, 2)
    return talk


def losses() -> Talk:
    talk = Talk(step_ns=10_000_000)
    talk.handshake()
    received: set[int] = set()
    for number in (0, 1, 2, 4, 5, 3, 7, 8, 9, 6, 6, 0):
        talk.segment(0, "A", 1 + 100 * number, 1, 100, step_ns=500_000)
        received.add(number)
        missing = next(n for n in range(12) if n not in received)
        talk.segment(1, "A", 1, 1 + 100 * missing, step_ns=100_000)
    talk.segment(0, "A", 701, 1, 200, step_ns=400_000_000)
    return talk


def acknowledged_before() -> Talk:
    """The first copies went another way, or were lost by the recorder."""
    talk = Talk(step_ns=10_000_000)
    talk.handshake()
    talk.segment(1, "A", 1, 301)
    talk.segment(0, "A", 1, 1, 100)
    talk.segment(0, "A", 101, 1, 200)
    talk.segment(0, "A", 301, 1, 200)
    return talk


def zero_window() -> Talk:
    talk = Talk(step_ns=10_000_000)
    talk.handshake()
    talk.segment(0, "A", 1, 1, 512)
    talk.segment(1, "A", 1, 513, window=0)
    talk.segment(0, "A", 512, 1, step_ns=200_000_000)
    talk.segment(1, "A", 1, 513, window=0)
    talk.segment(1, "A", 1, 513, window=512)
    talk.segment(1, "R", 1, window=0)
    return talk


def wrapping() -> Talk:
    talk = Talk(isn=(2**32 - 500, 2**32 - 1))
    talk.handshake()
    for number in range(10):
        talk.segment(0, "A", 1 + 100 * number, 1, 100)
        talk.segment(1, "A", 1, 101 + 100 * number)
    talk.segment(0, "A", 801, 1, 100, step_ns=10**9)
    return talk


def scaling() -> Talk:
    talk = Talk()
    options = [("MSS", 1460), ("SAckOK", b""), ("Timestamp", (1, 0)), ("NOP", None), ("WScale", 7)]
    talk.handshake(options=(options, options))
    talk.segment(1, "A", 1, 1, window=65535)
    talk.segment(0, "S", 0, options=options, ports=(40001, 80))
    talk.segment(1, "SA", 0, 1, options=options[:1], ports=(40001, 80))
    talk.segment(0, "A", 1, 1, ports=(40001, 80))
    talk.segment(0, "S", 0, ports=(40002, 80))
    talk.segment(1, "SA", 0, 1, options=options, ports=(40002, 80))
    talk.segment(1, "A", 1, 1, ports=(40002, 80))
    talk.segment(1, "SA", 0, 1, options=options, ports=(40003, 80))
    talk.segment(0, "A", 1, 1, ports=(40003, 80))
    talk.segment(1, "A", 1, 1, ports=(40003, 80))
    return talk


def middle() -> Talk:
    talk = Talk()
    talk.segment(1, "PA", 5000, 700, 10)
    talk.segment(0, "PA", 700, 5010, 10)
    talk.segment(0, "FA", 710, 5010)
    talk.segment(1, "FA", 5010, 711)
    talk.segment(0, "A", 711, 5011)
    return talk


def reuse() -> Talk:
    talk = Talk()
    for start in (0, 200_000, 100_000):
        talk.segment(0, "S", start)
        talk.segment(1, "SA", start, start + 1)
        talk.segment(0, "A", start + 1, start + 1)
        talk.segment(0, "R", start + 1)
    return talk


def opened_at_once() -> Talk:
    talk = Talk()
    talk.segment(0, "S", 0)
    talk.segment(1, "S", 0)
    talk.segment(0, "SA", 0, 1)
    talk.segment(1, "SA", 0, 1)
    talk.segment(0, "PA", 1, 1, 10)
    return talk


def ipv6() -> Talk:
    talk = Talk(ipv6=True)
    talk.handshake()
    talk.segment(0, "PAEC", 1, 1, 1000)
    talk.segment(1, "AU", 1, 1001)
    return talk


WRITTEN = [
    keep_alives,
    losses,
    acknowledged_before,
    zero_window,
    wrapping,
    scaling,
    middle,
    reuse,
    opened_at_once,
    ipv6,
    one_byte_again,
]


@pytest.mark.parametrize("write", WRITTEN, ids=lambda write: write.__name__)
def test_conversations_written_by_hand(tmp_path: Path, write: Callable[[], Talk]) -> None:
    path = write().save(tmp_path / "x.pcapng")
    assert unexplained(from_file(path), path) == {}


def test_a_single_byte_sent_again_is_a_keep_alive_to_tshark_only(tmp_path: Path) -> None:
    """RFC 9293, 3.8.4, allows keep-alives with a byte of garbage; Linux sends none, and programs
    that write single bytes are what this course is about."""
    path = one_byte_again().save(tmp_path / "x.pcapng")
    rows = from_file(path)
    assert rows["is_retransmission"].tolist() == [0, 0, 0, 0, 1, 0]
    assert wireshark.differences(rows, wireshark.dissect(path)) == {"is_retransmission": [4]}


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("nanoseconds", [False, True])
def test_both_byte_orders_of_pcap(tmp_path: Path, order: str, nanoseconds: bool) -> None:
    path = tmp_path / "x.pcap"
    path.write_bytes(forge.pcap(losses().frames, order=order, nanoseconds=nanoseconds))
    assert unexplained(from_file(path), path) == {}


def test_the_other_byte_order_of_pcapng(tmp_path: Path) -> None:
    path = tmp_path / "x.pcapng"
    path.write_bytes(forge.pcapng(losses().frames, order=">", resolution=128 + 30))
    assert unexplained(from_file(path), path) == {}


@pytest.mark.parametrize("link_type", [0, 101, 108, 228])
def test_other_links(tmp_path: Path, link_type: int) -> None:
    path = tmp_path / "x.pcapng"
    family = {0: b"\2\0\0\0", 108: b"\0\0\0\2"}.get(link_type, b"")
    frames = [Frame(family + f.data[14:], f.time_ns) for f in losses().frames]
    path.write_bytes(forge.pcapng(frames, link_type=link_type))
    rows = from_file(path)
    assert len(rows) == len(frames)
    assert unexplained(rows, path) == {}


@pytest.mark.parametrize("tags", ["81000007", "88a8000781000009", "810000078100000981000001"])
def test_vlans(tmp_path: Path, tags: str) -> None:
    path = tmp_path / "x.pcapng"
    frames = [
        Frame(f.data[:12] + bytes.fromhex(tags) + f.data[12:], f.time_ns) for f in losses().frames
    ]
    path.write_bytes(forge.pcapng(frames))
    rows = from_file(path)
    assert len(rows) == len(frames)
    assert unexplained(rows, path) == {}


def test_a_snaplen_that_cuts_the_options(tmp_path: Path) -> None:
    path = tmp_path / "x.pcapng"
    frames = [Frame(f.data[:54], f.time_ns, f.length) for f in losses().frames]
    path.write_bytes(forge.pcapng(frames))
    assert unexplained(from_file(path), path) == {}


# ---- our own recordings, and what we know of them ----

SINK = """
import socket
listener = socket.create_server(("", 7000))
print("ready", flush=True)
while True:
    s, _ = listener.accept()
    while s.recv(1 << 20):
        pass
    s.close()
"""
SOURCE = """
import socket
s = socket.create_connection(("server", 7000))
s.sendall(bytes(1_500_000))
s.shutdown(socket.SHUT_WR)
s.recv(1)
"""
WIRES: dict[str, dict[str, Any]] = {
    "clean": {},
    "loss": {"loss": 0.01, "seed": 7},
    "short-queue": {"queue_packets": 12, "rate_mbit": 30},
    "reordering": {"hold_ns": 2_000_000, "rate_mbit": 100},
}


@functools.cache
def transfer(wire: str) -> tuple[Capture, Capture]:
    """A bulk transfer over a wire: as recorded at the sender, and at the receiver."""
    with Lab(rtt_ms=10) as lab:
        lab.link.update(**WIRES[wire])
        if wire == "reordering":
            lab.link.script("client->server", "hold data every=50")
        sink = lab.server.start([sys.executable, "-c", SINK], stdout=subprocess.PIPE)
        assert sink.stdout is not None
        sink.stdout.readline()
        with lab.client.capture() as left, lab.server.capture() as right:
            lab.client.run([sys.executable, "-c", SOURCE])
            time.sleep(0.1)
        sink.kill()
        sink.communicate()
    return left, right


@functools.cache
def disagreements(wire: str, end: int) -> dict[str, list[int]]:
    capture = transfer(wire)[end]
    return wireshark.differences(capture.segments, wireshark.dissect(capture.path))


@pytest.fixture(scope="module", autouse=True)
def forget_transfers() -> Iterator[None]:
    yield
    transfer.cache_clear()


@pytest.mark.needs_lab
@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("end", [0, 1], ids=["sender", "receiver"])
def test_our_recordings(wire: str, end: int) -> None:
    rows = transfer(wire)[end].segments
    assert without_reason(rows, disagreements(wire, end)) == {}


@pytest.mark.needs_lab
@pytest.mark.parametrize("wire", WIRES)
def test_nothing_is_out_of_order_where_it_is_sent(wire: str) -> None:
    """There tshark takes retransmissions for it, if new data was sent less than an RTT before."""
    sent = transfer(wire)[0].segments
    assert not sent["is_out_of_order"].any()
    if wire in ("loss", "short-queue"):
        assert sent["is_retransmission"].any()
    if wire == "clean":
        assert not sent["is_retransmission"].any()


@pytest.mark.needs_lab
@pytest.mark.parametrize("wire", ["loss", "short-queue", "reordering"])
def test_the_receiver_is_judged_as_the_sender_knows_it(wire: str) -> None:
    """An arrival is a retransmission if the sender's capture shows that it was sent before."""
    for _ in range(3):
        if not (wrong := judged_wrongly(wire)):
            break
        # On a busy machine a rare order of events leaves the receiver without evidence.
        transfer.cache_clear()
    assert wrong == []
    if wire == "reordering":
        assert transfer(wire)[1].segments["is_out_of_order"].any()


def judged_wrongly(wire: str) -> list[tuple[int, int]]:
    sent, arrived = (capture.segments for capture in transfer(wire))
    data = sent.data("client")
    again = {(int(row["seq"]), int(row["ts_val"])) for row in data[data["is_retransmission"]]}
    first = {(int(row["seq"]), int(row["ts_val"])) for row in data[~data["is_retransmission"]]}
    newest, wrong = 0, []
    for row in arrived.data("client"):
        key = (int(row["seq"]), int(row["ts_val"]))
        # Nobody can know: sent twice within a tick of the sender's clock; and the end of a window
        # that was lost as a whole, so that the receiver saw nothing newer.
        unknown = key in again & first or (key in again and key[0] >= newest)
        if not unknown and bool(row["is_retransmission"]) != (key in again):
            wrong.append(key)
        newest = max(newest, _end(row))
    return wrong


@pytest.mark.needs_lab
def test_differences_are_few_and_only_in_the_two_columns_that_judge() -> None:
    """The sentence in the manual of tcplab.segments, put to the test."""
    for wire in WIRES:
        for end, capture in each(enumerate(transfer(wire))):
            found = disagreements(wire, end)
            assert set(found) <= {"is_retransmission", "is_out_of_order"}
            assert all(len(where) < 0.1 * len(capture.segments) for where in found.values())


def test_the_comparison_itself_sees_a_wrong_value(tmp_path: Path) -> None:
    path = losses().save(tmp_path / "x.pcapng")
    theirs = wireshark.dissect(path)
    for column in each(set(wireshark.FIELDS) - {"packet"}):
        rows = from_file(path)
        rows[column][4] = not rows[column][4] if rows[column].dtype == bool else 77
        assert column in wireshark.differences(rows, theirs)
