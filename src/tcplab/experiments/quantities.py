"""Quantities: the fields and properties of a result that carry their own table column.

::

    class FullLink(Variant, label="{0.rate_mbit:g} Mbit/s", heading="link"):
        rate_mbit: float
        model_mb_per_s: float = column("computed (MB/s)", ".2f")  # what the headers leave room for
        mb_per_s: float = column("measured (MB/s)", ".2f")

        @derived("measured / computed", ".1%")
        def share(self) -> float:
            return self.mb_per_s / self.model_mb_per_s

A row holds the label as "variant", the fields that are plain data, and the derived quantities. The
columns of the table follow the order of the class body.
"""

from __future__ import annotations

import operator
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from functools import cached_property
from types import NoneType
from typing import Any, ClassVar, Final, TypeVar, dataclass_transform

from tcplab.tables import Column

T = TypeVar("T")

_PLAIN: Final = (bool, int, float, str, NoneType)
_COLUMNS, _CELLS = "columns", "cells"  # of a field's metadata


def plain_fields(data: Any) -> dict[str, Any]:
    """The fields of a dataclass that are numbers, texts or None."""
    values = {each.name: getattr(data, each.name) for each in fields(data)}
    return {name: each for name, each in values.items() if isinstance(each, _PLAIN)}


def column(
    heading: str = "",
    format: str = "",  # noqa: A002 - as in Column
    *,
    is_setting: bool = False,
    show: Callable[[Any], Any] | None = None,
    name: str = "",
    default: Any = MISSING,
) -> Any:
    """A field with a column of the table.

    Args:
        heading: see Column; without one, the quantity is in the row and not in the table.
        format: see Column.
        is_setting: see Column.
        show: from the value to its cell, for a value that is not plain data.
        name: of the quantity in the row: the field's unless given.
        default: of the field.
    """

    def cells(field_name: str, value: Any) -> dict[str, Any]:
        return {name or field_name: show(value) if show else value}

    column = Column(name, heading, format, is_setting)
    return field(default=default, metadata={_COLUMNS: [("", column)], _CELLS: cells})


def spread(least: str = "", median: str = "", most: str = "", format: str = ".5g") -> Any:  # noqa: A002
    """A field with one value per run: NAME is their median in the row, beside NAME_min, NAME_max.

    Args:
        least: heading of the smallest value.
        median: heading of the median.
        most: heading of the largest.
        format: of all three; the median of whole numbers has no decimals.
    """
    middle = format.replace("d", ".0f")
    columns = [
        ("_min", Column("", least, format)),
        ("", Column("", median, middle)),
        ("_max", Column("", most, format)),
    ]
    return field(metadata={_COLUMNS: columns, _CELLS: spread_columns})


def spread_columns(name: str, values: Sequence[float]) -> dict[str, float]:
    """The cells of a repeated measurement: the median by its name, NAME_min and NAME_max."""
    return {name: statistics.median(values), f"{name}_min": min(values), f"{name}_max": max(values)}


class Derived(cached_property[T]):
    """A quantity that follows from the fields."""

    column: Column
    show: Callable[[Any], Any] | None

    def __set_name__(self, owner: type, name: str) -> None:
        super().__set_name__(owner, name)
        self.column = replace(self.column, key=name)


def computed(
    function: Callable[[Any], T],
    heading: str = "",
    format: str = "",  # noqa: A002
    *,
    is_setting: bool = False,
    show: Callable[[Any], Any] | None = None,
) -> Derived[T]:
    """A derived quantity in one line; see column() for the arguments."""
    quantity = Derived(function)
    quantity.column, quantity.show = Column("", heading, format, is_setting), show
    return quantity


def derived(
    heading: str = "",
    format: str = "",  # noqa: A002
    *,
    is_setting: bool = False,
    show: Callable[[Any], Any] | None = None,
) -> Callable[[Callable[[Any], T]], Derived[T]]:
    """Decorate a method as a property whose value is in the row; see column() for the arguments."""
    return lambda function: computed(function, heading, format, is_setting=is_setting, show=show)


@dataclass_transform(frozen_default=True, field_specifiers=(column, spread, field))
class Data:
    """Make each subclass a frozen dataclass."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "__dataclass_fields__" not in vars(cls):
            dataclass(frozen=True)(cls)


class Variant(Data):
    """One of the compared cases."""

    columns: ClassVar[Sequence[Column]] = ()  #: of the table
    _key: ClassVar[tuple[str, ...]]
    _label: ClassVar[str] = ""
    _derived: ClassVar[Mapping[str, Derived[Any]]] = {}

    def __init_subclass__(
        cls, *, key: str | Sequence[str] = (), label: str = "", heading: str = ""
    ) -> None:
        """Collect the quantities of the class.

        Args:
            key: names of the fields by which the result finds a variant: the first field
                unless given.
            label: the key in words, a format of the variant: "{0.rate_mbit:g} Mbit/s".
            heading: of the label's column, which is the table's first.
        """
        named = dict(_quantities(cls))
        if "columns" not in vars(cls) and (heading or named):
            inherited = () if heading else cls.columns
            more = [each for group in named.values() for each in group if each.heading]
            first = [Column("variant", heading)] if heading else []
            cls.columns = (*first, *_replaced(inherited, more))
        own = {name: each for name, each in vars(cls).items() if isinstance(each, Derived)}
        cls._derived = {**cls._derived, **own}
        super().__init_subclass__()
        key = (key,) if isinstance(key, str) else tuple(key)
        if key or not hasattr(cls, "_key"):
            cls._key = key or (fields(cls)[0].name,)
        cls._label = label or cls._label

    @property
    def key(self) -> Any:
        """The key under which the result finds it: one field, or a tuple of several."""
        return operator.attrgetter(*self._key)(self)

    @property
    def label(self) -> str:
        """The key in words."""
        return self._label.format(self) if self._label else str(self.key)

    def row(self) -> dict[str, Any]:
        """The label as "variant", the fields that are plain data, and the derived quantities."""
        row: dict[str, Any] = {"variant": self.label}
        for each in fields(self):
            value = getattr(self, each.name)
            if cells := each.metadata.get(_CELLS):
                row |= cells(each.name, value)
            elif isinstance(value, _PLAIN):
                row[each.name] = value
        for name, quantity in self._derived.items():
            value = getattr(self, name)
            row[name] = quantity.show(value) if quantity.show else value
        return row


def yes_no(value: bool) -> str:
    """Show a truth in words."""
    return "yes" if value else "no"


def on_off(value: bool) -> str:
    """Show a setting in words."""
    return "on" if value else "off"


def plus(sizes: Sequence[int]) -> str:
    """Show sizes as a sum: "1448 + 1448 + 104"."""
    return " + ".join(map(str, sizes))


def _quantities(cls: type) -> Iterator[tuple[str, list[Column]]]:
    """The names of the class body that carry columns, with these."""
    for name, value in vars(cls).items():
        if isinstance(value, Derived):
            yield name, [value.column]
        elif isinstance(value, Field):
            columns: Mapping[Any, Any] = value.metadata
            yield (
                name,
                [
                    each if each.key else replace(each, key=name + end)
                    for end, each in columns.get(_COLUMNS, ())
                ],
            )


def _replaced(inherited: Sequence[Column], own: Sequence[Column]) -> list[Column]:
    """The inherited columns, then one's own; of the same key only the latter."""
    keys = {each.key for each in own}
    return [*(each for each in inherited if each.key not in keys), *own]
