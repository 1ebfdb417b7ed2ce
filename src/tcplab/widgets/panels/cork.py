"""Panel on cork: one message in several writes, and seven ways to send it."""

from tcplab.experiments import cork
from tcplab.models import NetworkPath, message_cost
from tcplab.timeline import Timeline
from tcplab.widgets.modelled import message_timeline
from tcplab.widgets.panels.small_writes import headline, lab, timelines, variant_call
from tcplab.widgets.spec import PanelCall, Values

__all__ = ["call", "forecast", "headline", "lab", "timeline", "timelines"]


def _writes_bytes(values: Values) -> tuple[int, ...]:
    return (values["header_bytes"], *[values["write_bytes"]] * values["writes"])


def call(values: Values) -> PanelCall:
    """Measure one variant."""
    arguments = {"writes_bytes": _writes_bytes(values), "rtt_ms": values["rtt_ms"]}
    return variant_call(cork, arguments, values["variant"])


def forecast(values: Values) -> float | None:
    """Return the model's time per message in ms."""
    if values["variant"] == "cork+no_delay":
        return None
    path = NetworkPath(rtt_ms=values["rtt_ms"])
    cost = message_cost(_writes_bytes(values), values["variant"], path=path, messages=5)
    return cost.ms_per_message


def timeline(values: Values) -> Timeline:
    """Return the model's timeline."""
    return message_timeline(values["variant"], _writes_bytes(values), values["rtt_ms"])
