"""Show controls as ipywidgets, and the field for a guess in a panel or in a lesson."""

import math
from collections.abc import Callable
from html import escape
from typing import Any

from tcplab.checks.guesses import SKIP, read_guess
from tcplab.errors import ParameterError
from tcplab.widgets.controls import Choice, Control, Number


class GuessField:
    """A text field for a guess, and the sentence that refuses a text that is not one.

    `told` is called with the guess, or None without one, and with False if nothing was answered.
    """

    def __init__(self, label: str, told: Callable[[float | None, bool], object], typing: bool):
        import ipywidgets as w

        text = f'a number, or "{SKIP}"'
        self.box = w.Text(description=label, placeholder=text, continuous_update=typing)
        self.refused = w.HTML().add_class("tcplab-bad")
        self._told = told
        self.box.observe(lambda change: self._read(change["new"].strip()), "value")

    def _read(self, text: str) -> None:
        self.refused.value = ""
        try:
            self._told(read_guess(text) if text else None, bool(text))
        except ParameterError as error:
            self.refused.value = escape(str(error))
            self._told(None, False)


def make_field(control: Control, changed: Callable[[Any], object]) -> tuple[Any, Any]:
    """Return the widget of a control, and the widget in it whose `value` is the setting."""
    import ipywidgets as w

    parts: tuple[Any, ...]
    if isinstance(control, Number):
        parts = box, _slider = _number(control)
    else:
        if isinstance(control, Choice):
            options = [(text, value) for value, text in control.options.items()]
            box = w.Dropdown(options=options, value=control.default)
        else:  # a Textarea wraps the long line of a command
            box = w.Textarea(value=control.default, rows=3, continuous_update=True)
        parts = (box,)
    unit = f" ({control.unit})" if isinstance(control, Number) and control.unit else ""
    box.description, box.tooltip = control.label + unit, control.help
    box.observe(lambda change: changed(change["new"]), "value")
    field = w.Box(parts).add_class("tcplab-field")
    return field.add_class("tcplab-number") if len(parts) > 1 else field, box


def _number(control: Number) -> tuple[Any, Any]:
    """Return a box, which takes any number within the limits, and a slider that follows it."""
    import ipywidgets as w

    is_whole, is_log = control.step == int(control.step), control.scale == "log"
    limits: dict[str, Any] = {"min": control.low, "max": control.high, "step": control.step}
    box = (w.BoundedIntText if is_whole else w.BoundedFloatText)(control.default, **limits)
    if is_log:
        ends = {"min": math.log10(control.low), "max": math.log10(control.high), "step": 0.05}
        slider = w.FloatLogSlider(control.default, **ends)
    else:
        slider = (w.IntSlider if is_whole else w.FloatSlider)(control.default, **limits)
    slider.continuous_update = False

    def moved(change: Any) -> None:
        value = change["new"]
        if math.isclose(value, box.value):
            return  # the slider has followed the box
        if is_log:
            value = float(f"{value:.2g}")
        if is_whole and (value := round(value)) == box.value:  # a short step among small numbers
            value += 1 if change["new"] > value else -1
        box.value = value

    slider.observe(moved, "value")
    box.observe(lambda change: setattr(slider, "value", change["new"]), "value")
    return box, slider
