"""A control in the page: ipywidgets for a value that may be set, and the words where it may not."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from contextlib import suppress
from html import escape
from typing import Any

from tcplab.errors import ParameterError
from tcplab.widgets.controls import Choice, Control, Number, Text

#: Called with a value that was set, or with None when there is only something refused.
Changed = Callable[[Any], None]


class ChoiceField:
    """A drop-down list."""

    is_refused = False

    def __init__(self, control: Choice, changed: Changed) -> None:
        import ipywidgets as w

        options = [(text, value) for value, text in control.options.items()]
        self.widget = w.Dropdown(
            options=options,
            value=control.default,
            description=control.label,
            tooltip=control.help,
        ).add_class("tcplab-field")
        self.widget.observe(lambda change: changed(change["new"]), "value")

    def show(self, value: str) -> None:
        """Takes over the panel's value."""
        self.widget.value = value


class NumberField:
    """A box with its label, and a slider that follows it.

    The box takes any number, and says what is wrong with one that it does not allow: an ipywidgets
    box with limits would put another number in its place.
    """

    def __init__(self, control: Number, changed: Changed) -> None:
        import ipywidgets as w

        self._control, self._changed = control, changed
        self._value: float = control.default
        self._stops = control.stops()
        unit = f" ({control.unit})" if control.unit else ""
        self._box = w.FloatText(
            value=control.default,
            step=1 if control.step == 1 else None,
            description=control.label + unit,
            tooltip=control.help,
            continuous_update=True,
        )
        said = [f"{each:,g} {control.unit}" for each in self._stops]
        self._slider = w.SelectionSlider(options=said, index=self._nearest())
        self._refusal = w.HTML().add_class("tcplab-bad")
        parts = [self._box, self._slider, self._refusal]
        self.widget = w.Box(parts).add_class("tcplab-field").add_class("tcplab-number")
        self._box.observe(self._typed, "value")
        self._slider.observe(self._moved, "index")

    @property
    def is_refused(self) -> bool:
        """Whether the box holds a number that is not allowed."""
        return bool(self._refusal.value)

    def show(self, value: float) -> None:
        """Takes over the panel's value; a refused number stays to be corrected."""
        self._value = value
        if not self.is_refused:
            self._box.value = value
            self._slider.index = self._nearest()

    def _nearest(self) -> int:
        index = bisect_left(self._stops, self._value)
        around = range(max(index - 1, 0), min(index + 1, len(self._stops)))
        return min(around, key=lambda each: abs(self._stops[each] - self._value))

    def _typed(self, change: Any) -> None:
        was_refused = self.is_refused
        try:
            value = self._control.check(change["new"])
        except ValueError as error:
            self._refusal.value = escape(str(error).removeprefix(f"{self._control.name}="))
            self._changed(None)
            return
        self._refusal.value = ""
        if was_refused or value != self._value:
            self._changed(value)

    def _moved(self, change: Any) -> None:
        if change["new"] != self._nearest():
            self._refusal.value = ""
            self._changed(self._stops[change["new"]])


class _LineField:
    """A line that somebody types, and what is wrong with one that is not allowed."""

    def __init__(self, text: Any, read: Callable[[str], Any], changed: Changed) -> None:
        import ipywidgets as w

        self._text, self._read, self._changed = text, read, changed
        self._refusal = w.HTML().add_class("tcplab-bad")
        self.widget = w.Box([self._text, self._refusal]).add_class("tcplab-field")
        self._text.observe(self._typed, "value")

    @property
    def is_refused(self) -> bool:
        """Whether the line is not allowed."""
        return bool(self._refusal.value)

    def _typed(self, change: Any) -> None:
        try:
            value = self._read(change["new"])
        except ValueError as error:
            self._refusal.value = escape(str(error))
            self._changed(None)
            return
        self._refusal.value = ""
        self._changed(value)


class TextField(_LineField):
    """A line of text."""

    def __init__(self, control: Text, changed: Changed) -> None:
        import ipywidgets as w

        text = w.Textarea(  # whose lines are folded; a command is one, and long
            value=control.default,
            description=control.label,
            tooltip=control.help,
            rows=3,
            continuous_update=True,
        )
        super().__init__(text, control.check, changed)

    def show(self, value: str) -> None:
        """Takes over the panel's value; a refused line stays to be corrected."""
        if not self.is_refused and self._text.value.strip() != value:
            self._text.value = value


class PredictionField(_LineField):
    """A number, or nothing for no prediction."""

    def __init__(self, label: str, changed: Changed) -> None:
        import ipywidgets as w

        text = w.Text(description=label, placeholder="skip", continuous_update=True)
        super().__init__(text, _prediction, changed)

    def show(self, value: float | None) -> None:
        """Takes over the panel's prediction."""
        if not self.is_refused and value != _prediction(self._text.value):
            self._text.value = "" if value is None else f"{value:g}"


Field = ChoiceField | NumberField | TextField


def make_field(control: Control, changed: Changed) -> Field:
    """The field of a control."""
    if isinstance(control, Choice):
        return ChoiceField(control, changed)
    if isinstance(control, Text):
        return TextField(control, changed)
    return NumberField(control, changed)


def _prediction(text: str) -> float | None:
    if not text.strip():
        return None
    with suppress(ValueError):
        if 0 <= (value := float(text)) < math.inf:
            return value
    raise ParameterError(f"“{text}” must be a number of at least 0, such as 12 or 0.5")
