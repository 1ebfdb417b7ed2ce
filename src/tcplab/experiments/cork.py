"""Cork: one message that is written in pieces, and the ways to send it in as few segments.

TCP_CORK, MSG_MORE, writev(), TCP_NODELAY and none of them, as in "TCP_NODELAY and TCP_CORK" of Red
Hat Enterprise Linux for Real Time; and what a ChinaUnix author reports of sendfile() with a cork:

=====================  =========================================================================
:func:`measure`        a message in pieces and its reply, in each way: segments, calls and time
``forgotten``          a cork that nobody pulls: how long the kernel waits, by round-trip time
``scenarios``          short scripts of calls: cork with TCP_NODELAY, with Nagle, with an ACK
``autocorking``        what the kernel does by itself when its own queue is not empty
``header_and_file``    a header, then sendfile(): is the header alone in its segment?
``two_sockets``        a cork that leaks: a packet buffer has only so many fragments
=====================  =========================================================================

The calls are made by the C program writepattern, at the microsecond, and the timeline of
tcplab.timeline says of each segment what it waited for.

Sources: tcp(7); net/ipv4/tcp_output.c of Linux 6.18 (tcp_nagle_check, tcp_write_xmit) and tcp.c
(tcp_should_autocork); commit f54b311142a9 ("tcp: auto corking").
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path as File
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, cast, get_args

from tcplab.experiments import Result, provenance
from tcplab.experiments.ladder import on_the_ladder
from tcplab.lab import Lab, LabError
from tcplab.models import Call, Path, Reason, message_calls, predict
from tcplab.models.checks import within
from tcplab.programs import Event, SocketOptions, send_file
from tcplab.tables import Column

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from tcplab.capture import Capture
    from tcplab.timeline import Segment, Timeline

__all__ = [
    "BOOK_MS_PER_MESSAGE",
    "BOOK_PIECES",
    "HEADER_WAYS",
    "PARTS",
    "SCENARIOS",
    "WAYS",
    "Autocorking",
    "Autocorks",
    "Cork",
    "Forgotten",
    "HeaderAndFile",
    "Headers",
    "Leak",
    "Played",
    "Scenario",
    "Scenarios",
    "Waited",
    "Way",
    "measure",
    "measure_autocorking",
    "measure_forgotten",
    "measure_header_and_file",
    "measure_scenarios",
    "measure_two_sockets",
]

SUMMARY = "one message in pieces: cork, MSG_MORE, writev, TCP_NODELAY; corks that are forgotten"

WayName = Literal["default", "no_delay", "cork", "msg_more", "writev", "cork+no_delay"]
WAYS: Final[tuple[WayName, ...]] = get_args(WayName)
Part = Literal["ways", "forgotten", "scenarios", "autocorking", "header-and-file", "two-sockets"]
PARTS: Final[tuple[Part, ...]] = get_args(Part)

#: The text's own figures: 10 000 messages of 30 bytes on loopback took 400 129.78, 1 649.77 and
#: 850.80 ms.
BOOK_MS_PER_MESSAGE: Final[Mapping[str, float]] = {
    "default": 40.0129781250,
    "no_delay": 0.1649771240,
    "cork": 0.0850796448,
}
BOOK_PIECES: Final = (2,) * 15

MSS_BYTES: Final = 1448  # MTU 1500, less 20 (IP), 20 (TCP) and 12 (time stamps option)
#: Both ends come to rest after the handshake before the first call of a script.
_SETTLE_MS: Final = 60
#: Scripts are played again when a call was so far from its time, and so often at most.
_LATE_MS: Final = 5
_ATTEMPTS: Final = 4


# ---- scripts of calls ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Played:
    """What came of one script of calls.

    Attributes:
        log: each call, on the clock of the segments.
        calls: how many system calls that was.
        options: the sender's socket.
        segments: of its connection, on the client's interface.
        peer_segments: the same on the server's interface.
    """

    log: Sequence[Event]
    calls: int
    options: SocketOptions
    segments: npt.NDArray[np.void]
    peer_segments: npt.NDArray[np.void]

    @property
    def start_ns(self) -> int:
        """When the first write began, or a cork was set before it."""
        return next(each.time_ns for each in self.log if each.name != "read")

    @property
    def data(self) -> npt.NDArray[np.void]:
        """Data segments that left for the first time."""
        rows = self.segments
        mask = (rows["direction"] == 0) & (rows["payload_bytes"] > 0) & ~rows["is_retransmission"]
        return cast("npt.NDArray[np.void]", rows[mask])

    @property
    def sizes(self) -> list[int]:
        """Payload bytes of each data segment."""
        return [int(size) for size in self.data["payload_bytes"]]

    @property
    def left_ms(self) -> list[float]:
        """When each of them left, after the first call."""
        return [(int(when) - self.start_ns) / 1e6 for when in self.data["time_ns"]]

    def timeline(self) -> Timeline:
        """Why each segment left when it did: see tcplab.timeline."""
        from tcplab.timeline import explain

        return explain(
            self.log, self.segments, self.options, peer_segments=self.peer_segments, nodelay=False
        )


def _script(calls: Sequence[Call]) -> str:
    """A script as writepattern reads it; writev is a call of its own there."""
    return " ".join(f"{round(call.delay_ms * 1e3)}:{call.kind}={call.value}" for call in calls)


@contextmanager
def _receiver(lab: Lab, reply: tuple[int, int] | None, cpu: int) -> Iterator[str]:
    """writepattern_peer on the server, which answers each so many bytes; its port."""
    words = ["writepattern_peer", "--port", "0", "--json", "--cpu", str(cpu)]
    words += ["--congestion", lab.congestion]
    if reply is not None:
        words += ["--reply", f"{reply[0]}:{reply[1]}"]
    process = lab.server.start(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        line = process.stdout.readline()  # type: ignore[union-attr]
        if not line:
            raise LabError(f"writepattern_peer did not start: {process.communicate()[1].strip()}")
        yield str(json.loads(line)["listening"])
    finally:
        process.kill()
        process.communicate()


def _play(
    lab: Lab, scripts: Sequence[str], reply: tuple[int, int] | None = None
) -> tuple[list[Played], int]:
    """Plays scripts at the same time, each on a connection of its own.

    Returns:
        What came of each, and how many packets the recorders lost.
    """
    # Both ends on one CPU, or the wake-up of the other hides what the protocol does.
    cpu = min(os.sched_getaffinity(0))
    with ExitStack() as stack:
        near = stack.enter_context(lab.client.capture())
        far = stack.enter_context(lab.server.capture())
        port = stack.enter_context(_receiver(lab, reply, cpu))
        words = ["writepattern", "--port", port, "--cpu", str(cpu), "--stagger", "20000"]
        words += ["--congestion", lab.congestion, "server"]
        ran = lab.client.run(words, stdin="".join(script + "\n" for script in scripts))
    rows, peer_rows = _taken(near), _taken(far)
    drops = (near.drops or 0) + (far.drops or 0)
    reports = [json.loads(line) for line in ran.stdout.splitlines()]
    return [_played(lab, each, rows, peer_rows) for each in reports], drops


def _taken(capture: Capture) -> npt.NDArray[np.void]:
    """The segments, and the file is let go of."""
    with capture:
        return capture.segments


def _played(
    lab: Lab,
    report: Mapping[str, Any],
    rows: npt.NDArray[np.void],
    peer_rows: npt.NDArray[np.void],
) -> Played:
    port, calls = report["port"], [each for each in report["calls"] if each["call"] != "shutdown"]
    mine = rows[(rows["src_port"] == port) | (rows["dst_port"] == port)]
    far = peer_rows[(peer_rows["src_port"] == port) | (peer_rows["dst_port"] == port)]
    server_port = int(mine["dst_port"][0])
    options = SocketOptions(
        sndbuf_bytes=46_080,
        rcvbuf_bytes=131_072,
        local=f"{lab.client.address} port {port}",
        peer=f"{lab.server.address} port {server_port}",
        cpu=min(os.sched_getaffinity(0)),
        deadline_s=30.0,
        congestion=lab.congestion,
        mss_bytes=report["mss_bytes"],
        nodelay=False,
    )
    log = [event for call in calls if (event := _event(call)) is not None]
    return Played(log, len(calls), options, mine, far)


def _event(call: Mapping[str, Any]) -> Event | None:
    """A call of writepattern as the timeline reads it; None for one that changes nothing."""
    names = {
        "write": "write",
        "writev": "write",
        "more": "more",
        "read": "read",
        "cork": "cork" if call.get("value") else "uncork",
        "nodelay": "nodelay" if call.get("value") else "delay",
    }
    if call["call"] not in names:
        return None
    moment = call["end_ns"] if call["call"] == "read" else call["start_ns"]
    return Event(int(moment), names[call["call"]], int(call.get("bytes", 0)))


# ---- the ways ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Way:
    """One way of sending a message, and what was seen of it.

    Attributes:
        name: how the pieces are handed to TCP.
        pieces: bytes of each.
        messages: how many.
        played: calls and segments.
        message_ms: from the first call of each message to its reply.
    """

    name: WayName
    pieces: tuple[int, ...]
    messages: int
    played: Played
    message_ms: tuple[float, ...]

    def message_sizes(self) -> list[tuple[int, ...]]:
        """Payload bytes of the data segments of each message: those whose first byte is of it."""
        found: list[list[int]] = [[] for _ in range(self.messages)]
        sent = 0
        for size in self.played.sizes:
            found[sent // sum(self.pieces)].append(size)
            sent += size
        return [tuple(sizes) for sizes in found]

    def usual_sizes(self) -> tuple[int, ...]:
        """The most frequent of them."""
        return statistics.mode(self.message_sizes())

    def timeline(self) -> Timeline:
        """Why each segment left when it did: see tcplab.timeline."""
        return self.played.timeline()

    def row(self) -> dict[str, Any]:
        """One row of plain data; times and counts are medians over the messages."""
        counts = [len(sizes) for sizes in self.message_sizes()]
        return {
            "variant": self.name,
            "ms_per_message": statistics.median(self.message_ms),
            "book_ms_per_message": BOOK_MS_PER_MESSAGE.get(self.name)
            if self.pieces == BOOK_PIECES
            else None,
            "data_segments_per_message": statistics.median(counts),
            "sizes": _runs(self.usual_sizes()),
            "calls_per_message": self.played.calls // self.messages,
            "messages": self.messages,
        }


def _runs(sizes: Sequence[int]) -> str:
    """15 segments of 2 and one of 4 as "15 × 2 + 4"."""
    words = []
    for size, group in itertools.groupby(sizes):
        many = len(list(group))
        words.append(f"{size}" if many == 1 else f"{many} × {size}")
    return " + ".join(words)


@dataclass(frozen=True, slots=True)
class Cork:
    """The ways side by side."""

    experiment: ClassVar[str] = "cork"
    columns: ClassVar[Sequence[Column]] = (
        Column("variant", "way"),
        Column("ms_per_message", "ms/message", ".3f"),
        Column("data_segments_per_message", "segments/message", "g"),
        Column("sizes", "their sizes (bytes)"),
        Column("calls_per_message", "calls/message", "d"),
    )

    pieces: tuple[int, ...]
    rtt_ms: float
    ways: Sequence[Way]
    provenance: Mapping[str, Any]

    def __getitem__(self, name: str) -> Way:
        for way in self.ways:
            if way.name == name:
                return way
        raise KeyError(name)

    def rows(self) -> list[dict[str, Any]]:
        """One row a way."""
        return [way.row() for way in self.ways]


@on_the_ladder("cork")
def measure(
    pieces: Sequence[int] = BOOK_PIECES,
    messages: int = 20,
    rtt_ms: float = 0,
    ways: Sequence[WayName] = WAYS,
) -> Cork:
    """Sends messages in pieces, each answered by two bytes when it is complete.

    Args:
        pieces: bytes of each piece, 2 to 64 pieces, 65 536 bytes in all.
        messages: how many in each way, 1 to 60.
        rtt_ms: of the wire, 0 to 500.
        ways: which, in this order.

    Raises:
        ValueError: a number is out of range, or no such way.
        LabError: no laboratory can be made here, or a program failed.
    """
    sizes = tuple(pieces)
    if not 2 <= len(sizes) <= 64 or min(sizes) < 1 or sum(sizes) > 65_536:
        raise ValueError(f"pieces={sizes}: give 2 to 64 of 1 byte or more, 65536 bytes in all")
    within("messages", messages, 1, 60)
    within("rtt_ms", rtt_ms, 0, 500, " ms")
    for name in ways:
        if name not in WAYS:
            raise ValueError(f"way {name!r} is not one of {', '.join(WAYS)}")
    if not ways:
        raise ValueError(f"ways is empty; give some of {', '.join(WAYS)}")
    with Lab(rtt_ms=rtt_ms) as lab:
        measured = [_measure_way(lab, name, sizes, messages) for name in ways]
        return Cork(
            sizes,
            rtt_ms,
            [way for way, _drops in measured],
            provenance(
                lab,
                pieces=sizes,
                messages=messages,
                congestion=lab.congestion,
                pinned_to_cpu=min(os.sched_getaffinity(0)),
                capture_drops=sum(drops for _way, drops in measured),
            ),
        )


def _measure_way(
    lab: Lab, name: WayName, pieces: tuple[int, ...], messages: int
) -> tuple[Way, int]:
    script = " ".join([_first_calls(name), *[_message_script(name, pieces)] * messages])
    # Connections of their own take turns: a busy neighbour would be a cause of its own.
    (played,), drops = _play(lab, [script], reply=(sum(pieces), 2))
    times, start_ns = [], None
    for event in played.log:
        if event.name in ("nodelay", "delay"):
            continue
        if event.name == "read" and start_ns is not None:
            times.append((event.time_ns - start_ns) / 1e6)
            start_ns = None
        elif start_ns is None:
            start_ns = event.time_ns
    return Way(name, pieces, messages, played, tuple(times)), drops


def _first_calls(name: WayName) -> str:
    return f"{1000 * _SETTLE_MS}:nodelay={int('no_delay' in name)}"


def _message_script(name: WayName, pieces: tuple[int, ...]) -> str:
    """One message and the wait for its reply, in the words of writepattern."""
    if name == "writev":
        body = "0:writev=" + ",".join(map(str, pieces))
    else:
        body = _script(message_calls(pieces, name.removesuffix("+no_delay")))
    return f"{body} 0:read=2"


# ---- a cork that nobody pulls --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Waited:
    """How long a piece waited that nothing followed.

    Attributes:
        rtt_ms: of the wire.
        way: "cork" or "MSG_MORE".
        waited_ms: from the write until its segment left.
        model_ms: what the model expects: the retransmission timeout, by the kernel's tick.
    """

    rtt_ms: float
    way: str
    waited_ms: float
    model_ms: float


@dataclass(frozen=True, slots=True)
class Forgotten:
    """A write of 100 bytes into a cork that is never pulled, by round-trip time."""

    experiment: ClassVar[str] = "forgotten-cork"
    columns: ClassVar[Sequence[Column]] = (
        Column("rtt_ms", "RTT (ms)", "g"),
        Column("cork_ms", "cork: waited (ms)", ".0f"),
        Column("more_ms", "MSG_MORE: waited (ms)", ".0f"),
        Column("model_ms", "model (ms)", ".0f"),
        Column("manual_ms", "tcp(7) (ms)", "d"),
    )

    waits: Sequence[Waited]
    provenance: Mapping[str, Any]

    def rows(self) -> list[dict[str, Any]]:
        """One row a round-trip time."""
        found: dict[float, dict[str, Any]] = {}
        for each in self.waits:
            row = found.setdefault(
                each.rtt_ms,
                {"variant": f"{each.rtt_ms:g} ms", "rtt_ms": each.rtt_ms, "manual_ms": 200},
            )
            row["cork_ms" if each.way == "cork" else "more_ms"] = each.waited_ms
            row["model_ms"] = each.model_ms
        return list(found.values())


@on_the_ladder("forgotten-cork")
def measure_forgotten(rtts_ms: Sequence[float] = (0, 20, 60, 150)) -> Forgotten:
    """Writes 100 bytes with a cork, and with MSG_MORE, and nothing after them.

    Args:
        rtts_ms: of the wire, 0 to 500 ms each.

    Raises:
        ValueError: a number is out of range.
        LabError: no laboratory can be made here, or a program failed.
    """
    if not rtts_ms:
        raise ValueError("rtts_ms is empty; give at least one value from 0 to 500 ms")
    for rtt_ms in rtts_ms:
        within("rtt_ms", rtt_ms, 0, 500, " ms")
    waits, lost = [], 0
    with Lab(rtt_ms=rtts_ms[0]) as lab:
        for rtt_ms in rtts_ms:
            lab.link.update(rtt_ms=rtt_ms)
            pauses = (Call("nodelay", 0, _SETTLE_MS), Call("quickack", 1, 700 + 3 * rtt_ms))
            ways = {
                "cork": (pauses[0], Call("cork", 1), Call("write", 100), pauses[1]),
                "MSG_MORE": (pauses[0], Call("more", 100), pauses[1]),
            }
            played, drops = _play(lab, [_script(calls) for calls in ways.values()])
            lost += drops
            for (way, calls), each in zip(ways.items(), played, strict=True):
                waits.append(_waited(rtt_ms, way, calls, each))
        return Forgotten(waits, provenance(lab, congestion=lab.congestion, capture_drops=lost))


def _waited(rtt_ms: float, way: str, calls: Sequence[Call], played: Played) -> Waited:
    wrote_ns = next(each.time_ns for each in played.log if each.name in ("write", "more"))
    left_ns = int(played.data["time_ns"][0])
    (expected,) = predict(calls, Path(rtt_ms=rtt_ms)).data
    return Waited(rtt_ms, way, (left_ns - wrote_ns) / 1e6, expected.waited_ms)


# ---- scripts -------------------------------------------------------------------------------------

#: Name -> calls. Each is a question of the texts or of the manual.
SCENARIOS: Final[Mapping[str, tuple[Call, ...]]] = {
    "cork, then TCP_NODELAY": (
        Call("cork", 1),
        Call("write", 100),
        Call("nodelay", 1, 40),
        Call("write", 200, 40),
        Call("cork", 0, 40),
    ),
    "TCP_NODELAY, then cork": (
        Call("nodelay", 1),
        Call("cork", 1),
        Call("write", 100),
        Call("write", 200, 60),
        Call("cork", 0, 60),
    ),
    "cork pulled, a small segment un-ACKed": (
        Call("write", 10),
        Call("cork", 1),
        Call("write", 20),
        Call("cork", 0),
    ),
    "the same with TCP_NODELAY": (
        Call("nodelay", 1),
        Call("write", 10),
        Call("cork", 1),
        Call("write", 20),
        Call("cork", 0),
    ),
    "MSG_MORE, and an ACK comes": (Call("write", 10), Call("more", 20)),
    "cork, and an ACK comes": (Call("write", 10), Call("cork", 1), Call("write", 20)),
    "a full segment in a cork": (
        Call("cork", 1),
        Call("write", 1000),
        Call("write", 1000, 40),
        Call("cork", 0, 40),
    ),
}


@dataclass(frozen=True, slots=True)
class Scenario:
    """A script and what became of it.

    Attributes:
        name: its question.
        calls: in words.
        played: calls and segments.
        model: (bytes, reason) of the segments that the model expects.
    """

    name: str
    calls: str
    played: Played
    model: tuple[tuple[int, str], ...]

    @property
    def late_ms(self) -> float:
        """How far the last call was from its place in the script: a busy machine shifts calls."""
        log = self.played.log
        asked_ms = sum(call.delay_ms for call in SCENARIOS[self.name])
        return abs((log[-1].time_ns - log[0].time_ns) / 1e6 - asked_ms)

    def segments(self) -> list[Segment]:
        """The segments with their reasons, in order."""
        return [each for each in self.timeline().segments if each.reason != Reason.RETRANSMISSION]

    def timeline(self) -> Timeline:
        """Why each segment left when it did: see tcplab.timeline."""
        return self.played.timeline()


@dataclass(frozen=True, slots=True)
class Scenarios:
    """Scripts of calls, and the segments that left."""

    experiment: ClassVar[str] = "cork-scenarios"
    columns: ClassVar[Sequence[Column]] = (
        Column("variant", "script"),
        Column("calls", "calls"),
        Column("bytes", "segment (bytes)", "d"),
        Column("left_ms", "left at (ms)", ".1f"),
        Column("waited_for", "waited for"),
        Column("reason", "left because"),
    )

    scenarios: Sequence[Scenario]
    provenance: Mapping[str, Any]

    def __getitem__(self, name: str) -> Scenario:
        for each in self.scenarios:
            if each.name == name:
                return each
        raise KeyError(name)

    def rows(self) -> list[dict[str, Any]]:
        """One row a segment."""
        found = []
        for each in self.scenarios:
            for number, segment in enumerate(each.segments()):
                held = segment.held_by
                found.append(
                    {
                        "variant": each.name if number == 0 else "",
                        "calls": each.calls if number == 0 else "",
                        "bytes": segment.payload_bytes,
                        "left_ms": (segment.time_ns - each.played.start_ns) / 1e6,
                        "waited_for": "nothing" if held is None else str(held.reason),
                        "reason": str(segment.reason),
                    }
                )
        return found


@on_the_ladder("cork-scenarios")
def measure_scenarios(names: Sequence[str] = tuple(SCENARIOS), rtt_ms: float = 20) -> Scenarios:
    """Plays scripts of calls, each on a connection of its own.

    On a busy machine a call may come late, and then it is another script: they are played again, up
    to four times, and those that were closest to their times count (provenance: calls_late_ms).

    Args:
        names: of SCENARIOS, at least one.
        rtt_ms: of the wire, 5 to 100.

    Raises:
        ValueError: a number is out of range, or no such script.
        LabError: no laboratory can be made here, or a program failed.
    """
    within("rtt_ms", rtt_ms, 5, 100, " ms")
    if not names:
        raise ValueError(f"names is empty; give some of: {'; '.join(SCENARIOS)}")
    for name in names:
        if name not in SCENARIOS:
            raise ValueError(f"script {name!r} is not one of: {'; '.join(SCENARIOS)}")
    scripts = []
    for name in names:
        settle, end = Call("nodelay", 0, _SETTLE_MS), Call("quickack", 1, 500 + 3 * rtt_ms)
        scripts.append((settle, *SCENARIOS[name], end))
    best: list[Scenario] = []
    attempts = 0
    with Lab(rtt_ms=rtt_ms) as lab:
        while attempts < _ATTEMPTS and (not best or _lateness_ms(best) >= _LATE_MS):
            attempts += 1
            played, drops = _play(lab, [_script(calls) for calls in scripts])
            found = [
                Scenario(name, _in_words(SCENARIOS[name]), each, _model(calls, rtt_ms))
                for name, calls, each in zip(names, scripts, played, strict=True)
            ]
            if not best or _lateness_ms(found) < _lateness_ms(best):
                best, lost = found, drops
        return Scenarios(
            best,
            provenance(
                lab,
                congestion=lab.congestion,
                capture_drops=lost,
                attempts=attempts,
                calls_late_ms=_lateness_ms(best),
            ),
        )


def _lateness_ms(scenarios: Sequence[Scenario]) -> float:
    return max(each.late_ms for each in scenarios)


def _model(calls: Sequence[Call], rtt_ms: float) -> tuple[tuple[int, str], ...]:
    data = predict(calls, Path(rtt_ms=rtt_ms)).data
    return tuple((each.payload_bytes, str(each.reason)) for each in data)


def _in_words(calls: Sequence[Call]) -> str:
    words = []
    for call in calls:
        pause = f"{call.delay_ms:g} ms later " if call.delay_ms else ""
        value = str(call.value) if call.kind in ("write", "more") else ["off", "on"][call.value]
        words.append(f"{pause}{call.kind} {value}")
    return ", ".join(words)


# ---- autocorking ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Autocorks:
    """One run of small writes with TCP_NODELAY behind a slow interface.

    Attributes:
        autocorking: net.ipv4.tcp_autocorking.
        writes: how many.
        counted: by how much the counter TcpExtTCPAutoCorking of the host grew.
        sizes: payload bytes of the data segments.
        played: calls and segments.
    """

    autocorking: bool
    writes: int
    counted: int
    sizes: tuple[int, ...]
    played: Played


@dataclass(frozen=True, slots=True)
class Autocorking:
    """The same writes with autocorking on and off."""

    experiment: ClassVar[str] = "autocorking"
    columns: ClassVar[Sequence[Column]] = (
        Column("variant", "tcp_autocorking"),
        Column("writes", "writes", "d"),
        Column("segments", "data segments", "d"),
        Column("mean_bytes", "bytes/segment", ".0f"),
        Column("counted", "TCPAutoCorking grew by", "d"),
    )

    runs: Sequence[Autocorks]
    provenance: Mapping[str, Any]

    def rows(self) -> list[dict[str, Any]]:
        """One row a setting."""
        return [
            {
                "variant": "on" if each.autocorking else "off",
                "writes": each.writes,
                "segments": len(each.sizes),
                "mean_bytes": statistics.fmean(each.sizes),
                "counted": each.counted,
                "sizes": _runs(each.sizes),
            }
            for each in self.runs
        ]


@on_the_ladder("autocorking")
def measure_autocorking(writes: int = 40, size_bytes: int = 100) -> Autocorking:
    """Two full segments, then small writes with TCP_NODELAY, through an interface of 1 Mbit/s.

    Autocorking needs a packet of the connection that waits in the sender's own queue. The wire of
    the laboratory has its queue outside the host, so a token bucket (tbf) goes on the interface.

    Args:
        writes: how many small ones, 1 to 500.
        size_bytes: of each, 1 to 1000.

    Raises:
        ValueError: a number is out of range.
        LabError: no laboratory can be made here, a program failed, or the kernel has no tbf.
    """
    within("writes", writes, 1, 500)
    within("size_bytes", size_bytes, 1, 1000, " bytes")
    body = f" 0:write={size_bytes}" * writes
    script = f"{1000 * _SETTLE_MS}:nodelay=1 0:write={2 * MSS_BYTES}{body} 1000000:quickack=1"
    runs, lost = [], 0
    with Lab() as lab:
        # pyroute2 drives an event loop, and a notebook's is running in this thread.
        with ThreadPoolExecutor(1) as pool:
            pool.submit(_slow_interface, lab).result()
        for on in (True, False):
            lab.client.sysctl("net.ipv4.tcp_autocorking", str(int(on)))
            before = _autocorked(lab)
            (played,), drops = _play(lab, [script])
            counted = _autocorked(lab) - before
            runs.append(Autocorks(on, writes, counted, tuple(played.sizes[2:]), played))
            lost += drops
        return Autocorking(
            runs,
            provenance(
                lab,
                congestion=lab.congestion,
                capture_drops=lost,
                interface_mbit=1,
                size_bytes=size_bytes,
            ),
        )


def _slow_interface(lab: Lab) -> None:
    """A token bucket on the client's own interface: packets wait there before they leave."""
    from pyroute2 import IPRoute
    from pyroute2.netlink.exceptions import NetlinkError

    opened = lab.client.socket(socket.AF_NETLINK, socket.SOCK_DGRAM)
    with opened, IPRoute(fileno=opened.detach()) as route:
        index = route.link_lookup(ifname=lab.client.interface)[0]
        try:
            route.tc("add", "tbf", index, rate="1mbit", burst=1600, latency="500ms")
        except NetlinkError as error:
            raise LabError(
                f"this kernel has no token bucket (sch_tbf: {error.args[-1]}); to load it:"
                " sudo modprobe sch_tbf"
            ) from None


def _autocorked(lab: Lab) -> int:
    """The counter TcpExtTCPAutoCorking of the client."""
    lines = [line.split() for line in lab.client.read("/proc/net/netstat").splitlines()]
    names, values = next(
        (head, tail) for head, tail in itertools.pairwise(lines) if head[0] == tail[0] == "TcpExt:"
    )
    return int(dict(zip(names, values, strict=True)).get("TCPAutoCorking", 0))


# ---- a header and a file -------------------------------------------------------------------------

HeaderWay = Literal["default", "no_delay", "cork", "msg_more", "read+send, cork"]
HEADER_WAYS: Final[tuple[HeaderWay, ...]] = get_args(HeaderWay)


@dataclass(frozen=True, slots=True)
class Headers:
    """A header and a file, sent in one way.

    Attributes:
        way: how.
        sizes: payload bytes of the data segments.
        system_calls: of the sender.
    """

    way: HeaderWay
    sizes: tuple[int, ...]
    system_calls: int


@dataclass(frozen=True, slots=True)
class HeaderAndFile:
    """A header with send(), then a file with sendfile()."""

    experiment: ClassVar[str] = "header-and-file"
    columns: ClassVar[Sequence[Column]] = (
        Column("variant", "way"),
        Column("segments", "data segments", "d"),
        Column("sizes", "their sizes (bytes)"),
        Column("alone", "header alone"),
        Column("system_calls", "system calls", "d"),
    )

    header_bytes: int
    file_bytes: int
    ways: Sequence[Headers]
    provenance: Mapping[str, Any]

    def __getitem__(self, way: str) -> Headers:
        for each in self.ways:
            if each.way == way:
                return each
        raise KeyError(way)

    def is_alone(self, way: str) -> bool:
        """Whether the first segment carried the header and nothing of the file."""
        return self[way].sizes[0] == self.header_bytes

    def rows(self) -> list[dict[str, Any]]:
        """One row a way."""
        return [
            {
                "variant": each.way,
                "segments": len(each.sizes),
                "sizes": _runs(each.sizes),
                "alone": "yes" if self.is_alone(each.way) else "no",
                "system_calls": each.system_calls,
            }
            for each in self.ways
        ]


@on_the_ladder("header-and-file")
def measure_header_and_file(header_bytes: int = 200, file_bytes: int = 5000) -> HeaderAndFile:
    """Sends a header and a file, as a web server does, in each way.

    Args:
        header_bytes: 1 to 1000.
        file_bytes: 1 to 14 000: what leaves before the first ACK of a connection.

    Raises:
        ValueError: a number is out of range.
        LabError: no laboratory can be made here, or a program failed.
    """
    within("header_bytes", header_bytes, 1, 1000, " bytes")
    within("file_bytes", file_bytes, 1, 14_000, " bytes")
    with Lab(rtt_ms=10) as lab, tempfile.TemporaryDirectory(prefix="tcplab-") as directory:
        path = File(directory) / "file"
        path.write_bytes(bytes(file_bytes))
        measured = [_header_way(lab, path, way, header_bytes) for way in HEADER_WAYS]
        return HeaderAndFile(
            header_bytes,
            file_bytes,
            [each for each, _drops in measured],
            provenance(
                lab,
                congestion=lab.congestion,
                capture_drops=sum(drops for _each, drops in measured),
            ),
        )


def _header_way(lab: Lab, path: File, way: HeaderWay, header_bytes: int) -> tuple[Headers, int]:
    with lab.client.capture() as capture:
        result = send_file(
            lab,
            path,
            method="read" if way.startswith("read") else "sendfile",
            header_bytes=header_bytes,
            cork=way.endswith("cork"),
            more=way == "msg_more",
            nodelay=way == "no_delay",
        )
    drops = capture.drops or 0
    rows = _taken(capture)
    mine = (rows["direction"] == 0) & (rows["payload_bytes"] > 0) & ~rows["is_retransmission"]
    sizes = tuple(int(size) for size in rows["payload_bytes"][mine])
    return Headers(way, sizes, result.system_calls), drops


# ---- a cork that leaks ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Leak:
    """Corked writes of one thread, to one socket, and to two by turns."""

    experiment: ClassVar[str] = "cork-leak"
    columns: ClassVar[Sequence[Column]] = (
        Column("variant", "one thread writes"),
        Column("writes", "writes to each", "d"),
        Column("sizes", "segments of the first socket (bytes)"),
    )

    writes: int
    sizes: Mapping[str, Sequence[int]]
    provenance: Mapping[str, Any]

    def rows(self) -> list[dict[str, Any]]:
        """One row a number of sockets."""
        return [
            {"variant": name, "writes": self.writes, "sizes": " + ".join(map(str, sizes))}
            for name, sizes in self.sizes.items()
        ]


@on_the_ladder("cork-leak")
def measure_two_sockets(writes: int = 20) -> Leak:
    """Corked writes of 10 bytes from one thread: to one socket, then to two by turns.

    What a thread writes is copied into one memory fragment that all its sockets share. Writes that
    follow each other on one socket lie side by side in it and count as one fragment; by turns, each
    is a fragment of its own, and a packet buffer holds 17 (MAX_SKB_FRAGS).

    Args:
        writes: to each socket, 1 to 100.

    Raises:
        ValueError: a number is out of range.
        LabError: no laboratory can be made here.
    """
    within("writes", writes, 1, 100)
    sizes, lost = {}, 0
    with Lab() as lab:
        for sockets in (1, 2):
            with lab.client.capture() as capture:
                port = _write_by_turns(lab, sockets, writes)
                time.sleep(0.05)  # what leaves with the end of the connections is recorded too
            lost += capture.drops or 0
            rows = _taken(capture)
            mine = rows[(rows["src_port"] == port) & (rows["payload_bytes"] > 0)]
            mine = mine[~mine["is_retransmission"]]
            name = "to one socket" if sockets == 1 else "to two sockets by turns"
            sizes[name] = [int(size) for size in mine["payload_bytes"]]
        return Leak(writes, sizes, provenance(lab, congestion=lab.congestion, capture_drops=lost))


def _write_by_turns(lab: Lab, sockets: int, writes: int) -> int:
    """Corked writes to each socket by turns, from one thread; the first one's port."""
    with ExitStack() as stack:
        listener = stack.enter_context(lab.server.socket())
        listener.bind((lab.server.address, 0))
        listener.listen()
        senders = [stack.enter_context(lab.client.socket()) for _ in range(sockets)]
        for sender in senders:
            sender.settimeout(30)
            sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, lab.congestion.encode())
            sender.connect(listener.getsockname())
            sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
        for _ in range(writes):
            for sender in senders:
                sender.send(b"x" * 10)
        port: int = senders[0].getsockname()[1]
        return port


# ---- the command line ----------------------------------------------------------------------------


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `tcplab run cork`."""
    parser.add_argument(
        "part", nargs="?", choices=PARTS, default="ways", help="which part (default ways)"
    )
    parser.add_argument(
        "--pieces", type=int, nargs="+", help="of ways: bytes of each (default 15 of 2)"
    )
    parser.add_argument("--messages", type=int, help="of ways: how many (default 20)")
    parser.add_argument("--rtt-ms", type=float, help="of the wire (default 0; 20 for scenarios)")


def from_arguments(arguments: argparse.Namespace) -> Result:
    """`measure`, or the part that was asked for, with the options of the command line."""
    part = cast(Part, arguments.part)
    run, takes = _COMMANDS[part]
    given = {
        name: value
        for name in ("pieces", "messages", "rtt_ms")
        if (value := getattr(arguments, name)) is not None
    }
    if extra := sorted(set(given) - set(takes)):
        option = "--" + extra[0].replace("_", "-")
        raise ValueError(f"{option} does not go with '{part}': leave it out")
    result: Result = run(**given)
    return result


#: Part -> function, and which of the options it takes.
_COMMANDS: Final[Mapping[Part, tuple[Callable[..., Any], Sequence[str]]]] = {
    "ways": (measure, ("pieces", "messages", "rtt_ms")),
    "forgotten": (measure_forgotten, ()),
    "scenarios": (measure_scenarios, ("rtt_ms",)),
    "autocorking": (measure_autocorking, ()),
    "header-and-file": (measure_header_and_file, ()),
    "two-sockets": (measure_two_sockets, ()),
}
