"""Run the experiments of the course. Each is one function that lessons, tests and demos share."""

from tcplab.experiments.declaration import (
    Between,
    PythonOnly,
    Spelled,
    catalogue,
    declared,
    every,
    experiment,
    find,
)
from tcplab.experiments.on_lab import on_lab
from tcplab.experiments.provenance import provenance
from tcplab.experiments.quantities import Variant, column, computed, derived, spread
from tcplab.experiments.result import Result, as_json, table

__all__ = [
    "Between",
    "PythonOnly",
    "Result",
    "Spelled",
    "Variant",
    "as_json",
    "catalogue",
    "column",
    "computed",
    "declared",
    "derived",
    "every",
    "experiment",
    "find",
    "on_lab",
    "provenance",
    "spread",
    "table",
]
