"""At which rate recorders still keep every packet: ours beside tcpdump, dumpcap and scapy.

    python tests/benchmarks/bench_capture.py [--seconds S] [--rounds N] [--rates R,R,...]
                                             [--json FILE]

100-byte UDP frames over a veth pair of a laboratory, offloads off, sent at a steady rate; every
recorder in turn keeps their first 96 bytes. The rate rises until a packet is missing from the file:
the rate before is the recorder's, unless the sender cannot do more (the table says which). The
sender needs one processor and the recorder another; on a busy machine both rates and losses are the
neighbours' (the table says how much of the processors' time they took just before). Medians of the
rounds. tcpdump needs an ordinary user: as root it changes its user, which a laboratory forbids.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tcplab import Host, Lab, LabError
from tcplab.capture import read_records, record

FRAME_BYTES = 100
RATES = tuple(
    1000 * each for each in (2, 5, 10, 50, 100, 200, 300, 400, 500, 550, 600, 650, 700, 800, 900)
)
SNAPLEN = 96
#: Sends count datagrams at a rate, 50 a system call (UDP_SEGMENT), and prints how long it took.
SENDER = f"""
import socket, sys, time
count, rate = int(sys.argv[1]), float(sys.argv[2])
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_UDP, 103, {FRAME_BYTES - 42})
s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
s.connect(("10.9.0.2", 9))
batch = bytes(50 * {FRAME_BYTES - 42})
step = 50 / rate
start = due = time.perf_counter()
for _ in range(count // 50):
    now = time.perf_counter()
    if due - now > 0.0002:
        time.sleep(due - now)
    s.send(batch)
    due += step
print(time.perf_counter() - start)
"""
SCAPY = """
import sys
from scapy.config import conf
from scapy.layers.l2 import Ether
from scapy.sendrecv import AsyncSniffer
from scapy.utils import PcapWriter
sniffer = AsyncSniffer(iface=sys.argv[1], started_callback=lambda: print("ready", flush=True))
sniffer.start()
sys.stdin.read()
packets = sniffer.stop()
with PcapWriter(sys.argv[2]) as writer:
    for packet in packets:
        writer.write(packet)
"""

Recorder = Callable[[Host, Path], Any]


# ---- the recorders: context managers that leave a capture file ----


@contextmanager
def ours(host: Host, path: Path) -> Iterator[None]:
    """capture.c, as a lesson uses it."""
    with record(host, interface="bench0", snaplen=SNAPLEN) as capture:
        yield
    capture.save(path)
    capture.close()


@contextmanager
def program(argv: list[str], host: Host, path: Path) -> Iterator[None]:
    """A recorder that ends by SIGINT."""
    recorder = host.start(
        [*argv, str(path)], privileged=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    time.sleep(1)
    yield
    time.sleep(1.5)  # what the kernel has not handed over by then, tcpdump loses
    recorder.send_signal(signal.SIGINT)
    recorder.wait(timeout=120)


@contextmanager
def scapy(host: Host, path: Path) -> Iterator[None]:
    """AsyncSniffer as in its manual."""
    recorder = host.start(
        [sys.executable, "-c", SCAPY, "bench0", str(path)],
        privileged=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert recorder.stdout is not None
    recorder.stdout.readline()
    time.sleep(0.5)
    yield
    time.sleep(1.5)
    recorder.communicate("", timeout=300)


def recorders() -> dict[str, Recorder]:
    """The recorders that are installed here; the others are named aloud."""
    tcpdump = ["tcpdump", "-i", "bench0", "-n", "-s", str(SNAPLEN)]
    dumpcap = ["dumpcap", "-q", "-i", "bench0", "-s", str(SNAPLEN), "-B", "64", "-w"]
    found: dict[str, Recorder] = {"tcplab record()": ours}
    for name, argv in {
        "tcpdump -B 65536": [*tcpdump, "-B", "65536", "-w"],
        "tcpdump": [*tcpdump, "-w"],
        "dumpcap -B 64": dumpcap,
    }.items():
        if argv[0] == "tcpdump" and os.getuid() == 0:
            print(f"skipped: {name} (run this as an ordinary user)", file=sys.stderr)
        elif shutil.which(argv[0]) is None:
            print(f"skipped: {name} (apt install {argv[0]})", file=sys.stderr)
        else:
            found[name] = functools.partial(program, argv)
    found["scapy AsyncSniffer"] = scapy
    return found


# ---- the road ----


def make_road(host: Host) -> None:
    """A veth pair without offloads on one host; what arrives at its end is dropped there."""
    there = "02:09:00:00:00:02"
    for words in (
        f"link add bench0 type veth peer name bench1 address {there}",
        "addr add 10.9.0.1/24 dev bench0",
        "link set bench0 up",
        "link set bench1 up",
        f"neigh add 10.9.0.2 lladdr {there} dev bench0 nud permanent",
    ):
        host.run(["ip", *words.split()], privileged=True)
    host.run(
        ["ethtool", "-K", "bench0", "tx-udp-segmentation", "off", "gso", "off"], privileged=True
    )


def processor_seconds() -> tuple[float, float]:
    """Of the whole machine since its start: busy, and in all."""
    values = [int(word) for word in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
    tick = os.sysconf("SC_CLK_TCK")
    return (sum(values) - values[3] - values[4]) / tick, sum(values) / tick


def quiet_share(seconds: float = 0.5) -> float:
    """How much of the processors others use now, 0 to 1."""
    busy, total = processor_seconds()
    time.sleep(seconds)
    later_busy, later_total = processor_seconds()
    return (later_busy - busy) / max(later_total - total, 0.01)


def keeps_all(recorder: Recorder, host: Host, rate: int, seconds: float) -> tuple[bool, float]:
    """Whether every packet of a flood is in the file; the rate that the sender reached."""
    count = max(int(rate * seconds) // 50, 1) * 50
    with tempfile.TemporaryDirectory(prefix="tcplab-") as directory:
        path = Path(directory) / "flood.pcap"
        Path(directory).chmod(0o777)  # tcpdump may write as somebody else
        with recorder(host, path):
            done = host.run([sys.executable, "-c", SENDER, str(count), str(rate)], timeout_s=300)
        records = read_records(path)
        kept = int((records.original_bytes == FRAME_BYTES).sum())
    return kept == count, count / float(done.stdout)


def best_rate(
    recorder: Recorder, host: Host, rates: tuple[int, ...], seconds: float
) -> tuple[float, str]:
    """The highest rate reached without loss, packets/s; what stopped it there."""
    best = 0.0
    for rate in rates:
        kept, reached = keeps_all(recorder, host, rate, seconds)
        if not kept:
            return best, "loss"
        best = max(best, reached)
        if reached < 0.9 * rate:
            return best, "sender"
    return best, "--rates"


# ---- the table ----


def markdown(rows: list[dict[str, Any]]) -> str:
    """The table, for the documentation."""
    lines = [
        "| recorder | packets/s without loss, median (range) | of ours | stopped by | others | n |",
        "|---|---:|---:|---|---:|---:|",
    ]
    ours_pps = rows[0]["packets_per_s"]
    for row in rows:
        lines.append(
            f"| {row['recorder']} | {row['packets_per_s']:.0f} ({row['lowest']:.0f}–"
            f"{row['highest']:.0f}) | {row['packets_per_s'] / ours_pps:.3f} |"
            f" {', '.join(row['stopped_by'])} | {100 * row['others']:.0f} % | {row['rounds']} |"
        )
    return "\n".join(lines)


def measure(host: Host, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Interleaved rounds, so that a disturbance does not hit one recorder alone."""
    taken: dict[str, list[tuple[float, str, float]]] = {}
    found = recorders()
    for number in range(arguments.rounds):
        for name, recorder in found.items():
            others = quiet_share()
            pps, why = best_rate(recorder, host, arguments.rates, arguments.seconds)
            taken.setdefault(name, []).append((pps, why, others))
            print(f"round {number + 1}: {name}: {pps:.0f} packets/s ({why})", file=sys.stderr)
    return [
        {
            "recorder": name,
            "packets_per_s": statistics.median(pps for pps, _, _ in runs),
            "lowest": min(pps for pps, _, _ in runs),
            "highest": max(pps for pps, _, _ in runs),
            "stopped_by": sorted({why for _, why, _ in runs}),
            "others": statistics.median(others for _, _, others in runs),
            "rounds": len(runs),
        }
        for name, runs in taken.items()
    ]


def main() -> None:
    """Measures, prints a Markdown table and writes JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1.0, help="how long each flood lasts")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--rates",
        type=lambda text: tuple(map(int, text.split(","))),
        default=RATES,
        help="packets/s, ascending",
    )
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    for needed, package in (("ip", "iproute2"), ("ethtool", "ethtool")):
        if shutil.which(needed) is None:
            sys.exit(f"bench_capture: skipped: it needs {needed} (apt install {package})")
    try:
        with Lab() as lab:
            make_road(lab.client)
            rows = measure(lab.client, arguments)
    except LabError as error:
        sys.exit(f"bench_capture: {error}")
    print(markdown(rows))
    if arguments.json:
        told = {"benchmark": "capture", "frame_bytes": FRAME_BYTES, "snaplen": SNAPLEN}
        arguments.json.write_text(json.dumps({**told, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
