"""Panel on the congestion window, and the rate that a transfer reaches before it ends."""

from typing import Any

from tcplab.experiments import short_transfer
from tcplab.models import transfer_ms
from tcplab.timeline import Timeline
from tcplab.widgets.spec import PanelCall, Values


def call(values: Values) -> PanelCall:
    """Measure one transfer."""
    return PanelCall(short_transfer, dict(values))


def headline(result: Any, values: Values) -> float:
    """Return the rate in Mbit/s until the last ACK."""
    took_ms = short_transfer.until_acknowledged_ms(result.segments)
    return float(values["data_bytes"] * 8e-3 / took_ms)


def lab(values: Values) -> dict[str, Any]:
    """Return the parameters of the laboratory."""
    return short_transfer.path(values["rtt_ms"], values["rate_mbit"])


def timelines(result: Any) -> list[Timeline]:
    """Return the timeline of the transfer."""
    return [result.timeline()]


def forecast(values: Values) -> float:
    """Return the model's rate in Mbit/s."""
    data_bytes, rtt_ms = values["data_bytes"], values["rtt_ms"]
    took_ms = transfer_ms(data_bytes, rtt_ms, values["rate_mbit"]) + rtt_ms / 2
    return float(data_bytes * 8e-3 / took_ms)
