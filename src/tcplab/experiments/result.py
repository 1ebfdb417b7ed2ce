"""The result of an experiment: its variants, as rows of plain data, and their provenance."""

from __future__ import annotations

import json
import operator
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from types import NoneType
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar

from tcplab.experiments.mode import recorded_note
from tcplab.experiments.provenance import wire_note
from tcplab.tables import Column, Table

_PLAIN: Final = (bool, int, float, str, NoneType)


def plain_fields(data: Any) -> dict[str, Any]:
    """The fields of a dataclass that are numbers, texts or None."""
    values = {each.name: getattr(data, each.name) for each in fields(data)}
    return {name: each for name, each in values.items() if isinstance(each, _PLAIN)}


class Variant:
    """One of the compared cases: base of frozen dataclasses whose first fields are their key."""

    __slots__ = ()

    key_fields: ClassVar[int] = 1  #: how many of the fields

    @property
    def key(self) -> Any:
        """The key under which the result finds it: one field, or a tuple of several."""
        names = [each.name for each in fields(self)[: self.key_fields]]  # type: ignore[arg-type]
        return operator.attrgetter(*names)(self)

    @property
    def label(self) -> str:
        """The key in words."""
        return str(self.key)

    def row(self) -> dict[str, Any]:
        """The label as "variant", then the fields that are plain data."""
        return {"variant": self.label, **plain_fields(self)}


V = TypeVar("V", bound=Variant)


@dataclass(frozen=True, slots=True)
class Result(Generic[V]):
    """An experiment's variants, in the order in which they were asked for."""

    columns: ClassVar[Sequence[Column]] = ()  #: of the table

    variants: Sequence[V]
    #: kernel, link, settings, losses of the recording; "experiment" names it
    provenance: Mapping[str, Any]

    def __getitem__(self, key: Any) -> V:
        """The variant of this key.

        Raises:
            KeyError: it was not measured; those that were are named.
        """
        for variant in self.variants:
            if variant.key == key:
                return variant
        measured = ", ".join(repr(variant.key) for variant in self.variants)
        raise KeyError(f"{key!r} was not measured; there are {measured}")

    def rows(self) -> list[dict[str, Any]]:
        """One flat row of plain data per variant; each has the key "variant"."""
        return [variant.row() for variant in self.variants]


class Tabular(Protocol):
    """A result with columns: every Result, and the few that are none."""

    columns: ClassVar[Sequence[Column]]

    @property
    def provenance(self) -> Mapping[str, Any]:
        """The circumstances of the measurement."""

    def rows(self) -> list[dict[str, Any]]:
        """Flat rows of plain data."""


def as_json(result: Tabular) -> str:
    """One JSON object: experiment, rows, provenance."""
    provenance = dict(result.provenance)
    name = provenance.pop("experiment")
    return json.dumps({"experiment": name, "rows": result.rows(), "provenance": provenance})


def table(result: Tabular) -> Table:
    """The rows under the result's columns.

    The caption says whether they were recorded, whether the wire was too late to conclude from
    them, and what this machine does not offer.
    """
    origin = result.provenance
    notes = recorded_note(origin), wire_note(origin), origin.get("left_out")
    return Table(result.columns, result.rows(), " ".join(filter(None, notes)))


def spread_columns(name: str, values: Sequence[float]) -> dict[str, float]:
    """The columns of a repeated measurement: the median by its name, NAME_min and NAME_max."""
    return {name: statistics.median(values), f"{name}_min": min(values), f"{name}_max": max(values)}
