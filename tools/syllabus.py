"""Find the sections that teach each question, and measure the work that C programs take.

    python -m tools.syllabus [COURSE]

prints the three tables of the instructor's guide. The last line of a question's text names the
sections that teach it. `breaks` in `hidden/mutants.py` names the rule that a mistake breaks.
"""

from __future__ import annotations

import difflib
import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tcplab.grading.drawing import assignments
from tcplab.grading.release import strip_solution
from tcplab.grading.trial import Trial

_TAUGHT: Final = re.compile(r"^\*Taught in (.+)\.\*$", re.MULTILINE)
#: In the link of a title with parentheses, the address is in angle brackets.
_LINK: Final = re.compile(
    r"\[([^]]+) · ([^]]+)\]\(<?\.\./\.\./(lessons/[\w-]+\.ipynb)#((?:[^()<>]|\(\))+)>?\)"
)
#: The first word of each part in a set's title, and the part's column.
_PARTS: Final = {
    "Predict": "calculate",
    "Read": "read captures",
    "Program": "program",
    "Send": "send a packet",
    "Explain": "explain",
    "Measure": "plan and plot",
}
_COMMENT: Final = re.compile(r"/\*.*?\*/", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Section:
    """A section of a lesson that a question links to."""

    lesson: str  #: slug of the lesson
    title: str  #: title of the section
    notebook: str  #: path of the notebook in the course
    anchor: str  #: JupyterLab's anchor of the title


@dataclass(frozen=True, slots=True)
class Programs:
    """The C programs of a problem set, and the work that they take."""

    files: Sequence[str]
    lines: int  #: lines of code that the model solutions add or change
    #: rules of TCP and of the kernel that the programs must keep; breaking a rule costs points
    rules: Sequence[str]


def taught(source: Path) -> dict[str, list[Section]]:
    """Map each question of an assignment to the sections that teach it."""
    by_question: dict[str, list[Section]] = {}
    sections: list[Section] = []
    for cell in json.loads((source / f"{source.name}.ipynb").read_text())["cells"]:
        text = "".join(cell["source"])
        sections += [
            Section(*link) for line in _TAUGHT.findall(text) for link in _LINK.findall(line)
        ]
        metadata = cell["metadata"].get("nbgrader", {})
        if metadata.get("points"):
            by_question[metadata["grade_id"]], sections = sections, []
    return by_question


def programs(source: Path) -> Programs:
    """Describe the C programs of an assignment, from its model solutions and mutants."""
    files = sorted((source / "hidden").glob("*.c"))
    rules = {mutant.breaks: None for mutant in Trial(source).mutants.values() if mutant.breaks}
    return Programs([path.name for path in files], sum(map(_new_lines, files)), [*rules])


def _new_lines(path: Path) -> int:
    """Count the lines of code that a model solution adds to the learners' file or changes in it."""
    given = _code(strip_solution(path.read_text(), path.name))
    solved = _code(path.read_text())
    same = difflib.SequenceMatcher(None, given, solved, autojunk=False).get_matching_blocks()
    return len(solved) - sum(block.size for block in same)


def _code(text: str) -> list[str]:
    lines = (line.strip(" {}") for line in _COMMENT.sub("", text).splitlines())
    return [line for line in lines if line]


def tables(root: Path) -> str:
    """Return the three tables of the instructor's guide as Markdown."""
    return "\n\n".join(
        "\n".join(rows(root / "solutions")) for rows in (_taught_rows, _point_rows, _program_rows)
    )


def _taught_rows(sources: Path) -> Iterator[str]:
    yield "| set | taught in: questions |"
    yield "|---|---|"
    for source in assignments(sources):
        questions: dict[Section, list[str]] = {}
        for question, sections in taught(source).items():
            for section in sections:
                questions.setdefault(section, []).append(question)
        parts = [
            f"{question.lesson} *{question.title}*: {', '.join(questions[question])}"
            for question in questions
        ]
        yield f"| {source.name} | {' · '.join(parts)} |"


def _point_rows(sources: Path) -> Iterator[str]:
    yield "| set | minutes | " + " | ".join(_PARTS.values()) + " | lines of C per point |"
    yield "|---|---|" + "---|" * (len(_PARTS) + 1)
    for source in assignments(sources):
        first = json.loads((source / f"{source.name}.ipynb").read_text())["cells"][0]
        head = "".join(first["source"])
        minutes = re.search(r"^\d+ points, (.+?)(?: minutes)?, after", head, re.MULTILINE)
        listed = re.findall(r"^\| (\w+?)s? .*\| (\d+) \|$", head, re.MULTILINE)
        points = {part: sum(int(n) for word, n in listed if word == part) for part in _PARTS}
        if minutes and listed:
            shown = " | ".join(map(str, points.values()))
            lines = programs(source).lines / points["Program"]
            yield f"| {source.name} | {minutes[1]} | {shown} | {lines:.1f} |"


def _program_rows(sources: Path) -> Iterator[str]:
    yield "| set | programs | lines to write | rules to keep |"
    yield "|---|---|---|---|"
    for source in assignments(sources):
        described = programs(source)
        names = ", ".join(f"`{name}`" for name in described.files)
        rules = f": {'; '.join(described.rules)}" if described.rules else ""
        yield f"| {source.name} | {names} | {described.lines} | {len(described.rules)}{rules} |"


if __name__ == "__main__":
    print(tables(Path(sys.argv[1] if len(sys.argv) > 1 else ".")))
