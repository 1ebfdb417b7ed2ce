"""Sending a file: read and send, mmap, sendfile, splice and MSG_ZEROCOPY, by clock and by CPU.

The experiment of a ChinaUnix blog entry of 2006 whose author replaced read() and send() by
sendfile() for files of 9, 32 and 64 MB and saw no difference, tried TCP_CORK and saw none either,
and asked whether it would show with many clients, or with little memory. His network had
100 Mbit/s, and a clock does not show what the CPU did.

The parts, each of which answers one question:

========  ==========================================================================================
wire      the text's three ways over 100 Mbit/s, with its figures beside ours
loopback  the same within one machine, and all other ways and block sizes
veth      two of them between two hosts whose interfaces segment late (TSO, GSO)
cold      from the disk instead of the page cache
clients   the text's first guess: many clients at once
memory    its second: little memory (ulimit -v; a control group where the system allows one)
header    100 bytes before the file: which segments leave, with TCP_CORK and without
========  ==========================================================================================
"""

from __future__ import annotations

import os
import statistics
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, get_args

from tcplab.errors import LabError
from tcplab.experiments import provenance
from tcplab.experiments.declaration import experiment
from tcplab.experiments.files import can_be_cold, file_of, gone_with_us
from tcplab.experiments.lab_loopback import open_loopback
from tcplab.experiments.mode import mode, recorded_note
from tcplab.experiments.progress import Rounds
from tcplab.lab import Command, Host, Lab, Loopback, Network, program_path
from tcplab.programs import CacheState, HeaderOptions, SendFileResult, SendMethod
from tcplab.programs import send_file as run_program
from tcplab.tables import Column, Table

__all__ = ["PARTS", "TEXT_S", "Case", "Cost", "SendFiles", "Transfer", "measure"]

Part = Literal["wire", "loopback", "veth", "cold", "clients", "memory", "header"]
PARTS: Final[tuple[Part, ...]] = get_args(Part)
Limit = Literal["", "ulimit -v", "cgroup"]

#: The text's seconds, from and to: (way, MB) -> (fastest, slowest).
TEXT_S: Final[Mapping[tuple[str, int], tuple[float, float]]] = {
    ("A", 9): (0.71, 0.76),
    ("A", 32): (2.64, 2.68),
    ("A", 64): (5.36, 5.43),
    ("B", 9): (0.71, 1.08),
    ("B", 32): (2.66, 2.74),
    ("B", 64): (5.43, 6.64),
    ("C", 9): (0.72, 0.75),
    ("C", 32): (2.66, 2.68),
    ("C", 64): (5.38, 5.60),
}

RATE_MBIT: Final = 100.0  # of the text's network
QUEUE_PACKETS: Final = 10_000  # more than a send buffer holds: a card makes its host wait, too
CLIENTS: Final = (1, 4, 16, 64)
HEADER_BYTES, HEADER_FILE_BYTES, HEADER_RTT_MS = 100, 10_000, 20.0
# A file so large that a limit can leave room for the program and none for the file.
LARGE_BYTES: Final = 64_000_000
ADDRESS_SPACE_SHARE: Final = 0.75
CGROUP_SHARE: Final = 0.25
MOST_MB: Final = 20_000


@dataclass(frozen=True, slots=True)
class Case:
    """One way of sending one file.

    Attributes:
        part: the question that it belongs to.
        variant: its name in that part.
        method: how the bytes get to the socket.
        file_bytes: size of the file.
        block_bytes: the most that a call takes; None for the method's usual.
        cork: TCP_CORK around everything.
        more: MSG_MORE with the header.
        nodelay: TCP_NODELAY.
        header_bytes: sent before the file.
        connections: clients that get the file at the same time.
        cache: "warm" or "cold".
        limit: of the sender's memory.
        text_s: seconds in the text, from and to; None where it has none.
    """

    part: Part
    variant: str
    method: SendMethod
    file_bytes: int
    block_bytes: int | None = None
    cork: bool = False
    more: bool = False
    nodelay: bool = False
    header_bytes: int = 0
    connections: int = 1
    cache: CacheState = "warm"
    limit: Limit = ""
    text_s: tuple[float, float] | None = None

    @property
    def shown(self) -> str:
        """The variant with what else is special about it."""
        special = [self.variant]
        clients = "client" if self.connections == 1 else "clients"
        special += [f"{self.connections} {clients}"] if self.part == "clients" else []
        special += [self.cache] if self.part == "cold" else []
        special += [self.limit] if self.limit else []
        return ", ".join(special)


@dataclass(frozen=True, slots=True)
class Cost:
    """What one transfer took.

    Attributes:
        wall_s: from the first call until the receiver had read everything.
        cpu_s: of the sender, user and system.
        receiver_cpu_s: of the receiver.
        bytes: sent over all connections.
        system_calls: of the sender.
        switches: context switches of the sender, of its own accord and not.
        page_faults: of the sender.
        zerocopy_sends: sends with MSG_ZEROCOPY.
        zerocopy_copied: of those, which the kernel copied after all.
        cached_share: share of the file in the page cache before, 0 to 1.
    """

    wall_s: float
    cpu_s: float
    receiver_cpu_s: float
    bytes: int
    system_calls: int
    switches: int
    page_faults: int
    zerocopy_sends: int
    zerocopy_copied: int
    cached_share: float

    @property
    def mb_per_s(self) -> float:
        """Bytes over wall time, in 10^6 bytes/s."""
        return self.bytes / self.wall_s / 1e6

    @property
    def cpu_s_per_gb(self) -> float:
        """CPU time of the sender for 10^9 bytes."""
        return self.cpu_s / self.bytes * 1e9

    @property
    def receiver_cpu_s_per_gb(self) -> float:
        """CPU time of the receiver for 10^9 bytes."""
        return self.receiver_cpu_s / self.bytes * 1e9


@dataclass(frozen=True, slots=True)
class Transfer:
    """One case, measured several times or not at all.

    Attributes:
        case: which.
        costs: of each run.
        missing: why there are none; empty when there are.
        segments: payload bytes of the data segments of the last run, in order, as they left the
            client; empty where nothing was recorded.
        drops: packets that the recorder lost; None where nothing was recorded.
    """

    case: Case
    costs: Sequence[Cost]
    missing: str = ""
    segments: Sequence[int] = ()
    drops: int | None = None

    def median(self, value: Callable[[Cost], float]) -> float | None:
        """The median over the runs; None when it was not measured."""
        return statistics.median(map(value, self.costs)) if self.costs else None

    @property
    def wall_s(self) -> float | None:
        """Median seconds."""
        return self.median(lambda cost: cost.wall_s)

    @property
    def mb_per_s(self) -> float | None:
        """Median rate in 10^6 bytes/s."""
        return self.median(lambda cost: cost.mb_per_s)

    @property
    def cpu_s_per_gb(self) -> float | None:
        """Median CPU time of the sender for 10^9 bytes, in s."""
        return self.median(lambda cost: cost.cpu_s_per_gb)

    @property
    def system_calls(self) -> int | None:
        """Median number of the sender's system calls."""
        calls = self.median(lambda cost: cost.system_calls)
        return None if calls is None else round(calls)

    @property
    def header_alone(self) -> bool | None:
        """Whether the header left in a segment of its own; None where that was not recorded."""
        return self.segments[0] == self.case.header_bytes if self.segments else None

    def row(self) -> dict[str, Any]:
        """The case as one row of plain data.

        What costs are to a file of a few kilobytes, the start of the programs hides.
        """
        case, times = self.case, [cost.wall_s for cost in self.costs]
        last = self.costs[-1] if self.costs else None
        large = Transfer(case, () if case.header_bytes else self.costs)
        return {
            "part": case.part,
            "variant": case.variant,
            "shown": case.shown,
            "method": case.method,
            "file_mb": case.file_bytes / 1e6,
            "block_bytes": case.block_bytes,
            "connections": case.connections,
            "cache": case.cache,
            "limit": case.limit,
            "runs": len(times),
            "seconds": self.wall_s,
            "ms": None if self.wall_s is None else self.wall_s * 1e3,
            "seconds_min": min(times, default=None),
            "seconds_max": max(times, default=None),
            "text_s": case.text_s and f"{case.text_s[0]:.2f}–{case.text_s[1]:.2f}",
            "mb_per_s": large.mb_per_s,
            "cpu_s_per_gb": large.cpu_s_per_gb,
            "receiver_cpu_s_per_gb": large.median(lambda cost: cost.receiver_cpu_s_per_gb),
            "system_calls": self.system_calls,
            "switches": self.median(lambda cost: cost.switches),
            "page_faults": self.median(lambda cost: cost.page_faults),
            "copied_after_all": f"{last.zerocopy_copied} of {last.zerocopy_sends}"
            if last and last.zerocopy_sends
            else None,
            "segments": _segments(self.segments) or None,
            "header_alone": {None: None, True: "yes", False: "no"}[self.header_alone]
            if case.header_bytes
            else None,
            "note": self.missing,
        }


def _segments(sizes: Sequence[int]) -> str:
    """[100, 1448, 1448, 652] as "100 + 2 × 1448 + 652"."""
    groups: list[tuple[int, int]] = []
    for size in sizes:
        if groups and groups[-1][1] == size:
            groups[-1] = (groups[-1][0] + 1, size)
        else:
            groups.append((1, size))
    return " + ".join(f"{count} × {size}" if count > 1 else f"{size}" for count, size in groups)


_FIRST: Final = (Column("variant", "how"), Column("file_mb", "file (MB)", "g"))
_TIME: Final = (Column("seconds", "seconds", ".3f"),)
_TEXT: Final = (Column("text_s", "the text (s)"),)
_COST: Final = (
    Column("mb_per_s", "MB/s", ".0f"),
    Column("cpu_s_per_gb", "sender's CPU s/GB", ".3f"),
    Column("receiver_cpu_s_per_gb", "receiver's", ".3f"),
    Column("system_calls", "system calls", ",d"),
)
_FAULTS: Final = (Column("page_faults", "page faults", ".0f"),)
_COPIED: Final = (Column("copied_after_all", "copied after all"),)
_SEGMENTS: Final = (
    Column("segments", "data segments (bytes)"),
    Column("header_alone", "header alone?"),
)
_NOTE: Final = (Column("note", "note"),)

#: What is worth showing of each part.
PART_COLUMNS: Final[Mapping[Part, tuple[Column, ...]]] = {
    "wire": (*_FIRST, *_TIME, *_TEXT, *_COST[1:], *_NOTE),
    "loopback": (*_FIRST, *_TIME, *_COST, *_COPIED, *_NOTE),
    "veth": (*_FIRST, *_TIME, *_COST, *_NOTE),
    "cold": (*_FIRST, Column("cache", "page cache"), *_TIME, *_COST, *_NOTE),
    "clients": (*_FIRST, Column("connections", "clients", "d"), *_TIME, *_COST, *_NOTE),
    "memory": (*_FIRST, Column("limit", "limit"), *_TIME, *_COST, *_FAULTS, *_NOTE),
    "header": (_FIRST[0], Column("ms", "ms", ".1f"), *_SEGMENTS, *_NOTE),
}


@dataclass(frozen=True, slots=True)
class SendFiles:
    """All cases of the parts that were asked for."""

    experiment: ClassVar[str] = "sendfile"
    columns: ClassVar[Sequence[Column]] = (
        Column("part", "part"),
        Column("shown", "how"),
        _FIRST[1],
        *_TIME,
        *_TEXT,
        *_COST,
        *_COPIED,
        *_SEGMENTS,
        *_NOTE,
    )

    transfers: Sequence[Transfer]
    provenance: Mapping[str, Any]

    def part(self, part: Part) -> list[Transfer]:
        """The transfers of one part."""
        return [each for each in self.transfers if each.case.part == part]

    def find(self, part: Part, variant: str, file_mb: float | None = None) -> Transfer:
        """One transfer by its names.

        Raises:
            KeyError: there is none.
        """
        for each in self.part(part):
            if each.case.variant == variant and file_mb in (None, each.case.file_bytes / 1e6):
                return each
        raise KeyError(f"{part}: {variant}, {file_mb} MB")

    def rows(self) -> list[dict[str, Any]]:
        """One row a case."""
        return [each.row() for each in self.transfers]

    def table(self, part: Part) -> Table:
        """The rows of one part, under the columns that matter to it."""
        rows = [each.row() for each in self.part(part)]
        return Table(PART_COLUMNS[part], rows, recorded_note(self.provenance))


# ---- the cases -----------------------------------------------------------------------------------


def _cases(parts: Sequence[Part], sizes_mb: Sequence[int], blocks: Sequence[int]) -> list[Case]:
    sizes = [size * 1_000_000 for size in sizes_mb]
    makers: Mapping[Part, Callable[[], list[Case]]] = {
        "wire": lambda: [
            *(case for size in sizes for case in _abc("wire", size)),
            *_other_blocks("wire", min(sizes), blocks),
        ],
        "loopback": lambda: [
            *(case for size in sizes for case in _abc("loopback", size)),
            *_other_blocks("loopback", max(sizes), (*blocks, 131_072)),
            Case("loopback", "mmap + send", "mmap", max(sizes)),
            Case("loopback", "splice", "splice", max(sizes)),
            Case("loopback", "MSG_ZEROCOPY", "zerocopy", max(sizes)),
        ],
        "veth": lambda: _abc("veth", max(sizes))[:2],
        "cold": lambda: [
            Case("cold", name, method, max(sizes), block, cache=cache)
            for name, method, block in _TWO
            for cache in _STATES
        ],
        "clients": lambda: [
            Case("clients", name, method, min(sizes), block, connections=clients)
            for clients in CLIENTS
            for name, method, block in _TWO
        ],
        "memory": lambda: _memory_cases(max(*sizes, LARGE_BYTES)),
        "header": _header_cases,
    }
    return [case for part in parts for case in makers[part]()]


_Way = tuple[str, SendMethod, int | None]
_TWO: Final[tuple[_Way, ...]] = (
    ("A: read 4096 + send", "read", 4096),
    ("B: sendfile", "sendfile", None),
)
_STATES: Final[tuple[CacheState, ...]] = ("cold", "warm")


def _abc(part: Part, size: int) -> list[Case]:
    """The text's three ways."""
    cases = []
    for name, method, block in (*_TWO, ("C: cork, sendfile", "sendfile", None)):
        letter = name[0]
        text_s = TEXT_S.get((letter, size // 1_000_000)) if part == "wire" else None
        cases.append(Case(part, name, method, size, block, cork=letter == "C", text_s=text_s))
    return cases


def _other_blocks(part: Part, size: int, blocks: Sequence[int]) -> list[Case]:
    return [
        Case(part, f"read {block} + send", "read", size, block) for block in blocks if block != 4096
    ]


def _memory_cases(size: int) -> list[Case]:
    methods: tuple[_Way, ...] = (
        *_TWO,
        ("mmap + send", "mmap", None),
        ("splice", "splice", None),
        ("MSG_ZEROCOPY", "zerocopy", None),
    )
    confined = [
        Case("memory", name, method, size, block, limit="ulimit -v")
        for name, method, block in methods
    ]
    # A page that is in memory before is charged to whoever read it then: so from the disk.
    return confined + [
        Case("memory", name, method, size, block, cache="cold", limit="cgroup")
        for name, method, block in methods[:3]
    ]


def _header_cases() -> list[Case]:
    def case(
        variant: str, *, cork: bool = False, more: bool = False, nodelay: bool = False
    ) -> Case:
        return Case(
            "header",
            variant,
            "sendfile",
            HEADER_FILE_BYTES,
            cork=cork,
            more=more,
            nodelay=nodelay,
            header_bytes=HEADER_BYTES,
        )

    return [
        case("default"),
        case("TCP_NODELAY", nodelay=True),
        case("TCP_CORK", cork=True),
        case("TCP_CORK and TCP_NODELAY", cork=True, nodelay=True),
        case("MSG_MORE", more=True),
    ]


# ---- measuring -----------------------------------------------------------------------------------

_WITHOUT_WIRE: Final = frozenset({"loopback", "cold", "clients", "memory"})


@experiment("sendfile", on_loopback=lambda parts, **_: bool(_WITHOUT_WIRE & set(parts)))
def measure(
    parts: Sequence[Part] = PARTS,
    sizes_mb: Sequence[int] = (9, 32, 64),
    blocks: Sequence[int] = (1024, 4096, 8192),
    runs: int = 3,
    wire_runs: int = 1,
) -> SendFiles:
    """Sends files in every way of the parts, one after the other, and that several times.

    A case that is not possible here stays in the result with the reason.

    Args:
        parts: questions, see the top of this module.
        sizes_mb: files, in 10^6 bytes, 1 to 20 000; parts that need one file take the largest,
            "clients" the smallest, "memory" one of 64 MB at least.
        blocks: sizes of read(), in bytes.
        runs: rounds.
        wire_runs: rounds of the part "wire", whose clock is the wire's: its times hardly differ.

    Raises:
        ValueError: a number is out of range, or no such part.
        LabError: no laboratory can be made here, or a program failed.
    """
    _check(parts, sizes_mb, blocks, runs, wire_runs)
    cases = _cases(parts, sizes_mb, blocks)
    rounds_of = {case: wire_runs if case.part == "wire" else runs for case in cases}
    plan = [case for n in range(max(runs, wire_runs)) for case in cases if n < rounds_of[case]]
    with _Bench(cases) as bench:
        plan = [case for case in plan if not bench.missing[case]]
        with Rounds(max(len(plan), 1), "sendfile") as rounds:
            for number in rounds:
                if number < len(plan):
                    bench.run(plan[number])
        return SendFiles(
            [bench.transfer(case) for case in cases],
            bench.provenance(
                runs=runs, wire_runs=wire_runs, interrupted=rounds.interrupted, parts=list(parts)
            ),
        )


def _check(
    parts: Sequence[str],
    sizes_mb: Sequence[int],
    blocks: Sequence[int],
    runs: int,
    wire_runs: int,
) -> None:
    for part in parts:
        if part not in PARTS:
            raise ValueError(f"part {part!r} is not one of {', '.join(PARTS)}")
    if not parts:
        raise ValueError(f"parts is empty; give some of {', '.join(PARTS)}")
    if not sizes_mb:
        raise ValueError("sizes_mb is empty; give sizes in MB, such as 9 32 64")
    limits = [("sizes_mb", size, MOST_MB) for size in sizes_mb]
    limits += [("blocks", block, 1 << 24) for block in blocks]
    for name, value, most in (*limits, ("runs", runs, 1000), ("wire_runs", wire_runs, 1000)):
        if value != int(value) or not 1 <= value <= most:
            raise ValueError(f"{name}: {value} must be a whole number from 1 to {most}")


class _Bench:
    """The places, the files and the limits that the cases need, and what they cost so far."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self._cases = cases
        self._networks: dict[tuple[Part, Limit], Network] = {}
        self._files: dict[int, Path] = {}
        self._costs: dict[Case, list[Cost]] = {case: [] for case in cases}
        self._segments: dict[Case, tuple[list[int], int]] = {}
        #: Why a case is not possible; empty if it is.
        self.missing: dict[Case, str] = {}

    def __enter__(self) -> _Bench:
        with ExitStack() as stack:
            for size in {case.file_bytes for case in self._cases}:
                self._files[size] = stack.enter_context(file_of(size))
            for case in self._cases:
                self.missing[case] = self._prepare(stack, case)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _prepare(self, stack: ExitStack, case: Case) -> str:
        """Opens what the case needs and is not open yet; or says why that is impossible."""
        if case.part not in _WITHOUT_WIRE and mode() == "loopback":
            return "needs two hosts and a wire: not possible on plain loopback"
        if case.cache == "cold" and not can_be_cold(self._files[case.file_bytes]):
            return "no disk: the file lies on a tmpfs, always in memory; set TMPDIR"
        if (case.part, case.limit) in self._networks:
            return ""
        try:
            network = stack.enter_context(_open(case.part))
            if case.limit:
                limited = stack.enter_context(_LIMITS[case.limit](case.file_bytes))
                network = _Confined(network, limited)
        except _NotHereError as error:
            return str(error)
        self._networks[case.part, case.limit] = network
        return ""

    def run(self, case: Case) -> None:
        """Measures one case once."""
        network = self._networks[case.part, case.limit]
        with ExitStack() as stack:
            capture = None
            if case.part == "header" and isinstance(network, Lab):
                capture = stack.enter_context(network.client.capture())
            try:
                result = _send(network, case, self._files[case.file_bytes])
            except LabError as error:
                if not case.limit:
                    raise
                # That is the answer to the question that this case asks.
                self.missing[case] = _short(error, self._files[case.file_bytes])
                return
        self._costs[case].append(_cost(result))
        if capture is not None:
            with capture:
                data = capture.segments.data("client", retransmissions=False)
                drops = capture.drops or 0
            self._segments[case] = (data["payload_bytes"].tolist(), drops)

    def transfer(self, case: Case) -> Transfer:
        """What was measured of a case."""
        costs = self._costs[case]
        missing = self.missing[case] or ("" if costs else "interrupted before its turn")
        segments, drops = self._segments.get(case, ([], None))
        return Transfer(case, costs, missing, segments, drops)

    def provenance(self, **details: Any) -> dict[str, Any]:
        """Of a result that was measured here, over all places."""
        networks = {
            f"{part} {limit}".strip(): network for (part, limit), network in self._networks.items()
        }
        if self._segments:
            details["capture_drops"] = sum(drops for _sizes, drops in self._segments.values())
        return provenance(
            next(iter(self._networks.values())),
            networks={name: _described(network) for name, network in networks.items()},
            **details,
        )


def _short(error: LabError, path: Path) -> str:
    if "SIGKILL" in str(error):
        return "killed by the kernel: the control group had no memory left"
    return str(error).rpartition("): ")[2].replace(str(path), "the file")


def _described(network: Network) -> dict[str, Any]:
    link = network.link.parameters if isinstance(network, Lab) else None
    about = {"mtu": network.mtu, "offload": network.offload, "congestion": network.congestion}
    return {"link": link and dict(link), **about}


@contextmanager
def _open(part: Part) -> Iterator[Network]:
    if part in _WITHOUT_WIRE:
        with open_loopback() as network:
            yield network
        return
    parameters: Mapping[str, dict[str, Any]] = {
        "wire": {"rate_mbit": RATE_MBIT, "queue_packets": QUEUE_PACKETS},
        "veth": {"offload": True},
        "header": {"rtt_ms": HEADER_RTT_MS},
    }
    with Lab(**parameters[part]) as lab:
        yield lab


def _send(network: Network, case: Case, path: Path) -> SendFileResult:
    return run_program(
        network,
        path,
        method=case.method,
        block_bytes=case.block_bytes,
        connections=case.connections,
        cache=case.cache,
        header=HeaderOptions(case.header_bytes, case.cork, case.more, case.nodelay),
    )


def _cost(result: SendFileResult) -> Cost:
    used = result.usage
    return Cost(
        wall_s=used.wall_s,
        cpu_s=used.cpu_s,
        receiver_cpu_s=result.receiver.usage.cpu_s,
        bytes=result.bytes,
        system_calls=result.system_calls,
        switches=used.voluntary_switches + used.involuntary_switches,
        page_faults=used.minor_faults + used.major_faults,
        zerocopy_sends=result.zerocopy_sends,
        zerocopy_copied=result.zerocopy_copied,
        cached_share=result.cached_share,
    )


# ---- little memory -------------------------------------------------------------------------------


class _NotHereError(Exception):
    """The system does not allow it; in one line."""


class _Confined(Loopback):
    """A place whose client's programs start under a limit.

    Args:
        network: the place.
        script: shell commands that set the limit for the process that runs them.
    """

    def __init__(self, network: Network, script: str) -> None:
        super().__init__()
        self.client = _ConfinedHost(network.client, script)
        self.server = network.server
        self.mtu = network.mtu
        self.congestion = network.congestion


class _ConfinedHost(Host):
    def __init__(self, host: Host, script: str) -> None:
        super().__init__(host._network, host.name, host.address, host.interface)
        self._script = script + ' && exec "$@"'

    def start(self, argv: Command, **options: Any) -> subprocess.Popen[Any]:
        name, *rest = (os.fspath(word) for word in argv)
        command = ["sh", "-c", self._script, "sh", str(program_path(name)), *rest]
        return super().start(command, **options)


@contextmanager
def _address_space(file_bytes: int) -> Iterator[str]:
    """RLIMIT_AS (setrlimit(2)): what a process may map."""
    yield f"ulimit -v {round(file_bytes * ADDRESS_SPACE_SHARE / 1024)}"


@contextmanager
def _control_group(file_bytes: int) -> Iterator[str]:
    """A control group with less memory than the file; its share of the page cache counts."""
    limit = str(round(file_bytes * CGROUP_SHARE) & ~0xFFFF)
    for parent, file in _memory_groups():
        group = parent / f"tcplab-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        with gone_with_us(group):
            try:
                (group / file).write_text(limit)
            except OSError:
                continue
            yield f"echo 0 > '{group}/cgroup.procs'"
            return
    raise _NotHereError(
        "this user may not make a control group with a memory limit here; try"
        " systemd-run --user --scope -p Delegate=yes tcplab run sendfile --parts memory"
    )


def _memory_groups() -> Iterator[tuple[Path, str]]:
    """Where a control group could be made, and its file for the limit (cgroups(7))."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _number, controllers, path = line.split(":", 2)
        if not controllers:  # version 2: in our own group, or beside it
            own = Path("/sys/fs/cgroup") / path.lstrip("/")
            yield own, "memory.max"
            yield own.parent, "memory.max"
        elif "memory" in controllers.split(","):
            yield Path("/sys/fs/cgroup/memory") / path.lstrip("/"), "memory.limit_in_bytes"


_LIMITS: Final = {"ulimit -v": _address_space, "cgroup": _control_group}
