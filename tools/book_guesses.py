"""Let the readers of the book guess before they see what was measured.

The lessons ask for predictions in cells of Python. In the book each question becomes an element
that `docs/book/_static/guesses.js` turns into a field, with the answer and the replies of
predictions.toml. What a question's cells printed is folded until the reader has guessed.
"""

import html
import json
import math
import re
from collections.abc import Mapping

from nbformat import NotebookNode
from nbformat.v4 import new_output

from tcplab.course.asking import Question
from tcplab.course.predictions import AGAIN, earlier, questions

#: A tag of MyST-NB, which folds the outputs of a cell.
FOLDED = "hide-output"


def ask(notebook: NotebookNode, lesson: str, measured: Mapping[str, float]) -> None:
    """Put fields into a lesson that has run, and fold the outputs up to each comparison."""
    known = questions()[lesson]
    waiting: set[str] = set()
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = _for_a_page(cell.source)
        elif "predictions.recall(" in cell.source:
            asked = earlier(lesson)
            answers = {name: question.answer or 0 for name, question in asked.items()}
            cell.outputs = [_fields(AGAIN, asked, answers)]
        elif "predictions.predict(" in cell.source:
            names = re.findall(r"(\w+)=None", cell.source)
            cell.outputs = [_fields(lesson, {name: known[name] for name in names}, measured)]
            waiting |= {known[name].ask for name in names}
        elif waiting and not cell.source.startswith("short_c.show("):
            shown = html.unescape("".join(str(output) for output in cell.outputs))
            cell.metadata.setdefault("tags", []).append(FOLDED)
            if "predictions.compare(" in cell.source:
                waiting = {text for text in waiting if text not in shown}


def _for_a_page(text: str) -> str:
    """Return a lesson's text without what only a notebook has: cells to run, and a word to skip."""
    text = re.sub(r"Run\s+the\s+cell\s+and\s+(\w)", lambda match: match[1].upper(), text)
    return re.sub(r",\s+or\s+`skip`|\s+Type\s+`skip`\s[^.]+\.", "", text)


def _fields(key: str, asked: Mapping[str, Question], measured: Mapping[str, float]) -> NotebookNode:
    """Return an output with an element for each question, which reveals the answer if opened."""
    elements = []
    for name, question in asked.items():
        answer = measured[name]
        lowest, highest = question.close_range(answer)
        data = {
            "key": f"{key} {name}",
            "ask": question.ask,
            "choices": question.choices,
            "close": [lowest, highest],
            "right": question.reply(answer, answer),
            "wrong": [[None if math.isinf(most) else most, text] for most, text in question.wrong],
        }
        shown = f"{answer:,.0f}" if answer >= 1000 else f"{answer:.3g}"
        elements.append(
            f'<details class="guess" data-question="{html.escape(json.dumps(data))}">'
            f"<summary>{html.escape(question.ask)}</summary>"
            f"<p>The answer is {shown}. {html.escape(question.right)}</p></details>"
        )
    text = f'<div class="guesses">{"".join(elements)}</div>'
    return new_output("display_data", {"text/html": text})
