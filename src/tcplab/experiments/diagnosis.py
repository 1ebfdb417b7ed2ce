"""Diagnosis: three slow programs, what they do to the network, and a check of their repair.

The programs are faulty_request.c, faulty_backup.c and faulty_ticker.c. :func:`measure` runs one and
records it, :func:`copy` puts its source into the learner's folder, :func:`check` compiles what the
learner made of it and judges: by segments, bytes and windows that were counted on the wire, not by
what the program says of itself, and not by a stopwatch. Lessons and graders use the same check.
"""

from __future__ import annotations

import itertools
import os
import shutil
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, NamedTuple, get_args

from tcplab.errors import LabError
from tcplab.experiments import provenance
from tcplab.experiments.declaration import experiment
from tcplab.experiments.mode import mode, recorded_note
from tcplab.lab import Lab, program_path, why_no_lab
from tcplab.listings import source_path
from tcplab.models import bdp_bytes, goodput_mbyte_s
from tcplab.programs import SocketOptions, read_log, run_pair
from tcplab.programs.compile import compile_program
from tcplab.segments import FROM_CLIENT, FROM_SERVER, SegmentArray, flag_names
from tcplab.tables import Column, Table
from tcplab.timeline import Exchange, Timeline

if TYPE_CHECKING:
    from tcplab.capture import Capture

__all__ = [
    "PROGRAMS",
    "Diagnosis",
    "Excess",
    "Program",
    "Verdict",
    "check",
    "copy",
    "line_of",
    "measure",
]

Program = Literal["request", "backup", "ticker"]
PROGRAMS: Final[tuple[Program, ...]] = get_args(Program)

REQUESTS: Final = 40
REQUEST_BYTES: Final = 104
LINES: Final = 60
LINE_BYTES: Final = 39
BACKUP_BYTES: Final = 2 << 20

_BLOCK_BYTES: Final = 16384
_MOST: Final = 10_000
_FRAME_HEADERS: Final = 66  # Ethernet 14, IPv4 20, TCP 20, time stamps 12
_TIMEOUT_S: Final = 40.0
_DEADLINE_S: Final = 10.0
#: Longer than any round trip here, shorter than the 200 ms after which a cork is pulled (tcp(7)).
_CORKED_MS: Final = 150.0


@dataclass(frozen=True, slots=True)
class _Setting:
    """How a program is run.

    Attributes:
        unit: what it sends or receives, and is counted by.
        count: how many requests, blocks or lines.
        peer: the command line of the program at the other end; {port} is the server's, {count}
            the number.
        link: parameters of the laboratory's wire.
        listens: whether it waits for the other program, on the server, and receives.
    """

    unit: str
    count: int
    peer: str
    link: Mapping[str, float] = field(default_factory=dict)
    listens: bool = False

    def with_(self, rtt_ms: float | None, count: int | None) -> _Setting:
        """The same with another round-trip time, or more or fewer of them."""
        link = self.link if rtt_ms is None else {**self.link, "rtt_ms": rtt_ms}
        if count is None:
            return replace(self, link=link)
        if count != int(count) or not 2 <= count <= _MOST:
            raise ValueError(f"count={count} must be a whole number from 2 to {_MOST}")
        return replace(self, link=link, count=int(count))


_SETTINGS: Final[Mapping[Program, _Setting]] = {
    "request": _Setting(
        unit="request",
        count=REQUESTS,
        peer=f"tcp_nodelay_server 0 {{count}} --writes 1 --write-bytes {REQUEST_BYTES}",
    ),
    "backup": _Setting(
        unit="transfer",
        count=BACKUP_BYTES // _BLOCK_BYTES,
        peer=f"tcpsource -p {{port}} -b auto -s {_BLOCK_BYTES} -c {{count}}",
        link={"rtt_ms": 20.0, "rate_mbit": 50.0},
        listens=True,
    ),
    "ticker": _Setting(unit="line", count=LINES, peer="tcpsink -p 0 -b auto"),
}


class Excess(NamedTuple):
    """What a program takes, and what it needs for the same work on the same wire.

    Attributes:
        what: is counted, with its unit.
        taken: as it was seen on the wire.
        needed: time without the wait that could be spared, or the least number of segments.
    """

    what: str
    taken: float
    needed: float

    @property
    def times(self) -> float:
        """The first over the second."""
        return self.taken / self.needed


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One of the programs, as it was seen from outside.

    Attributes:
        program: which.
        source: "as shipped", or the name of the learner's file.
        report: what the program said of itself (its JSON).
        peer_report: what the program at the other end said: TCP_INFO is in there.
        exchange: as the end that sends the data saw it.
        provenance: the laboratory and what the numbers depend on.
    """

    experiment: ClassVar[str] = "diagnosis"
    columns: ClassVar[Sequence[Column]] = (
        Column("variant", "program"),
        Column("source", "source"),
        Column("payload_bytes", "bytes", ",d"),
        Column("system_calls", "calls", ",d"),
        Column("data_segments", "data segments", ",d"),
        Column("segments_per_unit", "a request or line", ".3g"),
        Column("median_segment_bytes", "median segment (bytes)", ",.0f"),
        Column("held", "held for an ACK", "d"),
        Column("window_bytes", "window (bytes)", ",.0f"),
        Column("round_trips", "round trips", "d"),
    )

    program: Program
    source: str
    report: Mapping[str, Any]
    peer_report: Mapping[str, Any]
    exchange: Exchange[None]
    provenance: Mapping[str, Any]

    # -- what the wire shows --

    @property
    def segments(self) -> SegmentArray:
        """On the interface of the end that sends the data."""
        return self.exchange.captured

    @property
    def sent(self) -> SegmentArray:
        """The data segments of the sender, in order, without those sent again."""
        return self.segments.data("client", retransmissions=False)

    @property
    def payload_bytes(self) -> int:
        """Bytes of the stream from sender to receiver."""
        return int(self.sent["payload_bytes"].sum())

    @property
    def units(self) -> int:
        """How many requests, transfers (always one) or lines there were."""
        if self.program == "backup":
            return 1
        return int(self.provenance.get("count", _SETTINGS[self.program].count))

    @property
    def segments_per_unit(self) -> float:
        """Data segments a request, a line, or the whole transfer."""
        return len(self.sent) / self.units

    @property
    def held_requests(self) -> int | None:
        """Requests of which a later part left only after an ACK of the first; None of others.

        By the order of the packets on the client's interface: data, a pure ACK from the server,
        data of the same request.
        """
        if self.program != "request":
            return None
        held: set[int] = set()
        end = 0
        acked_since = False
        for row in self.segments:
            if row["direction"] == FROM_SERVER:
                acked_since |= bool(row["is_pure_ack"])
            elif row["payload_bytes"] and not row["is_retransmission"]:
                if end % REQUEST_BYTES and acked_since:
                    held.add(end // REQUEST_BYTES)
                end += int(row["payload_bytes"])
                acked_since = False
        return len(held)

    @property
    def late_requests(self) -> int:
        """Requests that left more than _CORKED_MS after the answer to the one before."""
        late = 0
        answered_ns: int | None = None
        for row in self.segments.data(retransmissions=False):
            if row["direction"] == FROM_SERVER:
                answered_ns = int(row["time_ns"])
            elif answered_ns is not None:
                late += (int(row["time_ns"]) - answered_ns) / 1e6 > _CORKED_MS
                answered_ns = None
        return late

    @property
    def window_bytes(self) -> float:
        """The window that the receiver announced, median over the second half of the stream."""
        rows = self.segments
        back = rows[rows.from_server & ~rows.is_syn]  # the SYN's is not scaled
        late = back[back["ack"] > 1 + self.payload_bytes // 2]
        chosen = late if len(late) else back
        return float(statistics.median(int(each) for each in chosen["window"]))

    @property
    def round_trips(self) -> int:
        """How often the sender had to wait for the ACK of a segment before it went on.

        A round begins with a data segment and lasts until its acknowledgement has come; what is
        sent meanwhile belongs to it.
        """
        rounds, waiting_for = 0, 0
        acked = 1
        for row in self.segments:
            if row["direction"] == FROM_SERVER:
                acked = max(acked, int(row["ack"]))
            elif row["payload_bytes"] and not row["is_retransmission"] and acked > waiting_for:
                rounds += 1
                waiting_for = int(row["seq"])
        return rounds

    @property
    def bdp_bytes(self) -> int | None:
        """What the wire holds: its rate times its round-trip time; None if it has no such limit."""
        if not self._rate_mbit:
            return None
        return round(bdp_bytes(self._rate_mbit, self.rtt_ms))

    @property
    def rtt_ms(self) -> float:
        """The wire's round-trip time."""
        usual = _SETTINGS[self.program].link.get("rtt_ms", 0.0)
        return float(self.provenance.get("rtt_ms", usual))

    @property
    def _rate_mbit(self) -> float | None:
        return _SETTINGS[self.program].link.get("rate_mbit")

    @property
    def excess(self) -> Excess:
        """The complaint as a ratio: time of a request or of the backup, segments of a line.

        A request needs the time from its last segment to the answer, which the wire and the server
        take; the backup slow start and then the goodput of the wire; a line one segment.

        Raises:
            LabError: fewer than two requests were answered, by a program that was changed.
        """
        if self.program == "ticker":
            return Excess("data segments a line", self.segments_per_unit, 1)
        if self.program == "request":
            times = self._requests_ms()
            if not times:
                raise LabError("fewer than two requests were answered: nothing to compare")
            taken, needed = zip(*times, strict=True)
            what = "time of a request (ms)"
            return Excess(what, statistics.median(taken), statistics.median(needed))
        first, last = self.sent[0], self.segments.sent_by("server")[-1]
        taken_ms = (int(last["time_ns"]) - int(first["time_ns"])) / 1e6
        return Excess("time of the transfer (ms)", taken_ms, self._needed_ms())

    def _needed_ms(self) -> float:
        """Slow start from 10 segments (RFC 6928) until the wire is full, then its goodput."""
        left, window, time_ms = self.payload_bytes, 10 * 1448, self.rtt_ms
        while window < min(self.bdp_bytes or 0, left):
            left, window, time_ms = left - window, 2 * window, time_ms + self.rtt_ms
        return time_ms + left / goodput_mbyte_s(self._rate_mbit or 0) / 1e3

    def _requests_ms(self) -> list[tuple[float, float]]:
        """Of each request but the first: ms since the answer before, and since its last segment."""
        times: list[tuple[float, float]] = []
        answered_ns = sent_ns = 0
        for row in self.segments.data():
            now_ns = int(row["time_ns"])
            if row["direction"] == FROM_CLIENT:
                sent_ns = now_ns
                continue
            if answered_ns:
                times.append(((now_ns - answered_ns) / 1e6, (now_ns - sent_ns) / 1e6))
            answered_ns = now_ns
        return times

    @property
    def longest_gap_ms(self) -> float:
        """The longest time without a packet on the sender's interface, in the middle of the run."""
        times = self.segments["time_ns"]
        middle = times[len(times) // 4 : -len(times) // 4]
        return max(int(b) - int(a) for a, b in itertools.pairwise(middle)) / 1e6

    def symptoms(self) -> Table:
        """What it takes and what it would need: nothing of why."""
        what, taken, needed = self.excess
        rows: list[tuple[str, float, float | None]] = [(what, taken, needed)]
        if self.program == "backup":
            rate, full = (8e-3 * self.payload_bytes / each for each in (taken, needed))
            rows.append(("rate (Mbit/s)", rate, full))
        if self.program == "request":
            rows.append(("data segments a request", self.segments_per_unit, 1))
        if self.program == "ticker":
            usual, line = (self.payload_bytes / each for each in (len(self.sent), self.units))
            rows.append(("data a segment, mean (bytes)", usual, line))
            rows.append(("headers' share of the bytes (%)", _headers(usual), _headers(line)))
        else:
            rows.append(("longest gap between packets (ms)", self.longest_gap_ms, None))
        shown = [(name, _digits(here), least and _digits(least)) for name, here, least in rows]
        return self._captioned(Table.of(["symptom", "here", "needed"], shown))

    def evidence(self) -> Table:
        """What names the cause: what the capture, the kernel and the program's calls say."""
        rows: list[tuple[str, str]] = []
        if self.program == "request":
            sizes = sorted({int(size) for size in self.sent["payload_bytes"]})
            rows = [
                ("data in a segment (bytes)", " or ".join(map(str, sizes))),
                ("a part left only after an ACK of the first", f"{self.held_requests} requests"),
            ]
        elif self.program == "backup":
            info = self.peer_report["tcp_info"]
            stopped = info["rwnd_limited_us"] / max(info["busy_time_us"], 1)
            rows = [
                ("the receiver's window", f"{self.window_bytes:,.0f} bytes"),
                ("what the wire holds", f"{self.bdp_bytes:,} bytes"),
                ("the sender was stopped by the window", f"{stopped:.0%} of its time"),
                ("receive buffer", f"{self.report['options']['rcvbuf_bytes']:,} bytes"),
            ]
        else:
            calls = self.report.get("system_calls", 0)
            nodelay = self.report["options"]["nodelay"]
            rows = [
                ("system calls", f"{calls / self.units:.3g} a line"),
                ("data in a call", f"{self.payload_bytes / max(calls, 1):.3g} B"),
                ("TCP_NODELAY", "on" if nodelay else "off"),
            ]
        return self._captioned(Table.of(["evidence", "says"], rows))

    def _captioned(self, table: Table) -> Table:
        return replace(table, caption=recorded_note(self.provenance))

    def packets(self, first: int = 20, count: int = 10) -> Table:
        """Some packets on the sender's interface, each with the time since the one before.

        Args:
            first: index of the first, 1 or more.
            count: how many at the most.

        Raises:
            ValueError: there are no such packets.
        """
        if not 1 <= first < len(self.segments) or count < 1:
            last = len(self.segments) - 1
            raise ValueError(f"first={first}, count={count}: there are packets 1 to {last}")
        rows = self.segments[first - 1 : first + count]
        return Table(
            [
                Column("packet", "packet", "d"),
                Column("since_ms", "ms since the one before", ".3f"),
                Column("way", "direction"),
                Column("payload_bytes", "data (bytes)", "d"),
                Column("flags", "flags"),
            ],
            [
                {
                    "packet": first + i,
                    "since_ms": (int(row["time_ns"]) - int(before["time_ns"])) / 1e6,
                    "way": ("client → server", "server → client")[row["direction"]],
                    "payload_bytes": int(row["payload_bytes"]),
                    "flags": flag_names(int(row["flags"])),
                }
                for i, (before, row) in enumerate(itertools.pairwise(rows))
            ],
        )

    def timeline(self) -> Timeline:
        """Writes, segments and ACKs of the data's sender, with the reason for each wait."""
        return self.exchange.timeline()

    def rows(self) -> list[dict[str, Any]]:
        """One row."""
        window = self.window_bytes if self.program == "backup" else None
        return [
            {
                "variant": self.program,
                "source": self.source,
                "unit": _SETTINGS[self.program].unit,
                "units": self.units,
                "payload_bytes": self.payload_bytes,
                "system_calls": self.report.get("system_calls"),
                "data_segments": len(self.sent),
                "segments_per_unit": self.segments_per_unit,
                "median_segment_bytes": statistics.median(map(int, self.sent["payload_bytes"])),
                "first_segment_bytes": int(self.sent["payload_bytes"][0]),
                "held": self.held_requests,
                "window_bytes": window,
                "bdp_bytes": self.bdp_bytes,
                "round_trips": self.round_trips,
                "wall_s": self.report.get("wall_s"),
            }
        ]


def _headers(payload_bytes: float) -> float:
    """Percent of an Ethernet frame with so much data that is headers."""
    return 100 * _FRAME_HEADERS / (_FRAME_HEADERS + payload_bytes)


def _digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What :func:`check` found.

    Attributes:
        program: which program it was.
        passed: whether the goal is reached; None where it could not be judged.
        message: one or two sentences: what was counted, and what the goal is.
        counts: the numbers behind it; empty where nothing ran.
    """

    program: Program
    passed: bool | None
    message: str
    counts: Mapping[str, Any]

    def __str__(self) -> str:
        words = {True: "PASSED", False: "NOT YET", None: "NOT JUDGED"}
        return f"{self.program}: {words[self.passed]}. {self.message}"


# ---- running -------------------------------------------------------------------------------------


@experiment("diagnosis")
def measure(
    program: Program = "request",
    source: str | None = None,
    network: Lab | None = None,
    rtt_ms: float | None = None,
    count: int | None = None,
) -> Diagnosis:
    """Runs one of the programs against its other half, and records both interfaces.

    Args:
        program: "request", "backup" or "ticker".
        source: a C file to compile and run instead of the shipped program.
        network: a laboratory of its own unless given; the wire is set as the program needs it.
        rtt_ms: of the wire; the lesson's unless given.
        count: requests, blocks of 16 KiB, or lines, 2 to 10 000; the lesson's number unless given.

    Raises:
        ValueError: no such program or file, it does not compile, or a number is out of range: one
            line.
        LabError: no laboratory can be made here, no compiler is installed, or a program failed.
    """
    setting = _setting(program).with_(rtt_ms, count)
    with tempfile.TemporaryDirectory(prefix="tcplab-") as directory:
        if source is None:
            binary = program_path(f"faulty_{program}")
        else:
            binary = _compile(Path(source), Path(directory))
        name = "as shipped" if source is None else Path(source).name
        if network is None:
            with Lab(**dict(setting.link)) as lab:  # type: ignore[arg-type]
                return _run(program, setting, name, binary, lab)[0]
        network.link.update(rtt_ms=0, rate_mbit=0)
        network.link.update(**dict(setting.link))  # type: ignore[arg-type]
        return _run(program, setting, name, binary, network)[0]


def _setting(program: str) -> _Setting:
    if program not in PROGRAMS:
        raise ValueError(f"program={program!r} is not one of {', '.join(PROGRAMS)}")
    return _SETTINGS[program]


def _compile(source: Path, directory: Path) -> Path:
    """The learner's file and what the course's programs share, as one program.

    Raises:
        ValueError: no such file, or the compiler's first error.
        LabError: no compiler.
    """
    if not source.is_file():
        raise ValueError(f"{source}: no such file; diagnosis.copy(...) makes one to start from")
    built = compile_program(source.name, source.read_bytes())
    if built.binary is None:
        raise ValueError(f"{source.name} does not compile: {built.first_error}")
    binary = directory / source.stem
    binary.write_bytes(built.binary)
    binary.chmod(0o755)
    return binary


def _run(
    program: Program, setting: _Setting, source: str, binary: Path, lab: Lab, snaplen: int = 128
) -> tuple[Diagnosis, bytes]:
    """Runs it; also the bytes of the stream, if snaplen is large enough to record them."""
    with tempfile.TemporaryDirectory(prefix="tcplab-") as directory:
        log, peer_log = Path(directory) / "log", Path(directory) / "peer.log"
        common = ["--json", f"--congestion={lab.congestion}", f"--deadline={_DEADLINE_S:g}"]
        peer = setting.peer.replace("{count}", str(setting.count)).split()
        mine, theirs = [str(binary), *common], [*peer, *common]
        address = lab.server.address
        if setting.listens:
            server, client = [*mine, "-p", "0", f"--bind={address}"], [*theirs, address]
        else:
            cpu = f"--cpu={min(os.sched_getaffinity(0))}"
            mine += [f"--log={log}", cpu, "-c", str(setting.count), "-p", "{port}", address]
            theirs += [*([f"--log={peer_log}"] if program == "request" else []), cpu]
            server, client = [*theirs, f"--bind={address}"], mine
        with lab.client.capture(snaplen=snaplen) as near, lab.server.capture() as far:
            # The learner's program may choose its congestion control, as the course's own may.
            client_report, server_report = run_pair(
                lab, server, client, _TIMEOUT_S, privileged=True
            )
        with near, far:
            stream = _stream(near) if snaplen > 1500 else b""
            exchange = Exchange(
                None,
                read_log(log) if log.exists() else None,
                near.segments,
                read_log(peer_log) if peer_log.exists() else None,
                None if program == "ticker" else far.segments,
                drops=(near.drops or 0) + (far.drops or 0),
                options=SocketOptions.from_json(client_report["options"]),
                tcp_info=client_report["tcp_info"],
                rate_mbit=setting.link.get("rate_mbit"),
            )
            result = Diagnosis(
                program=program,
                source=source,
                report=server_report if setting.listens else client_report,
                peer_report=client_report if setting.listens else server_report,
                exchange=exchange,
                provenance=provenance(
                    lab,
                    program=program,
                    source=source,
                    count=setting.count,
                    rtt_ms=setting.link.get("rtt_ms", 0.0),
                    congestion=lab.congestion,
                    capture_drops=exchange.drops,
                ),
            )
    return result, stream


def _stream(capture: Capture) -> bytes:
    """The bytes that the client sent, put together by their sequence numbers."""
    table, rows = capture.table, capture.segments
    pieces: dict[int, bytes] = {}
    for row in rows.data("client"):
        i, size = int(row["packet"]), int(row["payload_bytes"])
        end = int(table.offset[i]) + int(row["wire_bytes"])
        pieces[int(row["seq"])] = table.data[end - size : end].tobytes()
    stream = bytearray()
    for seq in sorted(pieces):
        if seq - 1 > len(stream):
            break  # a hole: what follows is not comparable
        stream[seq - 1 :] = pieces[seq]
    return bytes(stream)


# ---- the learner's copy, and the check -----------------------------------------------------------


def copy(program: Program, folder: str | os.PathLike[str] = ".") -> Path:
    """Puts the program's source into a folder, to be mended there; a file that is there stays.

    Raises:
        ValueError: no such program.
    """
    _setting(program)
    path = Path(folder) / f"faulty_{program}.c"
    if not path.exists():
        shutil.copyfile(source_path(path.name), path)
    return path


def check(source: str | os.PathLike[str], program: Program | None = None) -> Verdict:
    """Compiles a mended program, runs it in a laboratory and judges what the wire shows.

    Args:
        source: the learner's C file.
        program: which program it was; by the file's name ("faulty_request.c") unless given.

    Returns:
        The verdict. A file that does not compile, fails, hangs or sends other bytes has not
        passed, and the message says why; where no laboratory can be made, nothing is judged.

    Raises:
        ValueError: no such file, or its name does not tell the program.
        LabError: no C compiler.
    """
    path = Path(source)
    which = program or _program_of(path)
    setting = _setting(which)
    if not path.is_file():
        raise ValueError(f"{path}: no such file; diagnosis.copy({which!r}) makes one to start from")
    rung = mode()
    if rung != "live":
        why = why_no_lab() or f"TCPLAB_MODE={rung}"
        return Verdict(which, None, f"The check counts segments on a laboratory's wire: {why}.", {})
    with tempfile.TemporaryDirectory(prefix="tcplab-") as directory:
        try:
            binary = _compile(path, Path(directory))
        except ValueError as error:
            return Verdict(which, False, f"{error}.", {})
        with Lab(**dict(setting.link)) as lab:  # type: ignore[arg-type]
            try:
                result, stream = _run(which, setting, path.name, binary, lab, snaplen=2048)
            except LabError as error:
                return Verdict(which, False, f"It does not run to its end: {error}.", {})
    counts = result.rows()[0]
    complaint = _wrong_bytes(result, stream) or _JUDGES[which](result)
    praise = {
        "request": "{data_segments} segments for {units} requests, and none was held back.",
        "backup": "The window ({window_bytes:,.0f} bytes) is larger than what the wire holds"
        " ({bdp_bytes:,} bytes): now the wire is the limit.",
        "ticker": "{data_segments} segments for {units} lines.",
    }
    return Verdict(which, not complaint, complaint or praise[which].format(**counts), counts)


def _program_of(path: Path) -> Program:
    for program in PROGRAMS:
        if program in path.stem:
            return program
    names = ", ".join(f"faulty_{program}.c" for program in PROGRAMS)
    raise ValueError(f"{path.name}: the name does not tell the program; call it one of {names}")


def _wrong_bytes(result: Diagnosis, stream: bytes) -> str:
    """What must stay has changed: the sentence that says so, or ''."""
    if result.program == "backup":
        said = result.report.get("bytes"), result.report.get("checksum")
        if said != (len(stream), _checksum(stream)) or len(stream) != BACKUP_BYTES:
            return (
                f"The backup is not what was sent: {said[0]} bytes, checksum {said[1]}, instead of"
                f" {BACKUP_BYTES} and {_checksum(stream)}."
            )
        return ""
    expected = _requests() if result.program == "request" else _lines()
    if stream == expected:
        return ""
    at = next(
        (i for i, (a, b) in enumerate(zip(stream, expected, strict=False)) if a != b),
        min(len(stream), len(expected)),
    )
    return (
        f"The stream must stay as it was: it differs at byte {at}"
        f" ({len(stream)} bytes were sent, {len(expected)} are due)."
    )


def _requests() -> bytes:
    return b"".join(b"0100" + b"request %-92d" % number for number in range(REQUESTS))


def _lines() -> bytes:
    return "".join(map(line_of, range(LINES))).encode()


def line_of(number: int) -> str:
    """What the ticker sends as its line of this number, from 0."""
    return f"tick {number:08d} price {number * 7919 % 1_000_000:010d} EUR/kg.\n"


def _checksum(stream: bytes) -> int:
    """sum = sum * 31 + byte, modulo 2^32, as in faulty_backup.c."""
    import numpy as np

    powers = np.ones(_BLOCK_BYTES, np.uint32)
    powers[1:] = 31
    powers = np.cumprod(powers, dtype=np.uint32)[::-1]
    total = 0
    for start in range(0, len(stream), _BLOCK_BYTES):
        block = np.frombuffer(stream[start : start + _BLOCK_BYTES], np.uint8).astype(np.uint32)
        factor = pow(31, len(block), 1 << 32)
        dot = int((block * powers[-len(block) :]).sum(dtype=np.uint32))
        total = (total * factor + dot) % (1 << 32)
    return total


def _judge_request(result: Diagnosis) -> str:
    per_request = result.segments_per_unit
    held, late = result.held_requests or 0, result.late_requests
    if per_request < 0.9:
        return (
            f"{len(result.sent)} segments for {REQUESTS} requests: some left before the answer to"
            " the one before had come. That must not change."
        )
    if per_request > 1.1 and held > REQUESTS / 4:
        return (
            f"{per_request:.2g} segments a request; in {held} of {REQUESTS} the rest left only"
            " after the server had acknowledged the beginning."
        )
    if per_request > 1.1:
        return (
            f"Hardly anything is held back any more, but a request is {per_request:.2g} segments;"
            " the goal is one."
        )
    if late > REQUESTS / 2:
        return (
            f"One segment a request, but {late} of {REQUESTS} left more than {_CORKED_MS:g} ms"
            " after the answer before: something still holds them."
        )
    return ""


def _judge_backup(result: Diagnosis) -> str:
    window, bdp = result.window_bytes, result.bdp_bytes or 0
    if window >= bdp:
        return ""
    return (
        f"The receiver offers a window of {window:,.0f} bytes, and the wire holds {bdp:,}: the"
        f" transfer took {result.round_trips} round trips, in each of which the sender had to stop."
    )


def _judge_ticker(result: Diagnosis) -> str:
    per_line = result.segments_per_unit
    if per_line > 1.2:
        sizes = sorted(map(int, result.sent["payload_bytes"]))
        return (
            f"{len(result.sent)} segments for {LINES} lines, {per_line:.2g} a line; half of them"
            f" carry {sizes[len(sizes) // 2]} B or less."
        )
    if per_line < 1 / 3:
        return (
            f"{len(result.sent)} segments for {LINES} lines: lines wait for each other. Each has to"
            " be on its way at once."
        )
    return ""


_JUDGES: Final = {"request": _judge_request, "backup": _judge_backup, "ticker": _judge_ticker}
