"""Runs for `tcplab explain`, which show a reported fault or a healthy program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.support.explain import programs as run

from tcplab.explain import Explanation

NAGLE, CORK = "nagle-delayed-ack", "forgotten-cork"
URL = "http://server:8080/"


class Fault(NamedTuple):
    """A reported fault, the run that shows it, and the right answer."""

    report: str
    server: Callable[[Path], Sequence[str]]
    client: Callable[[Path], Sequence[str]]
    cause: str
    kind: str = "fault"
    side: str = ""  #: the side whose writes the evidence names, if any
    rtt_ms: float = 0.0

    def check(self, folder: Path) -> None:
        """Run the case, and check that the verdict names the cause and a fix."""
        explanation = run.explain(self.client(folder), self.server(folder), rtt_ms=self.rtt_ms)
        shown = f"{self.report}\n{explanation.report()}"
        assert explanation.verdict is not None, shown
        assert (explanation.verdict.cause, explanation.verdict.kind) == (self.cause, self.kind), (
            shown
        )
        assert explanation.verdict.share >= 0.2 or not explanation.verdict.ms, shown
        assert explanation.verdict.fix, shown
        if self.side:
            assert explanation.verdict.evidence.startswith(f"the {self.side} hands"), shown


class Healthy(NamedTuple):
    """A healthy run, given by its server, its client, and the link between them."""

    server: Callable[[Path], Sequence[str]]
    client: Callable[[Path], Sequence[str]]
    rtt_ms: float = 0.0
    rate_mbit: float | None = None
    limit: bool = True  #: whether the verdict may be a limit

    def check(self, folder: Path) -> Explanation:
        """Run the case, check that the verdict is allowed, and return the explanation."""
        explanation = run.explain(
            self.client(folder),
            self.server(folder),
            rtt_ms=self.rtt_ms,
            rate_mbit=self.rate_mbit,
        )
        assert explanation.verdict is not None, explanation.report()
        assert explanation.verdict.kind in ("none", "limit")[: 1 + self.limit], explanation.report()
        assert all(map(run.tells_of_a_late_wire, explanation.recorded.notes)), explanation.report()
        return explanation
