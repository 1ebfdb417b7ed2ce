"""Panel on real programs: any client and server, typed as commands, and the client's time."""

from collections.abc import Iterator
from typing import Any, Final

from tcplab.experiments import any_command
from tcplab.timeline import Timeline
from tcplab.widgets.panels.small_writes import lab
from tcplab.widgets.spec import PanelCall, Values

__all__ = ["call", "forecast", "headline", "lab", "notes", "timelines"]

#: The largest number of connections whose packets get their reasons as comments.
_COMMENTED: Final = 10


def call(values: Values) -> PanelCall:
    """Run the client and its server."""
    arguments = {name: values[name] for name in ("client", "server", "rtt_ms")}
    worst = "figures.timeline(result.variants[0].explanation.worst())"
    return PanelCall(any_command, arguments, worst, ("result.report()",))


def headline(result: Any, _values: Values) -> float | None:
    """Return the time per message in ms."""
    [run] = result.variants
    return run.ms_per_message if run.messages else None


def timelines(result: Any) -> Iterator[Timeline]:
    """Yield the timelines of the first connections."""
    for conversation in result.variants[0].explanation.conversations[:_COMMENTED]:
        yield from conversation.timelines.values()


def notes(result: Any) -> list[str]:
    """Return the notes of the recording and of the explanation."""
    explanation = result.variants[0].explanation
    return [*explanation.recorded.notes, *explanation.missing]


def forecast(values: Values) -> float | None:
    """Return the shortest possible time of a message in ms, a round trip."""
    return float(values["rtt_ms"]) or None
