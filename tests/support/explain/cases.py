"""Runs for `tcplab explain` with the right verdict, and a command that repeats all of them.

    python -m tests.support.explain.cases RUNS RUNS_WITH_THREADS [WORD]

It prints a row for each case whose name contains the word. The row gives the number of runs, how
many of them had the right verdict, how many had a late link, the largest share of unexplained time,
and each other verdict with its number of runs.
"""

import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.support.explain import programs as run

from tcplab.explain import Explanation, explain_command

NAGLE, CORK = "nagle-delayed-ack", "forgotten-cork"
URL = "http://server:8080/"
Command = Callable[[Path], Sequence[str]]
#: Words in the names of cases in which several threads use one connection.
THREADS = ("thread", "goroutine", "http2", "HTTP/2", "do not wait")
#: Largest share of the time that may be left unexplained.
MOST_UNKNOWN = 0.05


class Fault(NamedTuple):
    """A reported fault, the run that shows it, and the right answer."""

    report: str
    server: Command
    client: Command
    cause: str
    kind: str = "fault"
    side: str = ""  #: the side whose writes the evidence names, if any
    fix: str = ""  #: words of the fix
    rtt_ms: float = 0.0
    rate_mbit: float | None = None
    loss: float = 0.0
    least_ms: float = 0.0  #: the wait is longer than this

    def wrong(self, explanation: Explanation) -> str:
        """Return what is wrong with an explanation of this run, or ""."""
        verdict = explanation.verdict
        if verdict is None or (verdict.cause, verdict.kind) != (self.cause, self.kind):
            return "another verdict"
        if verdict.ms and verdict.share < 0.2:
            return "a small share"
        if self.fix not in verdict.fix or (self.kind != "none" and not verdict.fix):
            return "another fix"
        if self.side and not verdict.evidence.startswith(f"the {self.side} hands"):
            return "another side"
        if explanation.waited_ms < self.least_ms:
            return "a wait that is too short"
        if unknown(explanation) > MOST_UNKNOWN:
            return "an unexplained wait"
        return _without_calls(explanation)


class Healthy(NamedTuple):
    """A healthy run, given by its server, its client, and the link between them."""

    server: Command
    client: Command
    rtt_ms: float = 0.0
    rate_mbit: float | None = None
    loss: float = 0.0
    limit: bool = True  #: whether the verdict may be a limit
    without: str = ""  #: a cause that must not be named

    def wrong(self, explanation: Explanation) -> str:
        """Return what is wrong with an explanation of this run, or ""."""
        named = {finding.cause for finding in explanation.findings if finding.kind != "none"}
        verdict = explanation.verdict
        if verdict is None or verdict.kind not in ("none", "limit")[: 1 + self.limit]:
            return "another verdict"
        return f"it names {self.without}" if self.without in named else _without_calls(explanation)


def unknown(explanation: Explanation) -> float:
    """Return the share of the time whose cause is not in the record."""
    return sum(finding.share for finding in explanation.findings if finding.cause == "unknown")


def _without_calls(explanation: Explanation) -> str:
    return "calls are left out" if "calls do not fit" in "".join(explanation.missing) else ""


def once(case: Fault | Healthy, folder: Path) -> Explanation:
    """Explain one run of a case."""
    link: dict[str, Any] = {name: getattr(case, name) for name in ("rtt_ms", "rate_mbit", "loss")}
    return explain_command(case.client(folder), case.server(folder), timeout_s=20, **link)


def check(case: Fault | Healthy, folder: Path) -> None:
    """Check the explanation of a run on a link that was not late."""
    explanation = run.undisturbed_run(lambda: once(case, folder))
    if (why := case.wrong(explanation)) and run.late(explanation):
        pytest.skip("the link was late in each attempt, and the report warns about its times")
    assert not why, f"{why}\n{explanation.report()}"


def main(runs: int, with_threads: int, word: str = "") -> None:
    """Repeat the cases and print a table."""
    from tests.lab.explain import test_faults, test_waits
    from tests.slow.explain import test_real_programs

    cases: dict[str, Fault | Healthy] = {}
    for module in (test_faults, test_waits, test_real_programs):
        cases |= {**module.FAULTS, **module.HEALTHY}
    print("| case | runs | right | late link | most unknown | other verdicts |")
    print("|---|---|---|---|---|---|", flush=True)
    for name, case in cases.items():
        count = with_threads if any(thread in name for thread in THREADS) else runs
        if count and word in name:
            print(f"| {name} | {_repeated(case, count)} |", flush=True)


def _repeated(case: Fault | Healthy, count: int) -> str:
    others: Counter[str] = Counter()
    late, most = 0, 0.0
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(count):
            try:
                explanation = once(case, Path(folder))
            except pytest.skip.Exception as skipped:
                return f"0 | | | | {skipped}"
            late += run.late(explanation)
            most = max(most, unknown(explanation))
            if why := case.wrong(explanation):
                others[f"{why}: {explanation.sentence}"] += 1
                print(explanation.report(), end="\n\n", file=sys.stderr)
    shown = "; ".join(f"{times} × {text}" for text, times in others.most_common())
    return f"{count} | {count - others.total()} | {late} | {100 * most:.0f} % | {shown}"


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
