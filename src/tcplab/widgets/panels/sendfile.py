"""Panel on sending a file with read and send, compared with sendfile and its relatives."""

from __future__ import annotations

from typing import Any, Final

from tcplab.experiments import declared, sendfile
from tcplab.models import copies_per_byte
from tcplab.widgets.controls import Choice, Number
from tcplab.widgets.spec import Call, ExperimentRun, PanelSpec, Values

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
    return Call(MODULES[part], {**sizes, "runs": values["runs"]}, drawn)


def _times(result: Any, values: Values) -> float | None:
    if values["part"] == "header":
        return None
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
    measurement=ExperimentRun(_call, _times),
    forecast=lambda values: None if values["part"] == "header" else _forecast(values),
)
