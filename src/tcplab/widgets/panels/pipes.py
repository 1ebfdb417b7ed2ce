"""Panel on pipes: a path from a file or from zeros to a socket, composed of parts."""

from typing import Any, Final

from tcplab.errors import LabError
from tcplab.experiments import pipes
from tcplab.widgets.spec import PanelCall, Values

RUNS: Final = 3
#: The most data that a run sends over the wire. At 1 Gbit/s each MB takes 8 ms, and a lecturer
#: should not have to wait.
MOST_WIRE_MB: Final = 40


def _parts(values: Values) -> dict[str, Any]:
    names = ("source", "sender", "receiver", "block_bytes")
    return {name: values[name] for name in names} | {"wire": values["network"] == "wire"}


def _reference(values: Values) -> str:
    return "wire-netcat" if values["network"] == "wire" else "dd-netcat"


def call(values: Values) -> PanelCall:
    """Measure the composed pipeline and the reference in turn."""
    parts, reference = _parts(values), _reference(values)
    arguments = {
        "variants": (reference, pipes.compose(**parts)),
        "runs": RUNS,
        "size_mb": values["size_mb"],
        "wire_size_mb": min(values["size_mb"], MOST_WIRE_MB),
    }
    given = "".join(f"        {name}={value!r},\n" for name, value in parts.items())
    variants = f"({reference!r}, pipes.compose(\n{given}    ))"
    figure = "figures.copy_path(result, pipes.COMPOSED)"
    return PanelCall(pipes, arguments, figure, sources={"variants": variants})


def headline(result: Any, values: Values) -> float | None:
    """Return the ratio of the rates of the pipeline and the reference."""
    mine, reference = result[pipes.COMPOSED], result[_reference(values)]
    for chain in (mine, reference):
        if not chain.runs:
            raise LabError(f"{chain.pipeline.name}: {chain.missing}")
    return float(mine.median_mb_per_s / reference.median_mb_per_s)


def forecast(values: Values) -> float | None:
    """Return the expected ratio to the reference's rate, or None for a local run without copies."""
    if values["network"] == "wire":
        return 1.0
    copies = pipes.compose(**_parts(values)).cost.copies
    return pipes.PIPELINES[_reference(values)].cost.copies / copies if copies else None
