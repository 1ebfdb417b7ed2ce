"""Sending a file: read and send against sendfile and its relatives."""

from __future__ import annotations

from typing import Any, Final

from tcplab.experiments import sendfile, table
from tcplab.experiments.declaration import declared
from tcplab.widgets.controls import Choice, Number
from tcplab.widgets.spec import Call, ExperimentRun, Job, PanelSpec, Shown, Values

PARTS: Final = {
    "loopback": "every variant, within one machine",
    "wire": "read, sendfile and cork, over 100 Mbit/s",
    "header": "a header before the file: which segments",
}
MODULES: Final = {"loopback": sendfile, "wire": sendfile.wire, "header": sendfile.header}
FIGURES: Final = {"loopback": "file_methods", "wire": "file_seconds", "header": "header_segments"}


def _call(values: Values) -> Call:
    part = values["part"]
    sizes = {} if part == "header" else {"sizes_mb": (values["size_mb"],)}
    shows = ("print(table(result))", f"figures.{FIGURES[part]}(result)")
    return Call(MODULES[part], {**sizes, "runs": values["runs"]}, shows)


def _show(result: Any, job: Job) -> Shown:
    from tcplab import figures

    part = job.values["part"]
    return Shown.of(
        f"{PARTS[part]}, {job.values['size_mb']} MB" if part != "header" else PARTS[part],
        None if part == "header" else _headline(result),
        getattr(figures, FIGURES[part])(result),
        table(result),
        result.provenance,
    )


def _headline(result: Any) -> float | None:
    """sendfile's rate over that of read and send; None where either is missing."""
    read, fast = (result.find(name).mb_per_s for name in ("A: read 4096 + send", "B: sendfile"))
    return None if read is None or fast is None else fast / read


_PARAMETERS: Final = declared(sendfile.measure).parameters

PANEL = PanelSpec(
    title="Sending a file",
    summary="The same file through read and send, sendfile, splice, mmap and MSG_ZEROCOPY.",
    controls=(
        Choice("part", "Question", PARTS, "loopback"),
        Number.of(_PARAMETERS["sizes_mb"], "File", 64, name="size_mb", high=256, scale="log"),
        Number.of(_PARAMETERS["runs"], "Runs of each", high=10),
    ),
    predicts="sendfile's rate over that of read and send",
    unit="times",
    measurement=ExperimentRun(_call, _show),
)
