"""Panel on sending a file with read and send, compared with sendfile and its relatives."""

from typing import Any, Final

from tcplab.experiments import sendfile
from tcplab.widgets.spec import PanelCall, Values

FUNCTIONS: Final = {"loopback": "measure", "wire": "measure_wire", "header": "measure_header"}


def call(values: Values) -> PanelCall:
    """Measure the part that the user has chosen."""
    part = values["part"]
    sizes = {} if part == "header" else {"sizes_mb": (values["size_mb"],)}
    arguments = {**sizes, "runs": values["runs"]}
    return PanelCall(sendfile, arguments, function=FUNCTIONS[part])


def headline(result: Any, values: Values) -> float | None:
    """Return how many times as fast as read and send sendfile is."""
    if values["part"] == "header":
        return None
    read, fast = (result.find(name).mb_per_s for name in ("A: read 4096 + send", "B: sendfile"))
    return float(fast / read)


def forecast(values: Values) -> float | None:
    """Return sendfile's expected speed-up (one copy per byte, not three), or 1 on a link."""
    return {"loopback": 3.0, "wire": 1.0}.get(values["part"])
