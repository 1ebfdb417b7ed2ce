"""Flag programs that equal the model solution, or another student's program.

Comments and white space do not count. A flag costs no points, because short programs may agree by
chance. It shows which students should explain their programs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from tcplab.grading.release import released_files, without_marks

_LEFT_OUT = re.compile(rb"/\*.*?\*/|//[^\n]*|\s+", re.DOTALL)


def like_others(source: Path, submissions: Mapping[str, Path]) -> dict[str, list[str]]:
    """Return the flags of each student, for the C programs in the students' folders.

    `source` is the folder with the model solution.
    """
    flags: dict[str, list[str]] = {student: [] for student in submissions}
    for name, given in released_files(source).items():
        if not name.endswith(".c"):
            continue
        path = source / "hidden" / name
        model = _bare(without_marks(path.read_text()).encode()) if path.is_file() else None
        alike: dict[bytes, list[str]] = {}
        for student, folder in submissions.items():
            if (folder / name).is_file():
                alike.setdefault(_bare((folder / name).read_bytes()), []).append(student)
        alike.pop(_bare(given), None)  # ignore files that are still as they were handed out
        for program, students in alike.items():
            for student in students:
                if program == model:
                    flags[student].append(f"like-the-model: {name}")
                elif others := [other for other in students if other != student]:
                    flags[student].append(f"like-another: {name}, as of {', '.join(others[:5])}")
    return flags


def _bare(program: bytes) -> bytes:
    return _LEFT_OUT.sub(b"", program)
