"""The stepper: the sender's rules event by event, next to the same writes in the kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tcplab import figures
from tcplab.models.steps import MESSAGES, Step, message_steps
from tcplab.tables import Table
from tcplab.timeline.steps import agreement, matches, recorded_steps
from tcplab.widgets.panels.small_writes import controls, small_writes_call
from tcplab.widgets.spec import Call, ExperimentRun, Job, PanelSpec, Shown, Values


def _call(values: Values) -> Call:
    variant, size = values["variant"], values["write_bytes"]
    shows = (
        f'print("\\n".join(result[{variant!r}].timeline().sentences()))',
        "",
        "# The model, event by event:",
        f"sender = NagleSender(nodelay={variant == 'no_delay'})",
        f"print(sender.write({size}, at_ms=0.0), sender.state.why)",
        f"print(sender.write({size}, at_ms=0.1), sender.state.why)",
        f"print(sender.ack({size}, at_ms=40.0), sender.state.why)",
    )
    model = ("from tcplab.models import NagleSender",)
    return small_writes_call(values, MESSAGES, shows, before=model)


def _show(result: Any, job: Job) -> Shown:
    variant = job.values["variant"]
    timeline = result[variant].timeline()
    job.explained([timeline])
    model, kernel = _model(job.values), recorded_steps(timeline)
    rows = [
        (step.time_ms, side, step.kind, step.text)
        for side, steps in (("model", model), ("kernel", kernel))
        for step in steps
        if step.kind in ("segment", "ack", "reply")
    ]
    verdict = agreement(model, kernel)
    return Shown.of(
        f"{variant}: {verdict}",
        max(step.time_ms for step in kernel),
        figures.timeline(timeline, timeline.messages),
        Table.of(["after (ms)", "side", "event", "in words"], rows),
        {**result.provenance, "model and kernel": verdict},
        steps={
            "model": [
                {**step, "match": match}
                for step, match in zip(_plain(model), matches(model, kernel), strict=True)
            ],
            "kernel": _plain(kernel),
        },
    )


def _model(values: Values) -> list[Step]:
    """Return the model's events for one message with these settings."""
    sizes = [values["write_bytes"]] * values["writes"]
    return message_steps(values["variant"], sizes, values["rtt_ms"], values["quickack"])


def _plain(steps: Sequence[Step]) -> list[dict[str, Any]]:
    return [asdict(step) for step in steps]


PANEL = PanelSpec(
    title="Step through Nagle's algorithm",
    summary="One message, event by event, under the sender's rules and in this kernel.",
    controls=controls(writes=5, most_writes=40),
    predicts="Time of the message",
    unit="ms",
    measurement=ExperimentRun(_call, _show, lab=lambda values: {"rtt_ms": values["rtt_ms"]}),
    steps=lambda values: _plain(_model(values)),
    forecast=lambda values: max(step.time_ms for step in _model(values)),
)
