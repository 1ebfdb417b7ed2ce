"""Buffers and the bandwidth-delay product: the model's line first, then what is measured."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, Final

from tcplab.experiments import buffers, declared, table
from tcplab.experiments.buffers.common import core_limit, kernel_version, send_window
from tcplab.models import (
    receive_buffer_grant,
    send_buffer_grant,
    throughput_mbit,
    window_from_buffer,
)
from tcplab.widgets.chart import chart, picture, sampled
from tcplab.widgets.controls import Choice, Number
from tcplab.widgets.spec import Call, ExperimentRun, Job, PanelSpec, Shown, Values

LOW_BYTES: Final = 4096
HIGH_BYTES: Final = 4 << 20
_LIMITS: Final = {"low": LOW_BYTES, "high": HIGH_BYTES}

SIDES: Final = {"receive": "receive buffer, SO_RCVBUF", "send": "send buffer, SO_SNDBUF"}
SWEEPS: Final = {"five": "this and four around it", "one": "this one"}


def _requests(values: Values) -> list[int]:
    """The buffer sizes that a run measures, the slider's among them."""
    request = values["request_bytes"]
    if values["sweep"] == "one":
        return [request]
    sizes = {int(request * factor) for factor in (0.25, 0.5, 1, 2, 4)}
    return sorted(size for size in sizes if LOW_BYTES <= size <= HIGH_BYTES)


def _model_mbit(request_bytes: int, values: Values) -> float:
    if values["side"] == "receive":
        granted = receive_buffer_grant(request_bytes, core_limit("rmem_max"))
        window = window_from_buffer(granted, kernel_version())
    else:
        window = send_window(send_buffer_grant(request_bytes, core_limit("wmem_max")))
    return throughput_mbit(window, values["rtt_ms"], values["rate_mbit"])


def _knee(values: Values) -> int:
    """The request from which on the model's line is flat."""
    flat = 0.999 * _model_mbit(HIGH_BYTES, values)
    requests = range(LOW_BYTES, HIGH_BYTES)
    return requests.start + bisect_left(requests, flat, key=lambda each: _model_mbit(each, values))


def _chart(values: Values) -> dict[str, Any]:
    knee, top = _knee(values), _model_mbit(HIGH_BYTES, values)
    option = "SO_RCVBUF" if values["side"] == "receive" else "SO_SNDBUF"
    return chart(
        sampled(lambda size: _model_mbit(size, values), LOW_BYTES, HIGH_BYTES),
        {"label": f"{option} asked for (bytes)", "scale": "log", **_LIMITS},
        y_label="Throughput (Mbit/s)",
        y_high=1.15 * top,
        y_low=_model_mbit(LOW_BYTES, values) / 2,
        label="the model: window / RTT, at most the wire",
        marks={f"enough: {knee:,} bytes": knee, "your buffer": values["request_bytes"]},
        alt=(
            f"Throughput against {option}. The model rises in proportion to the buffer up to"
            f" {top:.3g} Mbit/s, which it reaches at {knee:,} bytes."
        ),
    )


def _call(values: Values) -> Call:
    arguments = {
        "rtts_ms": (values["rtt_ms"],),
        "requests": tuple(_requests(values)),
        "rate_mbit": values["rate_mbit"],
        "side": values["side"],
    }
    return Call(buffers, arguments, ("table(result)",))


def _show(result: Any, job: Job) -> Shown:
    values = job.values
    settings = f"{values['rtt_ms']:g} ms, {values['rate_mbit']:g} Mbit/s"
    measured = {each.requested_bytes: each.mbit for each in result.variants}
    points = [(float(size), mbit) for size, mbit in measured.items()]
    numbers = table(result)
    shown_picture = None
    if job.wants_picture:
        size, best = max(measured.items(), key=lambda item: item[1])
        title = f"RTT {settings}: {best:.3g} Mbit/s with {size:,} bytes"
        shown_picture = picture(_chart(values), points, title, numbers)
    return Shown.of(
        f"{values['side']}, {values['request_bytes']:,} B, {settings}",
        measured.get(values["request_bytes"]),
        shown_picture,
        numbers,
        result.provenance,
        points=points,
        notes=_shortfalls(result.variants),
    )


def _shortfalls(points: Sequence[buffers.Transfer]) -> list[str]:
    return [
        f"with {each.requested_bytes:,} bytes {each.mbit:.3g} Mbit/s is less than half of what"
        f" buffer and wire allow ({each.model_mbit:.3g}); a busy machine can make TCP leave slow"
        " start too early: measure again"
        for each in points
        if each.mbit < each.model_mbit / 2
    ]


_PARAMETERS: Final = declared(buffers.measure).parameters

PANEL = PanelSpec(
    title="Buffer and bandwidth-delay product",
    summary="How large must a buffer be before it no longer limits? The dashed line is the model.",
    controls=(
        Choice.of(_PARAMETERS["side"], "Which buffer", SIDES),
        Number.of(
            _PARAMETERS["requests"], "Buffer", 65_536, name="request_bytes", scale="log", **_LIMITS
        ),
        Number.of(_PARAMETERS["rtts_ms"], "RTT", 20.0, name="rtt_ms", high=200, scale="log"),
        Number.of(_PARAMETERS["rate_mbit"], "Rate of the wire", low=5, high=500, scale="log"),
        Choice("sweep", "Measure", SWEEPS, "five"),
    ),
    predicts="Throughput with this buffer",
    unit="Mbit/s",
    measurement=ExperimentRun(_call, _show),
    model=lambda values: {"chart": _chart(values)},
    forecast=lambda values: _model_mbit(values["request_bytes"], values),
    pictured=False,
)
