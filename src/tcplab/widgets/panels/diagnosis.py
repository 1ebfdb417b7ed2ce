"""Panel on diagnosis: one of the three slow programs, its symptom and, on request, its cause."""

from __future__ import annotations

from typing import Final

from tcplab.experiments import declared, diagnosis
from tcplab.widgets.controls import Choice, Number
from tcplab.widgets.spec import ExperimentRun, PanelCall, PanelSpec, Values

COMPLAINTS: Final = {
    "request": "request: “it takes too long”",
    "backup": "backup: “the line is idle”",
    "ticker": "ticker: “it floods the switch”",
}
SOURCES: Final = {"shipped": "as shipped", "mine": "my copy, faulty_….c in this folder"}
SHOWN: Final = {"symptom": "the symptom, in the packets", "cause": "reveal the cause"}

#: How long a run of request or backup may take with the original programs.
REQUESTS_MS: Final = 2000
BACKUP_MS: Final = 3000


def _count(values: Values) -> int | None:
    """Return how many requests or blocks a run has, or None for as many as in the lesson."""
    rtt_ms = values["rtt_ms"]
    if values["program"] == "request":
        # Each request of the original program takes two round trips and a delayed ACK.
        return min(40, int(REQUESTS_MS / (44 + 2 * rtt_ms)))
    if values["program"] == "backup":
        # The window of the original program allows little more than a block per round trip.
        return min(128, int(1.25 * BACKUP_MS / max(rtt_ms, 1)))
    return None


def _call(values: Values) -> PanelCall:
    arguments = {"program": values["program"], "rtt_ms": values["rtt_ms"]}
    if values["source"] == "mine":
        arguments["source"] = f"faulty_{values['program']}.c"
    if (count := _count(values)) is not None:
        arguments["count"] = count
    shows = ["result.symptoms()"]
    if values["show"] == "cause":
        shows.append("result.evidence()")
    return PanelCall(diagnosis, arguments, f"figures.{values['show']}(result)", shows)


_PARAMETERS: Final = declared(diagnosis.measure).parameters

PANEL = PanelSpec(
    title="Diagnosis",
    summary=(
        "One of the three slow programs on a link of your choice: what it takes, and what the same"
        " work needs. Time for request and backup, segments for ticker."
    ),
    controls=(
        Choice.of(_PARAMETERS["program"], "Program", COMPLAINTS),
        Choice("source", "Its source", SOURCES, "shipped"),
        Number.of(_PARAMETERS["rtt_ms"], "RTT", 20.0, high=60),
        Choice("show", "Show", SHOWN, "symptom"),
    ),
    predicts="What it takes over what it needs",
    unit="times",
    measurement=ExperimentRun(
        _call, lambda result, _values: result.excess.times, lab=lambda _values: {}
    ),
)
