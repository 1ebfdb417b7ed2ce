"""Panel on small writes: a message passed to TCP in several writes, and the cost of that."""

from __future__ import annotations

from typing import Any, Final

from tcplab import figures
from tcplab.experiments import declared, small_writes, table
from tcplab.models import NetworkPath, Peer, message_cost
from tcplab.timeline import Timeline
from tcplab.timeline.modelled import message_timeline
from tcplab.widgets.controls import Choice, Number
from tcplab.widgets.spec import Call, ExperimentRun, Job, PanelSpec, Shown, Values

MESSAGES: Final = 10

VARIANTS: Final = {
    "default": "default: one write() each",
    "no_delay": "TCP_NODELAY",
    "cork": "TCP_CORK around them",
    "msg_more": "MSG_MORE on all but the last",
    "writev": "one writev()",
}
QUICKACK: Final = {"on": "as the kernel likes", "off": "as late as it may", "always": "at once"}


def _call(values: Values) -> Call:
    shape = {name: value for name, value in values.items() if name != "variant"}
    arguments = {"messages": MESSAGES, "variants": [values["variant"]], **shape}
    draw = f"figures.timeline(result[{values['variant']!r}].timeline())"
    return Call(small_writes, arguments, ("print(table(result))", draw))


def variant_shown(result: Any, variant: str, label: str, job: Job) -> Shown:
    """Return the result with the timeline of one variant, and annotate the recorded packets."""
    timeline = result[variant].timeline()
    job.explained([timeline])
    return Shown.of(
        f"{variant}: {label}",
        result[variant].row()["ms_per_message"],
        figures.timeline(timeline),
        table(result),
        result.provenance,
    )


def _show(result: Any, job: Job) -> Shown:
    values = job.values
    shape = f"{values['writes']} × {values['write_bytes']} B, RTT {values['rtt_ms']:g} ms"
    acks = "" if values["quickack"] == "on" else f", ACKs {QUICKACK[values['quickack']]}"
    return variant_shown(result, values["variant"], shape + acks, job)


def _timeline(values: Values) -> Timeline:
    sizes = (values["write_bytes"],) * values["writes"]
    return message_timeline(values["variant"], sizes, values["rtt_ms"], values["quickack"])


def _forecast(values: Values) -> float:
    cost = message_cost(
        [values["write_bytes"]] * values["writes"],
        values["variant"],
        path=NetworkPath(rtt_ms=values["rtt_ms"]),
        peer=Peer(quickack=values["quickack"]),
        messages=5,
    )
    return cost.ms_per_message


_PARAMETERS: Final = declared(small_writes.measure).parameters

PANEL = PanelSpec(
    title="Small writes",
    summary=f"{MESSAGES} messages, each in several writes and answered when it is complete.",
    controls=(
        Choice.of(_PARAMETERS["variants"], "How to send", VARIANTS, "default", name="variant"),
        Number.of(_PARAMETERS["writes"], "Writes per message", 15, high=200),
        Number.of(_PARAMETERS["write_bytes"], "Size of each write", high=1448, scale="log"),
        Number.of(_PARAMETERS["rtt_ms"], "RTT", high=200),
        Choice.of(_PARAMETERS["quickack"], "Receiver's ACKs", QUICKACK),
    ),
    predicts="Time per message",
    unit="ms",
    measurement=ExperimentRun(_call, _show, lab=lambda values: {"rtt_ms": values["rtt_ms"]}),
    forecast=_forecast,
    timeline=_timeline,
)
