"""Store a learner's predictions before the measurement, and compare them with it.

A prediction made after the fact teaches nothing, so each one is stored before the run, in a small
JSON file in the lessons' folder. An unanswered question stops the notebook, even under *Run All*,
since a result that has been seen can no longer be predicted. A notebook that can ask shows a field
for the guess. A skipped question is recorded. Each question has replies to wrong guesses,
and `recall` asks two questions of earlier lessons again, with other numbers.
"""

import json
import os
import time
import tomllib
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from tcplab.checks import choice
from tcplab.checks.guesses import SKIP, frontend_is_interactive
from tcplab.course.asking import CLOSE_FACTOR, Question, show_fields, shows_widgets, typed
from tcplab.errors import TcplabError
from tcplab.tables import Column, Table

#: Keys of the measured values and of the guesses in `recall`. The other keys are lessons.
MEASURED: Final = "measured"
AGAIN: Final = "again"

#: Environment variable for runs without a learner (the book, papermill, tests). If it is "skip",
#: unanswered questions count as skipped.
NOBODY_ANSWERS: Final = "TCPLAB_PREDICT"
#: An error cancels the cells that the front end has sent so far. After this time in seconds, "Run
#: All" has sent all of them, so that none runs before its question is answered.
_ALL_SENT_S: Final = 1.0
#: How many places earlier the lessons are from which `recall` asks.
_PLACES_BEFORE: Final = (2, 6)


class UnansweredError(TcplabError):
    """A prediction is missing."""


class Predictions:
    """The predictions of one lesson. They are stored in predictions.json, or in `path`."""

    def __init__(self, lesson: str, path: str | os.PathLike[str] = "predictions.json") -> None:
        self.lesson = choice("lesson", lesson, questions())
        self.path = Path(path)

    def predict(self, **values: float | str | None) -> Table:
        """Store a number or "skip" under each name, and return a table of questions and answers.

        A value of None keeps the answer of an earlier run of the cell. If there is none, the
        notebook asks for it. If it asks by a field, or cannot ask, the other answers are stored and
        UnansweredError is raised, so that "Run All" stops here.
        """
        known = questions()[self.lesson]
        for name, value in values.items():
            choice("question", name, known)
            if value is not None:
                known[name].check(name, value)
        given = [(name, value) for name, value in values.items() if value is not None]
        self._store(given, self.lesson)
        missing = {name: known[name] for name in values if name not in self.all()}
        columns = [Column("name", "question"), Column("value", "your prediction", ".3g")]

        def answered() -> Table:
            mine = self.all()
            rows = [{"name": known[name].ask, "value": _shown(mine[name])} for name in values]
            return Table(columns, rows)

        return self._ask(self.lesson, missing, answered)

    def recall(self) -> Table:
        """Ask a question of each of two earlier lessons, and return a table with the answers."""
        asked = earlier(self.lesson)
        stored = self._load().get(AGAIN, {})
        measured = {name: question.answer or 0 for name, question in asked.items()}
        missing = {name: asked[name] for name in asked if name not in stored}
        return self._ask(
            AGAIN, missing, lambda: _compared(asked, self._load()[AGAIN], measured, {}, "answer")
        )

    def _ask(
        self, key: str, missing: Mapping[str, Question], answered: Callable[[], Table]
    ) -> Table:
        """Ask each question, or count it as skipped, or raise UnansweredError."""
        is_skipping = os.environ.get(NOBODY_ANSWERS) == SKIP
        asks = frontend_is_interactive() and not is_skipping
        if missing and asks and shows_widgets():
            from IPython.display import display

            fields = show_fields(missing, lambda *answer: self._store([answer], key), answered)
            display(fields)  # type: ignore[no-untyped-call]
            time.sleep(_ALL_SENT_S)
            raise UnansweredError("Guess first, or skip. Then go on with the next cell.")
        if asks:
            for name, question in missing.items():
                self._store([(name, typed(question))], key)
        elif is_skipping or key == AGAIN:
            self._store([(name, SKIP) for name in missing], key)
        elif missing:
            raise UnansweredError(
                f"Predict first: replace None with a number for {', '.join(missing)}, and run"
                f' this cell again.\nTo move on without a guess, write "{SKIP}" instead.'
            )
        return answered()

    def _store(self, answers: Iterable[tuple[str, float | str]], key: str) -> None:
        stored = self._load()
        mine = stored.setdefault(key, {})
        mine.update({name: None if value == SKIP else value for name, value in answers})
        self._save(stored)

    def all(self) -> dict[str, Any]:
        """Return all predictions for this lesson by name, with None for skipped questions."""
        return dict(self._load().get(self.lesson, {}))

    def close(self, again: bool = False) -> tuple[int, int]:
        """Return how many guesses were right, of those compared, or of this lesson's later ones."""
        key, stored = (AGAIN if again else self.lesson), self._load()
        guesses, measured = stored.get(key, {}), stored.get(MEASURED, {}).get(self.lesson, {})
        right = [
            question.is_close(guesses[name], question.answer or measured[name])
            for name, question in _entries()[key].items()
            if guesses.get(name) is not None
            and (name in measured or name.startswith(f"{self.lesson} "))
        ]
        return sum(right), len(right)

    def compare(
        self, measured: Mapping[str, float], model: Mapping[str, float] | None = None
    ) -> Table:
        """Store the measurements, and return a table of prediction, model and measurement.

        The table also says how far off each prediction was, and its caption speaks to each guess.
        The measurements are stored for the evaluation of a class.
        """
        stored = self._load()
        predicted = stored.get(self.lesson, {})
        measurements = stored.setdefault(MEASURED, {}).setdefault(self.lesson, {})
        measurements.update({name: float(value) for name, value in measured.items()})
        self._save(stored)
        asked = {name: questions()[self.lesson][name] for name in measured}
        return _compared(asked, predicted, measured, model or {})

    def _load(self) -> dict[str, dict[str, Any]]:
        why = "no JSON object"
        try:
            stored = json.loads(self.path.read_text())
            if isinstance(stored, dict):
                return stored
        except FileNotFoundError:
            return {}
        except json.JSONDecodeError as error:
            why = str(error)
        raise ValueError(f"{self.path} is damaged ({why}); delete it to start again")

    def _save(self, stored: dict[str, dict[str, Any]]) -> None:
        # The file is replaced atomically, so that an interrupted cell does not lose earlier
        # predictions.
        draft = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        draft.write_text(json.dumps(stored, indent=2) + "\n")
        draft.replace(self.path)


@cache
def _entries() -> Mapping[str, Mapping[str, Question]]:
    entries = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
    return {
        key: {name: Question(**entry) for name, entry in asked.items()}
        for key, asked in entries.items()
    }


def questions() -> Mapping[str, Mapping[str, Question]]:
    """Return the questions of each lesson by name, in the order of the lessons."""
    return {key: asked for key, asked in _entries().items() if key != AGAIN}


def earlier(lesson: str) -> dict[str, Question]:
    """Return the questions of two earlier lessons that `recall` asks in a lesson."""
    lessons = list(questions())
    chosen: dict[str, Question] = {}
    place = lessons.index(lesson)
    for use, before in enumerate(_PLACES_BEFORE):
        source = lessons[place - before if before <= place else max(place - 1, 0)]
        names = [name for name in _entries()[AGAIN] if name.startswith(f"{source} ")]
        chosen |= {name: _entries()[AGAIN][name] for name in names[-use:][:1]}
    return chosen


def _compared(
    asked: Mapping[str, Question],
    predicted: Mapping[str, Any],
    measured: Mapping[str, float],
    model: Mapping[str, float],
    heading: str = "measured",
) -> Table:
    """Return a table of prediction, model and measurement, with a reply to each guess below."""
    rows = [
        {
            "name": question.ask,
            "predicted": _shown(predicted.get(name)),
            "model": model.get(name),
            "measured": measured[name],
            "verdict": _verdict(question, predicted.get(name), measured[name]),
        }
        for name, question in asked.items()
    ]
    columns = [
        Column("name", "question"),
        Column("predicted", "your prediction", ".3g"),
        Column("model", "model", ".3g"),
        Column("measured", heading, ".3g"),
        Column("verdict", "how close"),
    ]
    replies = [
        question.reply(predicted.get(name), measured[name]) for name, question in asked.items()
    ]
    return Table(
        [column for column in columns if model or column.key != "model"],
        rows,
        caption=" ".join(filter(None, replies)),
    )


def _shown(value: float | None) -> float | str:
    return "skipped" if value is None else value


def _verdict(question: Question, predicted: float | None, measured: float) -> str:
    """Return a verdict such as "skipped", "close" (see Question.close) or "3 × too low"."""
    if predicted is None:
        return "skipped"
    if predicted == measured:
        return "exactly right"
    if question.choices:
        return "not quite"
    if min(predicted, measured) <= 0:
        return "off: one of them is zero"
    if question.is_close(predicted, measured):
        return "close"
    factor = max(predicted, measured) / min(predicted, measured)
    side = "too low" if predicted < measured else "too high"
    times = f"{factor:.2g} ×" if factor < 100 else f"{factor:.0f} ×"
    return f"{'slightly' if factor < CLOSE_FACTOR else times} {side}"
