"""Measure the accuracy and the speed of the wire by independent means.

There are three measurements:

- *delay* sends ICMP echo requests at a steady pace, which the server's kernel answers. The error is
  the round trip, from just before send(2) to the kernel's time stamp of the answer
  (SO_TIMESTAMPNS), minus the requested round trip. It includes the time of the hosts' stacks, and
  the time that other work takes from sender and wire. So the same requests alternately go through
  paths without delay, which are a veth pair and a forwarder. The error of these paths is due to
  the machine.
- *rate* records a TCP transfer on the server's interface, and divides the segments' bytes with all
  framing by the time from the first segment to the last. It also compares the receiving program's
  goodput with rate x 1448/1538 (the payload of a full segment, and its bytes on an Ethernet).
- *throughput* is a TCP transfer at full speed, with offloads off and on. The Gbit/s that a program
  can carry between two veth pairs depend more on the machine than on the program. So the same
  transfers alternate over forward.c, which only moves frames, by recv() and send() or by
  recvmmsg() and sendmmsg().

Delay is also measured through the kernel's netem, and rate through netem and tbf (tc(8)), if this
machine has them. If it does not, the document names what is missing.
"""

import contextlib
import os
import select
import shutil
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final
from unittest import mock

from bench.goals import Goal, at_least, at_most, times_best
from bench.report import Part
from bench.rounds import Entrant, Measured, Rules, contest, say, summary

from tcplab.capture import record
from tcplab.errors import LabError
from tcplab.lab import Host, Lab, Pair, program_path
from tcplab.programs import RunOptions, SinkOptions, tcp_bulk
from tcplab.tables import Column, Table

#: The round trip in ms and the echo requests per second. The goals apply to 10,000 per second.
DELAYS: Final[Sequence[tuple[float, int]]] = (
    (0.0, 1_000),
    (1.0, 1_000),
    (20.0, 100),
    (20.0, 1_000),
    (200.0, 10_000),
    (20.0, 10_000),
)
RATES_MBIT: Final[Sequence[float]] = (1, 5, 10, 50, 100, 200, 500, 1000)
MSS_BYTES: Final = 1448  # MTU 1500 with time stamps
FRAME_OVERHEAD_BYTES: Final = 90  # preamble, Ethernet, FCS and gap 38; IPv4 20; TCP 32
WIRE: Final = "the wire"
MANAGED: Final = "the wire, FQ-CoDel"
WHOLE: Final = "the wire, offloads on"
FORWARDER: Final = "a forwarder by recv and send"
FORWARDERS: Final = {FORWARDER: "one", "a forwarder by recvmmsg and sendmmsg": "many"}
BARE: Final = "a veth pair alone"
LATE_US: Final = 300
#: The original goal was 5 Gbit/s on a machine whose forwarders carried 3.3 and 4.7 Gbit/s.
FACTORS: Final = dict(zip(FORWARDERS, (5 / 3.3, 5 / 4.7), strict=True))
DELAY_COLUMNS: Final = (
    Column("through", "through"),
    Column("rtt_ms", "RTT set (ms)", "g"),
    Column("pps", "packets/s", ",d"),
    Column("median", "error p50 (µs)", ".0f"),
    Column("p99", "p99", ".0f"),
    Column("max", "max", ".0f"),
    Column("late", f"over {LATE_US} µs (%)", ".2f"),
    Column("late_us_p99", "the wire's own p99 (µs)", ".0f"),
    Column("lost", "lost", ".0f"),
    Column("rounds", "rounds", "d"),
)
RATE_COLUMNS: Final = (
    Column("through", "through"),
    Column("rate_mbit", "rate set (Mbit/s)", "g"),
    Column("measured_mbit", "measured", ".3f"),
    Column("rate_error_percent", "error (%)", "+.3f"),
    Column("goodput_mb_per_s", "goodput (MB/s)", ".3f"),
    Column("expected_mb_per_s", "rate × 1448/1538", ".3f"),
    Column("goodput_error_percent", "error (%)", "+.2f"),
)
THROUGHPUT_COLUMNS: Final = (
    Column("entrant", "what is between the hosts"),
    Column("median", "Gbit/s, median", ".2f"),
    Column("lowest", "lowest", ".2f"),
    Column("highest", "highest", ".2f"),
    Column("wire_cpu_s_per_gb", "its CPU (s/GB)", ".2f"),
    Column("rounds", "rounds", "d"),
)
_ECHO_REQUEST, _ECHO_REPLY = 8, 0
_SO_TIMESTAMPNS = 35  # from <asm-generic/socket.h>; Python 3.11 has no name for it

Row = dict[str, Any]


def measure(
    rules: Rules,
    delays: Sequence[tuple[float, int]] = DELAYS,
    rates_mbit: Sequence[float] = RATES_MBIT,
) -> Part:
    """Measure the wire, and the alternatives that this machine has for comparison.

    Args:
        rules: a round of delay or throughput lasts `seconds`, and a run of rate twice as long.
        delays: pairs of a round-trip time in ms and echo requests per second.
        rates_mbit: rates in 10^6 bit/s.

    Raises:
        LabError: no laboratory can be made here.
    """
    if rules.short:
        delays, rates_mbit = delays[-1:], rates_mbit[2:3]
    with Lab() as lab, _forwarder_labs() as forwarders:
        links: list[_Link] = [_Wire(lab), _ManagedWire(lab)]
        absent = _add_disciplines(lab, links)
        if forwarder := forwarders.get(FORWARDER):
            pair = Pair(forwarder.client, forwarder.server)
            links += [_Bare(FORWARDER, pair), _Bare(BARE, forwarder.direct())]
        delay = [row for rtt_ms, pps in delays for row in _delay_rows(links, rtt_ms, pps, rules)]
        rate = [
            _rate_row(link, rate_mbit, 2.0 * rules.seconds, min(3, rules.rounds))
            for rate_mbit in rates_mbit
            for link in links
            if link.shapes
        ]
    through = throughput(rules)
    if len(through) == 2:
        absent.append("mere forwarders (no C compiler, apt install gcc)")
    text = (
        "Forwarders do not emulate a link (bench/forward.c). They are measured in turn with the"
        " wire. The sender of the echoes uses one of the two processors, and the wire uses the"
        " other. Any other activity, such as that of a virtual machine's host, raises the p99,"
        " including the p99 of a forwarder and of a veth pair."
    )
    text += "".join(f"\n\nNot compared with {reason}." for reason in absent)
    tables = [
        Table(DELAY_COLUMNS, delay, "Delay: ICMP echo, medians of the rounds (max, lost: of all)"),
        Table(RATE_COLUMNS, rate, "Rate: a TCP transfer recorded at the server (median of 3 runs)"),
        Table(THROUGHPUT_COLUMNS, through, "Throughput: TCP, both ends on one processor, no rate"),
    ]
    return Part("The wire", text, tables, goals(delay, rate, through))


def goals(delay: Sequence[Row], rate: Sequence[Row], through: Sequence[Row]) -> list[Goal]:
    """Return the goals: the wire's limits, and its ratio to the forwarders."""
    ours = (WIRE, MANAGED)
    fast = [row for row in delay if row["through"] in ours and row["pps"] == 10_000]
    rates = [row for row in rate if row["through"] in ours]
    slow = [abs(row["rate_error_percent"]) for row in rates if row["rate_mbit"] <= 500]
    goodput = [abs(row["goodput_error_percent"]) for row in rates]
    p50, p99 = (max(row[key] for row in fast) for key in ("median", "p99"))
    what = "the wire"
    reached = [
        at_most(what, "RTT error p50 at 10,000 packets/s, µs", 50, p50),
        at_most(what, "RTT error p99 at 10,000 packets/s, µs", 300, p99),
        *_beside_a_forwarder(what, fast, delay),
        at_most(what, "rate error up to 500 Mbit/s, %", 0.5, max(slow)),
        at_most(what, "goodput error, %", 1, max(goodput)),
    ]
    by_name = {row["entrant"]: row for row in through}
    # Other work can only slow a transfer down, so the best round shows the wire's capacity.
    for name, offloads, least in ((WIRE, "off", 5), (WHOLE, "on", 20)):
        for which, key in (("best round", "highest"), ("median", "median")):
            entrant = f"Gbit/s, offloads {offloads}, {which}"
            reached.append(at_least(what, entrant, least, by_name[name][key]))
    mine = by_name[WIRE]["values"]
    for name, factor in FACTORS.items():
        if name in by_name:
            others = {name: by_name[name]["values"]}
            reached.append(times_best(what, "Gbit/s, offloads off", factor, mine, others))
    return reached


def _beside_a_forwarder(what: str, ours: Sequence[Row], delay: Sequence[Row]) -> list[Goal]:
    """Return a goal for the share of late round trips, if there is a forwarder to compare with.

    A machine that stops the wire for a moment delays the packets that are due at that moment. A
    round trip is due twice in the wire, but only once in a forwarder, which has no delay. So the
    limit is twice the forwarder's share.
    """
    theirs = {row["rtt_ms"]: row["late"] for row in delay if row["through"] == FORWARDER}
    ratios = [
        row["late"] / max(theirs[row["rtt_ms"]], 0.01) for row in ours if row["rtt_ms"] in theirs
    ]
    entrant = f"round trips over {LATE_US} µs late at 10,000 packets/s, by a forwarder's"
    return [at_most(what, entrant, 2, max(ratios))] if ratios else []


# ---- the links that are compared: the wire, or a queueing discipline of the kernel ----


@dataclass
class _Link:
    """A link between client and server whose delay and rate can be set."""

    name: str
    pair: Pair
    delays: bool = True
    shapes: bool = True

    def set(self, *, rtt_ms: float = 0.0, rate_mbit: float = 0.0) -> None:
        raise NotImplementedError

    def delay_ms(self, rtt_ms: float) -> float:
        """Return the round trip that this link has when it is set to rtt_ms."""
        return rtt_ms

    def late_us_p99(self) -> dict[str, float]:
        """Return the p99 of the lateness that the wire itself reports; empty for other links."""
        return {}


class _Wire(_Link):
    def __init__(self, lab: Lab) -> None:
        super().__init__(WIRE, Pair(lab.client, lab.server, lab.congestion))
        self._link = lab.link

    def set(self, *, rtt_ms: float = 0.0, rate_mbit: float = 0.0) -> None:
        self._link.update(rtt_ms=rtt_ms, rate_mbit=rate_mbit, aqm="tail_drop")
        self._link.command("reset")

    def late_us_p99(self) -> dict[str, float]:
        late_ns = [counts["late_ns"]["p99"] for counts in self._link.counters().values()]
        return {"late_us_p99": max(late_ns) / 1e3}


class _ManagedWire(_Wire):
    """The wire with FQ-CoDel. If no rate is set, its line has 1 Gbit/s, too fast to matter."""

    def __init__(self, lab: Lab) -> None:
        super().__init__(lab)
        self.name = MANAGED

    def set(self, *, rtt_ms: float = 0.0, rate_mbit: float = 0.0) -> None:
        self._link.update(rtt_ms=rtt_ms, rate_mbit=rate_mbit or 1000, aqm="fq_codel")
        self._link.command("reset")


class _Bare(_Link):
    """A path without delay, which ignores the settings, so its error is the machine's own."""

    def __init__(self, name: str, pair: Pair) -> None:
        super().__init__(name, pair, shapes=False)

    def set(self, *, rtt_ms: float = 0.0, rate_mbit: float = 0.0) -> None:
        pass

    def delay_ms(self, _rtt_ms: float) -> float:
        return 0.0


class _QueueingDiscipline(_Link):
    """A veth pair with a queueing discipline at each end that delays and shapes packets."""

    def set(self, *, rtt_ms: float = 0.0, rate_mbit: float = 0.0) -> None:
        for host in (self.pair.client, self.pair.server):
            # `replace` would keep the netem parameters that are not given.
            _tc(host, "del", check=False)
            _tc(host, "add", *self.arguments(rtt_ms, rate_mbit))

    def arguments(self, rtt_ms: float, rate_mbit: float) -> list[str]:
        raise NotImplementedError


class _Netem(_QueueingDiscipline):
    def arguments(self, rtt_ms: float, rate_mbit: float) -> list[str]:
        # The limit also counts packets on the line; 24 bytes of framing match the wire's count.
        arguments = ["netem", "limit", "100000", "delay", f"{rtt_ms / 2:g}ms"]
        return arguments + (["rate", f"{rate_mbit:g}mbit", "24"] if rate_mbit else [])


class _Tbf(_QueueingDiscipline):
    def arguments(self, _rtt_ms: float, rate_mbit: float) -> list[str]:
        # A token bucket of one frame allows no burst, so it is as smooth as the wire.
        arguments = ["tbf", "rate", f"{rate_mbit:g}mbit", "burst", "1600", "limit", "1500000"]
        return [*arguments, "overhead", "24"]


def _tc(host: Host, action: str, *arguments: str, check: bool = True) -> None:
    command = ["tc", "qdisc", action, "dev", host.interface, "root", *arguments]
    host.run(command, privileged=True, check=check)


def _add_disciplines(lab: Lab, links: list[_Link]) -> list[str]:
    """Add netem and tbf if the kernel has them; return which of them are missing, and why."""
    if shutil.which("tc") is None:
        return ["netem and tbf (tc is not installed, apt install iproute2)"]
    absent = []
    pair = lab.direct()
    for link in (_Netem("netem", pair), _Tbf("tbf", pair, delays=False)):
        try:
            link.set(rtt_ms=1, rate_mbit=1)
        except LabError as error:
            why = str(error).rpartition(": ")[2].rstrip(".")
            fix = f"sudo modprobe sch_{link.name} where the kernel has it"
            absent.append(f"{link.name} ({why}, {fix})")
        else:
            links.append(link)
    return absent


# ---- delay ----


def _delay_rows(links: Sequence[_Link], rtt_ms: float, pps: int, rules: Rules) -> list[Row]:
    """Return a row per link that has `delays`. One disturbed round hardly changes its medians."""
    entrants: dict[str, Entrant] = {
        link.name: partial(_echo, link, rtt_ms, pps, rules.seconds) for link in links if link.delays
    }
    taken = contest(entrants, rules, f"RTT {rtt_ms:g} ms, {pps} packets/s, error p50 in µs")
    rows: list[Row] = []
    for name, samples in taken.items():
        percentiles = [sample.measured.more for sample in samples]
        row = {"late_us_p99": None} | summary(samples)
        row["max"] = max(more["max"] for more in percentiles)
        row["lost"] = sum(more["lost"] for more in percentiles)
        rows.append({"through": name, "rtt_ms": rtt_ms, "pps": pps, **row})
    return rows


def _echo(link: _Link, rtt_ms: float, pps: int, seconds: float) -> Measured:
    """Return the median error, in µs, of the round trips in one round through a link."""
    link.set(rtt_ms=rtt_ms)
    sent = max(10, round(pps * seconds))
    client, server = link.pair.client, link.pair.server
    errors = echo_errors_us(client, server.address, link.delay_ms(rtt_ms), pps, sent)
    if not errors:
        raise LabError(f"through {link.name} not one of {sent} echo requests was answered")
    p50, p99 = (errors[min(len(errors) - 1, int(share * len(errors)))] for share in (0.5, 0.99))
    late = 100 * sum(error > LATE_US for error in errors) / len(errors)
    more = {"p99": p99, "max": errors[-1], "late": late, "lost": sent - len(errors)}
    return Measured(p50, more=more | link.late_us_p99())


def echo_errors_us(
    client: Host, address: str, rtt_ms: float, pps: float, count: int
) -> list[float]:
    """Send ICMP echo requests at a steady pace, and return the errors of their round trips.

    Args:
        client: the sender.
        address: IP address of the host whose kernel answers.
        rtt_ms: the round trip that the path is set to.
        pps: requests per second; this process busy-waits, so nothing else may use its processor.
        count: number of requests.

    Returns:
        The errors in ascending order, one for each answer within a second of the last request.

    Raises:
        LabError: the client's laboratory is closed, or the client belongs to no laboratory.
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
    return sorted(rtt_ns / 1e3 - rtt_ms * 1e3 for rtt_ns in pinger.round_trips_ns)


@dataclass
class _Pinger:
    """A sender of echo requests, which collects the round trips of those that are answered."""

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
        """Collect answers until `expected` have come or time is up; busy-wait in the last ms."""
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
        at = (packet[0] & 15) * 4  # the end of the IP header
        kind, _code, _sum, identifier, _seq, number = struct.unpack_from("!BBHHHQ", packet, at)
        if kind == _ECHO_REPLY and identifier == self.identifier and control:
            seconds, nanoseconds = struct.unpack("ll", control[0][2][:16])
            self.round_trips_ns.append(seconds * 1_000_000_000 + nanoseconds - self.sent_ns[number])
        return True


# ---- rate ----


def _rate_row(link: _Link, rate_mbit: float, seconds: float, runs: int) -> Row:
    """Return the run with the median error, since a stall says nothing about the link."""
    say(f"{link.name}: {rate_mbit:g} Mbit/s")
    link.set(rate_mbit=rate_mbit)
    rows = [_transfer(link, rate_mbit, seconds) for _ in range(runs)]
    return sorted(rows, key=lambda row: abs(row["rate_error_percent"]))[(runs - 1) // 2]


def _transfer(link: _Link, rate_mbit: float, seconds: float) -> Row:
    expected = rate_mbit / 8 * MSS_BYTES / (MSS_BYTES + FRAME_OVERHEAD_BYTES)  # 10^6 bytes/s
    segments = 10 if rate_mbit < 100 else 90  # per write, for few calls but no long tail
    with record(link.pair.server) as capture:
        result = tcp_bulk(
            link.pair,
            write_bytes=segments * MSS_BYTES,
            count=max(2, round(expected * 1e6 * seconds / (segments * MSS_BYTES))),
            sndbuf_bytes=65536 if rate_mbit < 20 else None,  # keeps the sender's queue short
            rcvbuf_bytes=None,
        )
    data = capture.segments.data()
    took_s = float(data["time_ns"][-1] - data["time_ns"][0]) / 1e9
    # The time starts at the arrival of the first segment, so its bytes do not count.
    on_the_wire = int((data["payload_bytes"][1:] + FRAME_OVERHEAD_BYTES).sum())
    measured_mbit = 8 * on_the_wire / took_s / 1e6
    goodput = result.sink.mb_per_s
    return {
        "through": link.name,
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


def throughput(rules: Rules) -> list[Row]:
    """Measure the Gbit/s through the wire, without and with offloads, and through the forwarders.

    Without a C compiler there are no forwarders.
    """
    with Lab() as wire, Lab(offload=True) as whole, _forwarder_labs() as forwarders:
        labs = {WIRE: wire, WHOLE: whole, **forwarders}
        entrants: dict[str, Entrant] = {
            name: partial(transfer, lab, rules.seconds) for name, lab in labs.items()
        }
        samples = contest(entrants, rules, "throughput")
    return [{"entrant": name, **summary(taken)} for name, taken in samples.items()]


def transfer(lab: Lab, seconds: float) -> Measured:
    """Run TCP at full speed from the client to the server, and return the Gbit/s of payload."""
    before_s = _cpu_s(lab)
    result = tcp_bulk(
        lab,
        write_bytes=1 << 20,
        duration_s=seconds,
        sndbuf_bytes=None,
        rcvbuf_bytes=None,
        sink=SinkOptions(discard=True),
        # The wire is being measured, so it has a processor to itself.
        run=RunOptions.on_one_cpu(),
    )
    cpu_s_per_gb = (_cpu_s(lab) - before_s) / (result.source.bytes / 1e9)
    more = {"wire_cpu_s_per_gb": cpu_s_per_gb}
    return Measured(8 * result.source.mb_per_s / 1e3, result.source.bytes, more)


def _cpu_s(lab: Lab) -> float:
    """Return the CPU seconds that the wire's process has used so far."""
    return float(lab.link.command("counters")["cpu_ns"]) / 1e9


@contextlib.contextmanager
def _forwarder_labs() -> Iterator[dict[str, Lab]]:
    """Yield laboratories with a forwarder instead of the wire; none without a C compiler."""
    compiler = shutil.which("cc")
    with contextlib.ExitStack() as stack:
        labs: dict[str, Lab] = {}
        if compiler:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tcplab-")))
            _programs_with_forwarder(directory, compiler)
            for name, mode in FORWARDERS.items():
                with mock.patch.dict(os.environ, TCPLAB_BIN=str(directory), FORWARD_MODE=mode):
                    labs[name] = stack.enter_context(Lab())
        yield labs


def _programs_with_forwarder(directory: Path, compiler: str) -> None:
    """Fill the folder with links to the course's programs, and a forwarder instead of the wire."""
    for program in program_path("wire").parent.iterdir():
        if program.name != "wire" and program.is_file():
            (directory / program.name).symlink_to(program)
    command = [compiler, "-O2", "-Wall", "-Wextra", "-Werror", "-o", str(directory / "wire")]
    subprocess.run([*command, str(Path(__file__).with_name("forward.c"))], check=True)
