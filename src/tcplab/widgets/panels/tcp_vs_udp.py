"""Panel on TCP and UDP, which carry the same blocks over Snader's three paths and a fourth one."""

from typing import Any

from tcplab.experiments import tcp_vs_udp
from tcplab.experiments.tcp_vs_udp import LO_MTU
from tcplab.models import mss_bytes
from tcplab.widgets.spec import PanelCall, Values


def call(values: Values) -> PanelCall:
    """Measure both protocols."""
    arguments = {
        "runs": values["runs"],
        "servers": (values["server"],),
        "write_bytes": (values["write_bytes"],),
        "offload": values["offload"] == "on",
    }
    spread = f"result.spread_table({values['write_bytes']})"
    return PanelCall(tcp_vs_udp, arguments, tables=(spread,))


def headline(result: Any, values: Values) -> float:
    """Return the ratio of UDP's speed to TCP's."""
    server, size = values["server"], values["write_bytes"]
    tcp, udp = (result[server, protocol, size].mb_per_s for protocol in ("tcp", "udp"))
    return float(udp / tcp)


def forecast(values: Values) -> float:
    """Return the expected ratio of UDP's speed to TCP's, or 1 if the link is the limit."""
    if values["server"] not in LO_MTU:
        return 1.0
    return float(min(1.0, values["write_bytes"] / mss_bytes(LO_MTU[values["server"]])))
