"""How far the wire can be trusted: its delay, its rate and its throughput, measured from outside.

What `tcplab bench wire` prints, and `make bench` too. The witnesses are not the wire's own:

- *delay*: ICMP echo requests at a steady pace, answered by the server's kernel. The error is the
  round trip, from just before send(2) to the kernel's time stamp of the answer (SO_TIMESTAMPNS),
  less the round trip that was asked for. What the hosts' own stacks take is in it.
- *rate*: a TCP transfer recorded on the server's interface, its segments' bytes with all framing
  over the time between the first and the last; and the goodput that the receiving program saw,
  beside rate x 1448/1538 (the payload of a full segment, the bytes it takes on an Ethernet).
- *throughput*: a TCP transfer as fast as it goes, with offloads off and on.

Beside the wire stand, where this machine has them, the kernel's netem and tbf (tc(8)) between the
same two hosts, and mahimahi's mm-delay; what is missing is said.
"""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import socket
import statistics
import struct
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tcplab.capture import record
from tcplab.errors import LabError, ParameterError
from tcplab.experiments import provenance
from tcplab.lab import Host, Lab, Pair
from tcplab.programs import tcp_bulk
from tcplab.tables import Column, Table

__all__ = ["DELAYS", "RATES_MBIT", "WireBench", "echo_errors_us", "measure", "transfer"]

SUMMARY = "how exact and how fast the wire is, beside netem, tbf and mahimahi where present"

#: Round trip and echo requests a second; the last is the goal's.
DELAYS: Final[Sequence[tuple[float, int]]] = (
    (0.0, 1_000),
    (1.0, 1_000),
    (20.0, 100),
    (20.0, 1_000),
    (200.0, 10_000),
    (20.0, 10_000),
)
RATES_MBIT: Final[Sequence[float]] = (1, 5, 10, 50, 100, 200, 500, 1000)

MSS_BYTES: Final = 1448  # of MTU 1500 with time stamps
FRAME_OVERHEAD_BYTES: Final = 90  # preamble, Ethernet, FCS and gap 38; IPv4 20; TCP 32
_ECHO_REQUEST, _ECHO_REPLY = 8, 0
_SO_TIMESTAMPNS = 35  # <asm-generic/socket.h>; Python has no name for it before 3.14

Progress = Callable[[str], None]
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class WireBench:
    """What was measured.

    Attributes:
        delay: a row for each road, round trip and pace: error_us_p50 and error_us_p99 (medians of
            the rounds'), error_us_max, lost, ...
        rate: a row for each road and rate: measured_mbit, rate_error_percent, goodput_mb_per_s, ...
        throughput: a row for offloads off, and one for on: gbit_per_s with its spread,
            wire_cpu_s_per_gb, retransmissions, ...
        absent: what there was nothing to compare with, and why.
        provenance: see tcplab.experiments.provenance.
    """

    delay: Sequence[Row]
    rate: Sequence[Row]
    throughput: Sequence[Row]
    absent: Sequence[str]
    provenance: Mapping[str, Any]

    def tables(self) -> list[Table]:
        """The three tables, with captions."""
        return [
            Table(
                DELAY_COLUMNS,
                self.delay,
                "Delay: round trips by ICMP echo, medians of the rounds (max: of all)",
            ),
            Table(
                RATE_COLUMNS, self.rate, "Rate: a TCP transfer recorded at the server (MTU 1500)"
            ),
            Table(
                THROUGHPUT_COLUMNS,
                self.throughput,
                "Throughput: TCP, 1 MiB writes, sink discards, both ends on one processor, no rate",
            ),
        ]

    def __str__(self) -> str:
        origin = self.provenance
        machine = f"Linux {origin['kernel']} · {origin['cpu']}, {origin['cores']} cores"
        texts = [str(table) for table in self.tables()]
        texts += [f"Not compared with {each}" for each in self.absent]
        return "\n\n".join([*texts, f"{machine} · load average {origin['load_average']}"])

    def as_json(self) -> str:
        """One JSON object: rows of the three tables, what was absent, provenance."""
        return json.dumps(self.as_data())

    def as_data(self) -> dict[str, Any]:
        """Everything as plain data, for JSON."""
        return {
            "benchmark": "wire",
            "delay": list(self.delay),
            "rate": list(self.rate),
            "throughput": list(self.throughput),
            "absent": list(self.absent),
            "provenance": dict(self.provenance),
        }


DELAY_COLUMNS: Final = (
    Column("road", "through"),
    Column("rtt_ms", "RTT set (ms)", "g"),
    Column("pps", "packets/s", ",d"),
    Column("error_us_p50", "error p50 (µs)", ".0f"),
    Column("error_us_p99", "p99", ".0f"),
    Column("error_us_max", "max", ".0f"),
    Column("late_us_p99", "the wire's own p99 (µs)", ".0f"),
    Column("lost", "lost", "d"),
    Column("rounds", "rounds", "d"),
)
RATE_COLUMNS: Final = (
    Column("road", "through"),
    Column("rate_mbit", "rate set (Mbit/s)", "g"),
    Column("measured_mbit", "measured", ".3f"),
    Column("rate_error_percent", "error (%)", "+.3f"),
    Column("goodput_mb_per_s", "goodput (MB/s)", ".3f"),
    Column("expected_mb_per_s", "rate × 1448/1538", ".3f"),
    Column("goodput_error_percent", "error (%)", "+.2f"),
)
THROUGHPUT_COLUMNS: Final = (
    Column("offload", "offloads"),
    Column("gbit_per_s", "Gbit/s, median", ".1f"),
    Column("lowest", "lowest", ".1f"),
    Column("highest", "highest", ".1f"),
    Column("wire_cpu_s_per_gb", "the wire's CPU (s/GB)", ".2f"),
    Column("retransmissions", "retransmissions", "d"),
    Column("rounds", "rounds", "d"),
)


def measure(
    *,
    delays: Sequence[tuple[float, int]] = DELAYS,
    rates_mbit: Sequence[float] = RATES_MBIT,
    seconds: float = 2.0,
    rounds: int = 5,
    progress: Progress = lambda _line: None,
) -> WireBench:
    """Measures the wire, and what else there is on this machine to compare it with.

    Args:
        delays: pairs of a round-trip time in ms and echo requests a second.
        rates_mbit: rates in 10^6 bit/s.
        seconds: how long each rate is measured; each round of a delay and of throughput half of it.
        rounds: of each delay, and of throughput with offloads off and on in turn.
        progress: is told each step in a few words.

    Raises:
        ParameterError: a value is out of range.
        LabError: no laboratory can be made here.
    """
    if not 0 < seconds <= 600:
        raise ParameterError(f"seconds={seconds!r} must be more than 0 and at most 600")
    if not 1 <= rounds <= 1000:
        raise ParameterError(f"rounds={rounds!r} must be from 1 to 1000")
    with Lab() as lab:
        roads: list[_Road] = [_Wire(lab)]
        absent: list[str] = []
        _add_tc_roads(lab, roads, absent)
        delay: list[Row] = []
        rate: list[Row] = []
        for rtt_ms, pps in delays:
            delay += [
                _delay_row(road, rtt_ms, pps, seconds / 2, rounds, progress)
                for road in roads
                if road.delays
            ]
        delay += _mahimahi_rows(delays, seconds, absent, progress)
        for rate_mbit in rates_mbit:
            rate += [_rate_row(road, rate_mbit, seconds, progress) for road in roads if road.shapes]
        lab.link.update(rtt_ms=0, rate_mbit=0)
        lab.link.command("reset")  # else what the measurements did would stand as the wire's own
        origin = provenance(lab, seconds=seconds, rounds=rounds)
    return WireBench(delay, rate, throughput(seconds / 2, rounds, progress), absent, origin)


# ---- roads between the same two hosts: the wire, or a queueing discipline of the kernel ----


@dataclass
class _Road:
    """A way from client to server whose delay and rate can be set."""

    name: str
    pair: Pair
    delays: bool = True
    shapes: bool = True

    def set(self, *, rtt_ms: float = 0.0, rate_mbit: float = 0.0) -> None:
        raise NotImplementedError

    def late_us_p99(self) -> float | None:
        """What the road itself says of its lateness."""
        return None


class _Wire(_Road):
    def __init__(self, lab: Lab) -> None:
        super().__init__("the wire", Pair(lab.client, lab.server, lab.congestion))
        self._link = lab.link

    def set(self, *, rtt_ms: float = 0.0, rate_mbit: float = 0.0) -> None:
        self._link.update(rtt_ms=rtt_ms, rate_mbit=rate_mbit)
        self._link.command("reset")

    def late_us_p99(self) -> float:
        late_ns = [way["late_ns"]["p99"] for way in self._link.counters().values()]
        return float(max(late_ns)) / 1e3


class _QueueingDiscipline(_Road):
    """The same at both ends of a veth pair: the kernel delays and shapes what leaves each host."""

    def set(self, *, rtt_ms: float = 0.0, rate_mbit: float = 0.0) -> None:
        for host in (self.pair.client, self.pair.server):
            # Not `replace`: netem keeps what it is not told anew.
            _tc(host, "del", check=False)
            _tc(host, "add", *self.words(rtt_ms, rate_mbit))

    def words(self, rtt_ms: float, rate_mbit: float) -> list[str]:
        raise NotImplementedError


class _Netem(_QueueingDiscipline):
    def words(self, rtt_ms: float, rate_mbit: float) -> list[str]:
        # The limit holds the packets on the line too; 24 bytes of framing, as the wire counts them.
        words = ["netem", "limit", "100000", "delay", f"{rtt_ms / 2:g}ms"]
        return words + (["rate", f"{rate_mbit:g}mbit", "24"] if rate_mbit else [])


class _Tbf(_QueueingDiscipline):
    def words(self, _rtt_ms: float, rate_mbit: float) -> list[str]:
        # No burst: a token bucket that holds one frame, so that it is as smooth as a wire.
        words = ["tbf", "rate", f"{rate_mbit:g}mbit", "burst", "1600", "limit", "1500000"]
        return [*words, "overhead", "24"]


def _tc(host: Host, action: str, *words: str, check: bool = True) -> None:
    command = ["tc", "qdisc", action, "dev", host.interface, "root", *words]
    host.run(command, privileged=True, check=check)


def _add_tc_roads(lab: Lab, roads: list[_Road], absent: list[str]) -> None:
    if shutil.which("tc") is None:
        absent.append("netem and tbf: tc is not installed (apt install iproute2)")
        return
    pair = lab.direct()
    for road in (_Netem("netem", pair), _Tbf("tbf", pair, delays=False)):
        try:
            road.set(rtt_ms=1, rate_mbit=1)
        except LabError as error:
            fix = f"sudo modprobe sch_{road.name}, where the kernel has it"
            absent.append(f"{road.name}: {str(error).rpartition(': ')[2].rstrip('.')} ({fix})")
        else:
            roads.append(road)


# ---- delay ----


def _delay_row(
    road: _Road, rtt_ms: float, pps: int, seconds: float, rounds: int, progress: Progress
) -> Row:
    progress(f"{road.name}: RTT {rtt_ms:g} ms, {pps} packets/s")
    sent = max(10, round(pps * seconds))
    taken = []
    for _ in range(rounds):
        road.set(rtt_ms=rtt_ms)
        errors = echo_errors_us(road.pair.client, road.pair.server.address, rtt_ms, pps, sent)
        row = _error_row(road.name, rtt_ms, pps, sent, errors)
        taken.append({**row, "late_us_p99": road.late_us_p99()})
    return _all_rounds(taken)


def _all_rounds(taken: Sequence[Row]) -> Row:
    """Medians of the percentiles: somebody else's turn on a processor spoils a round, not a row."""
    together = {**taken[0], "rounds": len(taken)}
    for key in ("error_us_p50", "error_us_p99", "late_us_p99"):
        values = [row[key] for row in taken]
        together[key] = None if None in values else statistics.median(values)
    for key in ("sent", "lost"):
        together[key] = sum(row[key] for row in taken)
    together["error_us_max"] = max(row["error_us_max"] for row in taken)
    together["error_us_p99_rounds"] = [row["error_us_p99"] for row in taken]
    return together


def _error_row(road: str, rtt_ms: float, pps: int, sent: int, errors: Sequence[float]) -> Row:
    if not errors:
        raise LabError(f"through {road} not one of {sent} echo requests was answered")
    return {
        "road": road,
        "rtt_ms": rtt_ms,
        "pps": pps,
        "sent": sent,
        "lost": sent - len(errors),
        "error_us_p50": _percentile(errors, 0.5),
        "error_us_p99": _percentile(errors, 0.99),
        "error_us_max": max(errors),
        "rounds": 1,
    }


def _percentile(values: Sequence[float], share: float) -> float:
    """Nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def echo_errors_us(
    client: Host, address: str, rtt_ms: float, pps: float, count: int
) -> list[float]:
    """Round trips of ICMP echo requests at a steady pace, less rtt_ms, in µs.

    Args:
        client: who sends.
        address: who answers: its kernel does.
        rtt_ms: what the round trip should be.
        pps: requests a second; this process waits awake, so it takes a processor to itself.
        count: how many requests.

    Returns:
        One error for each answer that came within a second of the last request's.

    Raises:
        LabError: the client's laboratory is closed, or it is no laboratory's.
    """
    with client.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as echo:
        echo.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        echo.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        echo.connect((address, 0))
        echo.setblocking(False)
        pinger = _Pinger(echo)
        start = time.monotonic()
        for number in range(count):
            pinger.wait(until=start + number / pps)
            pinger.send(number)
        pinger.wait(until=time.monotonic() + rtt_ms / 1e3 + 1, expected=count)
    return [rtt_ns / 1e3 - rtt_ms * 1e3 for rtt_ns in pinger.round_trips_ns]


@dataclass
class _Pinger:
    """Sends echo requests, and collects the round trips of those answered."""

    socket: socket.socket
    identifier: int = field(default_factory=lambda: os.getpid() & 0xFFFF)
    sent_ns: list[int] = field(default_factory=list)
    round_trips_ns: list[int] = field(default_factory=list)

    def send(self, number: int) -> None:
        body = struct.pack("!HHQ", self.identifier, number & 0xFFFF, number)
        words = struct.unpack("!6H", body)
        total = sum(words) + (_ECHO_REQUEST << 8)
        while total >> 16:
            total = (total & 0xFFFF) + (total >> 16)
        packet = struct.pack("!BBH", _ECHO_REQUEST, 0, ~total & 0xFFFF) + body
        self.sent_ns.append(time.time_ns())
        self.socket.send(packet)

    def wait(self, until: float, expected: int | None = None) -> None:
        """Collects answers until then (awake for the last millisecond), or until all have come."""
        while (left := until - time.monotonic()) > 0:
            if not self._collect():
                if len(self.round_trips_ns) == expected:
                    return
                if left > 1e-3:
                    select.select([self.socket], [], [], left - 1e-3)

    def _collect(self) -> bool:
        try:
            packet, control, _flags, _from = self.socket.recvmsg(128, 64)
        except BlockingIOError:
            return False
        at = (packet[0] & 15) * 4  # behind the IP header
        kind, _code, _sum, identifier, _seq, number = struct.unpack_from("!BBHHHQ", packet, at)
        if kind == _ECHO_REPLY and identifier == self.identifier and control:
            seconds, nanoseconds = struct.unpack("ll", control[0][2][:16])
            self.round_trips_ns.append(seconds * 1_000_000_000 + nanoseconds - self.sent_ns[number])
        return True


# ---- mahimahi ----


def _mahimahi_rows(
    delays: Sequence[tuple[float, int]], seconds: float, absent: list[str], progress: Progress
) -> list[Row]:
    """ping(8) inside mm-delay, which runs a command behind a delay of whole milliseconds."""
    missing = [name for name in ("mm-delay", "ping") if shutil.which(name) is None]
    if missing:
        names = " and ".join(missing)
        absent.append(f"mm-delay: {names} not installed (apt install mahimahi iputils-ping)")
        return []
    rows: list[Row] = []
    for rtt_ms, pps in delays:
        if rtt_ms < 2 or rtt_ms % 2 or pps > 500:  # ping's shortest interval for ordinary users
            continue
        progress(f"mm-delay: RTT {rtt_ms:g} ms, {pps} packets/s")
        sent = max(10, round(pps * seconds))
        ping = f"ping -n -c {sent} -i {1 / pps:g} $MAHIMAHI_BASE"
        done = subprocess.run(
            ["mm-delay", f"{rtt_ms / 2:g}", "sh", "-c", ping],
            capture_output=True,
            text=True,
            timeout=60 + 2 * seconds,
            check=False,
        )
        errors = [
            1e3 * (float(found) - rtt_ms) for found in re.findall(r"time=([\d.]+) ms", done.stdout)
        ]
        if not errors:
            absent.append(f"mm-delay: it failed: {_last_line(done.stderr)}")
            return rows
        rows.append(_error_row("mm-delay", rtt_ms, pps, sent, errors))
    return rows


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no message"])[-1]


# ---- rate ----


def _rate_row(road: _Road, rate_mbit: float, seconds: float, progress: Progress) -> Row:
    progress(f"{road.name}: {rate_mbit:g} Mbit/s")
    road.set(rate_mbit=rate_mbit)
    expected = rate_mbit / 8 * MSS_BYTES / (MSS_BYTES + FRAME_OVERHEAD_BYTES)  # 10^6 bytes/s
    segments = 10 if rate_mbit < 100 else 90  # in a write: few calls, and no long tail
    with record(road.pair.server) as capture:
        result = tcp_bulk(
            road.pair,
            write_bytes=segments * MSS_BYTES,
            count=max(2, round(expected * 1e6 * seconds / (segments * MSS_BYTES))),
            sndbuf_bytes=65536 if rate_mbit < 20 else None,  # else it would lie in the queue
            rcvbuf_bytes=None,
        )
    found = capture.segments
    data = found[found["payload_bytes"] > 0]
    capture.close()
    took_s = float(data["time_ns"][-1] - data["time_ns"][0]) / 1e9
    # The first marks the beginning: its own bytes came before.
    on_the_wire = int((data["payload_bytes"][1:] + FRAME_OVERHEAD_BYTES).sum())
    measured_mbit = 8 * on_the_wire / took_s / 1e6
    goodput = result.sink.mb_per_s
    return {
        "road": road.name,
        "rate_mbit": rate_mbit,
        "measured_mbit": measured_mbit,
        "rate_error_percent": 100 * (measured_mbit / rate_mbit - 1),
        "goodput_mb_per_s": goodput,
        "expected_mb_per_s": expected,
        "goodput_error_percent": 100 * (goodput / expected - 1),
        "segments": len(data),
        "retransmissions": int(result.source.tcp_info.get("total_retrans", 0)),
    }


# ---- throughput ----


def throughput(seconds: float, rounds: int, progress: Progress = lambda _line: None) -> list[Row]:
    """TCP through a wire without a rate, offloads off and on in turn.

    Args:
        seconds: how long each transfer lasts.
        rounds: transfers of each kind.
        progress: is told each step.

    Returns:
        A row for offloads off, and one for on.
    """
    taken: dict[bool, list[tuple[float, float, int]]] = {False: [], True: []}
    with Lab() as plain, Lab(offload=True) as whole:
        for number in range(rounds):
            for lab in (plain, whole):
                progress(f"throughput, offloads {_switch(lab.offload)}, round {number + 1}")
                taken[lab.offload].append(transfer(lab, seconds))
    return [
        {
            "offload": _switch(offload),
            "gbit_per_s": statistics.median(each[0] for each in runs),
            "lowest": min(each[0] for each in runs),
            "highest": max(each[0] for each in runs),
            "wire_cpu_s_per_gb": statistics.median(each[1] for each in runs),
            "retransmissions": sum(each[2] for each in runs),
            "rounds": len(runs),
        }
        for offload, runs in taken.items()
    ]


def _switch(on: bool) -> str:
    return "on" if on else "off"


def transfer(lab: Lab, seconds: float) -> tuple[float, float, int]:
    """TCP as fast as it goes from client to server.

    Args:
        lab: whose wire carries it.
        seconds: how long.

    Returns:
        Gbit/s of payload, the wire's CPU seconds per 10^9 bytes, and retransmissions.
    """
    before_s = _cpu_s(lab)
    # Both ends on one processor: the wire is what is measured, and has another one to itself.
    ends_cpu = min(os.sched_getaffinity(0))
    result = tcp_bulk(
        lab,
        write_bytes=1 << 20,
        duration_s=seconds,
        sndbuf_bytes=None,
        rcvbuf_bytes=None,
        discard=True,
        source_cpu=ends_cpu,
        sink_cpu=ends_cpu,
    )
    cpu_s_per_gb = (_cpu_s(lab) - before_s) / (result.source.bytes / 1e9)
    retransmissions = int(result.source.tcp_info.get("total_retrans", 0))
    return 8 * result.source.mb_per_s / 1e3, cpu_s_per_gb, retransmissions


def _cpu_s(lab: Lab) -> float:
    """What the wire's process has used so far."""
    return float(lab.link.command("counters")["cpu_ns"]) / 1e9
