"""Show controls as ipywidgets, with a message if the input is rejected."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from html import escape
from typing import Any

from tcplab.checks.guesses import SKIP, read_guess
from tcplab.widgets.controls import Choice, Control, Number, Text

#: A function that gets a new value, or None for rejected input or for an empty or skipped guess.
Changed = Callable[[Any], object]


class ChoiceField:
    """A drop-down list for a Choice."""

    is_refused = False

    def __init__(self, control: Choice, changed: Changed) -> None:
        import ipywidgets as w

        options = [(text, value) for value, text in control.options.items()]
        self.widget = w.Dropdown(
            options=options, value=control.default, description=control.label, tooltip=control.help
        ).add_class("tcplab-field")
        self.widget.observe(lambda change: changed(change["new"]), "value")

    def show(self, value: str) -> None:
        """Select the value that the panel has."""
        self.widget.value = value


class _TypedField:
    """A box for typing. Input for which `read` raises ValueError is rejected with a message."""

    def __init__(self, box: Any, read: Callable[[Any], Any], changed: Changed, name: str) -> None:
        import ipywidgets as w

        self._box, self._read, self._changed, self._name = box, read, changed, name
        self._value: Any = None
        self._refusal = w.HTML().add_class("tcplab-bad")
        self.widget = w.Box([box, self._refusal]).add_class("tcplab-field")
        box.observe(self._typed, "value")

    @property
    def is_refused(self) -> bool:
        """True if the input in the box is rejected."""
        return bool(self._refusal.value)

    def show(self, value: Any) -> None:
        """Show the value that the panel has, but keep rejected input in the box for correction."""
        self._value = value
        if not self.is_refused:
            self._fill()

    def _fill(self) -> None:
        if self._box.value.strip() != self._value:
            self._box.value = self._value

    def _typed(self, change: Any) -> None:
        was_refused = self.is_refused
        try:
            value = self._read(change["new"])
        except ValueError as error:
            self._refusal.value = escape(str(error).removeprefix(f"{self._name}="))
            self._changed(None)
            return
        self._refusal.value = ""
        if was_refused or value != self._value:
            self._changed(value)


class NumberField(_TypedField):
    """A box for a Number with its label, and a slider that follows the box.

    The box accepts any number and explains why one is not allowed. An ipywidgets box with limits
    would silently replace the number.
    """

    def __init__(self, control: Number, changed: Changed) -> None:
        import ipywidgets as w

        unit = f" ({control.unit})" if control.unit else ""
        box = w.FloatText(
            value=control.default,
            step=1 if control.step == 1 else None,
            description=control.label + unit,
            tooltip=control.help,
            continuous_update=True,
        )
        super().__init__(box, control.check, changed, control.name)
        self._value, self._stops = control.default, control.stops()
        labels = [f"{stop:,g} {control.unit}" for stop in self._stops]
        self._slider = w.SelectionSlider(
            options=labels, index=self._nearest(), continuous_update=False
        )
        self.widget.children = [box, self._slider, self._refusal]
        self.widget.add_class("tcplab-number")
        self._slider.observe(self._moved, "index")

    def _fill(self) -> None:
        self._box.value = self._value
        self._slider.index = self._nearest()

    def _nearest(self) -> int:
        index = bisect_left(self._stops, self._value)
        around = range(max(index - 1, 0), min(index + 1, len(self._stops)))
        return min(around, key=lambda stop: abs(self._stops[stop] - self._value))

    def _moved(self, change: Any) -> None:
        if change["new"] != self._nearest():
            self._refusal.value = ""
            self._changed(self._stops[change["new"]])


class TextField(_TypedField):
    """A box for a Text."""

    def __init__(self, control: Text, changed: Changed) -> None:
        import ipywidgets as w

        text = w.Textarea(  # a Textarea wraps the long line of a command
            value=control.default,
            description=control.label,
            tooltip=control.help,
            rows=3,
            continuous_update=True,
        )
        super().__init__(text, control.check, changed, control.name)


class PredictionField(_TypedField):
    """A box for a prediction, which is a number or "skip". It is empty at first."""

    def __init__(self, label: str, changed: Changed) -> None:
        import ipywidgets as w

        text = w.Text(description=label, placeholder='a number, or "skip"', continuous_update=True)
        super().__init__(text, _prediction, changed, "prediction")

    @property
    def is_answered(self) -> bool:
        """True if the user has guessed or skipped the question."""
        return bool(self._box.value.strip()) and not self.is_refused

    def _typed(self, change: Any) -> None:
        super()._typed(change)
        if change["new"].strip() == SKIP:
            self._changed(None)

    def _fill(self) -> None:
        if self._value != _prediction(self._box.value):
            self._box.value = "" if self._value is None else f"{self._value:g}"


Field = ChoiceField | NumberField | TextField


def make_field(control: Control, changed: Changed) -> Field:
    """Return the field for a control. `changed` is called with each new value."""
    if isinstance(control, Choice):
        return ChoiceField(control, changed)
    if isinstance(control, Text):
        return TextField(control, changed)
    return NumberField(control, changed)


def _prediction(text: str) -> float | None:
    return read_guess(text) if text.strip() else None
