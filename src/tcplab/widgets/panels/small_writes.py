"""Panel on small writes: a message passed to TCP in several writes, and the cost of that."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from tcplab.experiments import declared, small_writes
from tcplab.models import NetworkPath, Peer, message_cost
from tcplab.timeline import Timeline
from tcplab.timeline.modelled import message_timeline
from tcplab.widgets.controls import Choice, Number
from tcplab.widgets.spec import ExperimentRun, PanelCall, PanelSpec, Values

MESSAGES: Final = 10

VARIANTS: Final = {
    "default": "default: one write() each",
    "no_delay": "TCP_NODELAY",
    "cork": "TCP_CORK around them",
    "msg_more": "MSG_MORE on all but the last",
    "writev": "one writev()",
}
QUICKACK: Final = {"on": "as the kernel likes", "off": "as late as it may", "always": "at once"}


def variant_call(module: ModuleType, arguments: dict[str, Any], variant: str) -> PanelCall:
    """Return the call of an experiment for one variant, whose timeline is drawn."""
    arguments = {"messages": MESSAGES, "variants": [variant], **arguments}
    return PanelCall(module, arguments, f"figures.timeline(result[{variant!r}].timeline())")


def variant_run(call: Callable[[Values], PanelCall]) -> ExperimentRun:
    """Return the measurement of one variant, whose packets are recorded with their reasons."""
    return ExperimentRun(
        call,
        lambda result, _values: result.variants[0].row()["ms_per_message"],
        lab=lambda values: {"rtt_ms": values["rtt_ms"]},
        timelines=lambda result: [result.variants[0].timeline()],
    )


def _call(values: Values) -> PanelCall:
    shape = {name: value for name, value in values.items() if name != "variant"}
    return variant_call(small_writes, shape, values["variant"])


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
    measurement=variant_run(_call),
    forecast=_forecast,
    timeline=_timeline,
)
