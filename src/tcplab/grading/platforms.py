"""Grade one submission for another platform, and write its results (`tcplab autograde`).

The submission is graded like a class of one, in a temporary course that refers to the real one.
"""

import json
import tempfile
from pathlib import Path
from typing import Any, Final, NamedTuple

from tcplab.checks import choice
from tcplab.errors import LabError, ParameterError
from tcplab.grading.archive import write_whole
from tcplab.grading.batch import grade
from tcplab.grading.course import load_assignment, load_course
from tcplab.grading.neutral import one_line, unfit_id
from tcplab.grading.report import lines
from tcplab.grading.staging import Expected, copy_files

_CONFIGURATION: Final = """\
from pathlib import Path
from tcplab.grading.course import configure
configure(get_config(), Path(__file__).resolve().parent)
"""


class QuestionResult(NamedTuple):
    """The result of one question."""

    name: str
    points: float
    max_points: float
    message: str


def autograde(
    folder: Path, assignment: str, student: str, *, course: Path, platform: str, into: Path
) -> list[QuestionResult]:
    """Grade a submission and write its results for a platform, one of FORMATS; return them.

    Questions that a person marks are not part of the results. Raise LabError if the submission, or
    one of its questions, could not be judged.
    """
    choice("platform", platform, FORMATS)
    if not folder.is_dir():
        raise ParameterError(f"{folder}: no such folder")
    if reason := unfit_id(student):
        raise ParameterError(f"student {one_line(student)!r} {reason}")
    *_, source = load_assignment(course.resolve(), assignment)
    with tempfile.TemporaryDirectory(prefix="tcplab-autograde-") as name:
        root = Path(name).resolve()
        (root / "nbgrader_config.py").write_text(_CONFIGURATION)
        (root / "solutions").symlink_to(source.parent)
        (root / "exercises").symlink_to(course.resolve() / "exercises")
        expected = Expected(f"{assignment}.ipynb")
        copy_files(folder, root / "submitted" / student / assignment, expected)
        batch = grade(assignment, course=root, jobs=1, feedback=False)
        for reason in (*batch.failed.values(), *batch.lacking.values()):
            raise LabError(f"not graded: {one_line(reason)}")
        (line,), full = lines(load_course(root)[0], assignment, root, {}, {})
    results = [
        QuestionResult(name, line.by_question.get(name, 0.0), most, line.messages.get(name, ""))
        for name, most in sorted(full.items())
        if name in line.messages and name not in line.unmarked
    ]
    write_whole(into, json.dumps(FORMATS[platform](results), indent=1) + "\n")
    return results


def _gradescope(results: list[QuestionResult]) -> dict[str, Any]:
    """Return the results as Gradescope's results.json has them."""
    more = {"output_format": "text", "visibility": "visible"}
    tests = [
        {"name": name, "score": points, "max_score": full, "output": message, **more}
        | {"status": "passed" if points == full else "failed"}
        for name, points, full, message in results
    ]
    return {"score": round(sum(one.points for one in results), 2), "tests": tests}


def _prairielearn(results: list[QuestionResult]) -> dict[str, Any]:
    """Return the results of a PrairieLearn external grader, with a score from 0 to 1."""
    full = sum(one.max_points for one in results)
    score = round(sum(one.points for one in results) / full, 4) if full else 0.0
    return {"gradable": True, "score": score, "tests": [one._asdict() for one in results]}


FORMATS: Final = {"gradescope": _gradescope, "prairielearn": _prairielearn}
