"""Panel on the congestion window, and the rate that a transfer reaches before it ends."""

from __future__ import annotations

from typing import Any, Final

from tcplab.experiments import declared, short_transfer
from tcplab.models import transfer_ms
from tcplab.widgets.controls import Number
from tcplab.widgets.spec import ExperimentRun, PanelCall, PanelSpec, Values

_PARAMETERS: Final = declared(short_transfer.measure).parameters
_DATA: Final = Number.of(_PARAMETERS["data_bytes"], "Data", 144_800, scale="log")


def _model_mbit(data_bytes: int, values: Values) -> float:
    rtt_ms: float = values["rtt_ms"]
    took_ms = transfer_ms(data_bytes, rtt_ms, values["rate_mbit"]) + rtt_ms / 2
    return data_bytes * 8e-3 / took_ms


def _call(values: Values) -> PanelCall:
    return PanelCall(short_transfer, dict(values))


def _mbit(result: Any, values: Values) -> float:
    took_ms = short_transfer.until_acknowledged_ms(result.segments)
    return float(values["data_bytes"] * 8e-3 / took_ms)


PANEL = PanelSpec(
    title="The congestion window",
    summary="A transfer of any size, and the round trips that it takes to fill its link.",
    controls=(
        _DATA,
        Number.of(_PARAMETERS["rtt_ms"], "Round-trip time", scale="log"),
        Number.of(_PARAMETERS["rate_mbit"], "Rate of the link", scale="log"),
    ),
    predicts="Rate until the last ACK",
    unit="Mbit/s",
    measurement=ExperimentRun(
        _call,
        _mbit,
        lab=lambda values: short_transfer.path(values["rtt_ms"], values["rate_mbit"]),
        timelines=lambda result: [result.timeline()],
    ),
    forecast=lambda values: _model_mbit(values["data_bytes"], values),
)
