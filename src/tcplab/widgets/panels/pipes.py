"""Panel on pipes: a path from a file or from zeros to a socket, composed of parts."""

from __future__ import annotations

from typing import Any, Final

from tcplab.errors import LabError
from tcplab.experiments import declared, pipes
from tcplab.widgets.controls import Choice, Number
from tcplab.widgets.spec import ExperimentRun, PanelCall, PanelSpec, Values

RUNS: Final = 3
#: The most data that a run sends over the wire. At 1 Gbit/s each MB takes 8 ms, and a lecturer
#: should not have to wait.
MOST_WIRE_MB: Final = 40

SOURCES: Final = {
    "zeros": "dd makes zeros, |",
    "piped": "dd < file in memory, |",
    "warm": "< file in memory",
    "cold": "< file on the disk only",
}
SENDERS: Final = {
    "nc": "nc, 16 KiB at a time",
    "netcat": "netcat, 128 KiB at a time",
    "splice": "netcat --splice: no copy",
}
RECEIVERS: Final = {
    "null": "> /dev/null",
    "pv": "| pv, which splices",
    "pv-copying": "| pv -C, which copies",
    "dd": "| dd, which copies",
    "discard": "discarded in the kernel",
}
NETWORKS: Final = {"machine": "within one machine", "wire": "over a 1 Gbit/s link"}
_BLOCK: Final = Number(
    "block_bytes", "Block of dd", 65_536, 512, 4 << 20, unit="bytes", scale="log"
)


def _parts(values: Values) -> dict[str, Any]:
    names = ("source", "sender", "receiver", "block_bytes")
    return {name: values[name] for name in names} | {"wire": values["network"] == "wire"}


def _reference(values: Values) -> str:
    return "wire-netcat" if values["network"] == "wire" else "dd-netcat"


def _call(values: Values) -> PanelCall:
    given = [f"    {name}={value!r}," for name, value in _parts(values).items()]
    reference = _reference(values)
    arguments = {
        "variants": (reference, pipes.compose(**_parts(values))),
        "runs": RUNS,
        "size_mb": values["size_mb"],
        "wire_size_mb": min(values["size_mb"], MOST_WIRE_MB),
    }
    return PanelCall(
        pipes,
        arguments,
        "figures.copy_path(result, pipes.COMPOSED)",
        before=("", "variant = pipes.compose(", *given, ")"),
        sources={"variants": f"({reference!r}, variant)"},
    )


def _times(result: Any, values: Values) -> float | None:
    mine, reference = result[pipes.COMPOSED], result[_reference(values)]
    for chain in (mine, reference):
        if not chain.runs:
            raise LabError(f"{chain.pipeline.name}: {chain.missing}")
    return float(mine.median_mb_per_s / reference.median_mb_per_s)


def _notes(result: Any, values: Values) -> list[str]:
    notes, commands = [], result[pipes.COMPOSED].pipeline.commands
    if values["block_bytes"] != _BLOCK.default and "dd" not in map(str.lower, commands):
        notes.append("dd has no part in this, so its block size makes no difference")
    if values["network"] == "wire" and values["size_mb"] > MOST_WIRE_MB:
        notes.append(f"{MOST_WIRE_MB} MB were sent, more would take long on this link")
    return notes


def _forecast(values: Values) -> float | None:
    """Return the expected ratio to the reference's rate, or None for a local run without copies."""
    if values["network"] == "wire":
        return 1.0
    copies = pipes.compose(**_parts(values)).cost.copies
    return pipes.PIPELINES[_reference(values)].cost.copies / copies if copies else None


_PARAMETERS: Final = declared(pipes.measure).parameters

PANEL = PanelSpec(
    title="Pipes and copies",
    summary=(
        "Choose the parts: where each byte is copied, and what that makes of the rate. Measured"
        " in turn with dd | netcat → netcat, which copies each byte 5 times."
    ),
    controls=(
        Choice("source", "The bytes come from", SOURCES, "warm"),
        Choice("sender", "Sent by", SENDERS, "netcat"),
        Choice("receiver", "At the receiver", RECEIVERS, "null"),
        _BLOCK,
        Number.of(_PARAMETERS["size_mb"], "Data", 128, high=512, scale="log"),
        Choice("network", "Where", NETWORKS, "machine"),
    ),
    predicts="Rate over that of dd | netcat → netcat",
    unit="times",
    measurement=ExperimentRun(_call, _times, notes=_notes),
    forecast=_forecast,
)
