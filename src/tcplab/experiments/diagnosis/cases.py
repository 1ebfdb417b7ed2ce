"""Describe runs of the three slow programs by their segments and their reports."""

import functools
import itertools
import math
import statistics
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Literal, NamedTuple, get_args

from tcplab.errors import LabError
from tcplab.experiments.exchange import Exchanged
from tcplab.experiments.mode import recorded_note
from tcplab.models import bdp_bytes, goodput_mbyte_s
from tcplab.segments import FROM_CLIENT, FROM_SERVER, SegmentArray
from tcplab.tables import Column, Table, digits
from tcplab.timeline import Exchange

Program = Literal["request", "backup", "ticker"]
PROGRAMS: Final[tuple[Program, ...]] = get_args(Program)

REQUESTS: Final = 40
REQUEST_BYTES: Final = 104
LINES: Final = 60
LINE_BYTES: Final = 39
BACKUP_BYTES: Final = 2 << 20
BLOCK_BYTES: Final = 16384

_FRAME_HEADERS: Final = 66  # Ethernet 14, IPv4 20, TCP 20, timestamps 12
#: A delay longer than a round trip in the lesson, and shorter than the 200 ms of a cork (tcp(7)).
_CORKED_MS: Final = 150.0


class Symptom(NamedTuple):
    """A measured quantity, such as time or segments, and the value that the same work needs."""

    quantity: str  #: name with unit
    taken: float
    needed: float = math.nan

    @property
    def times(self) -> float:
        return self.taken / self.needed


@dataclass(frozen=True, slots=True)
class Diagnosis(Exchanged, ABC):
    """A run of one of the three slow programs."""

    columns: ClassVar[Sequence[Column]] = (
        Column("variant", "program"),
        Column("data_segments", "data segments", ",d"),
        Column("segments_per_unit", "per request or line", ".3g"),
        Column("median_segment_bytes", "median segment (bytes)", ",.0f"),
        Column("held", "held for an ACK", "d"),
        Column("window_bytes", "window (bytes)", ",.0f"),
        Column("round_trips", "round trips", "d"),
    )
    program: ClassVar[Program]
    units_by_default: ClassVar[int]  #: number of requests, blocks or lines
    #: command line of the program at the other end, with {port} for the server's port and {count}
    #: for the number of units
    peer: ClassVar[str]
    link: ClassVar[Mapping[str, Any]] = {}  #: parameters of the lab's link
    listens: ClassVar[bool] = False  #: True if the program is the server and receives the data
    success: ClassVar[str]  #: message after a repair, formatted with the values of the row

    source: str  #: "as shipped", or the name of the learner's file
    report: Mapping[str, Any]  #: JSON report of the program
    peer_report: Mapping[str, Any]  #: JSON report of the other program, with TCP_INFO
    exchange: Exchange[None]  #: calls and packets of the end that sends the data
    provenance: Mapping[str, Any]

    @property
    def sent(self) -> SegmentArray:
        return self.segments.data("client", retransmissions=False)

    @property
    def payload_bytes(self) -> int:
        return int(self.sent["payload_bytes"].sum())

    @property
    def units(self) -> int:
        return int(self.provenance.get("count", self.units_by_default))

    @property
    def segments_per_unit(self) -> float:
        return len(self.sent) / self.units

    @property
    def held_requests(self) -> int | None:
        return None

    @property
    def window_bytes(self) -> float:
        """The median window that the receiver advertised in the second half of the stream."""
        rows = self.segments
        back = rows[rows.from_server & ~rows.is_syn]  # the window of a SYN is never scaled
        late = back[back["ack"] > 1 + self.payload_bytes // 2]
        rows = late if len(late) else back
        return float(statistics.median(map(int, rows["window"])))

    @property
    def bdp_bytes(self) -> int | None:
        rate_mbit = self.link.get("rate_mbit")
        return round(bdp_bytes(rate_mbit, self.rtt_ms)) if rate_mbit else None

    @property
    def rtt_ms(self) -> float:
        return float(self.provenance.get("rtt_ms", self.link.get("rtt_ms", 0.0)))

    @property
    def round_trips(self) -> int:
        """Number of rounds, each from a data segment to the first segment sent after its ACK."""
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
    def longest_gap_ms(self) -> float:
        """The longest time in ms between consecutive packets, in the middle half of all packets."""
        times = self.segments["time_ns"]
        middle = times[len(times) // 4 : -len(times) // 4]
        return max(int(b) - int(a) for a, b in itertools.pairwise(middle)) / 1e6

    @abstractmethod
    def _symptoms(self) -> list[Symptom]:
        """Return the symptoms, the main one first."""

    @abstractmethod
    def _evidence(self) -> list[tuple[str, str]]:
        """Return the evidence for the cause as pairs of a name and a text."""

    @abstractmethod
    def complaint(self) -> str:
        """Return a sentence on how far the program is from its goal, or "" if it has reached it."""

    @abstractmethod
    def changed_stream(self, stream: bytes) -> str:
        """Return a sentence on how the stream differs from the original program's, or ""."""

    @property
    def excess(self) -> Symptom:
        return self._symptoms()[0]

    def symptoms(self) -> Table:
        """Return a table of the symptoms, with measured and needed values but without the cause."""
        rows = [
            (name, digits(here), None if math.isnan(least) else digits(least))
            for name, here, least in self._symptoms()
        ]
        return self._table(["symptom", "measured", "needed"], rows)

    def evidence(self) -> Table:
        """Return a table of the evidence for the cause."""
        return self._table(["evidence", "value"], self._evidence())

    def _table(self, headings: list[str], rows: Iterable[Sequence[Any]]) -> Table:
        return replace(Table.of(headings, rows), caption=recorded_note(self.provenance))

    def rows(self) -> list[dict[str, Any]]:
        """Return a single row for the run."""
        return [
            {
                "variant": self.program,
                "units": self.units,
                "data_segments": len(self.sent),
                "segments_per_unit": self.segments_per_unit,
                "median_segment_bytes": statistics.median(map(int, self.sent["payload_bytes"])),
                "held": self.held_requests,
                "window_bytes": self.window_bytes if self.bdp_bytes else None,
                "bdp_bytes": self.bdp_bytes,
                "round_trips": self.round_trips,
            }
        ]


def _difference(stream: bytes, expected: bytes) -> str:
    if stream == expected:
        return ""
    pairs = enumerate(zip(stream, expected, strict=False))
    at = next((i for i, (a, b) in pairs if a != b), min(len(stream), len(expected)))
    return (
        f"The stream must stay as it was: it differs at byte {at}"
        f" ({len(stream)} bytes were sent, {len(expected)} are due)."
    )


@dataclass(frozen=True, slots=True)
class Requests(Diagnosis):
    """A run of faulty_request, which writes header and body separately and awaits the answer."""

    program = "request"
    units_by_default = REQUESTS
    peer = f"tcp_nodelay_server 0 {{count}} --writes 1 --write-bytes {REQUEST_BYTES}"
    success = "{data_segments} segments for {units} requests, and none was held back."

    @property
    def held_requests(self) -> int:
        """Number of requests with a part that left only after an ACK of the first part."""
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
        return sum((first - before) / 1e6 > _CORKED_MS for before, first, *_ in self._exchanges())

    def _exchanges(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield the times of the previous answer, first and last segment, and answer, in ns."""
        answered_ns = first_ns = last_ns = 0
        for row in self.segments.data(retransmissions=False):
            now_ns = int(row["time_ns"])
            if row["direction"] == FROM_CLIENT:
                first_ns, last_ns = first_ns or now_ns, now_ns
                continue
            if answered_ns:
                yield answered_ns, first_ns, last_ns, now_ns
            answered_ns, first_ns = now_ns, 0

    def _symptoms(self) -> list[Symptom]:
        times = [(now - before, now - last) for before, _first, last, now in self._exchanges()]
        if not times:
            raise LabError("fewer than two requests were answered; run it again")
        taken, needed = (statistics.median(column) / 1e6 for column in zip(*times, strict=True))
        return [
            Symptom("time of a request (ms)", taken, needed),
            Symptom("data segments per request", self.segments_per_unit, 1),
            Symptom("longest gap between packets (ms)", self.longest_gap_ms),
        ]

    def _evidence(self) -> list[tuple[str, str]]:
        sizes = sorted({int(size) for size in self.sent["payload_bytes"]})
        return [
            ("data in a segment (bytes)", " or ".join(map(str, sizes))),
            ("a part left only after an ACK of the first", f"{self.held_requests} requests"),
        ]

    def changed_stream(self, stream: bytes) -> str:
        """Return how the stream differs from the original program's requests, or ""."""
        return _difference(
            stream, b"".join(b"0100" + b"request %-92d" % number for number in range(REQUESTS))
        )

    def complaint(self) -> str:
        """Return a complaint about the segments, or about held or late requests, or ""."""
        per_request, held, late = self.segments_per_unit, self.held_requests, self.late_requests
        if per_request < 0.9:
            return (
                f"{len(self.sent)} segments for {REQUESTS} requests: some left before the answer"
                " to the one before had come. That must not change."
            )
        if per_request > 1.1 and held > REQUESTS / 4:
            return (
                f"{per_request:.2g} segments per request; in {held} of {REQUESTS} the rest left"
                " only after the server had acknowledged the beginning."
            )
        if per_request > 1.1:
            return (
                "Hardly anything is held back any more, but a request is"
                f" {per_request:.2g} segments; the goal is one."
            )
        if late > REQUESTS / 2:
            return (
                f"One segment per request, but {late} of {REQUESTS} left more than"
                f" {_CORKED_MS:g} ms after the answer before: something still holds them."
            )
        return ""


@dataclass(frozen=True, slots=True)
class Backup(Diagnosis):
    """A run of faulty_backup, whose receive buffer is smaller than the bandwidth-delay product."""

    program = "backup"
    units_by_default = BACKUP_BYTES // BLOCK_BYTES
    peer = f"tcpsource -p {{port}} -b auto -s {BLOCK_BYTES} -c {{count}}"
    link: ClassVar[Mapping[str, Any]] = {"rtt_ms": 20.0, "rate_mbit": 50.0}
    listens = True
    success = (
        "The window ({window_bytes:,.0f} bytes) is larger than what the link holds"
        " ({bdp_bytes:,} bytes): now only the link limits the rate."
    )

    @property
    def units(self) -> int:
        return 1

    def _symptoms(self) -> list[Symptom]:
        first, last = self.sent[0], self.segments.sent_by("server")[-1]
        taken_ms = (int(last["time_ns"]) - int(first["time_ns"])) / 1e6
        times_ms = taken_ms, self._needed_ms()
        rate_mbit, full_mbit = (8e-3 * self.payload_bytes / time_ms for time_ms in times_ms)
        return [
            Symptom("time of the transfer (ms)", *times_ms),
            Symptom("rate (Mbit/s)", rate_mbit, full_mbit),
            Symptom("longest gap between packets (ms)", self.longest_gap_ms),
        ]

    def _needed_ms(self) -> float:
        left, window, time_ms = self.payload_bytes, 10 * 1448, self.rtt_ms
        while window < min(self.bdp_bytes or 0, left):
            left, window, time_ms = left - window, 2 * window, time_ms + self.rtt_ms
        return time_ms + left / goodput_mbyte_s(self.link["rate_mbit"]) / 1e3

    def _evidence(self) -> list[tuple[str, str]]:
        info = self.peer_report["tcp_info"]
        stopped = info["rwnd_limited_us"] / max(info["busy_time_us"], 1)
        return [
            ("the receiver's window", f"{self.window_bytes:,.0f} bytes"),
            ("what the link holds", f"{self.bdp_bytes:,} bytes"),
            ("the sender was stopped by the window", f"{stopped:.0%} of its time"),
            ("receive buffer", f"{self.report['options']['rcvbuf_bytes']:,} bytes"),
        ]

    def changed_stream(self, stream: bytes) -> str:
        """Return how the reported size and checksum differ from the stream's, or ""."""
        reported = self.report.get("bytes"), self.report.get("checksum")
        due = checksum(stream)
        if reported == (len(stream), due) and len(stream) == BACKUP_BYTES:
            return ""
        return (
            f"The backup is not what was sent: {reported[0]} bytes, checksum {reported[1]},"
            f" instead of {BACKUP_BYTES} and {due}."
        )

    def complaint(self) -> str:
        """Return a complaint about the receiver's window, or ""."""
        window, bdp = self.window_bytes, self.bdp_bytes or 0
        if window >= bdp:
            return ""
        return (
            f"The receiver offers a window of {window:,.0f} bytes, and the link holds {bdp:,}. The"
            f" transfer took {self.round_trips} round trips, in each of which the sender had to"
            " stop."
        )


@dataclass(frozen=True, slots=True)
class Ticker(Diagnosis):
    """A run of faulty_ticker, which sends each line byte by byte with TCP_NODELAY."""

    program = "ticker"
    units_by_default = LINES
    peer = "tcpsink -p 0 -b auto"
    success = "{data_segments} segments for {units} lines."

    def _symptoms(self) -> list[Symptom]:
        mean, line = (self.payload_bytes / number for number in (len(self.sent), self.units))
        shares = [100 * _FRAME_HEADERS / (_FRAME_HEADERS + size) for size in (mean, line)]
        return [
            Symptom("data segments per line", self.segments_per_unit, 1),
            Symptom("data per segment, mean (bytes)", mean, line),
            Symptom("headers' share of the bytes (%)", *shares),
        ]

    def _evidence(self) -> list[tuple[str, str]]:
        calls = self.report.get("system_calls", 0)
        return [
            ("system calls", f"{calls / self.units:.3g} per line"),
            ("data per call", f"{self.payload_bytes / max(calls, 1):.3g} B"),
            ("TCP_NODELAY", "on" if self.report["options"]["nodelay"] else "off"),
        ]

    def changed_stream(self, stream: bytes) -> str:
        """Return how the stream differs from the original program's lines, or ""."""
        return _difference(stream, "".join(map(line_of, range(LINES))).encode())

    def complaint(self) -> str:
        """Return a complaint about the segments per line, or ""."""
        per_line = self.segments_per_unit
        if per_line > 1.2:
            sizes = sorted(map(int, self.sent["payload_bytes"]))
            return (
                f"{len(self.sent)} segments for {LINES} lines, {per_line:.2g} per line; half of"
                f" them carry at most {sizes[len(sizes) // 2]} B."
            )
        if per_line < 1 / 3:
            return (
                f"{len(self.sent)} segments for {LINES} lines: lines wait for each other. Each has"
                " to leave at once."
            )
        return ""


def line_of(number: int) -> str:
    """Return the ticker's line with this number; the first is number 0."""
    return f"tick {number:08d} price {number * 7919 % 1_000_000:010d} EUR/kg.\n"


def checksum(stream: bytes, factor: int = 31) -> int:
    """Return the checksum of faulty_backup.c, which is sum * factor + byte modulo 2^32."""
    return functools.reduce(lambda total, byte: (total * factor + byte) % (1 << 32), stream, 0)
