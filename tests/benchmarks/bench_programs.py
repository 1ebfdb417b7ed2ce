"""The course's programs beside the tools that everybody measures with.

    python -m tests.benchmarks --only programs --output DIR

Everything runs in one laboratory, on its loopback interface and on a veth pair, with the same sizes
and buffers, pinned to the same processors, with cubic. The rounds alternate.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from tests.benchmarks import tools
from tests.benchmarks.quiet import (
    Entrant,
    Measured,
    Rules,
    against_best,
    contest,
    median_interval,
    summary,
)
from tests.benchmarks.tools import UDP_BUFFER_BYTES, Setting

from tcplab.lab import Host, Lab, Pair
from tcplab.programs import SendMethod, send_file, small_writes, tcp_bulk, udp_bulk

OURS: Final = "tcplab"
LOWAT: Final = "tcplab --lowat 1 MiB"
DISCARD: Final = "tcplab --lowat 1 MiB, discarding sink"
LOWAT_BYTES: Final = 1 << 20
SPIN: Final = "tcplab --spin 100"
SPIN_US: Final = 100
GSO: Final = "tcplab --gso --gro"
METHODS: Final[tuple[SendMethod, ...]] = ("read", "mmap", "sendfile", "splice", "zerocopy")
FILE_BYTES: Final = 256 << 20


@dataclass(frozen=True, slots=True)
class Goal:
    """What one entrant is to reach.

    Attributes:
        entrant: whose.
        factor: at least so many times the other.
        of: an entrant; None for the best of the peers.
    """

    entrant: str
    factor: float
    of: str | None = None


@dataclass(frozen=True, slots=True)
class Contest:
    """Entrants that do the same work.

    Attributes:
        key: short name.
        title: what they do.
        unit: of the values; more is better.
        entrants: ours first.
        goals: what ours are to reach.
    """

    key: str
    title: str
    unit: str
    entrants: Mapping[str, Entrant]
    goals: tuple[Goal, ...]


# ---- our programs on the same work ----


def _bulk(
    setting: Setting, write_bytes: int, *, discard: bool = False, lowat_bytes: int | None = None
) -> Measured:
    result = tcp_bulk(
        setting.pair,
        write_bytes=write_bytes,
        read_bytes=None if discard else write_bytes,
        duration_s=setting.seconds,
        sndbuf_bytes=None,
        rcvbuf_bytes=None,
        rcvlowat_bytes=lowat_bytes,
        discard=discard,
        source_cpu=setting.source_cpu,
        sink_cpu=setting.sink_cpu,
    )
    return Measured(8 * result.source.mb_per_s / 1e3, result.source.bytes)


def _exchange(setting: Setting, request_bytes: int, response_bytes: int) -> Measured:
    result = small_writes(
        setting.pair,
        "no_delay",
        messages=60_000 * setting.seconds,
        writes=1,
        size_bytes=request_bytes,
        reply_bytes=response_bytes,
        cpu=setting.source_cpu,
        deadline_s=0,  # a timer to arm for each read, which no peer has
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
        source_cpu=setting.source_cpu,
        sink_cpu=setting.sink_cpu,
    )
    lost_percent = 100 * result.sink.lost / result.sink.sent
    return Measured(
        8 * result.sink.mb_per_s / 1e3, result.sink.bytes, {"lost_percent": lost_percent}
    )


# ---- the contests ----


def contests(lab: Lab, seconds: int) -> Iterator[Contest]:
    """All of them, in a laboratory."""
    present = tools.available()
    cpus = sorted(os.sched_getaffinity(0))
    loopback = Pair(Host(lab, "client", "127.0.0.1", "lo"), Host(lab, "client", "127.0.0.1", "lo"))
    veth = lab.direct(offload=True)
    apart = {
        name: Setting(pair, cpus[0], cpus[-1], seconds)
        for name, pair in (("loopback", loopback), ("veth", veth))
    }
    for setting in apart.values():
        tools.pin_cubic(setting.pair)
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
    goals = [Goal(LOWAT, 1.0)]
    if size > 65536:
        ours[DISCARD] = partial(_bulk, setting, size, discard=True, lowat_bytes=LOWAT_BYTES)
        goals.append(Goal(DISCARD, 1.4))
    return Contest(
        f"tcp-{network}-{size}",
        f"TCP in bulk, {shown} writes, {network}",
        "Gbit/s",
        {**ours, **_peers(present, tools.BULK, setting, size)},
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
            **_peers(present, tools.EXCHANGE, setting, request, response),
        },
        (Goal(OURS, 1.0),),
    )


def _udp_contest(setting: Setting, present: Mapping[str, bool]) -> Contest:
    two = setting.source_cpu != setting.sink_cpu  # else the sink would wait in the source's way
    return Contest(
        "udp-loopback-1440",
        "UDP, 1440 B datagrams as fast as possible, loopback: what arrived",
        "Gbit/s",
        {
            OURS: partial(_udp, setting, 1440),
            SPIN: partial(_udp, setting, 1440, spin_us=SPIN_US if two else None),
            GSO: partial(_udp, setting, 1440, gso=True),
            **_peers(present, tools.UDP, setting, 1440),
        },
        (Goal(SPIN, 1.0), Goal(GSO, 8.0, OURS)),
    )


@contextlib.contextmanager
def _file_contest(lab: Lab) -> Iterator[Contest]:
    """Our own methods beside each other, and what a gigabyte costs the sender."""
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
                connections=1,
                source_cpu=cpus[0],
                sink_cpu=cpus[-1],
            )
            more = {
                "sender_cpu_s_per_gb": result.cpu_s_per_gb,
                "system_calls": result.system_calls,
                "copied_percent": 100 * result.zerocopy_copied / max(1, result.zerocopy_sends),
            }
            return Measured(8 * result.mb_per_s / 1e3, result.bytes, more)

        yield Contest(
            "file",
            f"filesend, a file of {FILE_BYTES >> 20} MiB in the page cache, loopback",
            "Gbit/s",
            {f"filesend -m {method}": partial(send, method) for method in METHODS},
            (Goal("filesend -m sendfile", 1.5, "filesend -m read"),),
        )


# ---- results ----


def measure(rules: Rules, only: str = "") -> list[dict[str, Any]]:
    """One dictionary a contest: key, title, unit, rows and goals.

    Args:
        rules: rounds, repeats, seconds.
        only: those whose key holds this.
    """
    results = []
    with Lab() as lab:
        for each in contests(lab, rules.seconds):
            if only in each.key:
                results.append(_result(each, rules))
        if only in "file":
            with _file_contest(lab) as each:
                results.append(_result(each, rules))
    return results


def _result(each: Contest, rules: Rules) -> dict[str, Any]:
    guests = [name for name in each.entrants if not _is_ours(name)]
    samples = contest(each.entrants, rules, each.key, guests)
    rows = {name: summary(taken) for name, taken in samples.items()}
    return {
        "key": each.key,
        "title": each.title,
        "unit": each.unit,
        "rows": [{"entrant": name, **row} for name, row in rows.items()],
        "goals": [_judge(goal, rows, _is_ours) for goal in each.goals],
    }


def _is_ours(name: str) -> bool:
    return name.startswith(("tcplab", "filesend"))


def _judge(
    goal: Goal, rows: Mapping[str, Mapping[str, Any]], is_ours: Callable[[str], bool]
) -> dict[str, Any]:
    """Whether a goal was reached; "reached" is None where there was nothing to compare with.

    Judged by the median of the rounds' ratios, to the peer that did best against ours. "interval"
    is where that median lies with 95 % confidence: a goal inside it is neither surely reached nor
    surely missed.
    """
    told = {"entrant": goal.entrant, "factor": goal.factor, "of": None, "was": None}
    names = [goal.of] if goal.of else [name for name in rows if not is_ours(name)]
    if not names:
        return {**told, "reached": None}
    peers = {name: rows[name]["values"] for name in names}
    of, ratios = against_best(rows[goal.entrant]["values"], peers)
    was = statistics.median(ratios)
    interval = median_interval(ratios)
    return {**told, "of": of, "was": was, "interval": interval, "reached": was >= goal.factor}
