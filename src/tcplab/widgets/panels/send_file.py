"""Sending a file: read and send against sendfile and its relatives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from tcplab.widgets.controls import Choice, Number
from tcplab.widgets.instrument import Instrument, Job, Shown, Values

if TYPE_CHECKING:
    from tcplab.experiments.send_file import SendFiles
    from tcplab.figures import Picture

__all__ = ["INSTRUMENT"]

PARTS: Final = {
    "loopback": "every way, within one machine",
    "wire": "read, sendfile and cork, over 100 Mbit/s",
    "header": "a header before the file: which segments",
}


def _run(job: Job) -> Shown:
    from tcplab.experiments import send_file as experiment

    values = job.values
    part = values["part"]
    job.stage("measuring")
    result = experiment.measure(
        parts=(cast(Any, part),), sizes_mb=(int(values["size_mb"]),), runs=int(values["runs"])
    )
    job.stage("drawing")
    return Shown.of(
        f"{PARTS[part]}, {values['size_mb']} MB" if part != "header" else PARTS[part],
        _headline(result, part),
        _draw(result, part),
        result.table(cast(Any, part)),
        result.provenance,
    )


def _headline(result: SendFiles, part: str) -> float | None:
    """How many times as fast as read and send sendfile was; None where there is no such pair."""
    if part == "header":
        return None
    rates = [
        result.find(cast(Any, part), variant).mb_per_s
        for variant in ("A: read 4096 + send", "B: sendfile")
    ]
    return None if None in rates else cast(float, rates[1]) / cast(float, rates[0])


def _draw(result: SendFiles, part: str) -> Picture:
    from tcplab.figures import file_methods, file_seconds, header_segments

    if part == "wire":
        return file_seconds(result, "wire")
    return header_segments(result) if part == "header" else file_methods(result)


def _code(values: Values) -> str:
    part = values["part"]
    draw = {"loopback": "file_methods", "wire": "file_seconds", "header": "header_segments"}[part]
    return (
        "from tcplab import figures\n"
        "from tcplab.experiments import send_file\n\n"
        "result = send_file.measure(\n"
        f"    parts=({part!r},), sizes_mb=({values['size_mb']},), runs={values['runs']},\n)\n"
        f"print(result.table({part!r}))\n"
        f"figures.{draw}(result)\n"
    )


INSTRUMENT = Instrument(
    name="send-file",
    title="Sending a file",
    summary="The same file through read and send, sendfile, splice, mmap and MSG_ZEROCOPY.",
    controls=(
        Choice("part", "Question", PARTS, "loopback"),
        Number("size_mb", "File", 64, 1, 256, unit="MB", scale="log"),
        Number("runs", "Runs of each", 3, 1, 10),
    ),
    predicts="sendfile's rate over that of read and send",
    unit="times",
    run=_run,
    code=_code,
    saves_capture=False,
)
