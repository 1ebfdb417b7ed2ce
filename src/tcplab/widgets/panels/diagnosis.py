"""Panel on diagnosis: one of the three slow programs, its symptom and, on request, its cause."""

from typing import Any, Final

from tcplab.experiments import diagnosis
from tcplab.widgets.spec import PanelCall, Values

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


def call(values: Values) -> PanelCall:
    """Run the program, and show its symptom or its cause."""
    arguments = {"program": values["program"], "rtt_ms": values["rtt_ms"]}
    if values["source"] == "mine":
        arguments["source"] = f"faulty_{values['program']}.c"
    if (count := _count(values)) is not None:
        arguments["count"] = count
    shows = ["result.symptoms()"]
    if values["show"] == "cause":
        shows.append("result.evidence()")
    return PanelCall(diagnosis, arguments, f"figures.{values['show']}(result)", shows)


def headline(result: Any, _values: Values) -> float:
    """Return how many times what it needs the program takes."""
    return float(result.excess.times)


def lab(_values: Values) -> dict[str, Any]:
    """Return the parameters of the laboratory, which the experiment sets."""
    return {}
