"""Read the eight commands from the table in the instructor's guide."""

import re
from typing import Final

from tests.support.paths import ROOT

_ROW: Final = re.compile(r"^\| (\d) \| [^|]+ \| `([^`]+)` \| (?:`([^`]+)`|the same) \|$", re.M)


def commands(*, lms: bool = False) -> list[str]:
    """Return a column's commands in order; the command of step N is at index N - 1."""
    page = (ROOT / "docs/instructors-guide.md").read_text()
    rows = [match.groups() for match in _ROW.finditer(page)]
    assert [number for number, *_ in rows] == list("12345678")
    return [(other if lms else None) or command for _, command, other in rows]


def words(step: int, assignment: str, captures: int, *, lms: bool = False) -> list[str]:
    """Return the words of a step's command for this problem set and this number of captures."""
    command = commands(lms=lms)[step - 1]
    command = command.replace("small-writes", assignment).replace("120", str(captures))
    return command.removeprefix(".venv/bin/").split()
