"""Provide panels for notebooks, as thin shells over experiments, models and figures.

::

    from tcplab import widgets
    widgets.small_writes()

There is one function per panel in ``panels/``, with the settings of its controls as keyword
arguments. A setting that does not exist or is out of range raises ParameterError. Runs are in a
separate process, so that the notebook's kernel stays free and Stop ends everything. A run calls the
lesson's ``measure`` and shows the lesson's figure, except in the live panels (queues and wire).
Controls, status and layout are ipywidgets (`tcplab.widgets.view`). An anywidget
(``static/panel.js``) adds the texts for screen readers.
"""

from collections.abc import Callable
from typing import Any

from tcplab.checks import unknown
from tcplab.machine import require_modules
from tcplab.widgets.panel import Panel
from tcplab.widgets.spec import PANELS, load

__all__ = ["Panel"]

require_modules("ipywidgets")

_FUNCTIONS = {name.replace("-", "_"): name for name in PANELS}


def __getattr__(name: str) -> Callable[..., Panel]:
    if name not in _FUNCTIONS:
        raise AttributeError(f"panel {unknown(name, _FUNCTIONS)}")
    spec = load(_FUNCTIONS[name])

    def make(**values: Any) -> Panel:
        return Panel(spec, **values)

    make.__name__, make.__doc__ = name, f"{spec.title}. {spec.summary}"
    return make


def __dir__() -> list[str]:
    return [*__all__, *_FUNCTIONS]
