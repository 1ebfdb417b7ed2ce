"""Panel on small writes: a message passed to TCP in several writes, and the cost of that."""

from types import ModuleType
from typing import Any, Final

from tcplab.experiments import small_writes
from tcplab.models import NetworkPath, Peer, message_cost
from tcplab.timeline import Timeline
from tcplab.widgets.modelled import message_timeline
from tcplab.widgets.spec import PanelCall, Values

MESSAGES: Final = 10


def variant_call(module: ModuleType, arguments: dict[str, Any], variant: str) -> PanelCall:
    """Return the call of an experiment for one variant, whose timeline is drawn."""
    arguments = {"messages": MESSAGES, "variants": [variant], **arguments}
    drawn = f"figures.timeline(result[{variant!r}].timeline(), compare_ms=longest_ms)"
    return PanelCall(module, arguments, drawn)


def call(values: Values) -> PanelCall:
    """Measure one variant."""
    shape = {name: value for name, value in values.items() if name != "variant"}
    return variant_call(small_writes, shape, values["variant"])


def headline(result: Any, _values: Values) -> float | None:
    """Return the time per message in ms."""
    time_ms: float | None = result.variants[0].row()["ms_per_message"]
    return time_ms


def lab(values: Values) -> dict[str, Any]:
    """Return the parameters of the laboratory."""
    return {"rtt_ms": values["rtt_ms"]}


def timelines(result: Any) -> list[Timeline]:
    """Return the timeline of the variant."""
    return [result.variants[0].timeline()]


def timeline(values: Values) -> Timeline:
    """Return the model's timeline."""
    sizes = (values["write_bytes"],) * values["writes"]
    return message_timeline(values["variant"], sizes, values["rtt_ms"], values["quickack"])


def forecast(values: Values) -> float:
    """Return the model's time per message in ms."""
    cost = message_cost(
        [values["write_bytes"]] * values["writes"],
        values["variant"],
        path=NetworkPath(rtt_ms=values["rtt_ms"]),
        peer=Peer(quickack=values["quickack"]),
        messages=5,
    )
    return cost.ms_per_message
