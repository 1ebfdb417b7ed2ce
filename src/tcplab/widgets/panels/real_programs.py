"""Panel on real programs: any client and server, typed as commands, and the client's time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tcplab.experiments import any_command, declared
from tcplab.timeline import Timeline
from tcplab.widgets.controls import Number, Text
from tcplab.widgets.spec import ExperimentRun, PanelCall, PanelSpec, Values

_PARAMETERS: Final = declared(any_command.measure).parameters
_HIGH_MS: Final = 50
#: The largest number of connections whose packets get their reasons as comments.
_COMMENTED: Final = 10


def _call(values: Values) -> PanelCall:
    arguments = {name: values[name] for name in ("client", "server", "rtt_ms")}
    worst = "figures.timeline(result.variants[0].explanation.worst())"
    return PanelCall(any_command, arguments, worst, ("result.report()",))


def _ms(result: Any, _values: Values) -> float | None:
    [run] = result.variants
    return run.ms_per_message if run.messages else None


def _timelines(result: Any) -> Iterator[Timeline]:
    for conversation in result.variants[0].explanation.conversations[:_COMMENTED]:
        yield from conversation.timelines.values()


def _notes(result: Any, _values: Values) -> list[str]:
    explanation = result.variants[0].explanation
    return [*explanation.recorded.notes, *explanation.missing]


PANEL = PanelSpec(
    title="Real programs",
    summary=(
        "A client and its server, typed as in a terminal, run unmodified on two hosts: what the"
        " client waited for. The server's name is “server”; {folder} has page.txt and buffered.py."
    ),
    controls=(
        Text(
            "client",
            "Client",
            _PARAMETERS["client"].default,
            "The command whose time is explained; no shell",
        ),
        Text(
            "server",
            "Server",
            _PARAMETERS["server"].default,
            "It has to listen on all addresses; empty for none",
        ),
        Number.of(_PARAMETERS["rtt_ms"], "RTT", high=_HIGH_MS),
    ),
    predicts="Time per message",
    unit="ms",
    measurement=ExperimentRun(
        _call,
        _ms,
        lab=lambda values: {"rtt_ms": values["rtt_ms"]},
        timelines=_timelines,
        notes=_notes,
    ),
    forecast=lambda values: float(values["rtt_ms"]) or None,
)
