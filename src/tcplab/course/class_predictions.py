"""Compare the predictions of a class with the measurements, without the learners' names."""

from __future__ import annotations

import json
import math
import os
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tcplab.checks import unknown
from tcplab.course.asking import CLOSE_FACTOR
from tcplab.course.predictions import MEASURED, questions
from tcplab.errors import ParameterError
from tcplab.tables import Column, Table

#: The largest file to read. A learner's file has about 3 kB.
MAX_BYTES: Final = 1 << 20
#: A number as large as this does not count as a guess.
MOST: Final = 1e100
#: The ratios of guess to measurement that separate BINS. "Close" includes its bounds.
BOUNDS: Final = (0.1, 1 / CLOSE_FACTOR, CLOSE_FACTOR, 10.0)
BINS: Final = ("10 × too low", "too low", "close", "too high", "10 × too high")


@dataclass(frozen=True, slots=True)
class Guesses:
    """The guesses of a class for one question."""

    lesson: str
    name: str  #: name of the question in the lesson's predict()
    values: Sequence[float]
    skipped: int  #: number of learners who skipped the question
    #: the median of the learners' measurements, each on their own machine, or None without any
    measured: float | None

    @property
    def question(self) -> str:
        return questions()[self.lesson][self.name].ask

    @property
    def counts(self) -> dict[str, int] | None:
        """The number of guesses for each choice, or in each of BINS (None without measurement)."""
        if choices := questions()[self.lesson][self.name].choices:
            return {
                f"{number}": list(self.values).count(number) for number in range(1, choices + 1)
            }
        if self.measured is None:
            return None
        bins = Counter(_bin(value, self.measured) for value in self.values)
        return {name: bins[name] for name in BINS}

    @property
    def right(self) -> int:
        """The number of guesses that are right."""
        question, measured = questions()[self.lesson][self.name], self.measured
        return sum(measured is not None and question.is_close(v, measured) for v in self.values)


@dataclass(frozen=True, slots=True)
class ClassPredictions:
    """The guesses for all questions that have been answered, in the order of the lessons."""

    learners: int
    guesses: Sequence[Guesses]
    left_out: Mapping[str, str] = field(default_factory=dict)  #: reasons, by file left out

    @property
    def table(self) -> Table:
        rows = [
            {
                "lesson": guess.lesson,
                "question": guess.question,
                "count": len(guess.values),
                "skipped": guess.skipped or None,
                "median": statistics.median(guess.values) if guess.values else None,
                "measured": guess.measured,
            }
            | _shown(guess.counts or {})
            for guess in self.guesses
        ]
        columns = [
            Column("lesson", "lesson"),
            Column("question", "question"),
            Column("count", "guesses", "d"),
            Column("skipped", "skipped", "d"),
            Column("median", "median guess", ".3g"),
            Column("measured", "measured", ".3g"),
            *(Column(name, name, "d") for name in BINS),
            Column("choices", "choices"),
        ]
        return Table(
            columns,
            rows,
            caption=f"Predictions of {self.learners} learner{'s' * (self.learners != 1)}.",
        )

    def of(self, lesson: str) -> ClassPredictions:
        """Return the predictions for one lesson."""
        guesses = [guess for guess in self.guesses if guess.lesson == lesson]
        if not guesses:
            known = dict.fromkeys(guess.lesson for guess in self.guesses)
            raise ParameterError(f"no predictions: lesson {unknown(lesson, known)}")
        return ClassPredictions(self.learners, guesses, self.left_out)


def class_predictions(paths: Iterable[Path]) -> ClassPredictions:
    """Read the learners' files, and return their predictions.

    A path may be a folder to search for `*predictions*.json`, such as nbgrader's submitted/ or the
    unpacked download from an LMS. Each subfolder or file in the common folder belongs to one
    learner. If a learner has several answers to a question, the one in the newest file counts.
    """
    files = list(dict.fromkeys(path for place in paths for path in _files(place)))
    if not files:
        raise ParameterError("no file matches *predictions*.json; learners have it in lessons/")
    top = Path(os.path.commonpath([path.absolute().parent for path in files]))
    by_learner: dict[str, dict[tuple[str, str, str], float | None]] = {}
    left_out = {}
    for path in sorted(files, key=lambda path: path.stat().st_mtime_ns):
        try:
            answers = dict(_answers(path))
        except (OSError, ValueError) as error:
            left_out[str(path)] = str(error)
            continue
        owner = path.absolute().relative_to(top).parts[0]
        by_learner.setdefault(owner, {}).update(answers)
    if not by_learner:
        reasons = "; ".join(f"{path}: {reason}" for path, reason in left_out.items())
        raise ParameterError(f"no predictions could be read: {reasons}")
    return ClassPredictions(len(by_learner), _by_question(by_learner.values()), left_out)


def _files(path: Path) -> Iterator[Path]:
    if path.is_dir():
        candidates = path.rglob("*.json")
        yield from sorted(path for path in candidates if "predictions" in path.name.lower())
    elif path.exists():
        yield path
    else:
        raise ParameterError(f"{path}: no such file or folder")


def _answers(path: Path) -> Iterator[tuple[tuple[str, str, str], float | None]]:
    """Yield each answer with its key ("predicted" or "measured", lesson, name).

    The answer is None if the question was skipped. Raise ValueError if the file does not hold
    predictions.
    """
    if path.is_symlink() or not path.is_file():
        raise ValueError("it is not a plain file")
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(f"it is larger than {MAX_BYTES:,} bytes")
    try:
        stored = json.loads(path.read_text())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is damaged ({error})") from None
    measured = stored.get(MEASURED) if isinstance(stored, dict) else None
    for kind, lessons in (("predicted", stored), ("measured", measured or {})):
        if not isinstance(lessons, dict):
            raise ValueError("it holds no predictions")
        for lesson, names in questions().items():
            given = lessons.get(lesson)
            if not isinstance(given, dict):
                continue
            for name in names:
                if name in given and _is_answer(value := given[name]):
                    yield (kind, lesson, name), None if value is None else float(value)


def _is_answer(value: Any) -> bool:
    """Return whether predict() or compare() can have stored the value, a number >= 0 or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value is None
    return 0 <= value < MOST


def _by_question(learners: Iterable[Mapping[tuple[str, str, str], float | None]]) -> list[Guesses]:
    everyone = list(learners)
    guesses = []
    for lesson, names in questions().items():
        for name in names:
            key = ("predicted", lesson, name)
            given = [answers[key] for answers in everyone if key in answers]
            values = sorted(value for value in given if value is not None)
            results = [answers.get(("measured", lesson, name)) for answers in everyone]
            if given:
                known = [value for value in results if value is not None]
                measured = statistics.median(known) if known else None
                guesses.append(Guesses(lesson, name, values, len(given) - len(values), measured))
    return guesses


def _shown(counts: Mapping[str, int]) -> dict[str, Any]:
    if "close" in counts:
        return dict(counts)
    return {"choices": ", ".join(f"{name}: {many}" for name, many in counts.items())}


def _bin(guess: float, measured: float) -> str:
    """Return the bin of a guess. A ratio on a bound of "close" counts as close."""
    ratio = guess / measured if measured else 1.0 if guess == 0 else math.inf
    low, close, high, far = BOUNDS
    return BINS[(ratio > low) + (ratio >= close) + (ratio > high) + (ratio >= far)]
