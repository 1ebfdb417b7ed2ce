"""Show demonstrations for a lecture, which are panels with prepared steps and questions.

``tcplab demo small-writes`` opens a page in the browser, and ``demos.show("small-writes")`` shows
the panel in a notebook. A step takes at most five seconds from the click to the picture, except a
live run in which the lecturer moves the sliders. The audience votes before the lecturer presses
Run, and its votes appear next to the measurement.

A demo is a file ``NAME.toml`` in this folder, or any other TOML file. If the file is missing or
invalid, ParameterError names the file, the step and the key in one line.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tcplab.demos.steps import Demo, Option, Step, every, find
from tcplab.widgets.panel import Panel
from tcplab.widgets.spec import load

if TYPE_CHECKING:
    from tcplab.widgets.view import PanelView

__all__ = ["Demo", "DemoPanel", "Option", "Step", "every", "find", "show"]
__dir__ = __all__.copy


class DemoPanel(Panel):
    """The panel of a demo, with the settings of the first step."""

    def __init__(self, demo: Demo, state: str = "", phones: str = "") -> None:
        super().__init__(load(demo.panel), title=demo.title, **demo.steps[0].settings)
        self.state = Path(state) if state else None  #: the file that a reloaded page continues from
        self.phones = phones if state else ""  #: the address at which phones vote
        self.steps = demo.steps
        self.message = "Count the votes, then press Run."

    def kept(self, asked: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Keep one run of each step."""
        return [run for run in self.runs if run["values"] != asked["values"]]

    def restore(self, settings: Mapping[str, Any]) -> None:
        """Continue after the runs of an earlier page, with these settings."""
        self.values = dict(settings)
        self._number = max((run["number"] for run in self.runs), default=0)

    def make_view(self) -> PanelView:
        """Return the view with the steps of the demo."""
        from tcplab.demos.view import DemoView

        return DemoView(self, self.steps)


def show(name: str, state: str = "", phones: str = "") -> DemoPanel:
    """Return the panel of a demo with its steps, for the last line of a notebook's cell.

    With `state`, a file of your own, a reloaded page continues with its step, votes and runs.
    `tcplab demo --phones` also passes the address of the page on which phones vote.
    """
    return DemoPanel(find(name), state, phones)
