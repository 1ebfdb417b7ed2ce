"""Divide time in which a command waits for no packet among what its threads did.

The recorder sees when a call begins. A call that can wait lasts until the thread's next call, or
for as long as it asks. Samples of the CPU time show how much of the rest was work.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from tcplab.explain.intervals import Interval, shared_out, total_ms
from tcplab.programs import CallLog
from tcplab.programs.calls import CallStart

#: Calls that can wait, by priority. A moment counts for the first of them.
KINDS: Final = ("udp", "unix", "own", "read", "sleep", "poll", "accept")
#: What a moment without such a call was, by priority.
REST: Final = ("work", "cpu", "stopped", "unexplained")
#: Threads outside the chosen ones count only with calls of these kinds.
_TELLING: Final = ("udp", "unix", "own")
#: A thread that sleeps within this time after an attempt to connect failed waits to try again.
_SOON_NS: Final = 50_000_000

#: A kind and, if it has one, an address.
What = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Doing:
    """A period in which a thread was in a call that can wait."""

    start_ns: int
    end_ns: int
    pid: int
    what: What


class Activities:
    """The periods in which the threads of a command were in calls that can wait.

    `captured` has the times at which data reached the TCP sockets that were captured, by cookie.
    """

    def __init__(self, log: CallLog, end_ns: int, captured: Mapping[int, Sequence[int]]) -> None:
        self.log = log
        self._end_ns = end_ns
        self._peers = {
            str(socket.cookie): " port ".join(map(str, socket.peer))
            for socket in log.sockets
            if socket.cookie not in captured
        }
        self._arrivals = {str(cookie): times for cookie, times in captured.items()}
        self.threads: dict[int, list[CallStart]] = defaultdict(list)
        for step in log.steps:
            self.threads[step.pid].append(step)
        self._of_thread = {pid: self._doings(pid, steps) for pid, steps in self.threads.items()}
        self.doings = [doing for several in self._of_thread.values() for doing in several]
        self._curves = [*self._use("process", "cpu_ns")]
        # Threads that only serve the language's runtime wait for a CPU without delaying the others.
        working = {step.pid for step in log.steps if step.kind != "other"}
        self._delays = [*self._use("pid", "delay_ns", working)]
        stopped = sorted((used.time_ns, used.stopped_ns) for used in log.used)
        self._stops = [_curve(stopped)] if stopped else []

    def _doings(self, pid: int, steps: Sequence[CallStart]) -> list[Doing]:
        last_where: dict[str, str] = {}
        doings = []
        for step, after in pairwise([*steps, None]):
            assert step is not None
            end_ns = self._end_ns if after is None else after.time_ns
            if step.kind in ("udp", "unix") and not step.where.startswith("?"):
                last_where[step.kind] = step.where
            if step.limit_ns >= 0:
                end_ns = min(end_ns, step.time_ns + step.limit_ns)
            if step.kind == "read" and (times := self._arrivals.get(step.where)):
                at = bisect.bisect_left(times, step.time_ns)
                end_ns = min([end_ns, *times[at : at + 1]])
            if (what := self._what(step, last_where)) is not None and end_ns > step.time_ns:
                doings.append(Doing(step.time_ns, end_ns, pid, what))
        return doings

    def _what(self, step: CallStart, last_where: Mapping[str, str]) -> What | None:
        if step.kind in ("udp", "unix"):
            known = not step.where.startswith("?")
            return step.kind, step.where if known else last_where.get(step.kind, "")
        if step.kind == "read" and step.where in self._peers:
            return "own", self._peers[step.where]
        return (step.kind, "") if step.kind in KINDS else None

    def _use(self, by: str, count: str, chosen: Collection[int] = ()) -> list[_Curve]:
        samples: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for used in self.log.used:
            if not chosen or used.pid in chosen:
                samples[getattr(used, by)].append((used.time_ns, getattr(used, count)))
        return [_curve(sorted(several)) for several in samples.values()]

    # ---- queries ----

    def pauses(self) -> list[tuple[Interval, int]]:
        """Return each failed attempt with the pause after it, and its index in `log.failed`."""
        result = []
        for number, attempt in enumerate(self.log.failed):
            steps = self.threads[attempt.pid]
            connects = (step.time_ns for step in steps if step.kind == "connect")
            again_ns = next((at for at in connects if at > attempt.start_ns), 1 << 63)
            later = self._from(attempt.pid, attempt.start_ns)
            slept_ns = next((d.start_ns for d in later if d.what[0] == "sleep"), 1 << 63)
            # The socket may be closed later.
            ended_ns = min(attempt.end_ns, again_ns, slept_ns)
            pause = self.pause_after(attempt.pid, ended_ns)
            until_ns = pause[1] if pause and pause[0] < again_ns else ended_ns
            result.append(((attempt.start_ns, until_ns), number))
        return result

    def pause_after(self, pid: int, time_ns: int) -> Interval | None:
        """Return when a thread slept or polled just after a time, if it did."""
        first = next(self._from(pid, time_ns), None)
        if first is None or first.start_ns - time_ns > _SOON_NS:
            return None
        pauses = first.what[0] in ("sleep", "poll")
        return (first.start_ns, first.end_ns) if pauses else None

    def _from(self, pid: int, time_ns: int) -> Iterator[Doing]:
        doings = self._of_thread.get(pid, [])
        at = bisect.bisect_left(doings, time_ns, key=lambda doing: doing.start_ns)
        return (doings[i] for i in range(at, len(doings)))

    def divided(
        self, intervals: Sequence[Interval], chosen: Collection[int] = ()
    ) -> dict[What, float]:
        """Return the ms of these merged intervals for everything that the command did in them.

        Threads that are not among the chosen ones count only with calls that name a peer.
        """
        by_what: dict[What, list[Interval]] = defaultdict(list)
        for doing in self.doings:
            if not chosen or doing.pid in chosen or doing.what[0] in _TELLING:
                by_what[doing.what].append((doing.start_ns, doing.end_ns))
        in_order = sorted(by_what, key=lambda what: KINDS.index(what[0]))
        parts, rest = shared_out({what: by_what[what] for what in in_order}, intervals)
        total = defaultdict[What, float](float)
        for what, fresh in parts.items():
            whole_ms = total_ms(fresh)
            work_ms = min(self._grown(self._curves, fresh), whole_ms)
            total["work", ""] += work_ms
            total[what] += whole_ms - work_ms
        left_ms = total_ms(rest)
        for kind, curves in zip(REST, (self._curves, self._delays, self._stops), strict=False):
            taken_ms = min(self._grown(curves, rest), left_ms)
            total[kind, ""] += taken_ms
            left_ms -= taken_ms
        total["unexplained", ""] += left_ms
        return {what: ms for what, ms in total.items() if ms > 0}

    @staticmethod
    def _grown(curves: Sequence[_Curve], intervals: Sequence[Interval]) -> float:
        """Return by how many ms the counts grew in the intervals."""
        if not intervals:
            return 0.0
        starts, ends = np.array(intervals).T
        return sum(float((curve(ends) - curve(starts)).sum()) for curve in curves) / 1e6


_Curve = Callable[[npt.NDArray[np.int64]], npt.NDArray[np.float64]]


def _curve(samples: Sequence[tuple[int, int]]) -> _Curve:
    """Return a function of time that joins the samples of a count that began at 0."""
    first_ns, first = samples[0]
    times = [first_ns - max(first, 1), *(time_ns for time_ns, _count in samples)]
    counts = [0, *np.maximum.accumulate([count for _time_ns, count in samples]).tolist()]
    return lambda at: np.interp(at, times, counts)
