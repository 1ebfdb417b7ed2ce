"""Instrument panels for notebooks: thin ipywidgets shells over the experiments and figures.

A panel measures nothing and draws nothing itself. Its controls have text labels and are reachable
by keyboard; results appear in place, in an area of fixed height, so that nothing on the page
jumps; the kernel stays free while an experiment runs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING, Any, cast, get_args

from tcplab.lab import LabError
from tcplab.programs import SmallWritesMode

if TYPE_CHECKING:
    import ipywidgets

__all__ = ["Panel", "small_writes"]

Shown = tuple[str, str]  # HTML of the picture, HTML of the table


class Panel:
    """Controls on the left, picture and table on the right, Run below the controls.

    Args:
        title: heading, and the name that screen readers announce.
        controls: name -> widget; the values are passed to `run` under these names.
        run: the experiment and its picture; called in a thread of its own.
        code: the Python that repeats a run, from the same values.
    """

    def __init__(
        self,
        title: str,
        controls: dict[str, ipywidgets.ValueWidget],
        run: Callable[..., Shown],
        code: Callable[..., str],
    ) -> None:
        import ipywidgets as w

        self._controls = controls
        self._measure = run
        self._code = code
        self._running: threading.Thread | None = None
        self.run_button = w.Button(
            description="Run", button_style="primary", tooltip="Measure with these settings"
        )
        self.run_button.on_click(lambda _button: self.start())
        self.status = w.HTML("<p>Ready.</p>")
        self.picture = w.HTML(layout=w.Layout(min_height="420px"))
        self.table = w.HTML()
        self.source = w.HTML()
        for control in controls.values():
            control.layout.width = "300px"
        left = [w.HTML(f"<h4>{escape(title)}</h4>"), *controls.values()]
        left += [self.run_button, self.status, self.source]
        self.widget = w.HBox(
            [
                w.VBox(left, layout=w.Layout(width="320px", flex="0 0 auto")),
                w.VBox([self.picture, self.table], layout=w.Layout(flex="1 1 auto")),
            ]
        )

    def _repr_mimebundle_(self, **options: Any) -> Any:
        return self.widget._repr_mimebundle_(**options)

    def start(self) -> None:
        """What the Run button does."""
        if self._running is not None and self._running.is_alive():
            return
        values = {name: control.value for name, control in self._controls.items()}
        self.run_button.disabled = True
        self.status.value = "<p>Measuring …</p>"
        self._running = threading.Thread(target=self._work, args=(values,), daemon=True)
        self._running.start()

    def wait(self) -> Panel:
        """Waits for the run that was started; for notebooks that run without a browser."""
        if self._running is not None:
            self._running.join()
        return self

    def _work(self, values: dict[str, Any]) -> None:
        # Only traits are set in here: what a thread prints lands in whichever cell runs just now.
        try:
            self.picture.value, self.table.value = self._measure(**values)
            self.status.value = "<p>Done.</p>"
            code = escape(self._code(**values))
            self.source.value = f"<details><summary>As code</summary><pre>{code}</pre></details>"
        except (LabError, ValueError) as error:
            self.status.value = f"<p role='alert'><b>Failed:</b> {escape(str(error))}</p>"
        except Exception as error:
            kind = type(error).__name__
            self.status.value = f"<p role='alert'><b>{kind}:</b> {escape(str(error))}</p>"
        finally:
            self.run_button.disabled = False


def small_writes() -> Panel:
    """The panel of lesson 05: mode, writes, size and RTT of small writes."""
    import ipywidgets as w

    style = {"description_width": "130px"}
    controls: dict[str, Any] = {
        "mode": w.Dropdown(
            options=get_args(SmallWritesMode), description="How to send", style=style
        ),
        "writes": w.BoundedIntText(15, min=1, max=200, description="Writes a message", style=style),
        "size_bytes": w.BoundedIntText(
            2, min=1, max=1448, description="Bytes a write", style=style
        ),
        "rtt_ms": w.BoundedFloatText(
            0, min=0, max=200, step=5, description="RTT (ms)", style=style
        ),
        "quickack": w.Dropdown(
            options=["on", "off", "always"], description="Receiver's ACKs", style=style
        ),
    }
    return Panel("Small writes", controls, _run_small_writes, _small_writes_code)


def _run_small_writes(mode: str, **shape: Any) -> Shown:
    from tcplab.experiments import small_writes as experiment
    from tcplab.experiments import table
    from tcplab.figures import timeline as draw_timeline

    result = experiment.measure(messages=10, variants=[cast(SmallWritesMode, mode)], **shape)
    picture = draw_timeline(result[mode].timeline())
    return picture.html(), table(result)._repr_html_()


def _small_writes_code(mode: str, **shape: Any) -> str:
    arguments = ", ".join(f"{name}={value!r}" for name, value in shape.items())
    return (
        "from tcplab.experiments import small_writes, table\n"
        f"table(small_writes.measure(messages=10, variants=[{mode!r}],\n    {arguments}))"
    )
