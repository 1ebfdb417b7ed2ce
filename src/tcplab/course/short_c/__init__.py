"""Show, run and check the short C program of a lesson, which the learner changes.

A lesson's program is `lessons/c/SLUG.c`, a client or a server with plain sockets. `copy` puts a
copy next to the notebook, where the learner changes it. Unless they are given another file, the
functions use this copy if there is one.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from tcplab.course.short_c.judges import CASES, Case
from tcplab.course.short_c.ran import Ran
from tcplab.course.short_c.running import run, run_together
from tcplab.course.short_c.sources import copy, path_of, show
from tcplab.errors import LabError, ParameterError
from tcplab.experiments.diagnosis.repair import Verdict
from tcplab.experiments.mode import mode
from tcplab.lab import Lab, why_no_lab
from tcplab.tables import grouped

__all__ = [
    "CASES",
    "Case",
    "Ran",
    "check",
    "copy",
    "path_of",
    "run",
    "run_together",
    "show",
]


def check(slug: str, source: str | os.PathLike[str] | None = None) -> Verdict:
    """Check in a laboratory that a program reaches its goal; the verdict is None without one."""
    path = path_of(slug) if source is None else Path(source)
    if not path.is_file():
        raise ParameterError(f"{path}: no such file; short_c.copy({slug!r}) makes one")
    if (now := mode()) != "live":
        why = why_no_lab() or f"TCPLAB_MODE={now}"
        return Verdict(slug, None, f"The check needs a lab, to count segments in: {why}.", {})
    case = CASES[slug]
    try:
        ran = _run_case(slug, case, path)
    except (ParameterError, LabError) as error:
        return Verdict(slug, False, f"{error}.", {})
    complaint = case.complaint(ran)
    counts = {"segments": len(ran.sizes), "bytes": sum(ran.sizes), "calls": ran.calls}
    return Verdict(slug, not complaint, f"{grouped(complaint or case.success)}.", counts)


def _run_case(slug: str, case: Case, source: Path) -> Ran:
    with Lab(**case.link) as lab:
        case.prepare(lab)
        if case.beside:
            arguments = " ".join(case.arguments)
            ran, other = run_together(lab, slug, arguments, case.beside, source=source)
            return replace(ran, beside=other)
        return run(
            lab,
            slug,
            *case.arguments,
            source=source,
            file_mb=case.file_mb,
            count_calls=case.counts_calls,
            stdin=case.stdin,
        )
