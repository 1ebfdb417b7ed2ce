"""Compare the course's programs with common measuring tools.

Everything runs in one laboratory, on the loopback interface and on a veth pair. All runs of a
contest use the same sizes, buffers and processors, and the congestion control cubic. The entrants
alternate.
"""

import contextlib
import itertools
import os
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from bench import peers
from bench.goals import Goal, against_best, times_best
from bench.peers import UDP_BUFFER_BYTES, Setting
from bench.report import Part
from bench.rounds import Entrant, Measured, Rules, contest, summary

from tcplab.lab import Host, Lab, Pair
from tcplab.programs import (
    RunOptions,
    SinkOptions,
    send_file,
    small_writes,
    tcp_bulk,
    udp_bulk,
)
from tcplab.programs.file import SendMethod
from tcplab.tables import Column, Table

OURS: Final = "tcplab"
LOWAT: Final = "tcplab --lowat 1 MiB"
DISCARD: Final = "tcplab --lowat 1 MiB, discarding sink"
LOWAT_BYTES: Final = 1 << 20
SPIN: Final = "tcplab --spin 100"
SPIN_US: Final = 100
GSO: Final = "tcplab --gso --gro"
METHODS: Final[tuple[SendMethod, ...]] = ("read", "mmap", "sendfile", "splice", "zerocopy")
FILE_BYTES: Final = 256 << 20
COLUMNS: Final = (
    Column("range", "lowest–highest"),
    Column("of_best", "of the best peer", ".2f"),
    Column("lost_percent", "lost (%)", ".2f"),
    Column("cpu_s_per_gb", "CPU s/GB, both ends", ".2f"),
    Column("sender_cpu_s_per_gb", "CPU s/GB, sender", ".3f"),
    Column("receiver_cpu_s_per_gb", "CPU s/GB, receiver", ".3f"),
    Column("system_calls", "system calls", ",.0f"),
    Column("copied_percent", "sends copied after all (%)", ".0f"),
    Column("repeated", "rounds repeated", "d"),
)


@dataclass(frozen=True, slots=True)
class Contest:
    """A task, and the programs that compete in it.

    Attributes:
        key: short name.
        title: description of the work.
        unit: unit of the values; more is better.
        entrants: the programs by name, ours first.
        goals: for each goal, our entrant, the minimum ratio, and the peer (None for the best).
    """

    key: str
    title: str
    unit: str
    entrants: Mapping[str, Entrant]
    goals: tuple[tuple[str, float, str | None], ...]


# ---- our programs on the same work ----


def _bulk(
    setting: Setting, write_bytes: int, *, discard: bool = False, lowat_bytes: int | None = None
) -> Measured:
    result = tcp_bulk(
        setting.pair,
        write_bytes=write_bytes,
        duration_s=setting.seconds,
        sndbuf_bytes=None,
        rcvbuf_bytes=None,
        sink=SinkOptions(None if discard else write_bytes, lowat_bytes, discard),
        run=RunOptions(cpu=(setting.source_cpu, setting.sink_cpu)),
    )
    sent = result.source.bytes
    ends = {"sender": result.source.usage, "receiver": result.sink.usage}
    more = {
        f"{end}_cpu_s_per_gb": 1e9 * (used.user_s + used.system_s) / sent
        for end, used in ends.items()
    }
    return Measured(8 * result.source.mb_per_s / 1e3, sent, more)


def _exchange(setting: Setting, request_bytes: int, response_bytes: int) -> Measured:
    result = small_writes(
        setting.pair,
        "no_delay",
        messages=60_000 * setting.seconds,
        writes=1,
        write_bytes=request_bytes,
        reply_bytes=response_bytes,
        # A deadline would arm a timer for each read, which no peer does.
        run=RunOptions(cpu=setting.source_cpu, deadline_s=0),
    )
    return Measured(result.messages / result.usage.wall_s)


def _udp(
    setting: Setting, datagram_bytes: int, *, gso: bool = False, spin_us: int | None = None
) -> Measured:
    result = udp_bulk(
        setting.pair,
        datagram_bytes=datagram_bytes,
        count=(3_000_000 if gso else 500_000) * setting.seconds,
        sndbuf_bytes=UDP_BUFFER_BYTES,
        rcvbuf_bytes=UDP_BUFFER_BYTES,
        gso=gso,
        gro=gso,
        spin_us=spin_us,
        run=RunOptions(cpu=(setting.source_cpu, setting.sink_cpu)),
    )
    lost_percent = 100 * result.sink.lost / result.sink.sent
    return Measured(
        8 * result.sink.mb_per_s / 1e3, result.sink.bytes, {"lost_percent": lost_percent}
    )


# ---- the contests ----


def contests(lab: Lab, seconds: int) -> Iterator[Contest]:
    """Yield the contests with peers, which run in the given laboratory."""
    present = peers.available()
    cpus = sorted(os.sched_getaffinity(0))
    loopback = Pair(Host(lab, "client", "127.0.0.1", "lo"), Host(lab, "client", "127.0.0.1", "lo"))
    veth = lab.direct(offload=True)
    apart = {
        name: Setting(pair, cpus[0], cpus[-1], seconds)
        for name, pair in (("loopback", loopback), ("veth", veth))
    }
    for setting in apart.values():
        peers.pin_cubic(setting.pair)
    for network, setting in apart.items():
        for size, shown in ((131072, "128 KiB"), (1440, "1440 B")):
            yield _bulk_contest(network, setting, size, shown, present)
    together = apart["loopback"]._replace(sink_cpu=cpus[0])
    for sizes in ((1, 1), (30, 2)):
        yield _exchange_contest(together, *sizes, present)
    yield _udp_contest(apart["loopback"], present)


def _peers(
    present: Mapping[str, bool], functions: Mapping[str, Callable[..., Measured]], *what: Any
) -> dict[str, Entrant]:
    return {name: partial(run, *what) for name, run in functions.items() if present[name]}


def _bulk_contest(
    network: str, setting: Setting, size: int, shown: str, present: Mapping[str, bool]
) -> Contest:
    ours: dict[str, Entrant] = {OURS: partial(_bulk, setting, size)}
    ours[LOWAT] = partial(_bulk, setting, size, lowat_bytes=LOWAT_BYTES)
    goals: list[tuple[str, float, str | None]] = [(LOWAT, 1.0, None)]
    if size > 65536:
        ours[DISCARD] = partial(_bulk, setting, size, discard=True, lowat_bytes=LOWAT_BYTES)
        goals.append((DISCARD, 1.4, None))
    return Contest(
        f"tcp-{network}-{size}",
        f"TCP in bulk, {shown} writes, {network}",
        "Gbit/s",
        {**ours, **_peers(present, peers.BULK, setting, size)},
        tuple(goals),
    )


def _exchange_contest(
    setting: Setting, request: int, response: int, present: Mapping[str, bool]
) -> Contest:
    title = f"request of {request} B, response of {response} B, both ends on one processor"
    return Contest(
        f"exchange-{request}-{response}",
        title,
        "exchanges/s",
        {
            OURS: partial(_exchange, setting, request, response),
            **_peers(present, peers.EXCHANGE, setting, request, response),
        },
        ((OURS, 1.0, None),),
    )


def _udp_contest(setting: Setting, present: Mapping[str, bool]) -> Contest:
    two = setting.source_cpu != setting.sink_cpu  # on one CPU, a spinning sink blocks the source
    return Contest(
        "udp-loopback-1440",
        "UDP, 1440 B datagrams as fast as possible, loopback: what arrived",
        "Gbit/s",
        {
            OURS: partial(_udp, setting, 1440),
            SPIN: partial(_udp, setting, 1440, spin_us=SPIN_US if two else None),
            GSO: partial(_udp, setting, 1440, gso=True),
            **_peers(present, peers.UDP, setting, 1440),
        },
        ((SPIN, 1.0, None), (GSO, 8.0, OURS)),
    )


@contextlib.contextmanager
def _file_contest(lab: Lab) -> Iterator[Contest]:
    """Yield the contest between our ways to send a file, in Gbit/s, with the sender's CPU time."""
    cpus = sorted(os.sched_getaffinity(0))
    pair = Pair(Host(lab, "client", "127.0.0.1", "lo"), Host(lab, "client", "127.0.0.1", "lo"))
    with tempfile.NamedTemporaryFile(prefix="tcplab-") as file:
        for _ in range(FILE_BYTES >> 20):
            file.write(os.urandom(1 << 20))
        file.flush()

        def send(method: SendMethod) -> Measured:
            result = send_file(
                pair,
                Path(file.name),
                method=method,
                cache="warm",
                discard=True,
                run=RunOptions(cpu=(cpus[0], cpus[-1])),
            )
            more = {
                "sender_cpu_s_per_gb": result.cpu_s_per_gb,
                "system_calls": result.system_calls,
                "copied_percent": 100 * result.zerocopy_copied / max(1, result.zerocopy_sends),
            }
            return Measured(8 * result.mb_per_s / 1e3, result.bytes, more)

        yield Contest(
            "file",
            f"sendfile_client, a file of {FILE_BYTES >> 20} MiB in the page cache, loopback",
            "Gbit/s",
            {f"sendfile_client -m {method}": partial(send, method) for method in METHODS},
            (("sendfile_client -m sendfile", 1.5, "sendfile_client -m read"),),
        )


# ---- results ----


def measure(rules: Rules, only: str = "") -> Part:
    """Run all contests, and return their results and goals.

    Args:
        rules: the conditions of each contest.
        only: run only contests whose key contains this text.
    """
    tables, goals = [], []
    with Lab() as lab, _file_contest(lab) as last:
        for task in itertools.chain(contests(lab, rules.seconds), [last]):
            if only in task.key:
                rows, judged = _result(task, rules)
                tables.append(_table(task, rows))
                goals += judged
    text = (
        "![Bars of each contest's medians and ranges, ours in blue](images/benchmarks.svg)\n\n"
        "A sink that discards makes a transfer faster only where the receiver is the limit."
        " The processor time of both ends says which of them was."
    )
    return Part("The programs", text, tables, goals)


def _result(task: Contest, rules: Rules) -> tuple[list[dict[str, Any]], list[Goal]]:
    guests = [name for name in task.entrants if not _is_ours(name)]
    samples = contest(task.entrants, rules, task.key, guests)
    rows = [
        {"entrant": name, **summary(taken), "unit": task.unit, "ours": _is_ours(name)}
        for name, taken in samples.items()
    ]
    return rows, [judge(task.title, rows, *goal) for goal in task.goals]


def judge(
    what: str, rows: Sequence[Mapping[str, Any]], entrant: str, factor: float, of: str | None
) -> Goal:
    """Return the goal of an entrant's ratio to the entrant `of`, or to the best peer if None."""
    values = {row["entrant"]: row["values"] for row in rows}
    others = [of] if of else [row["entrant"] for row in rows if not row["ours"]]
    return times_best(
        what, entrant, factor, values[entrant], {name: values[name] for name in others}
    )


def _is_ours(name: str) -> bool:
    return name.startswith(("tcplab", "sendfile_client"))


def _table(task: Contest, rows: Sequence[dict[str, Any]]) -> Table:
    peer_values = {row["entrant"]: row["values"] for row in rows if not row["ours"]}
    for row in rows:
        row["shown"] = _four_figures(row["median"])
        row["range"] = f"{_four_figures(row['lowest'])}–{_four_figures(row['highest'])}"
        if peer_values:
            row["of_best"] = statistics.median(against_best(row["values"], peer_values)[1])
    columns = [
        Column("entrant", ""),
        Column("shown", f"{task.unit}, median", "s"),
        *(column for column in COLUMNS if any(column.key in row for row in rows)),
    ]
    return Table(columns, rows, task.title)


def _four_figures(value: float) -> str:
    """Format a number with four significant figures, or as an integer if it is at least 1000."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"
