"""Panel on sending a file with read and send, compared with sendfile and its relatives."""

from __future__ import annotations

from typing import Any, Final

from tcplab import figures
from tcplab.experiments import declared, sendfile, table
from tcplab.models import copies_per_byte
from tcplab.widgets.controls import Choice, Number
from tcplab.widgets.spec import Call, ExperimentRun, Job, PanelSpec, Shown, Values

PARTS: Final = {
    "loopback": "every variant, within one machine",
    "wire": "read, sendfile and cork, over 100 Mbit/s",
    "header": "a header before the file: which segments",
}
MODULES: Final = {"loopback": sendfile, "wire": sendfile.wire, "header": sendfile.header}
#: The figure of each part, and the keys of its quantities.
FIGURES: Final = {
    "loopback": ("draw_bars", "mb_per_s", "cpu_s_per_gb", "receiver_cpu_s_per_gb"),
    "wire": ("draw_bars", "seconds", "cpu_s_per_gb"),
    "header": ("header_segments",),
}


def _call(values: Values) -> Call:
    part = values["part"]
    sizes = {} if part == "header" else {"sizes_mb": (values["size_mb"],)}
    figure, *keys = FIGURES[part]
    drawn = f"figures.{figure}({', '.join(['result', *map(repr, keys)])})"
    shows = ("print(table(result))", drawn)
    return Call(MODULES[part], {**sizes, "runs": values["runs"]}, shows)


def _show(result: Any, job: Job) -> Shown:
    part, times = job.values["part"], None
    figure, *keys = FIGURES[part]
    if part != "header":
        times = _headline(result)
    return Shown.of(
        f"{PARTS[part]}, {job.values['size_mb']} MB" if part != "header" else PARTS[part],
        times,
        getattr(figures, figure)(result, *keys),
        table(result),
        result.provenance,
    )


def _headline(result: Any) -> float | None:
    read, fast = (result.find(name).mb_per_s for name in ("A: read 4096 + send", "B: sendfile"))
    return None if read is None or fast is None else fast / read


def _forecast(values: Values) -> float:
    """Return the expected ratio of sendfile's speed to that of read and send, or 1 on a wire."""
    if values["part"] != "loopback":
        return 1.0
    slow, fast = copies_per_byte("read+send"), copies_per_byte("sendfile")
    return slow.total / fast.total


_PARAMETERS: Final = declared(sendfile.measure).parameters
_SIZE: Final = Number.of(_PARAMETERS["sizes_mb"], "File", 64, name="size_mb", high=256, scale="log")

PANEL = PanelSpec(
    title="Sending a file",
    summary="The same file through read and send, sendfile, splice, mmap and MSG_ZEROCOPY.",
    controls=(
        Choice("part", "Question", PARTS, "loopback"),
        _SIZE,
        Number.of(_PARAMETERS["runs"], "Runs of each", high=10),
    ),
    predicts="sendfile's rate over that of read and send",
    unit="times",
    measurement=ExperimentRun(_call, _show),
    forecast=lambda values: None if values["part"] == "header" else _forecast(values),
)
