"""The panel in the browser: an anywidget whose traits mirror a Panel, and whose clicks call it.

Its look is in ``static/panel.js`` and ``static/panel.css``, which need neither a build nor the
network.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anywidget
import traitlets

from tcplab.errors import ParameterError
from tcplab.widgets.spec import KEPT_RUNS

if TYPE_CHECKING:
    from tcplab.widgets.panel import Panel

STATIC: Final = Path(__file__).parent / "static"


class PanelView(anywidget.AnyWidget):
    """Mirrors one Panel.

    The browser sends the traits `values` and `prediction`, and messages: {"do": "warm"}, "run" with
    both, "stop", and "capture" with the number of a run.
    """

    _esm = STATIC / "panel.js"
    _css = STATIC / "panel.css"

    spec = traitlets.Dict().tag(sync=True)
    steps: traitlets.List[Any] = traitlets.List().tag(sync=True)
    values = traitlets.Dict().tag(sync=True)
    prediction = traitlets.Float(None, allow_none=True).tag(sync=True)
    phase = traitlets.Unicode("ready").tag(sync=True)
    message = traitlets.Unicode().tag(sync=True)
    progress = traitlets.Float(None, allow_none=True).tag(sync=True)
    runs: traitlets.List[Any] = traitlets.List().tag(sync=True)
    # The picture of run n, a PNG file, is in number n % 3: so a new run brings no old picture, and
    # bytes go as they are.
    picture_0 = traitlets.Bytes().tag(sync=True)
    picture_1 = traitlets.Bytes().tag(sync=True)
    picture_2 = traitlets.Bytes().tag(sync=True)
    model = traitlets.Dict().tag(sync=True)

    def __init__(self, panel: Panel) -> None:
        self._panel = panel
        self._drawn = 0  # the last run whose picture is here
        spec = panel.spec.for_browser() | {"title": panel.title}
        super().__init__(spec=spec, steps=list(panel.steps), **self._state())
        self.on_msg(self._on_message)
        self.observe(self._on_values, "values")
        self.observe(self._on_prediction, "prediction")

    def mimebundle(self) -> dict[str, Any]:
        """The data by which a notebook's front end shows the widget."""
        version = {"version_major": 2, "version_minor": 0, "model_id": self.model_id}
        return {"application/vnd.jupyter.widget-view+json": version}

    def refresh(self) -> None:
        """Takes over what has changed in the panel; may be called in any thread."""
        state = self._state()
        with self.hold_sync():
            for name, value in state.items():
                if getattr(self, name) != value:
                    setattr(self, name, value)

    def _state(self) -> dict[str, Any]:
        panel = self._panel
        new = [run for run in panel.runs if run["number"] > self._drawn]
        self._drawn = new[-1]["number"] if new else self._drawn
        return {
            **{f"picture_{run['number'] % KEPT_RUNS}": base64.b64decode(run["png"]) for run in new},
            "values": panel.values,
            "prediction": panel.prediction,
            "phase": panel.phase,
            "message": panel.message,
            "progress": panel.progress,
            "runs": [{**run, "png": ""} for run in panel.runs],
            "model": panel.model(),
        }

    def _on_values(self, change: Any) -> None:
        if change["new"] != self._panel.values:
            self._on_message(self, {"do": "set", "values": change["new"]}, None)

    def _on_prediction(self, change: Any) -> None:
        if change["new"] != self._panel.prediction:
            self._panel.predict(change["new"])

    def _on_message(self, _widget: Any, message: Any, _buffers: Any) -> None:
        try:
            self._act(message)
        except ParameterError as error:  # the browser checks too, but is not to be trusted
            self.send({"refused": str(error)})

    def _act(self, message: Any) -> None:
        panel = self._panel
        match message.get("do"):
            case "warm":
                panel.warm()
            case "set":
                panel.set(**message["values"])
            case "run":
                panel.set(**message["values"]).predict(message["prediction"]).start()
            case "stop":
                panel.stop()
            case "capture":
                number = message["number"]
                packets = panel.capture(number)
                self.send({"capture": f"{panel.spec.name}-{number}.pcapng"}, buffers=[packets])
