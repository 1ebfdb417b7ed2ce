"""Grade submissions in the exchange as they arrive (`tcplab grade --watch`).

Each student's newest submission is graded, first that of the student with the fewest graded ones.
The page is returned through the exchange at once, with a limit against guessing (EarlyPage).
"""

import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from nbgrader.exchange.default import ExchangeReleaseFeedback

from tcplab.grading.batch import Batch, Work, prepare
from tcplab.grading.exchange import Arrival, Collect, Inbound
from tcplab.grading.ledger import NO_MARKS, GradeLedger, GradingTask
from tcplab.grading.neutral import one_line
from tcplab.grading.processes import Finished, note_interrupt

#: The time between two scans of the exchange.
_LOOK_S: Final = 1.0


def watch(assignment: str, tell: Callable[[str], None], **where: Any) -> Batch:
    """Grade submissions as they arrive, until Ctrl-C or SIGTERM.

    A second signal abandons running work. `tell` is called with each line of the output.
    """
    work = prepare(assignment, **where)
    watcher = _Watcher(work, tell)
    work.release()
    tell("Waiting for submissions; Ctrl-C ends it.")
    began_s = time.monotonic()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, watcher.end)
    with work.executor() as executor:
        try:
            with closing(executor(watcher.tasks())) as results:
                for finished in results:
                    watcher.take(finished)
        except KeyboardInterrupt:
            pass
    watcher.batch.seconds = time.monotonic() - began_s
    work.write_report(watcher.batch)
    return watcher.batch


class _Watcher:
    def __init__(self, work: Work, tell: Callable[[str], None]) -> None:
        self.batch = Batch()
        self._work = work
        self._refused: set[str] = set()  # names of folders
        self._tell = tell
        collecting = Collect(coursedir=work.folders, config=work.config)
        folder = Path(collecting.root, work.folders.course_id)
        self._inbound = Inbound(folder, work.assignment, collecting.check_owner)
        ExchangeReleaseFeedback(coursedir=work.folders, config=work.config).init_dest()
        self._ledger = GradeLedger(work.folders, work.assignment)
        self._busy: set[str] = set()
        self._last: dict[str, str] = {}  # sort key of the submission taken last, by student
        self._graded: Counter[str] = Counter()
        self._waiting: list[Arrival] = []
        self._looked_s = float("-inf")
        self._is_over = False

    def tasks(self) -> Iterator[GradingTask | None]:
        """Yield the next task, or None while no submission waits, until the watch ends."""
        while not self._is_over:
            if time.monotonic() > self._looked_s + _LOOK_S:
                self._look()
            ready = [waiting for waiting in self._waiting if waiting.student not in self._busy]
            if not ready:
                yield None
                continue
            arrival = min(
                ready, key=lambda waiting: (self._graded[waiting.student], waiting.complete_s)
            )
            self._waiting.remove(arrival)
            self._busy.add(arrival.student)
            self._last[arrival.student] = arrival.order
            yield self._work.task(arrival.student, marks_key=NO_MARKS, arrival=arrival)

    def end(self, number: int, _frame: object) -> None:
        self._is_over = True
        signal.signal(number, note_interrupt)

    def _look(self) -> None:
        newest, refused = self._inbound.newest()
        for folder in sorted(refused.keys() - self._refused):
            self._tell(f"{one_line(folder)}: not taken: {one_line(refused[folder])}")
        self._refused |= refused.keys()
        for student in newest.keys() - self._last.keys():
            self._last[student] = self._ledger.last_arrival(student)
        self._waiting = [
            arrival for arrival in newest.values() if arrival.order > self._last[arrival.student]
        ]
        self._looked_s = time.monotonic()

    def take(self, finished: Finished[GradingTask]) -> None:
        student = finished.task.student
        self.batch.take(finished)
        self._busy.discard(student)
        self._graded[student] += 1
        result = finished.result or {"error": finished.error}
        if failure := result["error"]:
            outcome = f"no grade: {one_line(failure)}"
        elif failure := result["no_feedback"]:
            outcome = f"graded; no feedback page: {one_line(failure)}"
        else:
            outcome = f"graded, page released {result['waited_s']:.1f} s after it was handed in"
        self._tell(f"{datetime.now():%H:%M:%S} {one_line(student)}: {outcome}")
