"""Panel on MTU and MSS: the share of headers on a link, and the CPU cost of small packets."""

from __future__ import annotations

import statistics
from typing import Any, Final

from tcplab.experiments import declared, mtu
from tcplab.models import goodput_mbyte_s
from tcplab.widgets.controls import Choice, Number
from tcplab.widgets.spec import Call, ExperimentRun, PanelSpec, Values

#: MTUs that are always measured: the size that all IPv4 hosts accept, Ethernet's, and a jumbo one.
USUAL: Final = (576, 1500, 9000)
#: Quantities of the figure. Only runs over a wire have the first.
DRAWN: Final = ("model_mb_per_s", "mb_per_s", "header_percent")
OFFLOADS: Final = {"off": "off: every packet is one", "on": "on: TSO, GSO and GRO"}

_PARAMETERS: Final = declared(mtu.measure).parameters
_MTU: Final = Number.of(_PARAMETERS["wire_mtus"], "MTU", 1500, name="mtu_bytes", scale="log")


def _model_mb_per_s(mtu: int, values: Values) -> float:
    return goodput_mbyte_s(values["rate_mbit"], mtu)


def _call(values: Values) -> Call:
    arguments = {
        "mtus": (values["mtu_bytes"],),
        "offloads": (values["offload"] == "on",),
        "runs": 1,
        "wire_mtus": tuple(sorted({*USUAL, values["mtu_bytes"]})),
        "rate_mbit": values["rate_mbit"],
    }
    return Call(mtu, arguments, f"figures.draw_bars(result, {', '.join(map(repr, DRAWN))})")


def _mb_per_s(result: Any, values: Values) -> float:
    (mine,) = [row for row in result.wire if row.mtu_bytes == values["mtu_bytes"]]
    return float(statistics.median(mine.goodput_mb_per_s))


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
    measurement=ExperimentRun(_call, _mb_per_s),
    forecast=lambda values: _model_mb_per_s(values["mtu_bytes"], values),
)
