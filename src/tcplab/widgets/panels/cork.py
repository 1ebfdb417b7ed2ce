"""Cork: one message in pieces, and six ways to say that there is more to come."""

from __future__ import annotations

from typing import Any, Final, cast

from tcplab.widgets.controls import Choice, Number
from tcplab.widgets.instrument import Instrument, Job, Shown, Values
from tcplab.widgets.panels import small_writes

__all__ = ["INSTRUMENT"]

MESSAGES: Final = 10
WAYS: Final = small_writes.MODES | {"cork+no_delay": "TCP_CORK and TCP_NODELAY"}


def _run(job: Job) -> Shown:
    from tcplab.experiments import cork as experiment
    from tcplab.experiments import table
    from tcplab.figures import timeline as draw_timeline

    values = job.values
    way = values["way"]
    job.stage("measuring")
    result = experiment.measure(
        writes_bytes=_pieces(values),
        messages=MESSAGES,
        rtt_ms=values["rtt_ms"],
        variants=(cast(Any, way),),
    )
    job.stage("drawing")
    return Shown.of(
        f"{way}: {_shape(values)}",
        result[way].row()["ms_per_message"],
        draw_timeline(result[way].timeline()),
        table(result),
        result.provenance,
    )


def _pieces(values: Values) -> tuple[int, ...]:
    return (int(values["header_bytes"]), *[int(values["size_bytes"])] * int(values["pieces"]))


def _shape(values: Values) -> str:
    return (
        f"{values['header_bytes']} + {values['pieces']} × {values['size_bytes']} B,"
        f" RTT {values['rtt_ms']:g} ms"
    )


def _code(values: Values) -> str:
    return (
        "from tcplab import figures\n"
        "from tcplab.experiments import cork, table\n\n"
        f"way = {values['way']!r}\n"
        "result = cork.measure(\n"
        f"    writes_bytes=({values['header_bytes']}, *[{values['size_bytes']}]"
        f" * {values['pieces']}),\n"
        f"    messages={MESSAGES}, rtt_ms={values['rtt_ms']!r}, variants=[way],\n)\n"
        "print(table(result))\n"
        "figures.timeline(result[way].timeline())\n"
    )


def _forecast(values: Values) -> float | None:
    from tcplab.models import Path, message_cost

    if values["way"] == "cork+no_delay":
        return None
    path = Path(rtt_ms=values["rtt_ms"])
    return message_cost(_pieces(values), values["way"], path=path, messages=5).ms_per_message


INSTRUMENT = Instrument(
    name="cork",
    title="Cork",
    summary=f"{MESSAGES} messages of a header and a body in pieces, each answered when complete.",
    controls=(
        Choice("way", "How to send", WAYS, "cork"),
        Number("header_bytes", "Header", 4, 1, 1000, unit="B", scale="log"),
        Number("pieces", "Pieces of the body", 3, 1, 60),
        Number("size_bytes", "Bytes a piece", 100, 1, 1000, unit="B", scale="log"),
        Number("rtt_ms", "RTT", 0.0, 0, 200, step=0.5, unit="ms"),
    ),
    predicts="Time of a message",
    unit="ms",
    run=_run,
    code=_code,
    forecast=_forecast,
    saves_capture=False,
)
