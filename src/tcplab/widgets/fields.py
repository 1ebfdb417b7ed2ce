"""Show controls as ipywidgets."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tcplab.widgets.controls import Choice, Control, Number


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
