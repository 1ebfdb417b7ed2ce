"""Compare the speed of tcplab.segments, scapy, dpkt, tshark and tcpdump in reading a capture.

The readers get the same bulk transfer, which is generated with a snaplen of 128 bytes. They deliver
the time, ports, sequence and acknowledgement number, flags and data length of each TCP packet;
tcplab.segments delivers all its columns. Each reader runs in a separate process. Elapsed time,
processor time and memory exclude the start of Python and its imports, but cover the whole process
of tshark and tcpdump. The results are medians of interleaved rounds, with three rounds for a reader
that needs more than 4 s.

scapy gets a file with only the first packets. Its times are proportional to the number of packets,
so the table gives scaled times and marks them as scaled.
"""

from __future__ import annotations

import functools
import json
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from bench.goals import times
from bench.report import Part
from bench.rounds import Measured, Rules, Sample, say, summary, undisturbed

from tcplab.tables import Column, Table

PACKETS = 200_000
SCAPY_PACKETS = 10_000
SLOW_S, SLOW_ROUNDS = 4.0, 3
COLUMNS = (
    Column("reader", "reader"),
    Column("seconds", "s, median", ".3f"),
    Column("range", "fastest–slowest"),
    Column("times", "× ours", ".1f"),
    Column("cpu_s", "CPU s", ".3f"),
    Column("memory_per_file", "memory / file", ".1f"),
    Column("runs", "runs", "d"),
)
#: The speed that tcplab.segments should have, as a multiple of each reader's speed.
GOALS = {"scapy rdpcap": 100.0, "tshark -T fields": 15.0}


class Run(NamedTuple):
    """The measurements of one run of a reader."""

    seconds: float
    cpu_s: float
    memory_bytes: int
    packets: int


Reader = Callable[[Path], Run]

SEGMENTS = "from tcplab.segments import from_file"
SCAPY = """
from scapy.utils import PcapReader, rdpcap
from scapy.layers.l2 import Ether
from scapy.layers.inet import IP, TCP
def row(p):
    ip, tcp = p[IP], p[TCP]
    data = ip.len - 4 * ip.ihl - 4 * tcp.dataofs
    return p.time, tcp.sport, tcp.dport, tcp.seq, tcp.ack, int(tcp.flags), data
"""
DPKT = """
import dpkt
def row(t, frame):
    ip = dpkt.ethernet.Ethernet(frame).data
    tcp = ip.data
    return t, tcp.sport, tcp.dport, tcp.seq, tcp.ack, tcp.flags, ip.len - 4 * ip.hl - 4 * tcp.off
"""
#: For each reader, code that runs before the clock starts, and code that is measured.
PYTHON_READERS = {
    "tcplab.segments": (SEGMENTS, "rows = from_file(path)"),
    "tcplab.segments, second file": (f"{SEGMENTS}; from_file(path)", "rows = from_file(path)"),
    "scapy rdpcap": (SCAPY, "rows = [row(p) for p in rdpcap(path)]"),
    "scapy PcapReader": (SCAPY, "rows = [row(p) for p in PcapReader(path)]"),
    "dpkt": (DPKT, "rows = [row(*p) for p in dpkt.pcap.Reader(open(path, 'rb'))]"),
}
TSHARK_FIELDS = ["frame.time_epoch", "tcp.srcport", "tcp.dstport", "tcp.seq", "tcp.ack"]
TSHARK_FIELDS += ["tcp.flags", "tcp.len"]
PROGRAMS = {
    "tshark -T fields": ["tshark", "-n", "-T", "fields"]
    + [word for field in TSHARK_FIELDS for word in ("-e", field)]
    + ["-r"],
    "tcpdump -n -tt": ["tcpdump", "-n", "-tt", "-r"],
}
#: VmHWM is read because ru_maxrss starts with the parent's value.
PYTHON_HARNESS = """
import json, re, sys, time
def peak_kib():
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
path = sys.argv[1]
{before}
memory = peak_kib()
start, cpu = time.perf_counter(), time.process_time()
{timed}
took = time.perf_counter() - start, time.process_time() - cpu
print(json.dumps([*took, 1024 * (peak_kib() - memory), len(rows)]))
"""
# This runs in a separate process, since RUSAGE_CHILDREN adds up all children of a process.
PROGRAM_HARNESS = """
import json, resource, subprocess, sys, time
start = time.perf_counter()
program = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
lines = sum(part.count(b"\\n") for part in iter(lambda: program.stdout.read(1 << 20), b""))
program.wait()
took = time.perf_counter() - start
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([took, usage.ru_utime + usage.ru_stime, 1024 * usage.ru_maxrss, lines]))
"""


def make_capture(path: Path, packets: int, snaplen: int = 128) -> None:
    """Write a pcap of a bulk transfer, with an ACK after every two full segments."""
    ends = (0x0A000001, 40000), (0x0A000002, 5001)
    seq = 1
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, snaplen, 1))
        for n in range(packets):
            source, target = ends[::-1] if n % 3 == 2 else ends
            data = 0 if n % 3 == 2 else 1448
            numbers = (seq % 2**32, 1) if data else (1, seq % 2**32)
            ip = struct.pack(
                ">BBHHHBBHII", 0x45, 0, 52 + data, n % 2**16, 0x4000, 64, 6, 0, source[0], target[0]
            )
            tcp = struct.pack(">HHIIBBHHH", source[1], target[1], *numbers, 0x80, 16, 502, 0, 0)
            stamps = struct.pack(">III", 0x0101080A, n // 100, n // 100)
            frame = bytes(12) + b"\x08\x00" + ip + tcp + stamps + bytes(data)
            time_s, time_ns = 1_800_000_000 + n // 100_000, n % 100_000 * 10_000
            kept = frame[:snaplen]
            file.write(struct.pack("<IIII", time_s, time_ns, len(kept), len(frame)) + kept)
            seq += data


def run_python(name: str, path: Path) -> Run:
    """Run a Python reader once, and return its measurements."""
    before, timed = PYTHON_READERS[name]
    script = PYTHON_HARNESS.format(before=before, timed=timed)
    return run_harness(script, str(path))


def run_program(name: str, path: Path) -> Run:
    """Run a program that prints one line per packet, and return its measurements."""
    return run_harness(PROGRAM_HARNESS, *PROGRAMS[name], str(path))


def run_harness(script: str, *arguments: str) -> Run:
    """Run a script in a separate Python process, and return the measurements that it prints."""
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True
    )
    return Run(*json.loads(done.stdout))


def available() -> dict[str, Reader]:
    """Return the readers that are installed, and print the names of the others."""
    readers: dict[str, Reader] = {}
    for name, (before, _timed) in PYTHON_READERS.items():
        imports = before.partition("; ")[0]
        trial = subprocess.run([sys.executable, "-c", imports], capture_output=True, check=False)
        if trial.returncode:
            print(f"skipped: {name} (pip install {name.split()[0]})", file=sys.stderr)
        else:
            readers[name] = functools.partial(run_python, name)
    for name, argv in PROGRAMS.items():
        if shutil.which(argv[0]) is None:
            print(f"skipped: {name} (apt install {argv[0]})", file=sys.stderr)
        else:
            readers[name] = functools.partial(run_program, name)
    return readers


def measure(rules: Rules) -> Part:
    """Measure all readers, tcplab.segments first."""
    readers = available()
    with tempfile.TemporaryDirectory(prefix="tcplab-") as directory:
        whole, part = Path(directory) / "whole.pcap", Path(directory) / "part.pcap"
        make_capture(whole, PACKETS)
        make_capture(part, SCAPY_PACKETS)
        files = {name: part if name.startswith("scapy") else whole for name in readers}
        sizes = {name: path.stat().st_size for name, path in files.items()}
        samples: dict[str, list[Sample]] = {name: [] for name in readers}
        for number in range(rules.rounds):
            for name, read in readers.items():
                if number >= SLOW_ROUNDS and samples[name][0].measured.value > SLOW_S:
                    continue
                sample = undisturbed(functools.partial(_measured, read, files[name]), rules)
                samples[name].append(sample)
                say(f"reading: {name}: {sample.measured.value:.3f} s", sample.others)
        size = f"{PACKETS:,} packets, {whole.stat().st_size / 1e6:.1f} MB."
    rows = [_row(name, taken, sizes[name]) for name, taken in samples.items()]
    seconds = {name: row["seconds"] for name, row in zip(samples, rows, strict=True)}
    ours = rows[0]["seconds"]
    for row in rows:
        row["times"] = row["seconds"] / ours
    goals = [
        times("reading a capture", "tcplab.segments", factor, of, seconds[of] / ours)
        for of, factor in GOALS.items()
        if of in seconds
    ]
    return Part("Reading a capture", size, [Table(COLUMNS, rows)], goals)


def _measured(read: Reader, path: Path) -> Measured:
    run = read(path)
    more = {"cpu_s": run.cpu_s, "memory_bytes": run.memory_bytes, "packets": run.packets}
    return Measured(run.seconds, more=more)


def _row(name: str, samples: list[Sample], file_bytes: int) -> dict[str, Any]:
    """Return a reader's row of medians, scaled up if it read only the first packets."""
    medians = summary(samples)
    scale = PACKETS / medians["packets"]
    scaled = f" (first {medians['packets']:,.0f} packets, scaled up)" if scale > 1 else ""
    return {
        "reader": name + scaled,
        "seconds": scale * medians["median"],
        "range": f"{scale * medians['lowest']:.3f}–{scale * medians['highest']:.3f}",
        "cpu_s": scale * medians["cpu_s"],
        "runs": medians["rounds"],
        "repeated": medians["repeated"],
        "others": medians["others"],
        "memory_per_file": medians["memory_bytes"] / file_bytes,
    }
