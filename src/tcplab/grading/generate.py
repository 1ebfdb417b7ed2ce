"""Generate the learners' version of every assignment from its source (`make exercises`).

    python -m tcplab.grading.generate [COURSE [TARGET [NAME...]]]

nbgrader does this in a copy of the course with a temporary gradebook. It removes solutions and mark
schemes and locks the tests. The same source gives the same bytes.
"""

from __future__ import annotations

import copy
import logging
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tcplab.checks import choice
from tcplab.errors import LabError, ParameterError
from tcplab.grading.course import configure, find_alembic


def generate(root: Path, target: Path, only: Sequence[str] = ()) -> list[str]:
    """Write exercises to `target`, replacing folders; return their names. `only` selects some."""
    from traitlets.config import Config

    names = sorted(
        folder.name
        for folder in root.glob("solutions/*")
        if (folder / f"{folder.name}.ipynb").is_file()
    )
    if not names:
        raise ParameterError(f"{root}/solutions holds no assignment (a folder with its notebook)")
    for name in only:
        choice("assignment", name, names)
    names = [name for name in names if not only or name in only]
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


def main(argv: list[str] | None = None) -> int:
    """Run the command line, and return the exit status."""
    arguments = sys.argv[1:] if argv is None else argv
    root = Path(arguments[0] if arguments else ".").resolve()
    target = Path(arguments[1]) if len(arguments) > 1 else root / "exercises"
    for name in generate(root, target, arguments[2:]):
        print(f"{target.name}/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
