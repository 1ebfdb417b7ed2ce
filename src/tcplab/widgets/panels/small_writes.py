"""Small writes: a message handed to TCP in several writes, and what that costs."""

from __future__ import annotations

from typing import Any, Final

from tcplab.experiments import small_writes, table
from tcplab.models import Path, Peer, message_cost
from tcplab.widgets.controls import Choice, Number
from tcplab.widgets.spec import Call, ExperimentRun, Job, PanelSpec, Shown, Values

__all__ = ["PANEL"]

MESSAGES: Final = 10

VARIANTS: Final = {
    "default": "default: one write() each",
    "no_delay": "TCP_NODELAY",
    "cork": "TCP_CORK around them",
    "msg_more": "MSG_MORE on all but the last",
    "writev": "one writev()",
}
QUICKACK: Final = {
    "on": "as the kernel likes",
    "off": "as late as it may",
    "always": "at once",
}


def _call(values: Values) -> Call:
    variant = values["variant"]
    return Call(
        small_writes,
        {"messages": MESSAGES, "variants": [variant], **exchange_arguments(values)},
        ("print(table(result))", f"figures.timeline(result[{variant!r}].timeline())"),
    )


def exchange_arguments(values: Values) -> dict[str, Any]:
    """The arguments of `small_writes.measure` that say what is sent and how it is acknowledged."""
    return {
        "writes": values["writes"],
        "write_bytes": values["write_bytes"],
        "rtt_ms": values["rtt_ms"],
        "quickack": values["quickack"],
    }


def _show(result: Any, job: Job) -> Shown:
    from tcplab import figures

    variant = result[job.values["variant"]]
    picture = figures.timeline(variant.timeline())
    numbers = (table(result), result.provenance)
    return Shown.of(_label(job.values), variant.ms_per_message, picture, *numbers)


def _label(values: Values) -> str:
    shape = f"{values['writes']} × {values['write_bytes']} B, RTT {values['rtt_ms']:g} ms"
    acks = "" if values["quickack"] == "on" else f", ACKs {QUICKACK[values['quickack']]}"
    return f"{values['variant']}: {shape}{acks}"


def _forecast(values: Values) -> float | None:
    if values["writes"] > 200:  # a model of so many segments takes longer than the measurement
        return None
    cost = message_cost(
        [values["write_bytes"]] * values["writes"],
        values["variant"],
        path=Path(rtt_ms=values["rtt_ms"]),
        peer=Peer(quickack=values["quickack"]),
        messages=5,
    )
    return cost.ms_per_message


def controls(*, writes: int, most_writes: int) -> tuple[Choice | Number, ...]:
    """The controls of a panel that sends messages in small writes."""
    return (
        Choice("variant", "How to send", VARIANTS, "default"),
        Number("writes", "Writes per message", writes, 1, most_writes),
        Number("write_bytes", "Bytes per write", 2, 1, 1448, unit="B", scale="log"),
        Number("rtt_ms", "RTT", 0.0, 0, 200, step=0.5, unit="ms"),
        Choice("quickack", "Receiver's ACKs", QUICKACK, "on"),
    )


PANEL = PanelSpec(
    title="Small writes",
    summary=f"{MESSAGES} messages, each in several writes and answered when it is complete.",
    controls=controls(writes=15, most_writes=200),
    predicts="Time per message",
    unit="ms",
    measurement=ExperimentRun(_call, _show, lab=lambda values: {"rtt_ms": values["rtt_ms"]}),
    forecast=_forecast,
)
