"""ipywidgets' ``interact`` for the lessons' explorers, with complete and accessible labels.

ipywidgets 8 cuts a label after ten letters. Its sliders have no name for a screen reader, since
their label is not tied to the handle that has the focus.
"""

from __future__ import annotations

import functools
from typing import Any


def interact(*function: Any, **abbreviations: Any) -> Any:
    """Call ``ipywidgets.interact``, which has the same arguments and result."""
    import ipywidgets

    return type(ipywidgets.interact)(_labelled(), {})(*function, **abbreviations)


@functools.cache
def _labelled() -> Any:
    import ipywidgets

    from tcplab.widgets.view import Page

    class Labelled(ipywidgets.interactive):  # type: ignore[misc]
        """The controls of a function, with labels in a column as wide as the longest."""

        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            seen = [
                each for each in self.kwargs_widgets if hasattr(each.style, "description_width")
            ]
            width_ch = max((len(each.description) for each in seen), default=0) + 1
            for control in seen:
                control.style.description_width = f"{width_ch}ch"
                control.layout.width = f"min(100%, {width_ch}ch + 300px)"
            self.children = (*self.children, Page())  # type: ignore[has-type]

    return Labelled
