"""Pipes and copies: how fast `dd | nc` and `nc < file` are, and how often each byte is copied.

The experiment of Chen Shuo, "Network programming in practice", lesson 2: nc sends to a second nc,
over a wire of 1 Gbit/s and on one machine, fed by dd, by a file from the disk and by the same file
from memory. The text explains the ratios of its rates by counting copies; here the copies stand
beside the rates (tcplab.models.chain_cost), and with them what the text asks the reader to look up
in top: how much of a CPU each process took.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, NamedTuple, Self

from tcplab.experiments import provenance
from tcplab.experiments.declaration import experiment
from tcplab.experiments.files import can_be_cold, file_of
from tcplab.experiments.lab_loopback import LabLoopback, open_loopback, pin_default_congestion
from tcplab.experiments.mode import mode
from tcplab.experiments.progress import Rounds
from tcplab.lab import Lab, Loopback, Network
from tcplab.models import ChainCost, chain_cost
from tcplab.programs import ChainResult, page_cache, pipe_chain
from tcplab.tables import Column

__all__ = [
    "BY_KEY",
    "COMPOSED",
    "RECEIVERS",
    "SENDERS",
    "SOURCES",
    "WAYS",
    "CacheSteps",
    "Chain",
    "Pipes",
    "Way",
    "compose",
    "measure",
    "measure_cache",
]

RATE_MBIT: Final = 1000.0  # of the text's network
# The laboratory's wire drops what its queue cannot hold; a network card makes its host wait.
# Nothing is dropped when all that a send buffer can hold (4 MB, 2900 packets) fits.
QUEUE_PACKETS: Final = 10_000
MOST_MB: Final = 20_000
TEXT_PORT: Final = 5001
TIMEOUT_S: Final = 600.0

Source = Literal["made", "cold", "warm"]
Words = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Way:
    """One way through pipes and a TCP connection.

    Attributes:
        key: its name in a call and on the command line.
        shown: as in a shell; the arrow is the connection.
        sending: commands at the sender, the output of each the input of the next. "NC", "PV" and
            "DD" stand for the programs found here.
        receiving: commands at the receiver.
        stages: what they are to tcplab.models.chain_cost.
        source: the sender's input: "made" by dd, or a file "cold" (on the disk) or "warm" (in the
            page cache).
        wire: over the wire between two hosts, not within one machine.
        text_mb_per_s: what the text measured, in MB/s; None where it has no such row.
    """

    key: str
    shown: str
    sending: tuple[Words, ...]
    receiving: tuple[Words, ...]
    stages: tuple[str, ...]
    source: Source = "made"
    wire: bool = False
    text_mb_per_s: float | None = None

    @property
    def name(self) -> str:
        """As in a shell, and the state of the file."""
        return self.shown if self.source == "made" else f"{self.shown}, {self.source}"

    @property
    def cost(self) -> ChainCost:
        """Copies and system calls of each byte, by the model."""
        return chain_cost(*self.stages)

    @property
    def commands(self) -> list[str]:
        """The programs by name, in the order in which a byte passes them."""
        return [words[0] for words in (*self.sending, *self.receiving)]


_DD: Final = ("DD", "if=/dev/zero", "bs=1MB", "count={size}", "status=none")
_DD_OUT: Final = ("DD", "bs=128K", "status=none")
# Several times as much to do for each byte as nc has: it stands for a computer that much slower.
_SLOW: Final = ("DD", "bs=128", "status=none")
_PV: Final = ("PV", "-q")
_NC: Final = ("NC", "-N", "{host}", "{port}")
_NC_IN: Final = ("NC", "-l", "{host}", "{port}")
_NETCAT: Final = ("netcat", "{host}", "{port}")
_SPLICE: Final = ("netcat", "--splice", "{host}", "{port}")
_NETCAT_IN: Final = ("netcat", "-l", "{port}")
_DISCARD: Final = ("sendfile_server", "--discard", "-p", "{port}")

_FED: Final = ("dd /dev/zero", "nc from pipe")
_FILE: Final = "nc < file"
_SINK: Final = "nc > /dev/null"
_ON: Final = "nc to pipe"
_PV_SPLICES: Final = "pv > /dev/null, splicing"

#: The text's rows, in its order, and then what it leaves open.
WAYS: Final = (
    Way(
        "wire",
        "dd | nc → nc",
        (_DD, _NC),
        (_NC_IN,),
        (*_FED, _SINK),
        wire=True,
        text_mb_per_s=118.0,
    ),
    Way("dd-nc", "dd | nc → nc", (_DD, _NC), (_NC_IN,), (*_FED, _SINK), text_mb_per_s=580.0),
    Way("cold", "nc < file → nc", (_NC,), (_NC_IN,), (_FILE, _SINK), "cold", text_mb_per_s=115.72),
    Way("warm", "nc < file → nc", (_NC,), (_NC_IN,), (_FILE, _SINK), "warm", text_mb_per_s=1074.87),
    Way(
        "dd-nc-pv",
        "dd | nc → nc | pv",
        (_DD, _NC),
        (_NC_IN, _PV),
        (*_FED, _ON, _PV_SPLICES),
        text_mb_per_s=477.0,
    ),
    Way(
        "wire-slow",
        "dd | nc → nc | dd bs=128",
        (_DD, _NC),
        (_NC_IN, _SLOW),
        (*_FED, _ON, "dd > /dev/null"),
        wire=True,
        text_mb_per_s=118.0,
    ),
    Way(
        "wire-pv",
        "dd | nc → nc | pv",
        (_DD, _NC),
        (_NC_IN, _PV),
        (*_FED, _ON, _PV_SPLICES),
        wire=True,
        text_mb_per_s=117.4,
    ),
    Way(
        "dd-nc-pv-copying",
        "dd | nc → nc | pv -C",
        (_DD, _NC),
        (_NC_IN, (*_PV, "-C")),
        (*_FED, _ON, "pv > /dev/null"),
    ),
    Way(
        "wire-netcat",
        "dd | netcat → netcat",
        (_DD, _NETCAT),
        (_NETCAT_IN,),
        (*_FED, _SINK),
        wire=True,
    ),
    Way("dd-netcat", "dd | netcat → netcat", (_DD, _NETCAT), (_NETCAT_IN,), (*_FED, _SINK)),
    Way(
        "dd-netcat-dd",
        "dd | netcat → netcat | dd",
        (_DD, _NETCAT),
        (_NETCAT_IN, _DD_OUT),
        (*_FED, _ON, "dd > /dev/null"),
    ),
    Way(
        "netcat-warm",
        "netcat < file → netcat",
        (_NETCAT,),
        (_NETCAT_IN,),
        (_FILE, _SINK),
        "warm",
    ),
    Way(
        "tcp-only",
        "tcpsource → tcpsink",
        (("tcpsource", "-p", "{port}", "-b", "auto", "-s", "1000000", "-c", "{size}", "{host}"),),
        (("tcpsink", "-p", "{port}", "-b", "auto"),),
        ("tcpsource", "tcpsink"),
    ),
    Way(
        "splice",
        "netcat --splice < file → netcat",
        (_SPLICE,),
        (_NETCAT_IN,),
        ("netcat --splice < file", _SINK),
        "warm",
    ),
    Way(
        "no-copy",
        "netcat --splice < file → sendfile_server --discard",
        (_SPLICE,),
        (_DISCARD,),
        ("netcat --splice < file", "discard"),
        "warm",
    ),
)
#: The same by their keys.
BY_KEY: Final = {way.key: way for way in WAYS}


# ---- a way of one's own --------------------------------------------------------------------------

#: The key of a way from :func:`compose`.
COMPOSED: Final = "composed"

#: What of :func:`compose` the bytes come from.
SOURCES: Final = {
    "zeros": "dd makes zeros",
    "piped": "dd reads a file in memory",
    "warm": "a file in memory",
    "cold": "a file on the disk only",
}
#: What of :func:`compose` sends them.
SENDERS: Final = {
    "nc": "nc, 16 KiB at a time",
    "netcat": "netcat, 128 KiB at a time",
    "splice": "netcat --splice, without a copy",
}
#: What of :func:`compose` becomes of them at the receiver.
RECEIVERS: Final = {
    "null": "written to /dev/null",
    "pv": "piped to pv, which splices",
    "pv-copying": "piped to pv -C, which copies",
    "dd": "piped to dd, which copies",
    "discard": "thrown away in the kernel",
}
#: The smallest and the largest block of dd.
LEAST_BLOCK_BYTES: Final = 128
MOST_BLOCK_BYTES: Final = 16 << 20

_AS_MUCH: Final = ("iflag=count_bytes", "count={size}MB", "status=none")
_ZEROS: Final = ("DD", "if=/dev/zero", "bs={block}", *_AS_MUCH)
_THROUGH: Final = ("DD", "bs={block}", "status=none")


class _Part(NamedTuple):
    """What stands before the sender, or behind the receiver."""

    words: Words
    stage: str
    shown: str


_FEEDS: Final[Mapping[str, _Part | None]] = {
    "zeros": _Part(_ZEROS, "dd /dev/zero", "dd bs={block} | "),
    "piped": _Part(_THROUGH, "dd file", "dd bs={block} < file | "),
    "warm": None,
    "cold": None,
}
_TAILS: Final[Mapping[str, _Part | None]] = {
    "null": None,
    "pv": _Part(_PV, _PV_SPLICES, " | pv"),
    "pv-copying": _Part((*_PV, "-C"), "pv > /dev/null", " | pv -C"),
    "dd": _Part(_THROUGH, "dd > /dev/null", " | dd bs={block}"),
    "discard": None,
}
_STATES: Final[Mapping[str, Source]] = {
    "zeros": "made",
    "piped": "warm",
    "warm": "warm",
    "cold": "cold",
}


def compose(
    source: str = "zeros",
    sender: str = "netcat",
    receiver: str = "null",
    *,
    block_bytes: int = 1_000_000,
    wire: bool = False,
) -> Way:
    """A way put together from its parts, for :func:`measure`; its key is COMPOSED.

    Args:
        source: one of SOURCES.
        sender: one of SENDERS; nc and netcat also listen at the other end.
        receiver: one of RECEIVERS.
        block_bytes: of each dd, 128 to 16 MiB; without a dd nobody uses it.
        wire: over the wire between two hosts, not within one machine.

    Raises:
        ValueError: an argument is none of these.
    """
    for name, value, known in (
        ("source", source, SOURCES),
        ("sender", sender, SENDERS),
        ("receiver", receiver, RECEIVERS),
    ):
        if value not in known:
            raise ValueError(f"{name}={value!r} is not one of {', '.join(known)}")
    if not LEAST_BLOCK_BYTES <= block_bytes <= MOST_BLOCK_BYTES:
        limits = f"from {LEAST_BLOCK_BYTES} to {MOST_BLOCK_BYTES}"
        raise ValueError(f"block_bytes={block_bytes} must be a number {limits}")
    feed, tail = _FEEDS[source], _TAILS[receiver]
    sends, name = {
        "nc": (_NC, "nc"),
        "netcat": (_NETCAT, "netcat"),
        "splice": (_SPLICE, "netcat --splice"),
    }[sender]
    listens, takes = (_NC_IN, "nc") if sender == "nc" else (_NETCAT_IN, "netcat")
    ends = _ON if tail else _SINK
    if receiver == "discard":
        listens, takes, ends = _DISCARD, "sendfile_server --discard", "discard"

    def filled(text: str) -> str:
        return text.replace("{block}", str(block_bytes))

    begins = f"{'nc' if sender != 'splice' else name} {'from pipe' if feed else '< file'}"
    shown = (feed.shown + name if feed else f"{name} < file", takes + (tail.shown if tail else ""))
    return Way(
        COMPOSED,
        filled(" → ".join(shown)),
        tuple(tuple(map(filled, words)) for words in ((feed.words, sends) if feed else (sends,))),
        tuple(
            tuple(map(filled, words)) for words in ((listens, tail.words) if tail else (listens,))
        ),
        (*([feed.stage] if feed else []), begins, ends, *([tail.stage] if tail else [])),
        _STATES[source],
        wire,
    )


def _way(way: str | Way) -> Way:
    return BY_KEY[way] if isinstance(way, str) else way


@dataclass(frozen=True, slots=True)
class Chain:
    """One way, measured several times or not at all.

    Attributes:
        way: which.
        size_mb: how much went through it each time, in 10^6 bytes.
        runs: the results, in the order of the rounds.
        cached_share: share of the file that was in the page cache before each run, 0 to 1; empty
            when no file was read.
        missing: why there are no runs; empty when there are.
    """

    way: Way
    size_mb: int
    runs: Sequence[ChainResult]
    cached_share: Sequence[float]
    missing: str = ""

    @property
    def mb_per_s(self) -> list[float]:
        """The rate of each run, in MB/s."""
        return [run.mb_per_s for run in self.runs]

    @property
    def median_mb_per_s(self) -> float | None:
        """The rate in the middle; None when it was not measured."""
        return statistics.median(self.mb_per_s) if self.runs else None

    @property
    def cpu_s_per_gb(self) -> float | None:
        """Median CPU time of all programs together for 10^9 bytes, in s; None when not measured."""
        if not self.runs:
            return None
        return statistics.median(run.cpu_s for run in self.runs) / self.size_mb * 1e3

    @property
    def cpu_shares(self) -> list[float]:
        """What part of one CPU each program had while the chain ran (1.0 is all of it), medians."""
        return [
            statistics.median(run.processes[n].cpu_s / run.wall_s for run in self.runs)
            for n in range(len(self.way.commands) if self.runs else 0)
        ]

    @property
    def bytes_per_read(self) -> list[float | None]:
        """Mean size of each program's reads, medians; None where /proc does not tell."""
        seen = [
            [run.processes[n].bytes_per_read for run in self.runs]
            for n in range(len(self.way.commands) if self.runs else 0)
        ]
        known = [[size for size in sizes if size is not None] for sizes in seen]
        return [statistics.median(sizes) if sizes else None for sizes in known]

    def row(self) -> dict[str, Any]:
        """The way as one row of plain data."""
        rates = self.mb_per_s
        cost = self.way.cost
        return {
            "variant": self.way.key,
            "shown": self.way.shown,
            "where": "1 Gbit/s wire" if self.way.wire else "one machine",
            "input": {"made": "/dev/zero", "cold": "file, cold", "warm": "file, warm"}[
                self.way.source
            ],
            "size_mb": self.size_mb,
            "runs": len(rates),
            "mb_per_s": self.median_mb_per_s,
            "mb_per_s_min": min(rates, default=None),
            "mb_per_s_max": max(rates, default=None),
            "text_mb_per_s": self.way.text_mb_per_s,
            "copies": cost.copies,
            "processes": cost.processes,
            "cpu_s_per_gb": self.cpu_s_per_gb,
            "cpu_percent": " + ".join(f"{share * 100:.0f}" for share in self.cpu_shares) or None,
            "bytes_per_read": " · ".join(_bytes(size) for size in self.bytes_per_read) or None,
            "cached_share": statistics.median(self.cached_share) if self.cached_share else None,
            "note": self.missing,
        }


def _bytes(size: float | None) -> str:
    if size is None:
        return "–"
    return f"{size:.0f}" if size < 1000 else f"{size / 1024:.0f} KiB"


@dataclass(frozen=True, slots=True)
class Pipes:
    """All ways, measured in turn in each round."""

    experiment: ClassVar[str] = "pipes"
    columns: ClassVar[Sequence[Column]] = (
        Column("shown", "bytes go through"),
        Column("where", "where"),
        Column("input", "from"),
        Column("mb_per_s", "MB/s", ".0f"),
        Column("mb_per_s_min", "min", ".0f"),
        Column("mb_per_s_max", "max", ".0f"),
        Column("text_mb_per_s", "the text", ".0f"),
        Column("copies", "copies", "d"),
        Column("processes", "processes", "d"),
        Column("cpu_s_per_gb", "CPU s/GB", ".2f"),
        Column("cpu_percent", "% of a CPU, each"),
        Column("note", "note"),
    )

    chains: Sequence[Chain]
    provenance: Mapping[str, Any]

    def __getitem__(self, key: str) -> Chain:
        for chain in self.chains:
            if chain.way.key == key:
                return chain
        raise KeyError(key)

    def rows(self) -> list[dict[str, Any]]:
        """One row a way; rates are medians over the runs."""
        return [chain.row() for chain in self.chains]


@experiment("pipes", on_loopback=lambda ways, **_: not all(_way(each).wire for each in ways))
def measure(
    ways: Sequence[str | Way] = tuple(BY_KEY),
    runs: int = 5,
    size_mb: int = 256,
    wire_size_mb: int = 100,
) -> Pipes:
    """Sends data in each way, one way after the other, and that several times.

    The rounds alternate, so that what disturbs the machine for a second disturbs all ways alike. A
    way whose programs are missing here, or that needs a wire where only plain loopback is
    possible, stays in the result with the reason.

    Args:
        ways: keys of WAYS, or ways of one's own (:func:`compose`), in this order.
        runs: rounds.
        size_mb: how much goes through each way within one machine, 1 to 20 000, in 10^6 bytes.
        wire_size_mb: the same over the wire of 1 Gbit/s.

    Raises:
        ValueError: a number is out of range, or no such way.
        LabError: no laboratory can be made here, or a program failed.
    """
    _check(ways, size_mb, wire_size_mb)
    chosen = [_way(each) for each in ways]
    done: list[dict[str, _Run]] = []
    with _Bench(chosen, size_mb, wire_size_mb) as bench:
        with Rounds(runs, "pipes") as rounds:
            for _number in rounds:
                done.append({way.key: bench.run(way) for way in bench.possible})
        return Pipes(
            [
                bench.chain(way, [each[way.key] for each in done if way.key in each])
                for way in chosen
            ],
            bench.provenance(runs=rounds.done, interrupted=rounds.interrupted),
        )


class _Run(NamedTuple):
    """What one run gave, and the share of its file that was in the page cache before."""

    result: ChainResult
    cached_share: float | None


class _Bench:
    """The places, the file and the programs that the ways need, as long as it is open."""

    def __init__(self, ways: Sequence[Way], size_mb: int, wire_size_mb: int) -> None:
        self._ways = ways
        self._size_mb = size_mb
        self._wire_size_mb = wire_size_mb
        self._tools = _Tools()
        self._file: Path | None = None
        self._wire: Lab | None = None

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._here = stack.enter_context(open_loopback())
            if any(way.wire for way in self._ways) and mode() == "live":
                self._wire = stack.enter_context(_wire())
            if any(way.source != "made" for way in self._ways):
                self._file = stack.enter_context(file_of(self._size_mb * 1_000_000))
            self._missing = {way.key: self._why_not(way) for way in self._ways}
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def possible(self) -> list[Way]:
        """The ways that can be measured here."""
        return [way for way in self._ways if not self._missing[way.key]]

    def run(self, way: Way) -> _Run:
        """Measures one way once."""
        network = self._wire if way.wire and self._wire else self._here
        share, source = None, None
        if way.source != "made" and self._file is not None:
            source, share = self._file, page_cache(network, self._file, way.source)
        size_mb = self._size_of(way)
        result = pipe_chain(
            network,
            [self._tools.words(words, size_mb) for words in way.sending],
            [self._tools.words(words, size_mb) for words in way.receiving],
            bytes_expected=size_mb * 1_000_000,
            source=source,
            port=_free_port(network),
            timeout_s=TIMEOUT_S,
        )
        return _Run(result, share)

    def chain(self, way: Way, runs: Sequence[_Run]) -> Chain:
        """The runs of a way, or why there are none."""
        shares = [each.cached_share for each in runs if each.cached_share is not None]
        results = [each.result for each in runs]
        return Chain(way, self._size_of(way), results, shares, self._missing[way.key])

    def provenance(self, **details: Any) -> dict[str, Any]:
        """Of a result that was measured here."""
        return provenance(
            self._here,
            congestion=self._here.congestion,
            wire=dict(self._wire.link.parameters) if self._wire else None,
            programs=self._tools.versions(),
            **details,
        )

    def _size_of(self, way: Way) -> int:
        return self._wire_size_mb if way.wire else self._size_mb

    def _why_not(self, way: Way) -> str:
        if lacking := self._tools.lacking(way):
            return lacking
        if way.wire and self._wire is None:
            return "needs a wire: not possible on plain loopback"
        if way.source == "cold" and not (self._file and can_be_cold(self._file)):
            return "no disk: the file lies on a tmpfs, always in memory; set TMPDIR"
        return ""


def _wire() -> Lab:
    lab = Lab(rate_mbit=RATE_MBIT, queue_packets=QUEUE_PACKETS)
    pin_default_congestion(lab.client, lab.server)
    return lab


def _free_port(network: Network) -> int:
    """The text's port in a laboratory, where nobody else has one; else one that is free."""
    if not isinstance(network, Loopback) or isinstance(network, LabLoopback):
        return TEXT_PORT
    with network.server.socket() as probe:
        probe.bind((network.server.address, 0))
        return int(probe.getsockname()[1])


def _check(ways: Sequence[str | Way], size_mb: int, wire_size_mb: int) -> None:
    for key in ways:
        if isinstance(key, str) and key not in BY_KEY:
            raise ValueError(f"way {key!r} is not one of {', '.join(BY_KEY)}")
    if not ways:
        raise ValueError(f"ways is empty; give some of {', '.join(BY_KEY)}")
    for name, value in (("size_mb", size_mb), ("wire_size_mb", wire_size_mb)):
        if value != int(value) or not 1 <= value <= MOST_MB:
            raise ValueError(f"{name}={value} must be a whole number from 1 to {MOST_MB}")


# ---- the programs of the system ------------------------------------------------------------------


class _Tools:
    """Which of dd, nc and pv are here, under which name."""

    def __init__(self) -> None:
        names = {"DD": "dd", "NC": _openbsd_nc(), "PV": "pv"}
        self._found = {key: name for key, name in names.items() if name and shutil.which(name)}

    def words(self, words: Words, size_mb: int) -> list[str]:
        """A command of a Way, ready for pipe_chain."""
        first = self._found.get(words[0]) or words[0]
        return [first, *(word.replace("{size}", str(size_mb)) for word in words[1:])]

    def lacking(self, way: Way) -> str:
        """What must be installed for a way, or nothing."""
        lacking = [name for name in way.commands if name in _PACKAGES and name not in self._found]
        return f"missing: {_PACKAGES[lacking[0]]}" if lacking else ""

    def versions(self) -> dict[str, str]:
        """What each that is here calls itself."""
        return {
            key.lower(): _first_line([name, _VERSION_FLAG[key]])
            for key, name in self._found.items()
        }


_PACKAGES: Final = {
    "DD": "dd (apt install coreutils)",
    "NC": "nc, OpenBSD's (apt install netcat-openbsd)",
    "PV": "pv (apt install pv)",
}
_VERSION_FLAG: Final = {"DD": "--version", "NC": "-h", "PV": "--version"}


def _openbsd_nc() -> str | None:
    """The netcat of the text: of the several programs of this name, the one of OpenBSD."""
    for name in ("nc.openbsd", "nc"):
        if shutil.which(name) and "OpenBSD" in _first_line([name, "-h"]):
            return name
    return None


def _first_line(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return "?"
    return (done.stdout.splitlines() or ["?"])[0]


# ---- the page cache ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CacheStep:
    """What was done to a file, and how much of it was in the page cache then.

    Attributes:
        action: in words.
        cached_share: 0 to 1, by mincore(2).
        mb_per_s: how fast it was read in this step; None when it was not.
    """

    action: str
    cached_share: float
    mb_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class CacheSteps:
    """A file's way into the page cache and out of it."""

    experiment: ClassVar[str] = "page-cache"
    columns: ClassVar[Sequence[Column]] = (
        Column("variant", "what was done"),
        Column("cached_percent", "in the page cache (%)", ".0f"),
        Column("mb_per_s", "read at (MB/s)", ".0f"),
    )

    steps: Sequence[CacheStep]
    provenance: Mapping[str, Any]

    def rows(self) -> list[dict[str, Any]]:
        """One row a step."""
        return [
            {
                "variant": step.action,
                "cached_percent": step.cached_share * 100,
                "mb_per_s": step.mb_per_s,
            }
            for step in self.steps
        ]


@experiment("page-cache", on_loopback=True)
def measure_cache(size_mb: int = 64) -> CacheSteps:
    """Writes a file, drops it from the page cache, reads a quarter, all, and all once more.

    Args:
        size_mb: size of the file, in 10^6 bytes, 1 to 20 000.

    Raises:
        ValueError: the size is out of range.
        LabError: no directory here lies on a disk, or no laboratory can be made.
    """
    _check(["cold"], size_mb, 1)
    with open_loopback() as network, file_of(size_mb * 1_000_000) as path:
        steps = [CacheStep("just written", page_cache(network, path))]
        steps.append(CacheStep("dropped (POSIX_FADV_DONTNEED)", page_cache(network, path, "cold")))
        for action, share in (("read: a quarter", 0.25), ("read: all", 1), ("read: all again", 1)):
            rate = _read(path, round(size_mb * 1e6 * share))
            steps.append(CacheStep(action, page_cache(network, path), rate))
        return CacheSteps(steps, provenance(network, size_mb=size_mb))


def _read(path: Path, size_bytes: int) -> float:
    """Reads the first bytes of a file; MB/s."""
    buffer = bytearray(1 << 17)
    start, left = time.perf_counter(), size_bytes
    with path.open("rb", buffering=0) as file:
        while left > 0 and (got := file.readinto(memoryview(buffer)[:left])):
            left -= got
    return (size_bytes - left) / 1e6 / (time.perf_counter() - start)
