"""Make what learners get of an assignment from its solution (`make exercises`, `tcplab handout`).

`hidden/` never leaves the source folder. A C file in it with solution markers is the reference
solution of a file that learners get under the same name, with each region

    /* BEGIN SOLUTION */ … /* END SOLUTION */

replaced by the text of the comment that follows it, `/* STUB … */`, or by nothing.

    python -m tcplab.grading.release [NAME ...]

makes the learners' version of these assignments (default: all) with nbgrader, in a copy of the
course with a temporary gradebook. The same source gives the same bytes.
"""

import copy
import logging
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from tcplab.checks import choice
from tcplab.errors import LabError, ParameterError, TcplabError
from tcplab.grading.archive import ARCHIVE_FILE, named_in, read_archive, whole_file, write_archive
from tcplab.grading.assignment import Task
from tcplab.grading.course import configure, find_alembic
from tcplab.grading.drawing import assignments

#: The lines of a notebook's cell that learners do not get, with their markers.
SOLUTION: Final = re.compile(r"^### BEGIN SOLUTION\n(.*?)^### END SOLUTION(?:\n|\Z)", re.M | re.S)
_REGION: Final = re.compile(
    r"^[ \t]*/\* BEGIN SOLUTION \*/\n(?P<solution>.*?)^[ \t]*/\* END SOLUTION \*/\n"
    r"(?:^[ \t]*/\* STUB\n(?P<stub>.*?)^[ \t]*\*/\n)?",
    re.MULTILINE | re.DOTALL,
)


def strip_solution(source: str, name: str) -> str:
    """Return a C file as learners get it, or raise ParameterError if its markers are wrong."""
    released = _REGION.sub(lambda region: region["stub"] or "", source)
    for number, line in enumerate(released.splitlines(), 1):
        if "SOLUTION" in line or "/* STUB" in line:
            raise ParameterError(
                f"{name} line {number}: BEGIN SOLUTION, END SOLUTION and STUB must be on separate"
                " lines, in this order"
            )
    return released


def without_marks(source: str) -> str:
    """Return the reference solution without markers and stubs."""
    return _REGION.sub(lambda region: region["solution"], source)


def released_files(source: Path) -> dict[str, bytes]:
    """Map each C file in hidden/ that contains a solution to the version for learners."""
    files = {}
    for path in sorted((source / "hidden").glob("*.c")):
        text = path.read_text()
        if "/* BEGIN SOLUTION */" in text:
            files[path.name] = strip_solution(text, path.name).encode()
    return files


# ---- exercises -----------------------------------------------------------------------------------


def generate(root: Path, target: Path, only: Sequence[str] = ()) -> list[str]:
    """Write exercises to `target`, replacing folders; return their names. `only` selects some."""
    from traitlets.config import Config

    names = sorted(source.name for source in assignments(root / "solutions"))
    if not names:
        raise ParameterError(f"{root}/solutions holds no assignment (a folder with its notebook)")
    for name in only:
        choice("assignment", name, names)
    names = [name for name in names if not only or name in only]
    for source in (root / "solutions" / name for name in names):
        if (source / "hidden" / "scenes.py").is_file() and not (source / ARCHIVE_FILE).is_file():
            raise ParameterError(f"{source} has no {ARCHIVE_FILE}: tcplab draw {source.name}")
    with tempfile.TemporaryDirectory(prefix="tcplab-exercises-") as directory:
        course = Path(directory)
        shutil.copytree(root / "solutions", course / "solutions")
        config = Config()
        configure(config, course)
        for name in names:
            release(config, name)
            shutil.rmtree(target / name, ignore_errors=True)
            shutil.copytree(course / "exercises" / name, target / name)
    return names


def release(config: Any, assignment: str) -> None:
    """Make the learners' version and the gradebook's entry with nbgrader's GenerateAssignment."""
    from nbgrader.converters import GenerateAssignment
    from nbgrader.coursedir import CourseDirectory

    find_alembic()
    config = copy.deepcopy(config)
    config.CourseDirectory.assignment_id = assignment
    log = logging.getLogger("tcplab.release")
    log.setLevel(logging.ERROR)
    try:
        GenerateAssignment(
            coursedir=CourseDirectory(config=config), config=config, force=True, log=log
        ).start()
    except (Exception, SystemExit) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise LabError(f"nbgrader generate_assignment {assignment} failed: {reason}") from None


def main() -> None:
    """Make the learners' version of assignments of the course in this folder."""
    root = Path().resolve()
    try:
        for name in generate(root, root / "exercises", sys.argv[1:]):
            print(f"exercises/{name}")
    except TcplabError as error:
        sys.exit(f"tcplab: {error}")


# ---- handout -------------------------------------------------------------------------------------


#: Files that are not copied: those that a run of the exercise creates, and all captures.
_LEFT_OUT: Final = (".ipynb_checkpoints", "__pycache__", "captures", ARCHIVE_FILE)


def hand_out(released: Path, students: Iterable[str], into: str) -> list[Path]:
    """Copy a released exercise for each student, without the captures of others; return the copies.

    In `into`, {student} and {assignment} are replaced. A name that ends in .zip becomes an archive,
    any other a folder, which must not exist yet, because it may contain someone's work.
    """
    if not (released / f"{released.name}.ipynb").is_file():
        raise ParameterError(
            f"{released} holds no exercise; make it with: nbgrader generate_assignment"
            f" {released.name}"
        )
    if "{student}" not in into:
        raise ParameterError(
            f"into={into!r} must contain {{student}}, so that each student has a different target"
        )
    task = Task(released / "task.py", released.name)
    made = []
    for student in students:
        made.append(target := Path(into.format(student=student, assignment=released.name)))
        captures = named_in(task.numbers(student))
        if target.suffix == ".zip":
            with tempfile.TemporaryDirectory(prefix="tcplab-handout-") as name:
                _copy(released, Path(name, released.name), captures)
                packed = shutil.make_archive(f"{name}/packed", "zip", name, released.name)
                with whole_file(target) as draft:
                    shutil.copyfile(packed, draft)
        elif target.exists():
            raise ParameterError(f"{target} exists already; move it away, or leave {student} out")
        else:
            _copy(released, target, captures)
    return made


def _copy(released: Path, target: Path, captures: list[str]) -> None:
    fresh = target.with_name(f".{target.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)  # left by a run that was killed
    shutil.copytree(released, fresh, ignore=shutil.ignore_patterns(*_LEFT_OUT))
    if captures:
        write_archive(fresh, read_archive(released, captures))
    fresh.rename(target)


# ---- a new assignment ----------------------------------------------------------------------------


#: A complete small assignment, in which NAME is replaced by the assignment's name.
TEMPLATE: Final = Path(__file__).with_name("template")


def new_assignment(course: Path, name: str) -> Path:
    """Create solutions/NAME with a complete small assignment to edit, and return the folder."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,60}", name):
        raise ParameterError(f"name {name!r} must be letters, digits, - and _, at most 61 of them")
    folder = course.resolve() / "solutions" / name
    if folder.exists():
        raise ParameterError(f"{folder} exists already; choose another name")
    shutil.copytree(TEMPLATE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "NAME.ipynb").rename(folder / f"{name}.ipynb")
    for path in sorted(folder.rglob("*.*")):
        path.write_text(path.read_text().replace("NAME", name))
    return folder


if __name__ == "__main__":
    main()
