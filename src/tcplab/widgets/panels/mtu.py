"""Panel on MTU and MSS: the share of headers on a link."""

from typing import Any, Final

from tcplab.experiments import goodput
from tcplab.models import goodput_mbyte_s
from tcplab.widgets.spec import PanelCall, Values

#: MTUs that are always measured: the size that all IPv4 hosts accept, Ethernet's, and a jumbo one.
USUAL: Final = (576, 1500, 9000)


def call(values: Values) -> PanelCall:
    """Measure the MTU, and the usual ones."""
    arguments = {
        "rates_mbit": (values["rate_mbit"],),
        "mtus": tuple(sorted({*USUAL, values["mtu_bytes"]})),
    }
    return PanelCall(goodput, arguments)


def headline(result: Any, values: Values) -> float:
    """Return the goodput in MB/s."""
    return float(result[values["rate_mbit"], values["mtu_bytes"]].mb_per_s)


def forecast(values: Values) -> float:
    """Return the model's goodput in MB/s."""
    return goodput_mbyte_s(values["rate_mbit"], values["mtu_bytes"])
