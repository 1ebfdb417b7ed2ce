"""Panel on buffers and the bandwidth-delay product, with the model's line and measurements."""

from __future__ import annotations

from typing import Any, Final

from tcplab.experiments import buffers, declared
from tcplab.experiments.buffers.throughput import core_limit, send_window, usable_window
from tcplab.models import receive_buffer_grant, send_buffer_grant, throughput_mbit
from tcplab.widgets.controls import Choice, Number
from tcplab.widgets.spec import ExperimentRun, PanelCall, PanelSpec, Values

LOW_BYTES: Final = 4096
HIGH_BYTES: Final = 4 << 20
_LIMITS: Final = {"low": LOW_BYTES, "high": HIGH_BYTES}

SIDES: Final = {"receive": "receive buffer, SO_RCVBUF", "send": "send buffer, SO_SNDBUF"}
SWEEPS: Final = {"five": "this and four around it", "one": "this one"}


def _requests(values: Values) -> list[int]:
    request = values["request_bytes"]
    if values["sweep"] == "one":
        return [request]
    sizes = {int(request * factor) for factor in (0.25, 0.5, 1, 2, 4)}
    return sorted(size for size in sizes if LOW_BYTES <= size <= HIGH_BYTES)


def _model_mbit(request_bytes: int, values: Values) -> float:
    if values["side"] == "receive":
        granted = receive_buffer_grant(request_bytes, core_limit("rmem_max"))
        window = usable_window(granted)
    else:
        window = send_window(send_buffer_grant(request_bytes, core_limit("wmem_max")))
    return throughput_mbit(window, values["rtt_ms"], values["rate_mbit"])


def _call(values: Values) -> PanelCall:
    arguments = {
        "rtts_ms": (values["rtt_ms"],),
        "requests": tuple(_requests(values)),
        "rate_mbit": values["rate_mbit"],
        "side": values["side"],
    }
    return PanelCall(buffers, arguments)


def _mbit(result: Any, values: Values) -> float | None:
    measured = {variant.requested_bytes: variant.mbit for variant in result.variants}
    return measured.get(values["request_bytes"])


_PARAMETERS: Final = declared(buffers.measure).parameters

PANEL = PanelSpec(
    title="Buffer and bandwidth-delay product",
    summary="How large must a buffer be before it no longer limits? The lines are the model's.",
    controls=(
        Choice.of(_PARAMETERS["side"], "Which buffer", SIDES),
        Number.of(
            _PARAMETERS["requests"], "Buffer", 65_536, name="request_bytes", scale="log", **_LIMITS
        ),
        Number.of(_PARAMETERS["rtts_ms"], "RTT", 20.0, name="rtt_ms", high=200, scale="log"),
        Number.of(_PARAMETERS["rate_mbit"], "Rate of the link", low=5, high=500, scale="log"),
        Choice("sweep", "Measure", SWEEPS, "five"),
    ),
    predicts="Throughput with this buffer",
    unit="Mbit/s",
    measurement=ExperimentRun(_call, _mbit),
    forecast=lambda values: _model_mbit(values["request_bytes"], values),
)
