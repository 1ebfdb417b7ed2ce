"""Measure what `tcplab explain` costs a command, and how long it takes to judge long captures.

The command exchanges 1000 messages per second for two seconds. Each capture has almost a million
packets, of which only the headers are generated.
"""

import functools
import json
import re
import shlex
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
from bench.goals import at_most
from bench.report import Part
from bench.rounds import Measured, Rules, Sample, say, summary, undisturbed

from tcplab.tables import Column, Table

PACKETS: Final = 1_000_000
SERVER: Final = """
import socket
l = socket.create_server(("", 8080)); c, _ = l.accept()
c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
while c.recv(100): c.sendall(b"y" * 100)
"""
CLIENT: Final = """
import socket, time
s = socket.create_connection(("server", 8080))
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
begin = due = time.monotonic()
for _ in range(2000):
    s.sendall(b"x" * 100)
    s.recv(100)
    due += 0.001
    time.sleep(max(due - time.monotonic(), 0))
print(time.monotonic() - begin)
"""
#: VmHWM is the peak memory of the process. ru_maxrss would start with the parent's value.
JUDGE: Final = """
import re, sys
from tcplab.cli.explain import OfCapture, from_capture
print(from_capture(sys.argv[1], OfCapture()).report().partition("\\n")[0])
print(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
"""
COLUMNS: Final = (
    Column("capture", "capture"),
    Column("seconds", "s, median", ".1f"),
    Column("memory_gb", "memory (GB)", ".2f"),
)

# ---- captures ------------------------------------------------------------------------------------

SYN, PSH, ACK = 2, 8, 16
MSS_BYTES: Final = 1448
HEADERS: Final = np.dtype(
    "u4,u4,u4,u4,V12,>u2,u1,u1,>u2,>u2,>u2,u1,u1,>u2,>u4,>u4,>u2,>u2,>u4,>u4,u1,u1,>u2,>u2,>u2,V12"
)
OPTIONS: Final = {
    True: bytes.fromhex("020405b4 01030307 01010402"),  # MSS 1460, window scale 7, SACK
    False: bytes.fromhex("0101080a") + bytes(8),
}
#: The time in µs, whether the server sends, and port, flags, sequence number, ACK and size.
Row = tuple[int, bool, int, int, int, int, int]


def handshake(time_us: int, port: int, rtt_us: int) -> Iterator[Row]:
    """Yield SYN, SYN-ACK and ACK; the sequence numbers of the data begin at 1."""
    yield time_us, False, port, SYN, 0, 0, 0
    yield time_us + rtt_us, True, port, SYN | ACK, 0, 1, 0
    yield time_us + rtt_us, False, port, ACK, 1, 1, 0


def upload(time_us: int, port: int, packets: int, rtt_us: int = 20_000) -> Iterator[Row]:
    """Yield bursts of 100 full segments, and their ACKs. Every fifth burst loses a segment."""
    yield from handshake(time_us, port, rtt_us)
    for burst in range((packets - 3) // 152):
        time_us += 2 * rtt_us
        ends = [1 + MSS_BYTES * (100 * burst + i) for i in range(101)]
        for i, seq in enumerate(ends[:-1]):
            yield time_us + 10 * i, False, port, ACK, seq, 1, MSS_BYTES
        lost = ends[50] if burst % 5 == 4 else ends[-1]
        for i, end in enumerate(ends[2::2]):
            yield time_us + rtt_us + 20 * i, True, port, ACK, 1, min(end, lost), 0
        if lost < ends[-1]:
            yield time_us + rtt_us + 2000, False, port, ACK, lost, 1, MSS_BYTES
            yield time_us + 2 * rtt_us + 2000, True, port, ACK, 1, ends[-1], 0
            time_us += rtt_us


def exchanges(
    time_us: int, port: int, packets: int, *, late_us: int = 0, rtt_us: int = 200
) -> Iterator[Row]:
    """Yield requests of 100 bytes with answers of 300 bytes.

    If the ACKs are late, 50 more bytes come before each request, which waits for their ACK.
    """
    yield from handshake(time_us, port, rtt_us)
    asked, answered = 1, 1
    for _ in range((packets - 3) // (5 if late_us else 3)):
        time_us += 2 * rtt_us
        if late_us:
            yield time_us, False, port, PSH | ACK, asked, answered, 50
            time_us, asked = time_us + late_us, asked + 50
            yield time_us, True, port, ACK, answered, asked, 0
        yield time_us + 10, False, port, PSH | ACK, asked, answered, 100
        asked += 100
        yield time_us + rtt_us + 50, True, port, PSH | ACK, answered, asked, 300
        answered += 300
        yield time_us + rtt_us + 60, False, port, ACK, asked, answered, 0


def bulk(packets: int) -> Iterator[Row]:
    """Yield one upload with losses."""
    return upload(0, 40_000, packets)


def requests(packets: int) -> Iterator[Row]:
    """Yield requests and answers on one connection."""
    return exchanges(0, 40_000, packets)


def many(packets: int) -> Iterator[Row]:
    """Yield 200 simultaneous connections with uploads, requests, or requests behind late ACKs."""
    for i in range(200):
        kind = (upload, exchanges, functools.partial(exchanges, late_us=40_000))[i % 3]
        yield from kind(100 * i, 40_000 + i, packets // 200)


KINDS: Final[dict[str, Callable[[int], Iterator[Row]]]] = {
    "one upload with losses": bulk,
    "requests on one connection": requests,
    "200 connections": many,
}


def make_capture(path: Path, rows: Iterator[Row]) -> int:
    """Write a pcap with the headers of these packets, in order of time; return their number."""
    columns = np.array(sorted(rows), np.int64).T
    time_us, from_server, port, flags, seq, ack, size = columns
    is_syn = flags & SYN != 0
    ends = np.array([0x0A000001, 0x0A000002])
    headers = np.zeros(len(time_us), HEADERS)
    fields = (
        *(1_800_000_000 + time_us // 10**6, time_us % 10**6, 66, 66 + size, b"", 0x0800),
        *(0x45, 0, 52 + size, np.arange(len(size)) % 2**16, 0x4000, 64, 6, 0),
        *(ends[from_server], ends[1 - from_server]),
        *(np.where(from_server, 80, port), np.where(from_server, port, 80)),
        *(1000 + seq, (1000 + ack) * (flags & ACK > 0), 0x80, flags, 60_000, 0, 0),
        np.where(is_syn, np.void(OPTIONS[True]), np.void(OPTIONS[False])),
    )
    for name, values in zip(headers.dtype.names or (), fields, strict=True):
        headers[name] = values
    start = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 66, 1)
    path.write_bytes(start + headers.tobytes())
    return len(headers)


# ---- measurements --------------------------------------------------------------------------------


def measure(rules: Rules) -> Part:
    """Measure the cost of a recording, and the time that each kind of capture takes."""
    recorded = summary([undisturbed(_recorded, rules) for _ in range(rules.rounds)])
    say(f"explain: {recorded['median']:.1f} s more, stopped {recorded['stopped_percent']:.1f} %")
    rows: list[dict[str, Any]] = []
    packets = PACKETS // 20 if rules.short else PACKETS
    with tempfile.TemporaryDirectory(prefix="tcplab-") as directory:
        path = Path(directory) / "long.pcap"
        for name, kind in KINDS.items():
            make_capture(path, kind(packets))
            sample: Sample = undisturbed(functools.partial(_judged, path), rules)
            row = {"capture": name, "seconds": sample.measured.value, **sample.measured.more}
            rows.append(row | {"others": sample.others})
            say(f"explain: {name}: {row['seconds']:.1f} s", sample.others)
    what = "explain"
    return Part(
        "Explaining a command and a capture",
        f"A recording adds {recorded['median']:.1f} s to a command with 1000 messages per second,"
        f" and stops it for {recorded['stopped_percent']:.1f} % of its time. Each capture below has"
        f" about {packets:,} packets.",
        [Table(COLUMNS, rows)],
        [
            at_most(what, "added to a command, s", 2, recorded["median"]),
            at_most(what, "stopped, % of the time", 10, recorded["stopped_percent"]),
            at_most(what, "a million packets, s", 30, max(row["seconds"] for row in rows)),
            at_most(what, "a million packets, GB", 2, max(row["memory_gb"] for row in rows)),
        ],
    )


def _recorded() -> Measured:
    server, client = ([sys.executable, "-c", code] for code in (SERVER, CLIENT))
    explain = [sys.executable, "-m", "tcplab", "explain", "--json", "--output"]
    begin = time.monotonic()
    done = _run([*explain, "--server", shlex.join(server), "--", *client])
    took_s = time.monotonic() - begin
    loop_s = float(done.stderr.split()[-1])  # the client printed it
    stopped = 100 * json.loads(done.stdout)["overhead"]
    return Measured(took_s - loop_s, more={"stopped_percent": stopped})


def _judged(path: Path) -> Measured:
    begin = time.monotonic()
    verdict, memory_kib = _run([sys.executable, "-c", JUDGE, str(path)]).stdout.splitlines()
    took_s = time.monotonic() - begin
    assert not re.match(r"Verdict: the first [\d,]+ of", verdict), verdict
    return Measured(took_s, more={"memory_gb": 1024 * int(memory_kib) / 1e9})


def _run(argv: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=300)
