"""Define the class of all panels, shown in a notebook with controls or as plain HTML."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any, Final

from tcplab.checks.guesses import frontend_is_interactive
from tcplab.figures import element
from tcplab.widgets.controls import say_all
from tcplab.widgets.runs import Runs
from tcplab.widgets.words import origin

if TYPE_CHECKING:
    from tcplab.widgets.view import PanelView

#: Text above a panel in a saved notebook whose kernel has ended; panel.js hides it otherwise.
ASLEEP: Final = (
    "This panel belongs to an earlier session. To use it, click the cell above and press"
    " Shift+Enter."
)


class Panel(Runs):
    """A panel that a notebook shows if it is the last expression of a cell.

    Without a browser (nbclient, nbconvert), it measures once with the current settings, adjusted by
    those in `PanelSpec.headless`, and shows the result as plain HTML.
    """

    _view: PanelView | None

    def make_view(self) -> PanelView:
        """Return the view of the panel in a page."""
        from tcplab.widgets.view import PanelView

        return PanelView(self)

    def html(self) -> str:
        """Return the last run, or a message if there is none, as HTML that needs no kernel."""
        title, summary = escape(self.title), escape(self.spec.summary)
        parts = [f"<h3>{title}</h3>", f"<p>{summary}</p>"]
        if not self.runs:
            message = "Nothing measured yet: run this cell in JupyterLab."
            if self.phase == "failed":
                message = self.message
            return "\n".join([*parts, f"<p>{escape(message)}</p>"])
        run = self.runs[-1]
        settings = say_all(self.spec.controls, run["values"])
        script = [f"<script>{element.script()}</script>"] if run["figure"] else []
        parts += [f"<p>{escape(settings)}</p>", run["figure"], *script, run["table"], origin(run)]
        return "\n".join(parts)

    def _repr_mimebundle_(self, **_options: Any) -> dict[str, Any]:
        if not (is_interactive := frontend_is_interactive()):
            self.set(**self.spec.headless).start().wait()
        self._view = self._view or self.make_view()
        if is_interactive:
            from IPython.display import publish_display_data

            note = f'<p class="{self._view.page.note}">{ASLEEP}</p>'
            publish_display_data(  # type: ignore[no-untyped-call]
                {"text/html": note, "text/plain": ASLEEP}
            )
        view: dict[str, Any] = self._view.mimebundle()
        return {"text/plain": f"{self.title}: {self.message}", "text/html": self.html()} | view
