"""Store a learner's predictions before the measurement, and compare them with it.

A prediction made after the fact teaches nothing, so each one is stored before the run, in a small
JSON file in the lessons' folder. An unanswered question stops the notebook, even under *Run All*,
since a result that has been seen can no longer be predicted. A notebook that can ask shows a box
for the guess. Entering "skip" moves on and is recorded.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from tcplab.checks import choice, number
from tcplab.checks.guesses import SKIP, frontend_is_interactive, read_guess
from tcplab.errors import ParameterError, TcplabError
from tcplab.tables import Column, Table

#: Key of the measured values in the file, by lesson and name. The other keys are lessons.
MEASURED: Final = "measured"

#: Environment variable for runs without a learner (the book, tests). If it is set, unanswered
#: questions count as skipped.
NOBODY_ANSWERS: Final = "TCPLAB_SKIP_PREDICTIONS"


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
        notebook asks for it. If the notebook cannot ask, the other answers are stored and
        UnansweredError is raised.
        """
        for name, value in values.items():
            choice("question", name, questions()[self.lesson])
            if value is not None:
                _check(name, value)
        self._store({name: value for name, value in values.items() if value is not None})
        missing = [name for name in values if name not in self.all()]
        if missing and os.environ.get(NOBODY_ANSWERS):
            self._store(dict.fromkeys(missing, SKIP))
        elif missing and frontend_is_interactive():
            for name in missing:
                self._store({name: _typed(self._words(name))})
        elif missing:
            raise UnansweredError(
                f"Predict first: replace None with a number for {', '.join(missing)}, and run"
                f' this cell again.\nTo move on without a guess, write "{SKIP}" instead.'
            )
        mine = self.all()
        rows = [{"name": self._words(name), "value": _shown(mine[name])} for name in values]
        return Table([Column("name", "question"), Column("value", "your prediction", ".3g")], rows)

    def _store(self, answers: Mapping[str, float | str]) -> None:
        stored = self._load()
        stored.setdefault(self.lesson, {}).update(
            {name: None if value == SKIP else value for name, value in answers.items()}
        )
        self._save(stored)

    def all(self) -> dict[str, Any]:
        """Return all predictions for this lesson by name, with None for skipped questions."""
        return dict(self._load().get(self.lesson, {}))

    def compare(
        self,
        measured: Mapping[str, float],
        model: Mapping[str, float] | None = None,
    ) -> Table:
        """Store the measurements, and return a table of prediction, model and measurement.

        The table also says how far off each prediction was. The measurements are stored for the
        evaluation of a class.
        """
        stored = self._load()
        predicted = stored.get(self.lesson, {})
        measurements = stored.setdefault(MEASURED, {}).setdefault(self.lesson, {})
        measurements.update({name: float(value) for name, value in measured.items()})
        self._save(stored)
        rows = [
            {
                "name": self._words(name),
                "predicted": _shown(predicted.get(name)),
                "model": (model or {}).get(name),
                "measured": value,
                "verdict": _verdict(predicted.get(name), value),
            }
            for name, value in measured.items()
        ]
        columns = [
            Column("name", "question"),
            Column("predicted", "your prediction", ".3g"),
            Column("model", "model", ".3g"),
            Column("measured", "measured", ".3g"),
            Column("verdict", "how close"),
        ]
        return Table([column for column in columns if model or column.key != "model"], rows)

    def _words(self, name: str) -> str:
        return questions()[self.lesson].get(name, name)

    def _load(self) -> dict[str, dict[str, Any]]:
        try:
            stored = json.loads(self.path.read_text())
        except FileNotFoundError:
            return {}
        except json.JSONDecodeError as error:
            raise ValueError(
                f"{self.path} is damaged ({error}); delete it to start again"
            ) from None
        if not isinstance(stored, dict):
            raise ValueError(f"{self.path} is damaged (no JSON object); delete it to start again")
        return stored

    def _save(self, stored: dict[str, dict[str, Any]]) -> None:
        # The file is replaced atomically, so that an interrupted cell does not lose earlier
        # predictions.
        draft = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        draft.write_text(json.dumps(stored, indent=2) + "\n")
        draft.replace(self.path)


@cache
def questions() -> Mapping[str, Mapping[str, str]]:
    """Return the text of each question, by lesson and name."""
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text())


def _check(name: str, value: Any) -> None:
    if value != SKIP:
        number(name, value, 0, fix=f'write "{SKIP}" to skip it')


def _typed(question: str) -> float | str:
    """Ask until the answer is a number or "skip", and return the answer."""
    while True:
        try:
            guess = read_guess(input(f"{question}. Your guess, or {SKIP}: ").strip())
        except ParameterError as error:
            print(error)
        else:
            if guess is None:
                return SKIP
            return int(guess) if guess.is_integer() else guess


def _shown(value: float | None) -> float | str:
    return "skipped" if value is None else value


def _verdict(predicted: float | str | None, measured: float) -> str:
    """Return a verdict such as "skipped", "close" (within a factor of 1.25) or "3 × too low"."""
    if not isinstance(predicted, int | float):
        return "skipped"
    if predicted == measured:
        return "exactly right"
    if min(predicted, measured) <= 0:
        return "off: one of them is zero"
    factor = max(predicted, measured) / min(predicted, measured)
    if factor <= 1.25:
        return "close"
    side = "too low" if predicted < measured else "too high"
    return f"{factor:.2g} × {side}" if factor < 100 else f"{factor:.0f} × {side}"
