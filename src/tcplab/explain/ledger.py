"""Divide the time of a whole run, from the client's start to its end."""

import errno
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tcplab.explain.activity import Activities, What
from tcplab.explain.causes import CAUSES
from tcplab.explain.intervals import Interval, merged, shared_out, total_ms
from tcplab.explain.joining import Conversation, arrivals_at
from tcplab.explain.recording import LOOPBACK, CommandExchange
from tcplab.explain.shares import ORDER, Division, moved
from tcplab.programs.calls import Attempt

#: What the client did outside of TCP, as its line of the ledger.
TITLES: Final[Mapping[str, str]] = CAUSES["outside"]
#: An attempt that lasts longer than this did not fail for lack of a port or a route.
_AT_ONCE_NS: Final = 500_000_000
#: A program that gives up sooner tries several addresses at once (Happy Eyeballs, RFC 8305).
_PATIENCE_NS: Final = 300_000_000


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the ledger of a run. The lines add up to the run."""

    cause: str  #: A cause of waiting for TCP, "connecting", or a key of TITLES
    ms: float
    title: str
    is_tcp: bool = False


@dataclass(frozen=True, slots=True)
class Failure:
    """Attempts to connect to one address that failed for one reason."""

    address: str
    why: str  #: "refused", "no-port", "no-answer", "given-up" or "failed"
    detail: str  #: The reason in words, with the name of errno if it is known
    count: int
    ms: float  #: Time of the attempts, and of the pauses before the next one


@dataclass(frozen=True, slots=True)
class RunLedger:
    """The time of a run, divided among all that the client did."""

    run_ms: float
    entries: Sequence[Entry]  #: Longest first
    failures: Sequence[Failure]  #: Attempts to connect that failed
    by_calls: bool  #: True if the client's calls and CPU time are known

    def ms(self, cause: str) -> float:
        """Return the time of the run that a cause took."""
        return sum(entry.ms for entry in self.entries if entry.cause == cause)


def make_ledger(
    recorded: CommandExchange,
    conversations: Sequence[Conversation],
    divisions: Sequence[Division],
    titles: Mapping[str, str],
) -> RunLedger:
    """Return the ledger of a run, from the division of each connection's waiting time."""
    span = _span(recorded, conversations)
    by_calls = bool(recorded.client.used)
    entries, rest = _tcp(divisions, [span], titles)
    failures: list[Failure] = []
    if by_calls:
        activities = Activities(recorded.client, span[1], arrivals_at(conversations, "client"))
        failures, tried = _failures(recorded, activities)
        parts, rest = shared_out({"connecting": tried}, rest)
        entries.append(Entry("connecting", total_ms(parts["connecting"]), TITLES["connecting"]))
        entries += _others(activities.divided(rest))
    elif recorded.client.sockets:
        entries.append(Entry("rest", total_ms(rest), TITLES["rest"]))
    run_ms = sum(entry.ms for entry in entries)
    entries.sort(key=lambda entry: -entry.ms)
    return RunLedger(run_ms, [entry for entry in entries if entry.ms > 0], failures, by_calls)


def _span(recorded: CommandExchange, conversations: Sequence[Conversation]) -> Interval:
    start_ns, end_ns = recorded.span_ns
    if used := recorded.client.used:  # without the start of the recorder itself
        start_ns, end_ns = used[0].time_ns, recorded.client.exited_ns or end_ns
    if conversations and not recorded.client.sockets:
        start_ns = min([start_ns, *(int(one.rows["time_ns"].min()) for one in conversations)])
        end_ns = max([end_ns, *(int(one.rows["time_ns"].max()) for one in conversations)])
    return start_ns, end_ns


def _tcp(
    divisions: Sequence[Division], rest: list[Interval], titles: Mapping[str, str]
) -> tuple[list[Entry], list[Interval]]:
    """Return the entries of the waits for TCP, and the time that is left.

    A moment in which several connections wait counts for the first of their causes.
    """
    claims = {cause: [i for d in divisions for i in d.intervals.get(cause, ())] for cause in ORDER}
    parts, rest = shared_out(claims, rest)
    by_cause = {cause: total_ms(intervals) for cause, intervals in parts.items()}
    moves = [move for division in divisions for move in division.moved]
    entries = [
        Entry(cause, ms, titles.get(cause, cause), is_tcp=True)
        for cause, ms in moved(by_cause, moves).items()
        if ms > 0
    ]
    return entries, rest


def _others(divided: Mapping[What, float]) -> list[Entry]:
    total: dict[str, float] = defaultdict(float)
    places: dict[str, list[str]] = defaultdict(list)
    for (kind, where), ms in sorted(divided.items(), key=lambda item: -item[1]):
        kind = "sleep" if kind == "poll" else kind
        total[kind] += ms
        places[kind] += [where] * bool(where)
    return [Entry(kind, ms, _title(kind, places[kind])) for kind, ms in total.items()]


def _title(kind: str, places: Sequence[str]) -> str:
    if not places:
        return TITLES[kind]
    shown = ", ".join(places[:3]) + (", …" if len(places) > 3 else "")
    what = "name resolution" if all(place.endswith(" port 53") for place in places) else ""
    return f"{TITLES[kind]} ({what + ': ' if what else ''}{shown})"


# ---- attempts that failed ------------------------------------------------------------------------


def _failures(
    recorded: CommandExchange, activities: Activities
) -> tuple[list[Failure], list[Interval]]:
    tried: dict[tuple[str, str, str], list[Interval]] = defaultdict(list)
    for interval, number in activities.pauses():
        attempt = recorded.client.failed[number]
        key = (" port ".join(map(str, attempt.peer)), *_why(recorded, attempt))
        tried[key].append(interval)
    failures = [
        Failure(*key, len(several), total_ms(merged(several))) for key, several in tried.items()
    ]
    return failures, merged(interval for several in tried.values() for interval in several)


def _why(recorded: CommandExchange, attempt: Attempt) -> tuple[str, str]:
    """Return the kind of a failure, and the reason in words."""
    waited_ns = attempt.end_ns - attempt.start_ns
    if attempt.errno == errno.EINPROGRESS:
        kind = "no-answer" if waited_ns >= _PATIENCE_NS else "given-up"
        return kind, "no answer had come when the program gave up"
    if known := errno.errorcode.get(attempt.errno):
        return "failed", f"{os.strerror(attempt.errno)} ({known})"
    if recorded.near is None:
        return "failed", "failed"
    if attempt.peer[0].startswith(LOOPBACK):
        return "refused", "this host itself, on which nothing listens there (ECONNREFUSED)"
    syns, refused = _packets(recorded, attempt)
    if refused:
        return "refused", "refused by an RST (ECONNREFUSED)"
    if syns:
        return "no-answer", f"no answer to {syns} SYN{'s' * (syns > 1)} (ETIMEDOUT)"
    if waited_ns < _AT_ONCE_NS:
        return "no-port", "no SYN left: no local port was free (EADDRNOTAVAIL)"
    return "no-answer", "no SYN left: no host answered for this address (EHOSTUNREACH)"


def _packets(recorded: CommandExchange, attempt: Attempt) -> tuple[int, bool]:
    """Return the number of SYNs of an attempt, and whether an RST answered."""
    assert recorded.near is not None
    every = recorded.near.segments
    soon = every[(every["time_ns"] >= attempt.start_ns) & (every["time_ns"] <= attempt.end_ns)]
    numbers = [n for n, known in enumerate(every.connections) if known.server == attempt.peer]
    rows = soon[np.isin(soon["connection"], numbers)]
    return int((rows.is_syn & rows.from_client).sum()), bool(rows.is_rst.any())
