"""Panel on sending a file with read and send, compared with sendfile and its relatives."""

from __future__ import annotations

from typing import Any, Final

from tcplab.experiments import declared, sendfile
from tcplab.widgets.controls import Choice, Number
from tcplab.widgets.spec import ExperimentRun, PanelCall, PanelSpec, Values

PARTS: Final = {
    "loopback": "every variant, within one machine",
    "wire": "read, sendfile and cork, over 100 Mbit/s",
    "header": "a header before the file: which segments",
}
FUNCTIONS: Final = {"loopback": "measure", "wire": "measure_wire", "header": "measure_header"}


def _call(values: Values) -> PanelCall:
    part = values["part"]
    sizes = {} if part == "header" else {"sizes_mb": (values["size_mb"],)}
    arguments = {**sizes, "runs": values["runs"]}
    return PanelCall(sendfile, arguments, function=FUNCTIONS[part])


def _times(result: Any, values: Values) -> float | None:
    if values["part"] == "header":
        return None
    read, fast = (result.find(name).mb_per_s for name in ("A: read 4096 + send", "B: sendfile"))
    return float(fast / read)


def _forecast(values: Values) -> float:
    """Return sendfile's expected speed-up (one copy per byte, not three), or 1 on a link."""
    return 3.0 if values["part"] == "loopback" else 1.0


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
    measurement=ExperimentRun(_call, _times),
    forecast=lambda values: None if values["part"] == "header" else _forecast(values),
)
