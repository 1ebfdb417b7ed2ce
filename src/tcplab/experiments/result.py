"""Define the result of an experiment, with a row of plain data per variant and the provenance."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from tcplab.experiments.mode import recorded_note
from tcplab.experiments.provenance import warning_note
from tcplab.experiments.quantities import Data, Variant
from tcplab.tables import Column, Table

V = TypeVar("V", bound=Variant)


class Result(Data, Generic[V]):
    """The variants of an experiment, in the order in which they were requested."""

    variants: Sequence[V]
    #: kernel, link, settings and dropped packets; "experiment" is the experiment's name
    provenance: Mapping[str, Any]

    def __post_init__(self) -> None:
        for variant in self.variants:
            vars(variant)["within"] = self

    def __getitem__(self, key: Any) -> V:
        """Return the variant with this key; a KeyError names the measured keys."""
        for variant in self.variants:
            if variant.key == key:
                return variant
        measured = ", ".join(repr(variant.key) for variant in self.variants)
        raise KeyError(f"{key!r} was not measured; there are {measured}")

    @property
    def columns(self) -> Sequence[Column]:
        return self.variants[0].columns if self.variants else ()

    def rows(self) -> list[dict[str, Any]]:
        """Return one flat row of plain data per variant, with the label under "variant"."""
        return [variant.row() for variant in self.variants]


class Tabular(Protocol):
    """A result that can be shown as a table: every Result, and a few other classes."""

    @property
    def columns(self) -> Sequence[Column]:
        """The columns of the table."""

    @property
    def provenance(self) -> Mapping[str, Any]:
        """The circumstances of the measurement."""

    def rows(self) -> list[dict[str, Any]]:
        """Return flat rows of plain data."""


def as_json(result: Tabular) -> str:
    """Return a JSON object with the result's experiment, rows and provenance."""
    provenance = dict(result.provenance)
    name = provenance.pop("experiment")
    return json.dumps({"experiment": name, "rows": result.rows(), "provenance": provenance})


def table(result: Tabular) -> Table:
    """Return the result as a table.

    The caption says whether the rows were recorded, which numbers a busy machine may have changed,
    and what this machine does not offer. A notebook folds the hosts' commands under it.
    """
    origin = result.provenance
    notes = recorded_note(origin), warning_note(origin), origin.get("left_out")
    commands = "\n".join(origin.get("host_commands", ()))
    return Table(result.columns, result.rows(), " ".join(filter(None, notes)), commands)
