"""Panel on TCP and UDP, which carry the same blocks over Snader's three paths and a fourth one."""

from __future__ import annotations

from typing import Any, Final

from tcplab.experiments import declared, tcp_vs_udp
from tcplab.experiments.tcp_vs_udp import LO_MTU
from tcplab.models import mss_bytes
from tcplab.widgets.controls import Choice, Number
from tcplab.widgets.spec import ExperimentRun, PanelCall, PanelSpec, Values

SERVERS: Final = {
    "bsd": "one machine, MTU 1500",
    "localhost": "one machine, MTU 16384",
    "sparc": "a 10 Mbit/s link",
    "router": "the link behind a fast card",
}
OFFLOADS: Final = {"off": "off, as published", "on": "on"}


def _call(values: Values) -> PanelCall:
    arguments = {
        "runs": values["runs"],
        "servers": (values["server"],),
        "write_bytes": (values["write_bytes"],),
        "offload": values["offload"] == "on",
    }
    spread = f"result.spread_table({values['write_bytes']})"
    return PanelCall(tcp_vs_udp, arguments, tables=(spread,))


def _times(result: Any, values: Values) -> float:
    server, size = values["server"], values["write_bytes"]
    tcp, udp = (result[server, protocol, size].mb_per_s for protocol in ("tcp", "udp"))
    return float(udp / tcp)


def _forecast(values: Values) -> float:
    """Return the expected ratio of UDP's speed to TCP's, or 1 if the link is the limit."""
    if values["server"] not in LO_MTU:
        return 1.0
    return float(min(1.0, values["write_bytes"] / mss_bytes(LO_MTU[values["server"]])))


_PARAMETERS: Final = declared(tcp_vs_udp.measure).parameters
_SIZE: Final = Number.of(_PARAMETERS["write_bytes"], "Size of a block", 1440, scale="log")

PANEL = PanelSpec(
    title="TCP against UDP",
    summary="The same blocks over both. The rate is the sender's, as in the source text.",
    controls=(
        Choice.of(_PARAMETERS["servers"], "Path to the sink", SERVERS, "bsd", name="server"),
        _SIZE,
        Number.of(_PARAMETERS["runs"], "Runs of each", 5, high=50),
        Choice("offload", "Offloads in the machine", OFFLOADS, "off"),
    ),
    predicts="UDP's rate over TCP's",
    unit="times",
    measurement=ExperimentRun(_call, _times),
    forecast=_forecast,
)
