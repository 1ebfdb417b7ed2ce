"""Diagnosis: one of the three slow programs, its symptom on the wire, and the cause if asked."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, cast

from tcplab.widgets.controls import Choice, Number
from tcplab.widgets.instrument import Instrument, Job, Shown, Values

if TYPE_CHECKING:
    from tcplab.experiments.diagnosis import Program

__all__ = ["INSTRUMENT"]

COMPLAINTS: Final = {
    "request": "request: “it takes too long”",
    "backup": "backup: “the line is idle”",
    "ticker": "ticker: “it floods the switch”",
}
SOURCES: Final = {"shipped": "as shipped", "mine": "my copy, faulty_….c in this folder"}
SHOWN: Final = {"symptom": "the symptom, on the wire", "cause": "reveal the cause"}

MOST_RTT_MS: Final = 60
#: In a run that is not to take longer than that, the programs as shipped included.
REQUESTS_MS: Final = 2000
BACKUP_MS: Final = 3000


def _source(values: Values) -> str | None:
    return f"faulty_{values['program']}.c" if values["source"] == "mine" else None


def _count(values: Values) -> int | None:
    """Fewer requests or blocks the farther the other host is; None for as many as in the lesson."""
    rtt_ms = values["rtt_ms"]
    if values["program"] == "request":
        # As shipped, each is two round trips and a delayed ACK.
        return min(40, int(REQUESTS_MS / (44 + 2 * rtt_ms)))
    if values["program"] == "backup":
        # As shipped, a window of little more than a block each round trip.
        return min(128, int(1.25 * BACKUP_MS / max(rtt_ms, 1)))
    return None


def _run(job: Job) -> Shown:
    from tcplab.experiments import diagnosis as experiment
    from tcplab.figures import cause, symptom

    values = job.values
    job.stage("measuring")
    with job.lab() as lab:
        case = experiment.measure(
            cast("Program", values["program"]),
            _source(values),
            lab,
            rtt_ms=values["rtt_ms"],
            count=_count(values),
        )
    job.stage("drawing")
    what, taken, needed = case.excess
    words = f"{what} {taken:.3g} instead of {needed:.3g}"
    label = f"{case.program} ({case.source}), {values['rtt_ms']:g} ms: {words}"
    draw = symptom if values["show"] == "symptom" else cause
    shown = Shown.of(label, case.excess.times, draw(case), case.symptoms(), case.provenance)
    if values["show"] == "symptom":
        return shown
    evidence = case.evidence()
    return replace(
        shown,
        label=f"the cause of {label}",
        table=f"{evidence._repr_html_()}\n{shown.table}",
        text=f"{evidence.narrow()}\n\n{shown.text}",
    )


def _code(values: Values) -> str:
    given = [repr(values["program"])]
    if values["source"] == "mine":
        given.append(repr(_source(values)))
    given.append(f"rtt_ms={values['rtt_ms']!r}")
    if (count := _count(values)) is not None:
        given.append(f"count={count}")
    lines = [
        "from tcplab import figures",
        "from tcplab.experiments import diagnosis",
        "",
        f"case = diagnosis.measure({', '.join(given)})",
        "print(case.symptoms())",
    ]
    if values["show"] == "cause":
        lines.append("print(case.evidence())")
    return "\n".join([*lines, f"figures.{values['show']}(case)", ""])


INSTRUMENT = Instrument(
    name="diagnosis",
    title="Diagnosis",
    summary=(
        "One of the three slow programs on a wire of your choice: what it takes, and what the same"
        " work needs. Time for request and backup, segments for ticker."
    ),
    controls=(
        Choice("program", "Program", COMPLAINTS, "request"),
        Choice("source", "Its source", SOURCES, "shipped"),
        Number("rtt_ms", "RTT", 20.0, 0, MOST_RTT_MS, step=0.5, unit="ms"),
        Choice("show", "Show", SHOWN, "symptom"),
    ),
    predicts="What it takes over what it needs",
    unit="times",
    run=_run,
    code=_code,
)
