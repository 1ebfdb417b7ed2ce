"""Panel on MTU and MSS: the share of headers on a link."""

from __future__ import annotations

from typing import Any, Final

from tcplab.experiments import declared, goodput
from tcplab.models import goodput_mbyte_s
from tcplab.widgets.controls import Number
from tcplab.widgets.spec import ExperimentRun, PanelCall, PanelSpec, Values

#: MTUs that are always measured: the size that all IPv4 hosts accept, Ethernet's, and a jumbo one.
USUAL: Final = (576, 1500, 9000)

_PARAMETERS: Final = declared(goodput.measure).parameters


def _call(values: Values) -> PanelCall:
    arguments = {
        "rates_mbit": (values["rate_mbit"],),
        "mtus": tuple(sorted({*USUAL, values["mtu_bytes"]})),
    }
    return PanelCall(goodput, arguments)


def _mb_per_s(result: Any, values: Values) -> float:
    return float(result[values["rate_mbit"], values["mtu_bytes"]].mb_per_s)


PANEL = PanelSpec(
    title="MTU and MSS",
    summary="The same data in larger and smaller packets, over a link.",
    controls=(
        Number.of(_PARAMETERS["mtus"], "MTU", 1500, name="mtu_bytes", scale="log"),
        Number.of(
            _PARAMETERS["rates_mbit"],
            "Rate of the link",
            100.0,
            name="rate_mbit",
            high=1000,
            scale="log",
        ),
    ),
    predicts="Goodput over the link",
    unit="MB/s",
    measurement=ExperimentRun(_call, _mb_per_s),
    forecast=lambda values: goodput_mbyte_s(values["rate_mbit"], values["mtu_bytes"]),
)
