"""Define a lesson's questions, and ask them by fields or, where no widgets appear, by input()."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Final

from tcplab.checks import number
from tcplab.checks.guesses import SKIP, read_guess
from tcplab.errors import ParameterError

if TYPE_CHECKING:
    from tcplab.tables import Table

#: A guess of a quantity is right up to this factor from the answer, unless its question says less.
CLOSE_FACTOR: Final = 1.25

Store = Callable[[str, float | str], object]

#: Script that moves the focus, and with it the page, to the first field. "Run All" leaves the page
#: at the end of the notebook.
_FOCUS: Final = """
function render({el}) {
  const field = el.closest(".tcplab-guesses")?.querySelector("input");
  field ? field.focus() : setTimeout(() => render({el}), 100);
}
export default {render};
"""


@dataclass(frozen=True, slots=True)
class Question:
    """A question, with what there is to say about a guess."""

    ask: str
    right: str  #: the reason for which a guess is right
    wrong: Sequence[tuple[float, str]]  #: a reply to each wrong guess up to a limit
    choices: int = 0  #: number of the choices, or 0 if the answer is a quantity
    answer: float | None = None  #: the answer, unless it is measured
    close: float = CLOSE_FACTOR  #: factor from the answer within which a quantity is right

    def reply(self, guess: float | None, measured: float) -> str:
        """Return a sentence about a guess, or an empty text if it was skipped."""
        if guess is None:
            return ""
        if self.is_close(guess, measured):
            return f"You were right, if your reason was this. {self.right}"
        return next((text for limit, text in self.wrong if guess <= limit), "")

    def close_range(self, measured: float) -> tuple[float, float]:
        """Return the range of right guesses: the choice, or all within the factor."""
        factor = 1 if self.choices else self.close
        return measured / factor, factor * measured

    def is_close(self, guess: float | None, measured: float) -> bool:
        """Return whether a guess is right."""
        lowest, highest = self.close_range(measured)
        return guess is not None and lowest <= guess <= highest

    def check(self, name: str, value: Any) -> None:
        """Raise ParameterError unless the value can be an answer."""
        bounds = (1, self.choices) if self.choices else (0,)
        if value != SKIP:
            number(name, value, *bounds, fix=f'write "{SKIP}" to skip it')

    def answer_of(self, guess: float | None) -> float | str:
        """Return a typed guess as it is stored; raise ParameterError if it cannot be an answer."""
        if guess is None:
            return SKIP
        self.check("your guess", guess)
        return int(guess) if guess.is_integer() else guess


def shows_widgets() -> bool:
    """Return whether the front end is one that shows widgets (JupyterLab, Notebook or VS Code)."""
    from IPython.core.getipython import get_ipython

    in_vscode = "__vsc_ipynb_file__" in getattr(get_ipython(), "user_ns", {})
    has_widgets = importlib.util.find_spec("ipywidgets") is not None
    return has_widgets and ("JPY_SESSION_NAME" in os.environ or in_vscode)


def show_fields(asked: Mapping[str, Question], store: Store, answered: Callable[[], Table]) -> Any:
    """Return a widget with a field per question, and with a table once all are answered.

    It does not wait for the answers, because a kernel that runs a cell does not receive them.
    """
    import anywidget
    import ipywidgets as w

    from tcplab.widgets.fields import GuessField

    class Focus(anywidget.AnyWidget):
        _esm = _FOCUS

    box, unanswered = w.VBox().add_class("tcplab-guesses"), set(asked)

    def field(name: str, question: Question) -> Any:
        def told(guess: float | None, is_answer: bool) -> None:
            if is_answer:
                store(name, question.answer_of(guess))
                unanswered.discard(name)
            if not unanswered:
                box.children = [w.HTML(answered()._repr_html_() + "Go on with the next cell.")]

        unit = re.search(r" \([^()]+\)$", question.ask)
        choices = f" (1 to {question.choices})" if question.choices else ""
        label = f"Your guess{choices or (unit[0] if unit else '')}"
        guess = GuessField(label, told, typing=False)
        guess.box.style.description_width = "initial"
        guess.box.layout.width = "30em"
        skip = w.Button(description="Skip", tooltip=f"Go on without a guess: {question.ask}")
        skip.on_click(lambda _button: setattr(guess.box, "value", SKIP))
        line = w.HBox([guess.box, skip], layout=w.Layout(flex_flow="row wrap"))
        return w.VBox([w.HTML(f"<b>{escape(question.ask)}</b>"), line, guess.refused])

    box.children = [field(name, question) for name, question in asked.items()]
    box.children += (Focus(),)
    return box


def typed(question: Question) -> float | str:
    """Ask by input() until the answer is a number or "skip", and return the answer."""
    while True:
        try:
            guess = read_guess(input(f"{question.ask}. Your guess, or {SKIP}: ").strip())
            return question.answer_of(guess)
        except ParameterError as error:
            print(error)
