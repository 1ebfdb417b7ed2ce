"""Grade problem sets for learners without a class: `tcplab study cork`, or in a notebook::

    from tcplab.grading.study import study
    study("cork")

An attempt is judged like a class's submission, and recorded in `exercises/attempts.json`. If a
question lacks points after two attempts (one if the answer is written text), or on request, its
model answer is shown, with its reason from `hidden/why.toml`. This requires `solutions/`, which a
student bundle does not contain, since its learners have an instructor.
"""

import difflib
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
import textwrap
import time
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Final

from tcplab.checks import choice
from tcplab.errors import ParameterError, TcplabError
from tcplab.grading.archive import named_in, take_out, write_whole
from tcplab.grading.assignment import Assignment, open_assignment
from tcplab.grading.checks import score
from tcplab.grading.drawing import solved
from tcplab.grading.judging import Cells, CellsRun, parts_of
from tcplab.grading.release import SOLUTION, released_files, without_marks
from tcplab.grading.repair import repair
from tcplab.grading.sandbox import why_no_sandbox
from tcplab.grading.sandbox_runner import plain
from tcplab.grading.trial import Trial
from tcplab.programs.sources import course_folder

ATTEMPTS_FILE: Final = "attempts.json"
#: A model answer is shown after this many attempts without full points, or one for written text.
ENOUGH: Final = 2
_SCHEME: Final = re.compile(r"=== BEGIN MARK SCHEME ===\n(.*?)\n=== END MARK SCHEME ===", re.S)
#: The end of the message on a question that was not judged. No person judges here, so it is cut.
_A_PERSON: Final = "; a person decides."


class StudyError(TcplabError):
    """The problem set cannot be studied here."""


@dataclass(frozen=True, slots=True)
class Judged:
    """The result for one question of an attempt."""

    question: str
    points: float | None  #: None if the learner has to mark the answer, or it could not be judged
    full: float  #: points for a right answer
    message: str  #: message of the judge
    attempts: int  #: number of different answers so far
    model: str | None  #: the model answer, or None until it may be shown


@dataclass(frozen=True, slots=True)
class Study:
    """The result of an attempt, which a terminal and a notebook can show."""

    name: str  #: name of the problem set
    student: str  #: id of the student whose numbers were used
    judged: Sequence[Judged]
    source: str  #: a phrase that names the answers that were judged
    notes: Sequence[str]  #: failed cells, a missing sandbox, …

    @property
    def heading(self) -> str:
        points = sum(judged.points or 0.0 for judged in self.judged)
        left = sum(judged.full for judged in self.judged if judged.points is None)
        full = sum(judged.full for judged in self.judged) - left
        rest = f" by the judge, {left:g} more by your own judgement" if left else ""
        earned = f"{points:g} of {full:g} points{rest}"
        return f"{self.name}: {earned}, with the numbers of {self.student!r}"

    @property
    def next_steps(self) -> str:
        lacking = [one for one in self.judged if one.points != one.full]
        own = [one.question for one in lacking if one.points is None and one.attempts]
        short = [one.question for one in lacking if one.question not in own]
        steps = "All points are earned."
        if short:
            steps = f"Next: work on {', '.join(short)}, save, and run this again."
        if own:
            steps += f" Mark {', '.join(own)} yourself, with the mark scheme."
        if any(one.model is None for one in lacking):
            steps += (
                " A model answer is shown after two different answers to its question, or at once"
                f' with "tcplab study {self.name} --answers" or study("{self.name}", answers=True).'
            )
        return steps

    def __str__(self) -> str:
        parts = [self.heading, f"Judged: {self.source}.", *self.notes]
        for judged in self.judged:
            points = "–" if judged.points is None else f"{judged.points:g}"
            head = f"{judged.question}  {points} of {judged.full:g}"
            parts.append(_wrapped(f"{head}  {judged.message}", " " * 4))
        parts += [judged.model for judged in self.judged if judged.model is not None]
        return "\n\n".join([*parts, self.next_steps])

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


def study(
    name: str, *questions: str, answers: bool = False, course: Path | None = None
) -> Study | None:
    """Grade an attempt at a problem set; return its points and messages.

    In the problem set's notebook, the answers are its variables. Elsewhere, the saved notebook is
    run. C files and written answers are always read from disk. The result is None during grading.
    Raise StudyError if this copy of the course has no solutions. With `answers`, the model answers
    are shown immediately.
    """
    if os.environ.get("NBGRADER_EXECUTION"):  # the call is in a notebook that is being graded
        return None
    problem_set = _ProblemSet(name, course)
    for question in questions:
        choice(f"question of {name}", question, problem_set.points)
    opened = [
        value
        for value in sys._getframe(1).f_globals.values()
        if isinstance(value, Assignment) and value.name == name
    ]
    if opened:
        student, variables = opened[-1].student, sys._getframe(1).f_globals
        given = {variable: plain(variables.get(variable)) for variable in problem_set.task.names}
        lines = (f"{variable} = {value!r}" for variable, value in given.items())
        cells: Cells = [(0, "\n".join(lines))]
        source = "the variables of this notebook"
    else:
        cells = parts_of(problem_set.repaired.notebook)[1]
        student = open_assignment(name, folder=problem_set.exercise).student
        source = problem_set.saved
    return problem_set.judge(student, cells, questions, answers, source)


def attempts(course: Path | None = None) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Return the attempts by problem set and question, each with its points and its time."""
    path = (course or find_course()) / "exercises" / ATTEMPTS_FILE
    try:
        stored = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise ParameterError(f"{path} is damaged ({error}); delete it to start again") from None
    if not isinstance(stored, dict):
        raise ParameterError(f"{path} is damaged (no JSON object); delete it to start again")
    return stored


def find_course() -> Path:
    """Return the course's folder at or above the working directory, or else course_folder()."""
    here = Path.cwd()
    for folder in (here, *here.parents, course_folder()):
        if any(folder.glob("exercises/*/task.py")):
            return folder
    raise ParameterError(f"no exercises/ in {here} or above it; run this in the course's folder")


class _ProblemSet:
    """A problem set with its solution, and the learner's copy of it."""

    def __init__(self, name: str, course: Path | None) -> None:
        import nbformat

        self._course = course or find_course()
        self.name, self.exercise = name, self._course / "exercises" / name
        sets = sorted(path.parent.name for path in self._course.glob("exercises/*/task.py"))
        choice("problem set", name, sets)
        self._source = self._course / "solutions" / name
        if not (self._source / "hidden" / "judge.py").is_file():
            raise StudyError(
                f"study is off: this copy has no solutions to {name}; hand it in, and your"
                " instructor's feedback will show what is right"
            )
        self._blocked = why_no_sandbox()
        self._trial = Trial(self._source, unsafe=self._blocked is not None, own=True)
        self.points, self.task = self._trial.all_points, self._trial.task
        # Questions without a variable ask for a file. They are in the order of the files.
        programs = [question for question, names in self.task.answers.items() if not names]
        self._files = dict(zip(programs, self.task.files, strict=False))
        self._released = released_files(self._source)
        handed_out = nbformat.from_dict(self._trial.notebook)
        for cell in handed_out.cells:
            cell.source = SOLUTION.sub("", cell.source)
        path = self.exercise / f"{name}.ipynb"
        try:
            self.repaired = repair(path.read_bytes(), handed_out)
        except OSError as error:
            raise ParameterError(
                f"{path}: {error.strerror}; git checkout exercises/{name} restores it"
            ) from None

    @property
    def saved(self) -> str:
        path = self.exercise / f"{self.name}.ipynb"
        at = time.strftime("%H:%M on %d %B", time.localtime(path.stat().st_mtime))
        return f"{path.relative_to(self._course)} as it was saved at {at}"

    def judge(
        self, student: str, cells: Cells, questions: Sequence[str], answers: bool, source: str
    ) -> Study:
        """Grade the learner's answers, record the attempt, and return the result."""
        wanted = [question for question in self.points if not questions or question in questions]
        with tempfile.TemporaryDirectory(prefix="tcplab-study-") as directory:
            Path(directory).chmod(0o755)
            folder = Path(directory) / "given"
            left_out = shutil.ignore_patterns(".*", "__pycache__")
            shutil.copytree(self.exercise, folder, ignore=left_out)
            by_judge = [question for question in wanted if not self._is_left_alone(question)]
            ran, verdicts = self._trial.judge.judge(student, cells, by_judge, folder)
        student = ran.claimed or student
        stored = attempts(self._course)
        mine = stored.setdefault(self.name, {})
        judged = []
        for question in wanted:
            full = self.points[question]
            points, message = None, "Mark this one yourself, with the mark scheme."
            if question in self.repaired.untouched_tasks:
                message = "There is no answer yet."
            elif question in verdicts:
                points = score(verdicts[question], full)
                message = verdicts[question].message.replace(_A_PERSON, ".")
            elif question in self.task.answers:
                points, message = 0.0, f"{self._files[question]} is unchanged."
            tries = mine.get(question, [])
            given = self._given(question, ran)
            if given is not None and all(earlier["answer"] != given for earlier in tries):
                at = time.strftime("%Y-%m-%d %H:%M")
                tries.append({"at": at, "answer": given, "points": points, "of": full})
                mine[question] = tries
            enough = ENOUGH if question in self.task.answers else 1
            shown = answers or (len(tries) >= enough and points != full)
            model = self._model(question, student) if shown else None
            judged.append(Judged(question, points, full, message, len(tries), model))
        path = self._course / "exercises" / ATTEMPTS_FILE
        write_whole(path, json.dumps(stored, indent=1) + "\n")
        notes = ran.notes + [
            f"Cell {index + 1} of the notebook ends with {output['ename']}: {output['evalue']}"
            for index, outputs in sorted(ran.outputs.items())
            for output in outputs
            if output["output_type"] == "error"
        ]
        if self._blocked:
            notes.append(f"Judged without a sandbox: {self._blocked}")
        if self.task.files:
            source = " with ".join([source, ", ".join(self.task.files)])
        return Study(self.name, student, judged, source, notes)

    def _is_left_alone(self, question: str) -> bool:
        """Return whether no judge is needed, as for a written answer or an unchanged C file."""
        if question not in self.task.answers:
            return True
        file = self._files.get(question)
        path = self.exercise / str(file)
        return path.is_file() and path.read_bytes() == self._released.get(str(file))

    def _given(self, question: str, ran: CellsRun) -> str | None:
        """Return a short digest of the learner's answer, or None if there is no answer."""
        names = self.task.answers.get(question)
        given: Any
        if names is None:
            cells = self.repaired.notebook.cells
            given = [cell.source for cell in cells if cell.cell_type == "markdown"]
            is_given = question not in self.repaired.untouched_tasks
        elif names:
            given = [ran.answers.get(name) for name in names]
            is_given = any(answer is not None for answer in given)
        else:
            given = ran.files.get(self._files[question], b"").decode(errors="replace")
            is_given = not self._is_left_alone(question)
        if not is_given:
            return None
        return hashlib.sha256(json.dumps(given).encode()).hexdigest()[:16]

    def _model(self, question: str, student: str) -> str:
        """Return an answer that earns all points, for the learner's numbers, and the reason."""
        name, names = "model answer", self.task.answers.get(question)
        if names is None:
            scheme = _SCHEME.search(self._trial.marked[question].source)
            name, parts = "mark scheme", [scheme[1] if scheme else ""]
        elif not names:
            parts = [self._changes(self._files[question])]
        else:
            cells = [c for name, c in self._trial.solution if name.partition("-")[0] == question]
            lines = "".join(part for cell in cells for part in SOLUTION.findall(cell))
            variables = self._solved(student)
            values = [f"{variable} = {plain(variables[variable])!r}" for variable in names]
            parts = ["\n".join(values), lines.strip()]
        shown = [textwrap.indent(part, "    ") for part in parts if part]
        path = self._source / "hidden" / "why.toml"
        reasons = tomllib.loads(path.read_text()) if path.is_file() else {}
        if why := " ".join(reasons.get(question, "").split()):
            shown.append(_wrapped(f"  Why: {why}", "  "))
        return "\n\n".join([f"{question}, the {name}", *shown])

    def _solved(self, student: str) -> dict[str, Any]:
        """Return the variables of the solution for a student's numbers."""
        numbers = self.task.numbers(student)
        with tempfile.TemporaryDirectory(prefix="tcplab-study-") as directory:
            if captures := named_in(numbers):
                take_out(self._source, captures, Path(directory))
            if "capture" in numbers:
                numbers["capture"] = str(Path(directory, numbers["capture"]))
            if "captures" in numbers:
                numbers["captures"] = [str(Path(directory, name)) for name in numbers["captures"]]
            return solved(self._source, numbers)

    def _changes(self, file: str) -> str:
        """Return the reference solution of a C file as a diff."""
        path = self._source / "hidden" / file
        before = self._released[file].decode().splitlines()
        after = without_marks(path.read_text()).splitlines()
        lines = list(difflib.unified_diff(before, after, n=2, lineterm=""))[2:]
        where = path.relative_to(self._course)
        return "\n".join([f"{file}, as handed out (-) and in {where} (+)", *lines])


def _wrapped(text: str, indent: str) -> str:
    """Wrap a text for a terminal, and indent all lines but the first."""
    return textwrap.indent(
        "\n".join(textwrap.fill(line, 96 - len(indent)) for line in text.splitlines()), indent
    ).removeprefix(indent)
