"""Check the rules that every assignment has to keep (`tcplab try-assignment`, and the tests).

docs/grading.md states the rules. Each rule yields a sentence per mistake, with what to do.
"""

import itertools
import json
import math
import re
import tomllib
import traceback
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tcplab.grading.checks import Verdict
from tcplab.grading.submission import Submission
from tcplab.grading.trial import Trial

#: Number of ids whose answers are computed, and how many of a hundred must have other numbers.
IDS: Final = 2000
DIFFERENT: Final = 90
LEAST_WORDS: Final = 12
#: Values that learners assign by mistake, as the sandbox returns them.
ODD: Final[tuple[Any, ...]] = (
    *(None, True, -1, 0, 0.5, 10**18, 1e308, "", "cork", [], [None], [1], {}, [[1]] * 4),
    *([0] * 3, [1] * 4, [-1] * 4, ["x"] * 3, [1448, 1448], list(range(200))),
    *({"unsupported": "Yes"}, [{"unsupported": "Yes"}] * 3),
)
#: Impossible numbers, and the ends of the names of variables that hold a number.
IMPOSSIBLE: Final = (-3, -3.5, 10**10)
OF_NUMBERS: Final = ("_ms", "_segments", "_bytes", "_percent")


def broken_rules(trial: Trial) -> list[str]:
    """Return a sentence for each rule that the assignment breaks."""
    # The other rules need all parts of every question.
    if mistakes := [*_parts(trial), *_mutants(trial)]:
        return mistakes
    try:
        return [*_numbers(trial), *_answers(trial), *_odd_answers(trial)]
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if str(trial.source) in frame.filename] or frames
        return [f"{own[-1].filename} line {own[-1].lineno} raises {error!r}"]


def _parts(trial: Trial) -> Iterator[str]:
    """Check that each question has all its parts, and that the questions are in order."""
    marked = {name: cell.metadata.nbgrader for name, cell in trial.marked.items()}
    given, written = list(trial.points), [name for name, mark in marked.items() if mark.get("task")]
    right = [f"q{number}" for number in range(1, len(given) + 1)]
    if given != right or written != [f"w{number}" for number in range(1, len(written) + 1)]:
        numbered = ", ".join([*given, *written])
        yield (
            f"{trial.name}.ipynb: the questions are numbered {numbered}; number those that the"
            " grader judges q1, q2, … and written ones w1, w2, … in the order of the notebook"
        )
    for question in [name for name, points in trial.points.items() if points <= 0]:
        yield f"{trial.name}.ipynb: the check cell {question} has no points; give it some"
    task, why = trial.task, trial.source / "hidden" / "why.toml"
    texts = tomllib.loads(why.read_text()) if why.is_file() else {}
    reasons = {name: text for name, text in texts.items() if isinstance(text, str)}
    judges = [name for name in vars(trial.judges) if re.fullmatch(r"q\d+", name)]
    checks = [name[6:] for name in vars(task.module) if re.fullmatch(r"check_q\d+", name)]
    places = {
        "ANSWERS in task.py": (task.answers, "its variables, or [] if it asks for a file"),
        "task.py": (checks, "its public check, a function such as check_q1"),
        "hidden/judge.py": (judges, "a function of this name"),
        "hidden/why.toml": (reasons, "the reason for its answer"),
    }
    for place, (names, needed) in places.items():
        for question in sorted({*given} - {*names}):
            yield f"{place} lacks {question}; add {needed}"
        for question in sorted({*names} - {*given}):
            yield f"{place} has {question}, but no check cell has this id; remove it, or add one"
    for file in task.files:
        if not (trial.source / "hidden" / file).is_file():
            yield f"hidden/{file} is missing; FILES in task.py names it"
    for question, reason in reasons.items():
        if len(reason.split()) < LEAST_WORDS:
            yield f"hidden/why.toml: say more about {question}, in at least {LEAST_WORDS} words"


def _mutants(trial: Trial) -> Iterator[str]:
    for name, mutant in trial.mutants.items():
        for question, share in mutant.loses.items():
            if question not in trial.points or not 0 < share <= 1:
                yield (
                    f"hidden/mutants.py: {name} loses {share:g} in {question}; give a question of"
                    " the notebook, and a share of its points above 0 and up to 1"
                )
    lost = {question for mutant in trial.mutants.values() for question in mutant.loses}
    for question in trial.points:
        if question not in lost:
            yield f"hidden/mutants.py: no mutant loses points in {question}; add a wrong answer"


def _numbers(trial: Trial) -> Iterator[str]:
    made = {json.dumps(trial.task.numbers(f"s{number}")) for number in range(100)}
    if len(made) < DIFFERENT:
        yield (
            f"numbers() in task.py gives 100 students only {len(made)} different sets of numbers;"
            f" choose larger ranges, for at least {DIFFERENT}"
        )


def _answers(trial: Trial) -> Iterator[str]:
    """Check that the solution's calculations are fit to grade for every student."""
    calculated = itertools.takewhile(lambda cell: "capture" not in cell[1], trial.solution)
    cells = [(name.partition("-")[0], compile(lines, name, "exec")) for name, lines in calculated]
    for student in map("s{}".format, range(IDS)):
        numbers = trial.task.numbers(student)
        answers: dict[str, Any] = {"n": numbers}
        for _, lines in cells:
            exec(lines, answers)
        given = {name: answers.get(name) for name in trial.task.names}
        for question, _ in cells:
            for name in trial.task.answers[question]:
                value = given[name]
                if value in ("", []) or (isinstance(value, float) and not math.isfinite(value)):
                    yield f"{name} is {value!r} for the student {student}; change numbers()"
                    return
            verdict = _checked(trial, question, student, numbers, given)
            if not verdict.passed:
                yield f"check_{question} refuses the right answer of {student}: {verdict.message}"
                return


def _checked(
    trial: Trial, question: str, student: str, numbers: Mapping[str, Any], given: Mapping[str, Any]
) -> Verdict:
    with Submission(student, numbers, given, {}, folder=trial.source) as work:
        return trial.task.check(question, work)


def _odd_answers(trial: Trial) -> Iterator[str]:
    """Check that judges and public checks take any value, and that a check refuses nonsense."""
    numbers = trial.task.numbers("ada")
    for question, names in trial.task.answers.items():
        for value in ODD if names else ():
            given = dict.fromkeys(trial.task.names, value)
            with Submission("ada", numbers, given, {}, folder=trial.source) as work:
                verdicts = [getattr(trial.judges, question)(work)]
            verdicts.append(_checked(trial, question, "ada", numbers, given))
            if any(verdict.share is None or "\n" in verdict.message for verdict in verdicts):
                yield f"{question}: a verdict on {value!r} has no share, or more than one line"
        if not any(name.endswith(OF_NUMBERS) for name in names):
            continue
        for value in IMPOSSIBLE:
            for odd in (value, [value] * 3):
                all_odd = dict.fromkeys(names, odd)
                if _checked(trial, question, "ada", numbers, all_odd).share != 0:
                    yield (
                        f"check_{question} accepts {odd}; give numbers_in() the limits that any"
                        " answer has, such as least=1 and most=…"
                    )
