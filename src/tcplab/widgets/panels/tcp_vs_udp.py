"""TCP against UDP: the same blocks over both, along the source text's three paths and a fourth."""

from __future__ import annotations

from typing import Any, Final

from tcplab.experiments import tcp_vs_udp
from tcplab.widgets.controls import Choice, Number
from tcplab.widgets.spec import Call, ExperimentRun, Job, PanelSpec, Shown, Values

__all__ = ["PANEL"]

PATHS: Final = {
    "bsd": "one machine, MTU 1500",
    "localhost": "one machine, MTU 16384",
    "sparc": "a wire of 10 Mbit/s",
    "router": "the wire behind a fast card",
}
OFFLOADS: Final = {"off": "off, as published", "on": "on"}


def _call(values: Values) -> Call:
    arguments = {
        "runs": values["runs"],
        "servers": (values["path"],),
        "write_bytes": (values["block_bytes"],),
        "offload": values["offload"] == "on",
    }
    return Call(tcp_vs_udp, arguments, ("table(result)",))


def _show(result: Any, job: Job) -> Shown:
    from tcplab import figures

    path, size = job.values["path"], job.values["block_bytes"]
    tcp, udp = result[path, "tcp", size], result[path, "udp", size]
    return Shown.of(
        f"{PATHS[path]}, {size} B, offload {job.values['offload']}",
        udp.mb_per_s / tcp.mb_per_s,
        figures.tcp_vs_udp(result),
        result.spread_table(size),
        result.provenance,
    )


PANEL = PanelSpec(
    title="TCP against UDP",
    summary="The same blocks over both. The rate is the sender's, as in the source text.",
    controls=(
        Choice("path", "Path to the sink", PATHS, "bsd"),
        Number("block_bytes", "Bytes per block", 1440, 16, 65_507, unit="B", scale="log"),
        Number("runs", "Runs of each", 5, 1, 50),
        Choice("offload", "Offloads in the machine", OFFLOADS, "off"),
    ),
    predicts="UDP's rate over TCP's",
    unit="times",
    measurement=ExperimentRun(_call, _show),
)
