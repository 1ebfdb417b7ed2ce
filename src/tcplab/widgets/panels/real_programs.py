"""Panel on real programs: any client and server, typed as commands, and the client's time."""

from __future__ import annotations

from typing import Any, Final

from tcplab import figures
from tcplab.experiments import any_command, declared
from tcplab.experiments.any_command import client_words, server_words
from tcplab.tables import Table
from tcplab.widgets.controls import Number, Text
from tcplab.widgets.spec import Call, ExperimentRun, Job, PanelSpec, Shown, Values

_PARAMETERS: Final = declared(any_command.measure).parameters
_HIGH_MS: Final = 50
#: The largest number of connections whose packets get their reasons as comments.
_COMMENTED: Final = 10


def _call(values: Values) -> Call:
    arguments = {name: values[name] for name in ("client", "server", "rtt_ms")}
    worst = "figures.timeline(result.variants[0].explanation.worst())"
    return Call(any_command, arguments, ("print(result.report())", worst))


def _show(result: Any, job: Job) -> Shown:
    [run] = result.variants
    explanation = run.explanation
    commented = explanation.conversations[:_COMMENTED]
    job.explained(timeline for one in commented for timeline in one.timelines.values())
    drawable = run.messages and any(one.timelines for one in explanation.conversations)
    return Shown.of(
        f"{run.case}, RTT {job.values['rtt_ms']:g} ms",
        run.ms_per_message if run.messages else None,
        figures.timeline(explanation.worst()) if drawable else None,
        _answer(run),
        result.provenance,
        notes=[*explanation.recorded.notes, *explanation.missing],
    )


def _answer(run: any_command.Explained) -> Table:
    """Return a table with the verdict, its evidence, the fix, and the parts of the time."""
    explanation = run.explanation
    rows = [["Verdict", explanation.sentence]]
    if (verdict := explanation.verdict) is not None and verdict.kind != "none":
        rows += [["Why", verdict.evidence], ["Fix", verdict.fix]]
    parts = sorted(explanation.findings, key=lambda one: -one.ms)
    rows += [[f"{part.ms:.1f}\u00a0ms", part.title] for part in parts if part.ms >= 0.05]
    return Table.of(["", "Where the client's time goes"], rows)


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
            client_words,
        ),
        Text(
            "server",
            "Server",
            _PARAMETERS["server"].default,
            "It has to listen on all addresses; empty for none",
            server_words,
        ),
        Number.of(_PARAMETERS["rtt_ms"], "RTT", high=_HIGH_MS),
    ),
    predicts="Time per message",
    unit="ms",
    measurement=ExperimentRun(_call, _show, lab=lambda values: {"rtt_ms": values["rtt_ms"]}),
    forecast=lambda values: float(values["rtt_ms"]) or None,
)
