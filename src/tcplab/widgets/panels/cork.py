"""Panel on cork: one message in several writes, and seven ways to send it."""

from __future__ import annotations

from typing import Final

from tcplab.experiments import cork, declared
from tcplab.models import NetworkPath, message_cost
from tcplab.timeline.modelled import message_timeline
from tcplab.widgets.controls import Choice, Number
from tcplab.widgets.panels.small_writes import MESSAGES, variant_call, variant_run
from tcplab.widgets.panels.small_writes import VARIANTS as SMALL_WRITES
from tcplab.widgets.spec import PanelCall, PanelSpec, Values

VARIANTS: Final = SMALL_WRITES | {
    "cork+no_delay": "TCP_CORK and TCP_NODELAY",
    "forgotten": "TCP_CORK, and never pulled",
}


def _writes_bytes(values: Values) -> tuple[int, ...]:
    return (values["header_bytes"], *[values["write_bytes"]] * values["writes"])


def _call(values: Values) -> PanelCall:
    arguments = {"writes_bytes": _writes_bytes(values), "rtt_ms": values["rtt_ms"]}
    return variant_call(cork, arguments, values["variant"])


def _forecast(values: Values) -> float | None:
    if values["variant"] == "cork+no_delay":
        return None
    path = NetworkPath(rtt_ms=values["rtt_ms"])
    cost = message_cost(_writes_bytes(values), values["variant"], path=path, messages=5)
    return cost.ms_per_message


_PARAMETERS: Final = declared(cork.measure).parameters


def _size(name: str, label: str, default: int) -> Number:
    return Number.of(_PARAMETERS["writes_bytes"], label, default, name=name, high=1000, scale="log")


PANEL = PanelSpec(
    title="Cork",
    summary=f"{MESSAGES} messages of a header and a body in several writes, each answered when"
    " complete.",
    controls=(
        Choice.of(_PARAMETERS["variants"], "How to send", VARIANTS, "cork", name="variant"),
        _size("header_bytes", "Header", 4),
        Number("writes", "Writes of the body", 3, 1, 60),
        _size("write_bytes", "Size of each write", 100),
        Number.of(_PARAMETERS["rtt_ms"], "RTT", high=200),
    ),
    predicts="Time per message",
    unit="ms",
    measurement=variant_run(_call),
    forecast=_forecast,
    timeline=lambda values: message_timeline(
        values["variant"], _writes_bytes(values), values["rtt_ms"]
    ),
)
