"""Define the quantities of a result, which are fields and properties, with their table columns.

::

    class FullLink(Variant, label="{0.rate_mbit:g} Mbit/s", heading="link"):
        rate_mbit: float
        mb_per_s: float = column("measured (MB/s)", ".2f")
        share = computed(lambda link: 8 * link.mb_per_s / link.rate_mbit, "share", ".1%")

A row holds the label as "variant", the fields that are plain data, and the derived quantities. The
columns of the table follow the order of the class body.
"""

import operator
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from functools import cached_property
from types import NoneType
from typing import Any, ClassVar, Final, TypeVar, cast, dataclass_transform

from tcplab.tables import Column

T = TypeVar("T")

_PLAIN: Final = (bool, int, float, str, NoneType)
_COLUMNS, _CELLS = "columns", "cells"  # keys of a field's metadata


def plain_fields(data: Any) -> dict[str, Any]:
    """Return the fields of a dataclass that are numbers, texts or None."""
    values = {data_field.name: getattr(data, data_field.name) for data_field in fields(data)}
    return {name: value for name, value in values.items() if isinstance(value, _PLAIN)}


def column(
    heading: str = "",
    format: str = "",  # noqa: A002 - as in Column
    *,
    is_setting: bool = False,
    show: Callable[[Any], Any] | None = None,
    name: str = "",
    default: Any = MISSING,
) -> Any:
    """Define a field with a column of the table. Column explains heading, format and is_setting.

    Without a heading, the quantity is in the row but not in the table. `show` converts the value to
    the content of its cell. `name` is the quantity's name in the row, by default that of the field.
    """

    def cells(field_name: str, value: Any) -> dict[str, Any]:
        return {name or field_name: show(value) if show else value}

    columns = [("", Column(name, heading, format, is_setting))]
    return field(default=default, metadata={_COLUMNS: columns, _CELLS: cells})


def spread(least: str = "", median: str = "", most: str = "", format: str = ".5g") -> Any:  # noqa: A002
    """Define a field with a value per run. Its row has NAME (the median), NAME_min and NAME_max.

    `least`, `median` and `most` are headings. With an integer format, the median is rounded.
    """
    ways: Mapping[str, tuple[Callable[[Sequence[float]], float], str]] = {
        "_min": (min, least),
        "": (statistics.median, median),
        "_max": (max, most),
    }

    def cells(name: str, values: Sequence[float]) -> dict[str, float]:
        return {name + end: way(values) for end, (way, _heading) in ways.items()}

    columns = [
        (end, Column("", heading, format if end else format.replace("d", ".0f")))
        for end, (_way, heading) in ways.items()
    ]
    return field(metadata={_COLUMNS: columns, _CELLS: cells})


class Derived(cached_property[T]):
    """A cached property that is computed from the fields and carries a column."""

    column: Column
    show: Callable[[Any], Any] | None


def computed(
    function: Callable[[Any], T],
    heading: str = "",
    format: str = "",  # noqa: A002
    *,
    is_setting: bool = False,
    show: Callable[[Any], Any] | None = None,
) -> Derived[T]:
    """Define a derived quantity by a function of the variant; column() explains the arguments."""
    quantity = Derived(function)
    quantity.column, quantity.show = Column("", heading, format, is_setting), show
    return quantity


def derived(
    heading: str = "",
    format: str = "",  # noqa: A002
    *,
    show: Callable[[Any], Any] | None = None,
) -> Callable[[Callable[[Any], T]], Derived[T]]:
    """Turn the decorated method into a property with a column; column() explains the arguments."""
    return lambda function: computed(function, heading, format, show=show)


@dataclass_transform(frozen_default=True, field_specifiers=(column, spread, field))
class Data:
    """Base class that makes each subclass a frozen dataclass."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "__dataclass_fields__" not in vars(cls):
            dataclass(frozen=True)(cls)


class Variant(Data):
    """One of the cases that an experiment compares.

    A model's number is computed, never a field, so that a recording shows today's model.
    """

    within: ClassVar[Any]  #: the variant's result (of each instance), which has the settings

    @property
    def kernel(self) -> str:
        """The release of the kernel that was measured."""
        return str(self.within.provenance["kernel"])

    @property
    def link(self) -> Mapping[str, Any]:
        """The parameters of the link towards the server when the measurement ended."""
        return cast(Mapping[str, Any], self.within.provenance["link"]["client->server"])

    columns: ClassVar[Sequence[Column]] = ()  #: columns of the table
    _key: ClassVar[tuple[str, ...]]
    _label: ClassVar[str] = ""
    derived_quantities: ClassVar[Mapping[str, Derived[Any]]] = {}

    def __init_subclass__(
        cls, *, key: str | Sequence[str] = (), label: str = "", heading: str = ""
    ) -> None:
        """Collect the quantities of the class.

        Args:
            key: names of the fields by which the result finds a variant, by default the first field
            label: the key in words, as a format string of the variant: "{0.rate_mbit:g} Mbit/s"
            heading: heading of the label's column, which comes first in the table
        """
        if "columns" not in vars(cls):
            first = [Column("variant", heading)] if heading else []
            columns = _columns_of(cls)
            keys = {column.key for column in columns}
            inherited = [column for column in cls.columns if column.key not in keys]
            cls.columns = (*first, *inherited, *columns)
        own = {name: value for name, value in vars(cls).items() if isinstance(value, Derived)}
        cls.derived_quantities = {**cls.derived_quantities, **own}
        super().__init_subclass__()
        key = (key,) if isinstance(key, str) else tuple(key)
        if key or not hasattr(cls, "_key"):
            cls._key = key or (fields(cls)[0].name,)
        cls._label = label or cls._label

    @property
    def key(self) -> Any:
        return operator.attrgetter(*self._key)(self)

    @property
    def label(self) -> str:
        parts = self.key if isinstance(self.key, tuple) else (self.key,)
        return self._label.format(self) if self._label else ", ".join(map(str, parts))

    def row(self) -> dict[str, Any]:
        """Return the label as "variant", the plain data fields, and the derived quantities."""
        row: dict[str, Any] = {"variant": self.label}
        for data_field in fields(self):
            value = getattr(self, data_field.name)
            if cells := data_field.metadata.get(_CELLS):
                row |= cells(data_field.name, value)
            elif isinstance(value, _PLAIN):
                row[data_field.name] = value
        for name, quantity in self.derived_quantities.items():
            value = getattr(self, name)
            row[name] = quantity.show(value) if quantity.show else value
        return row


def on_off(value: bool) -> str:
    """Return "on" or "off"."""
    return "on" if value else "off"


def plus(sizes: Sequence[int]) -> str:
    """Format sizes as a sum, such as "1448 + 1448 + 104"."""
    return " + ".join(map(str, sizes))


def _columns_of(cls: type) -> list[Column]:
    columns = []
    for name, value in vars(cls).items():
        own: Sequence[tuple[str, Column]] = ()
        if isinstance(value, Derived):
            own = [("", value.column)]
        elif isinstance(value, Field):
            own = cast(Mapping[Any, Any], value.metadata).get(_COLUMNS, ())
        columns += [
            column if column.key else replace(column, key=name + end)
            for end, column in own
            if column.heading
        ]
    return columns
