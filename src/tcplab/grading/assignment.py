"""Present an assignment to its learner, with individual numbers and public checks.

An assignment's folder holds the notebook and `task.py`, which declares the questions::

    ANSWERS = {"q1": ["q1_ms"], "q4": []}          # question -> the notebook's variables
    FILES = ["records.c"]                          # handed in with the notebook
    def numbers(own: Numbers) -> dict[str, Any]: ...
    # public: a first look, never the answer
    def check_q1(submission: Submission) -> Verdict: ...

The grader uses the same file and adds the hidden judge (see tcplab.grading.judging).
"""

from __future__ import annotations

import getpass
import hashlib
import importlib.util
import json
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from tcplab.checks import choice
from tcplab.errors import LabError, ParameterError
from tcplab.grading.archive import named_in, take_out
from tcplab.grading.checks import Verdict
from tcplab.grading.sandbox_runner import plain, read_files
from tcplab.tables import Table

if TYPE_CHECKING:
    from tcplab.grading.submission import Submission

T = TypeVar("T")
COURSE_FILE: Final = "course.json"
#: The lock to hold while loading a module, as several threads may load modules of the same name.
_LOADING: Final = threading.RLock()


class Course(NamedTuple):
    """The data of a course from which an assignment's numbers derive, read from course.json."""

    #: A key derived from the course's secret. It is as good as random, and makes the numbers differ
    #: from course to course.
    key: str = ""
    captures: int = 0  #: number of captures in the archive, which are named 1, 2, …

    @classmethod
    def read(cls, folder: Path) -> Course:
        """Read course.json in a folder. Without it, the key is empty and there are no captures."""
        path = folder / COURSE_FILE
        try:
            return cls(**json.loads(path.read_text()))
        except FileNotFoundError:
            return cls()
        except (TypeError, ValueError, OSError) as error:
            raise ParameterError(
                f"{path} cannot be read ({error}); copy it again from what was handed out"
            ) from None


class Numbers:
    """Draw values that differ from student to student and never change for one student.

    A value depends only on the course's key, the assignment, the student's id and the value's name.
    """

    def __init__(self, assignment: str, student: str, course: Course | None = None) -> None:
        self.assignment = assignment
        self.student = normal_id(student)
        self.course = course or Course()

    def pick(self, name: str, values: Sequence[T]) -> T:
        """Return one of the values, or raise ValueError if there are none."""
        if not values:
            raise ValueError(f"no values to pick {name} from")
        seed = f"{self.course.key}\0{self.assignment}\0{self.student}\0{name}".encode()
        return values[int.from_bytes(hashlib.sha256(seed).digest()[:8]) % len(values)]

    def integer(self, name: str, low: int, high: int, step: int = 1) -> int:
        """Return a whole number from `low` to `high`, in steps of `step`."""
        return self.pick(name, range(low, high + 1, step))

    @property
    def of_course(self) -> Numbers:
        return Numbers(self.assignment, "", self.course)

    def captures(self, count: int = 1) -> list[str]:
        """Return the names of `count` different captures that this student gets."""
        if self.course.captures < count:
            raise ParameterError(
                f"{self.assignment} has {self.course.captures} captures and needs {count}: its"
                f" {COURSE_FILE} is missing or old; copy it from what was handed out, or record the"
                f" captures of a set of your own with: tcplab draw {self.assignment} --captures 48"
            )
        left = list(range(1, self.course.captures + 1))
        return [
            f"captures/{left.pop(self.integer(f'capture {turn}', 0, len(left) - 1))}.pcapng"
            for turn in range(count)
        ]


def normal_id(student: str) -> str:
    """Return a student's id as the numbers use it, in lower case and without surrounding spaces."""
    return student.strip().casefold()


def load_module(path: Path, name: str) -> ModuleType:
    """Load a Python file as a module, and remove the module from sys.modules again."""
    if not path.is_file():
        raise ParameterError(f"{path}: no such file; is this the assignment's folder?")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # A dataclass looks up its module in sys.modules while the class is being created.
    with _LOADING:
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        finally:
            sys.modules.pop(name, None)
    return module


class Task:
    """The declarations in an assignment's task.py."""

    def __init__(self, path: Path, assignment: str) -> None:
        self.assignment = assignment
        self.module = load_module(path, f"tcplab_task_{assignment}")
        for part in ("ANSWERS", "FILES", "numbers"):
            if not hasattr(self.module, part):
                raise ParameterError(f"{path} has no {part}: see docs/grading.md")
        self.answers: Mapping[str, Sequence[str]] = self.module.ANSWERS
        self.files: Sequence[str] = self.module.FILES
        #: names of the numbers that `tcplab draw` also writes into the C files
        self.in_programs: Sequence[str] = getattr(self.module, "IN_PROGRAMS", ())
        self._course = Course.read(path.parent)

    def numbers(self, student: str) -> dict[str, Any]:
        """Return the numbers of a student."""
        own = Numbers(self.assignment, student, self._course)
        return dict(self.module.numbers(own))

    @property
    def names(self) -> list[str]:
        return [name for names in self.answers.values() for name in names]

    def check(self, question: str, work: Submission) -> Verdict:
        """Return the verdict of the public check of a question."""
        verdict: Verdict = getattr(self.module, f"check_{question}")(work)
        return verdict


class CheckResult(NamedTuple):
    """The result of a public check, which a notebook can show."""

    question: str
    verdict: Verdict
    #: True if the check tried the submission, as the checks of programs and packets do. The check
    #: of any other answer only finds missing or impossible values.
    judged: bool

    def __repr__(self) -> str:
        head = "works here" if self.judged else "recorded, not judged"
        if not self.verdict.passed:
            head = "could not be checked here" if self.verdict.share is None else "not yet"
        return f"{self.question}: {head}. {self.verdict.message}"

    def _repr_html_(self) -> str:
        # JupyterLab would break lines of plain text within words.
        return f"<p>{escape(repr(self))}</p>"


class Assignment:
    """An opened assignment, with the student's `numbers` and a `check` for each answer."""

    def __init__(self, name: str, student: str, folder: Path) -> None:
        self.name = name
        self.student = student
        self._folder = folder
        self._task = Task(folder / "task.py", name)
        self.numbers = self._task.numbers(student)

    def _repr_html_(self) -> str:
        rows = [(f'n["{key}"]', repr(value)) for key, value in self.numbers.items()]
        caption = f"Problem set {self.name}: the numbers of {self.student}"
        return replace(Table.of(["number", "value"], rows), caption=caption)._repr_html_()

    def check(self, question: str, answers: Mapping[str, Any] | None = None) -> CheckResult | None:
        """Check one answer, and report what is missing, but never the right answer.

        By default, the answers are the caller's global variables. During grading, nothing is
        checked and None is returned. In `nbgrader validate`, a failed check raises AssertionError.
        """
        from tcplab.grading.submission import Submission

        choice(f"question of {self.name}", question, self._task.answers)
        if os.environ.get("NBGRADER_EXECUTION") == "autograde":
            return None
        variables = sys._getframe(1).f_globals if answers is None else answers
        # Convert answers as the grader does, which turns numpy scalars into numbers, for example.
        answered = {name: plain(variables.get(name)) for name in self._task.names}
        files = read_files(self._folder, self._task.files)
        # A learner's own program runs on the learner's own machine, so no sandbox is needed.
        own = Submission(
            self.student, self.numbers, answered, files, unsafe=True, folder=self._folder
        )
        try:
            with own as submission:
                verdict = self._task.check(question, submission)
        except LabError as error:
            verdict = Verdict(None, str(error))
        # A question about a program has no variable. A variable for a packet contains "_packet".
        judged = all("_packet" in name for name in self._task.answers[question])
        result = CheckResult(question, verdict, judged)
        if os.environ.get("NBGRADER_EXECUTION") == "validate" and not verdict.passed:
            raise AssertionError(repr(result))
        return result


def open_assignment(
    name: str, student: str | None = None, folder: str | os.PathLike[str] = "."
) -> Assignment:
    """Open the assignment in the notebook's folder, and unpack the student's captures there.

    `student` is the id under which the work is handed in. By default it is the user's name on
    JupyterHub, or the login.
    """
    if student is None:  # nbgrader hands in under this id
        student = os.environ.get("JUPYTERHUB_USER") or os.environ.get("USER") or getpass.getuser()
    if not isinstance(student, str) or not student.strip():
        raise ParameterError(f"student={student!r} must be your id, a text such as 'ada'")
    opened = Assignment(name, student, Path(folder))
    if captures := named_in(opened.numbers):
        take_out(Path(folder), captures, Path(folder))
    return opened
