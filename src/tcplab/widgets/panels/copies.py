"""Pipes and copies: a way from a file or from zeros to a socket, put together from its parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tcplab.errors import LabError
from tcplab.widgets.controls import Choice, Number
from tcplab.widgets.instrument import Instrument, Job, Shown, Values

if TYPE_CHECKING:
    from tcplab.experiments.pipes import Way

__all__ = ["INSTRUMENT"]

RUNS: Final = 3
#: A wire of 1 Gbit/s takes 8 ms for each MB: more would make the lecturer wait.
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
    "discard": "thrown away in the kernel",
}
PLACES: Final = {"machine": "within one machine", "wire": "over a wire of 1 Gbit/s"}
COLUMNS: Final = (
    *("shown", "input", "mb_per_s", "mb_per_s_min", "mb_per_s_max"),
    *("copies", "processes", "cpu_s_per_gb", "cpu_percent"),
)


def _way(values: Values) -> Way:
    from tcplab.experiments import pipes

    return pipes.compose(
        values["source"],
        values["sender"],
        values["receiver"],
        block_bytes=int(values["block_bytes"]),
        wire=values["place"] == "wire",
    )


def _reference(values: Values) -> str:
    """What each way is compared with: measured in the same rounds."""
    return "wire-netcat" if values["place"] == "wire" else "dd-netcat"


def _wire_size_mb(values: Values) -> int:
    return min(int(values["size_mb"]), MOST_WIRE_MB)


def _run(job: Job) -> Shown:
    from tcplab.experiments import pipes, table
    from tcplab.figures.copies import copy_path, count_copies
    from tcplab.tables import Table

    values, way, other = job.values, _way(job.values), _reference(job.values)
    job.stage("measuring")
    result = pipes.measure(
        (other, way),
        runs=RUNS,
        size_mb=int(values["size_mb"]),
        wire_size_mb=_wire_size_mb(values),
    )
    job.stage("drawing")
    mine, reference = result[pipes.COMPOSED], result[other]
    for chain in (mine, reference):
        if not chain.runs:
            raise LabError(f"{chain.way.name}: {chain.missing}")
    rate = mine.median_mb_per_s or 0.0
    columns = [column for column in result.columns if column.key in COLUMNS]
    return Shown.of(
        f"{count_copies(way)}, {rate:,.0f} MB/s: {way.name}",
        rate / (reference.median_mb_per_s or rate),
        copy_path(result, pipes.COMPOSED),
        Table(columns, result.rows(), table(result).caption),
        result.provenance,
        notes=_notes(values, way),
    )


def _notes(values: Values, way: Way) -> list[str]:
    notes = []
    if "dd" not in (command.lower() for command in way.commands):
        notes.append("the block size is that of dd, and there is none in this way")
    if way.wire and values["size_mb"] > MOST_WIRE_MB:
        notes.append(f"{MOST_WIRE_MB} MB were sent, more would take long on this wire")
    return notes


def _code(values: Values) -> str:
    parts = ", ".join(repr(values[name]) for name in ("source", "sender", "receiver"))
    return (
        "from tcplab import figures\n"
        "from tcplab.experiments import pipes, table\n\n"
        f"way = pipes.compose(\n    {parts},"
        f" block_bytes={values['block_bytes']}, wire={values['place'] == 'wire'},\n)\n"
        "result = pipes.measure(\n"
        f"    ({_reference(values)!r}, way), runs={RUNS}, size_mb={values['size_mb']},"
        f" wire_size_mb={_wire_size_mb(values)},\n)\n"
        "print(table(result))\n"
        "figures.copy_path(result, pipes.COMPOSED)\n"
    )


def _forecast(values: Values) -> float | None:
    """What the copies alone would make of it: None without any, and of a wire nothing."""
    from tcplab.experiments import pipes

    if values["place"] == "wire":
        return 1.0
    copies = _way(values).cost.copies
    return pipes.BY_KEY[_reference(values)].cost.copies / copies if copies else None


INSTRUMENT = Instrument(
    name="copies",
    title="Pipes and copies",
    summary=(
        "Put a way together: where each byte is copied, and what that makes of the rate. Measured"
        " in turn with dd | netcat → netcat, which copies each byte 5 times."
    ),
    controls=(
        Choice("source", "The bytes come from", SOURCES, "warm"),
        Choice("sender", "Sent by", SENDERS, "netcat"),
        Choice("receiver", "At the receiver", RECEIVERS, "null"),
        Number("block_bytes", "Block of dd", 65_536, 512, 4 << 20, unit="bytes", scale="log"),
        Number("size_mb", "Data", 128, 1, 512, unit="MB", scale="log"),
        Choice("place", "Where", PLACES, "machine"),
    ),
    predicts="Rate over that of dd | netcat → netcat",
    unit="times",
    run=_run,
    code=_code,
    forecast=_forecast,
    saves_capture=False,
)
