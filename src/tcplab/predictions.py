"""A learner's predictions, stored before the measurement and shown beside it afterwards.

A prediction that is made up after the fact teaches nothing, so it is stored on disk first: a small
JSON file beside the lessons. Running the cell again before the measurement changes it; skipping is
allowed and said.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tcplab.checks import number
from tcplab.tables import Column, Table


class Predictions:
    """The predictions of one lesson.

    Args:
        lesson: two digits, as in the lesson's file name.
        path: the JSON file; "predictions.json" in the working directory unless given.
    """

    def __init__(self, lesson: str, path: str | os.PathLike[str] = "predictions.json") -> None:
        self.lesson = lesson
        self.path = Path(path)

    def predict(self, **values: float | str | None) -> Table:
        """Stores a value under each name; None skips it. Returns what is now stored.

        Raises:
            ParameterError: a number is negative or not finite.
        """
        for name, value in values.items():
            if isinstance(value, int | float):
                number(name, value, 0, fix="give None to skip it")
        stored = self._load()
        stored.setdefault(self.lesson, {}).update(values)
        self._save(stored)
        rows = [{"name": name, "value": _shown(value)} for name, value in self.all().items()]
        return Table([Column("name", "question"), Column("value", "your prediction")], rows)

    def all(self) -> dict[str, Any]:
        """Everything this lesson's learner has predicted, None where skipped."""
        return dict(self._load().get(self.lesson, {}))

    def compare(
        self,
        measured: Mapping[str, float],
        model: Mapping[str, float] | None = None,
        unit: str = "",
    ) -> Table:
        """Prediction, model and measurement side by side, and how far the prediction was off.

        Args:
            measured: name -> measured value.
            model: name -> the value that theory predicts, where it predicts one.
            unit: of all of them, for the headings.
        """
        predicted = self.all()
        rows = [
            {
                "name": name,
                "predicted": _shown(predicted.get(name)),
                "model": (model or {}).get(name),
                "measured": value,
                "verdict": _verdict(predicted.get(name), value),
            }
            for name, value in measured.items()
        ]
        suffix = f" ({unit})" if unit else ""
        return Table(
            [
                Column("name", "question"),
                Column("predicted", f"you predicted{suffix}"),
                Column("model", f"the model says{suffix}", ".4g"),
                Column("measured", f"measured{suffix}", ".4g"),
                Column("verdict", "how close"),
            ],
            rows,
        )

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
        # Whole or not at all: an interrupted cell must not lose earlier predictions.
        draft = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        draft.write_text(json.dumps(stored, indent=2) + "\n")
        draft.replace(self.path)


def _shown(value: float | str | None) -> str:
    if value is None:
        return "skipped"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _verdict(predicted: float | str | None, measured: float) -> str:
    """Words for the ratio of the larger to the smaller: guesses are about magnitudes."""
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
