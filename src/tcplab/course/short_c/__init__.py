"""Show, run and check the short C program of a lesson, which the learner changes.

A lesson's program is `lessons/c/SLUG.c`, a client or a server with plain sockets. The functions
use the learner's copy next to the notebook, if `copy` made one and no other file is given.
"""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Final

from tcplab.course.short_c.cases import CASES, Case, Fact
from tcplab.course.short_c.ran import Ran
from tcplab.course.short_c.running import run, run_together
from tcplab.course.short_c.sources import copy, original, path_of, show
from tcplab.errors import LabError, ParameterError
from tcplab.experiments.diagnosis.run import CodeVerdict
from tcplab.experiments.mode import announce, why_not_live
from tcplab.experiments.provenance import disturbance, was_busy
from tcplab.lab import Lab
from tcplab.tables import grouped

__all__ = [
    "CASES",
    "Case",
    "Fact",
    "Ran",
    "check",
    "copy",
    "path_of",
    "run",
    "run_together",
    "show",
]
__dir__ = __all__.copy


#: A later end of a sleep could explain a wait that a rule sees, also if was_busy() cannot tell.
_STALL_MS: Final = 40.0
#: A run that the machine has disturbed is repeated, if the disturbance could explain the verdict.
_TRIES: Final = 3


def check(slug: str, source: str | os.PathLike[str] | None = None) -> CodeVerdict:
    """Check in a laboratory that a program shows the facts that its exercise demands.

    Without a laboratory the verdict is None, and a notebook shows recorded changes to choose from.
    It is also None if the machine was too busy each time. The counts of the verdict include the ids
    of the facts that hold, and the id of the first that does not.
    """
    path = path_of(slug) if source is None else Path(source)
    if not path.is_file():
        raise ParameterError(f"{path}: no such file; short_c.copy({slug!r}) makes one")
    if why := why_not_live():
        announce((Path(__file__).parents[1] / f"your_turn/{slug}.md").read_text())
        message = f"The check needs a lab ({why}). Choose one of three recorded changes instead."
        return CodeVerdict(slug, None, message, {})
    for _ in range(_TRIES):
        with disturbance(None) as found, _stalls_ms() as stalls:
            verdict, timed = _judged(slug, path)
        if verdict.passed or not (timed and (was_busy(found) or stalls[0] > _STALL_MS)):
            return verdict
    message = f"{verdict.message} But the machine was too busy to be sure. Try again."
    return replace(verdict, passed=None, message=message)


@contextmanager
def _stalls_ms() -> Iterator[list[float]]:
    """Yield a list with the longest time in ms by which a sleep here ended too late."""
    late_ms, ending, tick_s = [0.0], threading.Event(), 0.005

    def watch() -> None:
        last = time.monotonic()
        while not ending.wait(tick_s):
            now = time.monotonic()
            late_ms[0] = max(late_ms[0], 1e3 * (now - last - tick_s))
            last = now

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield late_ms
    finally:
        ending.set()
        thread.join()


def _judged(slug: str, path: Path) -> tuple[CodeVerdict, bool]:
    """Run a program as its case demands, up to the first fact that does not hold.

    Also return whether that fact depends on time.
    """
    case, counts = CASES[slug], dict[str, object]()
    try:
        for ran in runs_of_check(slug, case, path):
            counts = {"segments": len(ran.sizes), "bytes": sum(ran.sizes), "calls": ran.calls}
            for number, fact in enumerate(case.facts):
                if complaint := fact.rule(ran):
                    counts |= {"holds": [held.id for held in case.facts[:number]], "fails": fact.id}
                    message = f"{grouped(complaint)}. {fact.hint}".strip()
                    return CodeVerdict(slug, False, message, counts), fact.timed
    except (ParameterError, LabError) as error:
        counts = {"holds": [], "fails": "runs"}
        return CodeVerdict(slug, False, f"{error}.", counts), isinstance(error, LabError)
    counts |= {"holds": [fact.id for fact in case.facts], "fails": ""}
    message = " ".join(f"{grouped(fact.says)}." for fact in case.facts)
    return CodeVerdict(slug, True, message, counts), False


def runs_of_check(slug: str, case: Case, source: Path) -> Iterator[Ran]:
    """Run a program once per run of its case, each time in a new lab."""
    random = Random()
    peer = random.choice(case.peer.split("|")).split()
    for arguments, file_bytes in case.drawn(random):
        with Lab(**case.link) as lab:
            lab.link.update("client->server", **case.narrow)
            if case.script:
                lab.link.script("client->server", case.script)
            if case.rival:
                ran, other = run_together(lab, slug, " ".join(arguments), case.rival, source=source)
                ran = replace(ran, rival=other)
            else:
                compares = case.compares
                before = run(lab, slug, *arguments, source=original(slug)) if compares else None
                ran = run(
                    lab,
                    slug,
                    *arguments,
                    source=source,
                    file_mb=file_bytes / 1e6,
                    count_calls=case.records,
                    stdin=case.stdin,
                    server=peer,
                )
                ran = replace(ran, original=before)
            yield ran
