"""MTU and MSS: what headers take of a wire, and what small packets cost a CPU."""

from __future__ import annotations

import statistics
from typing import Any, Final

from tcplab import figures
from tcplab.experiments import declared, mtu, table
from tcplab.models import goodput_mbyte_s
from tcplab.widgets.chart import chart, sampled
from tcplab.widgets.controls import Choice, Number
from tcplab.widgets.spec import Call, ExperimentRun, Job, PanelSpec, Shown, Values

#: Measured beside the chosen one: the least of every host, Ethernet, jumbo frames.
USUAL: Final = (576, 1500, 9000)
OFFLOADS: Final = {"off": "off: every packet is one", "on": "on: TSO, GSO and GRO"}

_PARAMETERS: Final = declared(mtu.measure).parameters
_MTU: Final = Number.of(_PARAMETERS["wire_mtus"], "MTU", 1500, name="mtu_bytes", scale="log")


def _model_mb_per_s(mtu: int, values: Values) -> float:
    return goodput_mbyte_s(values["rate_mbit"], mtu)


def _chart(values: Values) -> dict[str, Any]:
    rate_mbit = values["rate_mbit"]
    limits = int(_MTU.low), int(_MTU.high)
    lowest, highest = (_model_mb_per_s(mtu, values) for mtu in limits)
    return chart(
        sampled(lambda mtu: _model_mb_per_s(mtu, values), *limits),
        {"label": "MTU (bytes)", "scale": "log", "low": limits[0], "high": limits[1]},
        y_label="Goodput (MB/s)",
        y_high=1.12 * rate_mbit / 8,
        label="the model: what headers leave of the rate",
        marks={f"your MTU: {values['mtu_bytes']}": values["mtu_bytes"]},
        alt=(
            f"Goodput against the MTU, wire of {rate_mbit:g} Mbit/s. The model rises from"
            f" {lowest:.3g} MB/s at {limits[0]} to {highest:.3g} at {limits[1]} bytes."
        ),
    )


def _call(values: Values) -> Call:
    arguments = {
        "mtus": (values["mtu_bytes"],),
        "offloads": (values["offload"] == "on",),
        "runs": 1,
        "wire_mtus": tuple(sorted({*USUAL, values["mtu_bytes"]})),
        "rate_mbit": values["rate_mbit"],
    }
    return Call(mtu, arguments, ("table(result)",))


def _show(result: Any, job: Job) -> Shown:
    mine = job.values["mtu_bytes"]
    goodput = {each.mtu_bytes: statistics.median(each.goodput_mb_per_s) for each in result.wire}
    return Shown.of(
        f"MTU {mine}, {job.values['rate_mbit']:g} Mbit/s, offload {job.values['offload']}",
        goodput[mine],
        figures.headers(result) if job.wants_picture else None,
        table(result),
        result.provenance,
        points=[(float(size), rate) for size, rate in sorted(goodput.items())],
    )


PANEL = PanelSpec(
    title="MTU and MSS",
    summary="The same data in larger and smaller packets: over a wire, and within one machine.",
    controls=(
        _MTU,
        Number.of(_PARAMETERS["rate_mbit"], "Rate of the wire", scale="log"),
        Choice("offload", "Offloads in the machine", OFFLOADS, "off"),
    ),
    predicts="Goodput over the wire",
    unit="MB/s",
    measurement=ExperimentRun(_call, _show),
    model=lambda values: {"chart": _chart(values)},
    forecast=lambda values: _model_mb_per_s(values["mtu_bytes"], values),
    pictured=False,
)
