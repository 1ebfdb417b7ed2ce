"""Find the highest rate at which record(), tcpdump, dumpcap and scapy each keep every packet.

The sender sends 100-byte UDP frames at a steady rate over a veth pair of a laboratory. The
recorders take turns, and save the first 96 bytes of each frame (scapy saves all of it). The rate of
a recorder rises by a step from flood to flood as long as no packet is missing from its file, and
falls by a step after two losses. Its result is the highest rate at which it kept all packets. The
table shows whether the sender limited the rate. The sender needs one processor and the recorder
another.
"""

import functools
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.goals import Goal, times
from bench.report import Part
from bench.rounds import Measured, Rules, say, undisturbed

from tcplab import Host, Lab
from tcplab.capture import record
from tcplab.lab import Pair
from tcplab.segments.pcap import read_packets
from tcplab.tables import Column, Table

FRAME_BYTES = 100
NOBODY = "10.0.1.9"
RATES = tuple(
    1000 * rate for rate in (2, 3, 5, 7, 10, 50, 100, 200, 300, 400, 500, 600, 700, 800, 900)
)
SNAPLEN = 96
#: The rate in packets/s to try first with each recorder.
START = {
    "tcplab record()": 500_000,
    "tcpdump -B 65536": 500_000,
    "tcpdump": 100_000,
    "dumpcap -B 64": 500_000,
    "scapy AsyncSniffer": 5_000,
}
COLUMNS = (
    Column("recorder", "recorder"),
    Column("packets_per_s", "packets/s, all kept", ",.0f"),
    Column("stopped_by", "what stopped it there"),
    Column("floods", "floods", "d"),
)
#: A script that sends datagrams at a rate, 50 per call (UDP_SEGMENT), and prints the seconds taken.
SENDER = f"""
import socket, sys, time
count, rate = int(sys.argv[1]), float(sys.argv[2])
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_UDP, 103, {FRAME_BYTES - 42})
s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
s.connect(("{NOBODY}", 9))
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


# ---- the recorders: context managers that write a capture file ----


@contextmanager
def ours(host: Host, path: Path) -> Iterator[None]:
    """Record with tcplab's own record(), as a lesson does."""
    with record(host, interface="direct0", snaplen=SNAPLEN) as capture:
        yield
    capture.save(path)


@contextmanager
def program(argv: list[str], host: Host, path: Path) -> Iterator[None]:
    """Run a recorder for the duration of the block, and end it with SIGINT."""
    command = [*argv, str(path)]
    nowhere: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    if os.getuid() == 0:
        # tcpdump switches to a user that does not exist in the laboratory, so run it from outside.
        net_fd = host.network._entrances[host.name][1]  # type: ignore[attr-defined]
        enter = ["nsenter", f"--net=/proc/self/fd/{net_fd}"]
        recorder = subprocess.Popen([*enter, *command], pass_fds=[net_fd], text=True, **nowhere)
    else:
        recorder = host.start(command, privileged=True, **nowhere)
    time.sleep(1)
    yield
    time.sleep(1.5)  # tcpdump loses the packets that the kernel has not yet passed on
    recorder.send_signal(signal.SIGINT)
    recorder.wait(timeout=120)


@contextmanager
def scapy(host: Host, path: Path) -> Iterator[None]:
    """Record with scapy's AsyncSniffer, as its manual shows."""
    recorder = host.start(
        [sys.executable, "-c", SCAPY, "direct0", str(path)],
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
    """Return the recorders that are installed, and print the names of the others."""
    tcpdump = ["tcpdump", "-i", "direct0", "-n", "-s", str(SNAPLEN)]
    dumpcap = ["dumpcap", "-q", "-i", "direct0", "-s", str(SNAPLEN), "-B", "64", "-w"]
    installed: dict[str, Recorder] = {"tcplab record()": ours}
    for name, argv in {
        "tcpdump -B 65536": [*tcpdump, "-B", "65536", "-w"],
        "tcpdump": [*tcpdump, "-w"],
        "dumpcap -B 64": dumpcap,
    }.items():
        if shutil.which(argv[0]) is None:
            print(f"skipped: {name} (apt install {argv[0]})", file=sys.stderr)
        else:
            installed[name] = functools.partial(program, argv)
    installed["scapy AsyncSniffer"] = scapy
    return installed


# ---- the pair of hosts ----


def make_pair(lab: Lab) -> Pair:
    """Make a veth pair that splits the sender's batches into frames, which the receiver drops."""
    pair = lab.direct(offload=True)

    def cut() -> None:
        from pyroute2.ethtool.ioctl import IoctlEthtool

        ethtool = IoctlEthtool()
        ethtool.close()
        ethtool.sock = pair.client.socket(socket.AF_INET, socket.SOCK_DGRAM)
        ethtool.change_ifname(pair.client.interface)
        features = ethtool.get_features()
        features["tx-udp-segmentation"] = False
        ethtool.set_features(features)
        ethtool.close()

    cut()
    # No host has this IP address or this hardware address, so each frame is dropped on arrival.
    entry = f"neigh add {NOBODY} lladdr 02:09:00:00:00:09 dev {pair.client.interface} nud permanent"
    pair.client.run(["ip", *entry.split()], privileged=True)
    return pair


def keeps_all(recorder: Recorder, host: Host, rate: int, seconds: float) -> tuple[bool, float]:
    """Send a flood from the host; return whether its recorder kept all of it, and the rate."""
    count = max(int(rate * seconds) // 50, 1) * 50
    with tempfile.TemporaryDirectory(prefix="tcplab-") as directory:
        path = Path(directory) / "flood.pcap"
        Path(directory).chmod(0o777)  # tcpdump may write as another user
        with recorder(host, path):
            done = host.run([sys.executable, "-c", SENDER, str(count), str(rate)], timeout_s=300)
        packets = read_packets(path)
        kept = int((packets.original_bytes == FRAME_BYTES).sum())
    return kept == count, count / float(done.stdout)


class Climber:
    """A recorder and its rate, which rises until packets are lost and falls after two losses."""

    def __init__(self, name: str, recorder: Recorder, start: int) -> None:
        self.name = name
        self._recorder = recorder
        self._step = start
        self._failures = 0
        self._too_fast = len(RATES)
        self.best_pps = 0.0
        self.stopped_by: str | None = None
        self.floods = 0

    def flood(self, host: Host, seconds: float) -> Measured:
        """Send a flood at the current rate; return the rate reached, and whether all was kept."""
        kept, reached = keeps_all(self._recorder, host, RATES[self._step], seconds)
        return Measured(reached, more={"kept": float(kept)})

    def learn(self, measured: Measured) -> None:
        """Raise or lower the rate according to the result of the last flood."""
        self.floods += 1
        kept = bool(measured.more["kept"])
        slow_sender = measured.value < 0.9 * RATES[self._step]
        if kept:
            self.best_pps = max(self.best_pps, measured.value)
        if kept and not slow_sender:
            self._move(1)
            return
        self._failures += 1
        if self._failures == 2 and kept:
            self.stopped_by = "the sender"
        elif self._failures == 2:
            self._too_fast = self._step
            self._move(-1)

    def _move(self, by: int) -> None:
        self._step += by
        self._failures = 0
        if self._step == self._too_fast or self._step < 0 or (by < 0 and self.best_pps):
            self.stopped_by = self.stopped_by or "loss"


def measure(rules: Rules) -> Part:
    """Flood each recorder until its limit is found, but at most three times per round."""
    floods = 1 if rules.short else 3 * rules.rounds
    with Lab() as lab:
        client = make_pair(lab).client
        climbers = [
            Climber(name, recorder, RATES.index(START.get(name, RATES[-1])))
            for name, recorder in recorders().items()
        ]
        for climber in floods * climbers:
            if climber.stopped_by:
                continue
            flood = functools.partial(climber.flood, client, rules.seconds / 2)
            sample = undisturbed(flood, rules)
            climber.learn(sample.measured)
            kept = "kept all" if sample.measured.more["kept"] else "lost some"
            say(f"capture: {climber.name}: {sample.measured.value:.0f}/s {kept}", sample.others)
    rows = [
        {
            "recorder": climber.name,
            "packets_per_s": climber.best_pps,
            "stopped_by": climber.stopped_by or "the number of rounds",
            "floods": climber.floods,
        }
        for climber in climbers
    ]
    text = "Each recorder keeps the first 96 bytes of 100-byte frames, but scapy keeps all."
    text += " The table gives the highest rate at which it missed no packet."
    return Part("Recording", text, [Table(COLUMNS, rows)], goals(rows))


def goals(rows: list[dict[str, Any]]) -> list[Goal]:
    """Return the goals: at least 500,000/s or 0.8 × tcpdump, whichever is lower, and 80 × scapy."""
    rates = {row["recorder"]: float(row["packets_per_s"]) for row in rows}
    rates["500,000 packets/s"] = 500_000.0
    wanted = {"500,000 packets/s": 1.0, "scapy AsyncSniffer": 80.0}
    if rates.get("tcpdump -B 65536", 1e9) < 625_000:
        wanted = {"tcpdump -B 65536": 0.8, "scapy AsyncSniffer": 80.0}
    ours = rates["tcplab record()"]
    return [
        times("recording", "tcplab record()", factor, of, ours / rates[of])
        for of, factor in wanted.items()
        if rates.get(of)
    ]
