"""Show a learner's predictions and attempts, one row per lesson, for `tcplab progress`."""

from pathlib import Path
from typing import Any

from tcplab.course.doctor import lessons
from tcplab.course.predictions import Predictions, questions
from tcplab.errors import ParameterError
from tcplab.grading.assignment import Task
from tcplab.grading.study import attempts, find_course
from tcplab.tables import Column, Table


def progress(course: Path | None = None) -> Table:
    """Return a table of the predictions and attempts in a course's folder."""
    # On a JupyterHub, the learner's lessons are outside the course's folder.
    at_home = course is None and Path("lessons").is_dir()
    course = course or find_course()
    home = Path() if at_home else course
    known = {path.parent.name for path in course.glob("exercises/*/task.py")}
    tried = attempts(course)
    rows = [
        {"lesson": lesson.slug, "title": lesson.title}
        | _predicted(lesson.slug, home)
        | _attempted(lesson.slug, known, tried, course)
        for lesson in lessons()
    ]
    columns = [
        Column("lesson", "lesson"),
        Column("title", "title"),
        Column("predicted", "predictions"),
        Column("close", "right at first"),
        Column("later", "right later"),
        Column("set", "problem set"),
        Column("questions", "questions tried"),
        Column("attempts", "attempts"),
        Column("points", "points"),
    ]
    return Table(columns, rows)


def _predicted(lesson: str, home: Path) -> dict[str, Any]:
    asked = questions().get(lesson, {})
    mine = Predictions(lesson, home / "lessons" / "predictions.json")
    try:
        answers = mine.all()
        close, compared = mine.close()
        later_close, later = mine.close(again=True)
    except ValueError as error:
        raise ParameterError(str(error)) from None
    if not asked:
        return {"predicted": None}
    predicted = sum(answers.get(name) is not None for name in asked)
    skipped = sum(name in answers and answers[name] is None for name in asked)
    return {
        "predicted": f"{predicted} of {len(asked)}" + (f", {skipped} skipped" if skipped else ""),
        "close": f"{close} of {compared}" if compared else None,
        "later": f"{later_close} of {later}" if later else None,
    }


def _attempted(name: str, known: set[str], tried: dict[str, Any], course: Path) -> dict[str, Any]:
    if name not in known:
        return {"set": None}
    asked = Task(course / "exercises" / name / "task.py", name).answers
    by_question = {
        question: tries
        for question, tries in tried.get(name, {}).items()
        if tries and question in asked
    }
    if not by_question:
        return {"set": name, "questions": f"0 of {len(asked)}"}
    last = [tries[-1] for tries in by_question.values()]
    points, full = (sum(row[key] or 0 for row in last) for key in ("points", "of"))
    return {
        "set": name,
        "questions": f"{len(last)} of {len(asked)}",
        "attempts": str(sum(map(len, by_question.values()))),
        "points": f"{points:g} of {full:g}",
    }
