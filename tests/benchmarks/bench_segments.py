"""How fast captures are read: tcplab.segments beside scapy, dpkt, tshark and tcpdump, on one file.

    python tests/benchmarks/bench_segments.py [--packets N] [--scapy-packets N] [--rounds N]
                                              [--patience S] [--json FILE]

Every reader gets the same file (a bulk transfer with a snaplen of 128 bytes, made here) and
delivers, for each TCP packet, time, ports, sequence and acknowledgement number, flags and length of
the data; tcplab.segments all its columns. It runs in a process of its own. Elapsed and processor
time are without the start of Python and its imports, but of the whole process for tshark and
tcpdump; memory is by how much the process grew. Medians of interleaved rounds.

A reader that needs more than --patience seconds is run once. With --scapy-packets N scapy reads the
first N packets only, and its times are scaled up, since they grow in proportion: the table says so.
"""

from __future__ import annotations

import argparse
import functools
import json
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple


class Run(NamedTuple):
    """One run of one reader."""

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
#: name -> what runs before the clock starts, and what it measures
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
PYTHON_HARNESS = """
import json, resource, sys, time
path = sys.argv[1]
{before}
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start, cpu = time.perf_counter(), time.process_time()
{timed}
took = time.perf_counter() - start, time.process_time() - cpu
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([*took, 1024 * (peak - memory), len(rows)]))
"""
# A process for each: the usage of a process's children is that of all it ever had.
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
    """A bulk transfer as seen at the sender: two full segments, an ACK, and so on; pcap, ns."""
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
    """One run of a Python reader."""
    before, timed = PYTHON_READERS[name]
    script = PYTHON_HARNESS.format(before=before, timed=timed)
    return run_harness(script, str(path))


def run_program(name: str, path: Path) -> Run:
    """One run of a program; a line of its output is a packet."""
    return run_harness(PROGRAM_HARNESS, *PROGRAMS[name], str(path))


def run_harness(script: str, *arguments: str) -> Run:
    """What the script, in a Python of its own, has to tell."""
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True
    )
    return Run(*json.loads(done.stdout))


def available() -> dict[str, Reader]:
    """The readers that are installed here; the others are named aloud."""
    found: dict[str, Reader] = {}
    for name, (before, _timed) in PYTHON_READERS.items():
        imports = before.partition("; ")[0]
        trial = subprocess.run([sys.executable, "-c", imports], capture_output=True, check=False)
        if trial.returncode:
            print(f"skipped: {name} (pip install {name.split()[0]})", file=sys.stderr)
        else:
            found[name] = functools.partial(run_python, name)
    for name, argv in PROGRAMS.items():
        if shutil.which(argv[0]) is None:
            print(f"skipped: {name} (apt install {argv[0]})", file=sys.stderr)
        else:
            found[name] = functools.partial(run_program, name)
    return found


def measure(
    readers: dict[str, Reader], files: dict[str, Path], rounds: int, patience: float
) -> dict[str, list[Run]]:
    """Interleaved rounds, so that a disturbance does not hit one reader alone."""
    results: dict[str, list[Run]] = {name: [] for name in readers}
    for number in range(rounds):
        for name, read in readers.items():
            known = results[name]
            if known and known[0].seconds > patience:
                continue
            known.append(read(files[name]))
            print(f"round {number + 1}: {name}: {known[-1].seconds:.3f} s", file=sys.stderr)
    return results


def row(name: str, runs: list[Run], packets: int, file_bytes: int) -> dict[str, Any]:
    """Medians, scaled up when fewer packets were read."""
    read = max(run.packets for run in runs)
    scale = packets / read
    seconds = sorted(scale * run.seconds for run in runs)
    return {
        "reader": name,
        "seconds": statistics.median(seconds),
        "fastest_s": seconds[0],
        "slowest_s": seconds[-1],
        "cpu_s": scale * statistics.median(run.cpu_s for run in runs),
        "runs": len(runs),
        "packets_read": read,
        "memory_per_file": statistics.median(run.memory_bytes for run in runs) / file_bytes,
    }


def markdown(rows: list[dict[str, Any]], packets: int, file_bytes: int) -> str:
    """The table, for the documentation."""
    ours = rows[0]
    lines = [
        f"{packets} packets, {file_bytes / 1e6:.1f} MB:",
        "",
        "| reader | s, median (range) | × ours | processor s | × ours | memory / file | runs |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for each in rows:
        part = each["packets_read"] < packets
        scaled = f" ({each['packets_read']} packets, scaled up)" if part else ""
        lines.append(
            f"| {each['reader']}{scaled} | {each['seconds']:.3f} ({each['fastest_s']:.3f}–"
            f"{each['slowest_s']:.3f}) | {each['seconds'] / ours['seconds']:.1f} |"
            f" {each['cpu_s']:.3f} | {each['cpu_s'] / ours['cpu_s']:.1f} |"
            f" {each['memory_per_file']:.1f} | {each['runs']} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Measures, prints a Markdown table and writes JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--packets", type=int, default=200_000)
    parser.add_argument("--scapy-packets", type=int, help="let scapy read only so many")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--patience", type=float, default=60.0, metavar="S")
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    readers = available()
    with tempfile.TemporaryDirectory(prefix="tcplab-") as directory:
        whole, part = Path(directory) / "whole.pcap", Path(directory) / "part.pcap"
        make_capture(whole, arguments.packets)
        make_capture(part, arguments.scapy_packets or arguments.packets)
        files = {name: part if name.startswith("scapy") else whole for name in readers}
        sizes = {name: path.stat().st_size for name, path in files.items()}
        results = measure(readers, files, arguments.rounds, arguments.patience)
        file_bytes = whole.stat().st_size
    rows = [row(name, runs, arguments.packets, sizes[name]) for name, runs in results.items()]
    print(markdown(rows, arguments.packets, file_bytes))
    if arguments.json:
        told = {"benchmark": "segments", "packets": arguments.packets, "file_bytes": file_bytes}
        arguments.json.write_text(json.dumps({**told, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
