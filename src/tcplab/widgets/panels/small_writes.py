"""Small writes: how the pieces of a message are handed to TCP, and what that costs."""

from __future__ import annotations

from typing import Any, Final

from tcplab.widgets.controls import Choice, Number
from tcplab.widgets.instrument import Instrument, Job, Shown, Values

__all__ = ["INSTRUMENT"]

MESSAGES: Final = 10

MODES: Final = {
    "default": "default: a write() each",
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


def _run(job: Job) -> Shown:
    from tcplab.experiments import small_writes as experiment
    from tcplab.experiments import table
    from tcplab.figures import timeline as draw_timeline

    values = dict(job.values)
    mode = values.pop("mode")
    job.stage("measuring")
    with job.lab(rtt_ms=values["rtt_ms"]) as lab:
        result = experiment.measure(MESSAGES, variants=[mode], network=lab, **values)
    job.stage("drawing")
    variant = result[mode]
    picture = draw_timeline(variant.timeline())
    return Shown.of(
        _label(job.values), variant.ms_per_message, picture, table(result), result.provenance
    )


def _label(values: Values) -> str:
    shape = f"{values['writes']} × {values['size_bytes']} B, RTT {values['rtt_ms']:g} ms"
    acks = "" if values["quickack"] == "on" else f", ACKs {QUICKACK[values['quickack']]}"
    return f"{values['mode']}: {shape}{acks}"


def _code(values: Values) -> str:
    shape = {name: value for name, value in values.items() if name != "mode"}
    arguments = ", ".join(f"{name}={value!r}" for name, value in shape.items())
    return (
        "from tcplab import figures\n"
        "from tcplab.experiments import small_writes, table\n\n"
        f"mode = {values['mode']!r}\n"
        f"result = small_writes.measure(\n    messages={MESSAGES}, variants=[mode],\n"
        f"    {arguments},\n)\n"
        "print(table(result))\n"
        "figures.timeline(result[mode].timeline())\n"
    )


def _forecast(values: Values) -> float | None:
    from tcplab.models import Path, Peer, message_cost

    pieces: list[Any] = [values["size_bytes"]] * values["writes"]
    if values["writes"] > 200:  # a model of so many segments takes longer than the measurement
        return None
    cost = message_cost(
        pieces,
        values["mode"],
        path=Path(rtt_ms=values["rtt_ms"]),
        peer=Peer(quickack=values["quickack"]),
        messages=5,
    )
    return cost.ms_per_message


INSTRUMENT = Instrument(
    name="small-writes",
    title="Small writes",
    summary=f"{MESSAGES} messages, each in so many writes and answered when it is complete.",
    controls=(
        Choice("mode", "How to send", MODES, "default"),
        Number("writes", "Writes a message", 15, 1, 200),
        Number("size_bytes", "Bytes a write", 2, 1, 1448, unit="B", scale="log"),
        Number("rtt_ms", "RTT", 0.0, 0, 200, step=0.5, unit="ms"),
        Choice("quickack", "Receiver's ACKs", QUICKACK, "on"),
    ),
    predicts="Time of a message",
    unit="ms",
    run=_run,
    code=_code,
    forecast=_forecast,
)
