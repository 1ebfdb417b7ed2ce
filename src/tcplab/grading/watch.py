"""Grade submissions in the exchange as they arrive (`tcplab grade --watch`).

Only the newest submission of each student is graded. Of the waiting students, the one with the
fewest graded submissions is next, so that frequent submissions do not delay other students. The
feedback page is returned through the exchange at once, with a limit against guessing (EarlyPage).
"""

from __future__ import annotations

import signal
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from nbgrader.exchange.default import ExchangeReleaseFeedback
from sqlalchemy.exc import OperationalError

from tcplab.errors import ParameterError
from tcplab.grading.batch import Batch, Work, prepare
from tcplab.grading.exchange import Arrival, Collect, Inbound
from tcplab.grading.ledger import NO_MARKS, GradeLedger, GradingTask
from tcplab.grading.neutral import one_line
from tcplab.grading.processes import Finished, note_interrupt

#: The default number of submissions for which a question's result is shown.
TRIES: Final = 5
#: The time between two scans of the exchange.
_LOOK_S: Final = 1.0
#: Minimum time between two reports. Except at the end, they are written only when no work is left.
_REPORT_S: Final = 60.0


@dataclass(slots=True)
class WatchOutcome:
    """The outcome of grading submissions as they arrived."""

    batch: Batch = field(default_factory=Batch)
    #: time from a submission's arrival to the return of its page, for each page
    waited_s: list[float] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)  #: reasons for rejections, by folder

    def p95_s(self) -> float:
        """Return the time within which 95 % of the pages were returned. There must be a page."""
        if len(self.waited_s) == 1:
            return self.waited_s[0]
        return statistics.quantiles(self.waited_s, n=20, method="inclusive")[-1]


def watch(
    assignment: str, tell: Callable[[str], None], *, tries: int = TRIES, **where: Any
) -> WatchOutcome:
    """Grade submissions as they arrive, until Ctrl-C or SIGTERM.

    A second signal abandons running work. `tell` is called with each line of the output.
    A question's result is shown for `tries` submissions without full points. For `where` see
    :func:`tcplab.grading.batch.prepare`.
    """
    if not 1 <= tries <= 1000:
        raise ParameterError(f"tries={tries} must be from 1 to 1000")
    work = prepare(assignment, **where)
    watcher = _Watcher(work, tries, tell)
    work.release()
    tell("Waiting for submissions; Ctrl-C ends it.")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, watcher.end)
    with work.executor() as executor:
        try:
            with closing(executor(watcher.tasks())) as results:
                for finished in results:
                    watcher.take(finished)
        except KeyboardInterrupt:
            pass
    watcher.write_report()
    return watcher.watched


class _Watcher:
    def __init__(self, work: Work, tries: int, tell: Callable[[str], None]) -> None:
        self.watched = WatchOutcome()
        self._work = work
        self._tries = tries
        self._tell = tell
        collecting = Collect(coursedir=work.folders, config=work.config)
        folder = Path(collecting.root, work.folders.course_id)
        self._inbound = Inbound(folder, work.assignment, collecting.check_owner)
        ExchangeReleaseFeedback(coursedir=work.folders, config=work.config).init_dest()
        self._ledger = GradeLedger(work.reports, work.folders, work.assignment)
        self._busy: set[str] = set()
        self._last: dict[str, str] = {}  # sort key of the submission taken last, by student
        self._graded: Counter[str] = Counter()
        self._waiting: list[Arrival] = []
        self._looked_s = self._reported_s = float("-inf")
        self._is_report_due = self._is_over = False

    def tasks(self) -> Iterator[GradingTask | None]:
        """Yield the next task, or None while no submission waits, until the watch ends."""
        while not self._is_over:
            if time.monotonic() > self._looked_s + _LOOK_S:
                self._look()
            ready = [waiting for waiting in self._waiting if waiting.student not in self._busy]
            if not ready:
                self._write_report_when_idle()
                yield None
                continue
            arrival = min(
                ready, key=lambda waiting: (self._graded[waiting.student], waiting.complete_s)
            )
            self._waiting.remove(arrival)
            self._busy.add(arrival.student)
            self._last[arrival.student] = arrival.order
            yield self._work.task(arrival.student, NO_MARKS, arrival=arrival, tries=self._tries)

    def end(self, number: int, _frame: object) -> None:
        self._is_over = True
        signal.signal(number, note_interrupt)

    def _look(self) -> None:
        newest, refused = self._inbound.newest()
        for folder in sorted(set(refused) - set(self.watched.refused)):
            self._tell(f"{one_line(folder)}: not taken: {one_line(refused[folder])}")
        self.watched.refused |= refused
        for student in newest.keys() - self._last.keys():
            self._last[student] = self._ledger.last_arrival(student)
        self._waiting = [
            arrival for arrival in newest.values() if arrival.order > self._last[arrival.student]
        ]
        self._looked_s = time.monotonic()

    def take(self, finished: Finished[GradingTask]) -> None:
        student = finished.task.student
        self.watched.batch.take(finished)
        self._busy.discard(student)
        self._graded[student] += 1
        self._is_report_due = True
        result = finished.result or {"error": finished.error}
        if failure := result["error"]:
            outcome = f"no grade: {one_line(failure)}"
        elif failure := result["no_feedback"]:
            outcome = f"graded; no feedback page: {one_line(failure)}"
        else:
            self.watched.waited_s.append(result["waited_s"])
            outcome = f"graded, page released {result['waited_s']:.1f} s after it was handed in"
            # This result replaces a failure of the student's earlier submission.
            self.watched.batch.failed.pop(student, None)
            self.watched.batch.no_feedback.pop(student, None)
            if not result["not_judged"]:
                self.watched.batch.not_judged.pop(student, None)
        self._tell(f"{datetime.now():%H:%M:%S} {one_line(student)}: {outcome}")

    def _write_report_when_idle(self) -> None:
        is_idle = not self._busy and not self._waiting
        if is_idle and self._is_report_due and time.monotonic() > self._reported_s + _REPORT_S:
            self._reported_s = time.monotonic()
            with suppress(OperationalError):  # the gradebook is locked, so try again later
                self.write_report()

    def write_report(self) -> None:
        self._work.write_report(self.watched.batch)
        self._is_report_due = False
