"""TCP against UDP: the same blocks over both, on the text's three ways and a fourth."""

from __future__ import annotations

from typing import Any, Final, cast

from tcplab.widgets.controls import Choice, Number
from tcplab.widgets.instrument import Instrument, Job, Shown, Values

__all__ = ["INSTRUMENT"]

WAYS: Final = {
    "bsd": "one machine, MTU 1500",
    "localhost": "one machine, MTU 16384",
    "sparc": "a wire of 10 Mbit/s",
    "router": "the wire behind a fast card",
}
OFFLOADS: Final = {"off": "off, as in the text", "on": "on"}


def _run(job: Job) -> Shown:
    from tcplab.experiments import tcp_vs_udp as experiment
    from tcplab.figures.tcp_vs_udp import tcp_vs_udp as draw

    values = job.values
    way, size = cast(Any, values["way"]), int(values["size_bytes"])
    job.stage("measuring")
    result = experiment.measure(
        runs=int(values["runs"]),
        rows=(way,),
        sizes=(size,),
        offload=values["offload"] == "on",
    )
    job.stage("drawing")
    tcp, udp = result[way, "tcp", size], result[way, "udp", size]
    return Shown.of(
        f"{WAYS[way]}, {size} B, offload {values['offload']}",
        udp.mb_per_s / tcp.mb_per_s,
        draw(result),
        result.spread_table(size),
        result.provenance,
    )


def _code(values: Values) -> str:
    return (
        "from tcplab.experiments import table, tcp_vs_udp\n\n"
        "result = tcp_vs_udp.measure(\n"
        f"    runs={values['runs']}, rows=({values['way']!r},), sizes=({values['size_bytes']},),"
        f" offload={values['offload'] == 'on'},\n)\n"
        "table(result)\n"
    )


INSTRUMENT = Instrument(
    name="tcp-vs-udp",
    title="TCP against UDP",
    summary="The same blocks over both. The rate is that of the sender, as in the text.",
    controls=(
        Choice("way", "Way to the sink", WAYS, "bsd"),
        Number("size_bytes", "Bytes a block", 1440, 16, 65_507, unit="B", scale="log"),
        Number("runs", "Runs of each", 5, 1, 50),
        Choice("offload", "Offloads in the machine", OFFLOADS, "off"),
    ),
    predicts="UDP's rate over TCP's",
    unit="times",
    run=_run,
    code=_code,
    saves_capture=False,
)
