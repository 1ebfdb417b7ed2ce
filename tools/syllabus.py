"""Write what follows from the problem sets: points in their texts, and tables in the guide.

    python -m tools.syllabus [COURSE]

writes the points of each question into its text and into the table at the top of the set, and four
tables into the instructor's guide. The points are those of the notebook's check cells. The last
line of a question's text names the sections that teach it. `breaks` in `hidden/mutants.py` names
the rule that a mistake breaks, and `measures` in `hidden/why.toml` what a question measures, where
that is not what its kind usually does. `make exercises` runs this first.
"""

import difflib
import json
import re
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tcplab.grading.assignment import Task
from tcplab.grading.drawing import assignments
from tcplab.grading.release import strip_solution
from tcplab.grading.trial import Trial

_TAUGHT: Final = re.compile(r"^\*Taught in (.+)\.\*$", re.MULTILINE)
#: In the link of a title with parentheses, the address is in angle brackets.
_LINK: Final = re.compile(
    r"\[([^]]+) · ([^]]+)\]\(<?\.\./\.\./(lessons/[\w-]+\.ipynb)#((?:[^()<>]|\(\))+)>?\)"
)
#: The first word of each part's heading, the letter of its kind, and the minutes that a question of
#: this kind takes without writing C. These minutes are estimates.
KINDS: Final = {
    "Predict": ("c", 6),
    "Read": ("r", 8),
    "Program": ("p", 6),
    "Send": ("s", 6),
    "Explain": ("e", 10),
    "Measure": ("m", 10),
}
#: What a question of each kind measures, unless `measures` in why.toml says otherwise.
MEASURES: Final = {
    "c": "recall",
    "r": "reading a capture",
    "p": "transfer",
    "s": "transfer",
    "e": "transfer",
    "m": "design",
}
#: What the table at the top of a set calls the written answers, by the heading of their part.
WRITTEN: Final = {"Explain": "written answer", "Measure": "plan and plot"}
#: Minutes for a point of an answer in words.
ANSWER_MIN: Final = 5
#: Minutes for a line of C.
C_LINE_MIN: Final = 1
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


def outdated(root: Path) -> dict[Path, str]:
    """Return the new text of each notebook and guide in which points or tables are outdated."""
    sources = assignments(root / "solutions")
    texts = {source / f"{source.name}.ipynb": _with_points(source) for source in sources}
    # A teacher's own sets have no lesson, and are not in the guide.
    shipped = [source for source in sources if [*root.glob(f"lessons/*-{source.name}.ipynb")]]
    guide = root / "docs/instructors-guide.md"
    texts[guide] = guide.read_text()
    for rows in (_taught_rows, _point_rows, _measure_rows, _program_rows):
        texts[guide] = _with_table(texts[guide], list(rows(shipped)))
    return {path: text for path, text in texts.items() if text != path.read_text()}


def _with_table(text: str, rows: Sequence[str]) -> str:
    """Replace the table that begins with the same two headings, if there is one."""
    start = "|".join(rows[0].split("|")[:3])
    old = re.compile(rf"^{re.escape(start)}\|.*\n(?:\|.*\n)*", re.MULTILINE)
    return old.sub(lambda _: "".join(f"{row}\n" for row in rows), text)


def _with_points(source: Path) -> str:
    """Return a set's notebook with the points of its check cells in its texts."""
    notebook = json.loads((source / f"{source.name}.ipynb").read_text())
    parts: dict[str, dict[str, float]] = {}
    part, above = "", []
    for cell in notebook["cells"]:
        above.append(cell)
        if heading := re.search(r"^## (.+)", "".join(cell["source"]), re.MULTILINE):
            part = heading[1]
        if points := cell["metadata"].get("nbgrader", {}).get("points"):
            parts.setdefault(part, {})[cell["metadata"]["nbgrader"]["grade_id"]] = points
            stated = f"({points:g} point{'s' * (points != 1)})"
            for text in above:
                _swap(text, r"^(\*\*[\w ]+\*\*) \([\d.]+ points?\)", rf"\1 {stated}")
            above = []
    total = sum(sum(points.values()) for points in parts.values())
    _swap(notebook["cells"][0], r"^[\d.]+ points, ", f"{total:g} points, ")
    rows = ["| part | questions | points |", "|---|---|---|"]
    for part, points in parts.items():
        names = WRITTEN.get(part) or ", ".join(points)
        rows.append(f"| {part} | {names} | {sum(points.values()):g} |")
    head = _with_table("".join(notebook["cells"][0]["source"]), rows)
    notebook["cells"][0]["source"] = head.splitlines(keepends=True)
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def _swap(cell: dict[str, Any], old: str, new: str) -> None:
    text = re.sub(old, new, "".join(cell["source"]), flags=re.MULTILINE)
    cell["source"] = text.splitlines(keepends=True)


def _taught_rows(sources: Sequence[Path]) -> Iterator[str]:
    yield "| set | taught in: questions |"
    yield "|---|---|"
    for source in sources:
        questions: dict[Section, list[str]] = {}
        for question, sections in taught(source).items():
            for section in sections:
                questions.setdefault(section, []).append(question)
        parts = [
            f"{question.lesson} *{question.title}*: {', '.join(questions[question])}"
            for question in questions
        ]
        yield f"| {source.name} | {' · '.join(parts)} |"


@dataclass(frozen=True, slots=True)
class Question:
    """A question of a set, with its points and the work that it takes."""

    points: float
    kind: str  #: the letter of KINDS
    lines: int  #: lines of the model solution
    minutes: int

    def __str__(self) -> str:
        return f"{self.points:g} {self.kind}, {self.lines}, {self.minutes}"


def questions(source: Path) -> dict[str, Question]:
    """Describe each question of an assignment, from its notebook and its model solutions."""
    task = Task(source / "task.py", source.name)
    programs = [name for name, variables in task.answers.items() if not variables]
    by_program = [_new_lines(source / "hidden" / name) for name in task.files]
    if len(programs) == 1:
        by_program = [sum(by_program)]
    c_lines = dict(zip(programs, by_program, strict=True))
    described, solved, part = {}, 0, ""
    for cell in json.loads((source / f"{source.name}.ipynb").read_text())["cells"]:
        text = "".join(cell["source"])
        if heading := re.search(r"^## (\w+)", text, re.MULTILINE):
            part = heading[1]
        if solution := re.search(r"### BEGIN SOLUTION\n(.*)\n### END", text, re.DOTALL):
            solved = len(_code(solution[1]))
        if points := cell["metadata"].get("nbgrader", {}).get("points"):
            name = cell["metadata"]["nbgrader"]["grade_id"]
            if name in c_lines:
                part, solved = "Program", c_lines[name]
            kind, minutes = KINDS["Explain" if name == "w1" else part or "Predict"]
            if kind == "e":
                minutes = round(ANSWER_MIN * points)
            minutes += C_LINE_MIN * c_lines.get(name, 0)
            described[name] = Question(points, kind, solved, minutes)
            solved = 0
    return described


def _point_rows(sources: Sequence[Path]) -> Iterator[str]:
    most = max(len([name for name in questions(source) if name[0] == "q"]) for source in sources)
    names = [*(f"q{number}" for number in range(1, most + 1)), "w1", "w2"]
    yield f"| set | minutes | {' | '.join(names)} |"
    yield "|---|---|" + "---|" * len(names)
    for source in sources:
        asked = questions(source)
        shown = " | ".join(str(asked.get(name, "")) for name in names)
        minutes = 5 * round(sum(each.minutes for each in asked.values()) / 5)
        yield f"| {source.name} | {minutes} | {shown} |"


def _measure_rows(sources: Sequence[Path]) -> Iterator[str]:
    columns = list(dict.fromkeys(MEASURES.values()))
    yield f"| set | {' | '.join(columns)} |"
    yield "|---|" + "---|" * len(columns)
    for source in sources:
        other = tomllib.loads((source / "hidden/why.toml").read_text()).get("measures", {})
        by_measure: dict[str, list[str]] = {column: [] for column in columns}
        points = dict.fromkeys(columns, 0.0)
        for name, question in questions(source).items():
            measure = other.get(name, MEASURES[question.kind])
            by_measure[measure].append(name)
            points[measure] += question.points
        cells = [f"{points[one]:g}: {', '.join(by_measure[one])}" for one in columns]
        yield f"| {source.name} | {' | '.join('' if cell[0] == '0' else cell for cell in cells)} |"


def _program_rows(sources: Sequence[Path]) -> Iterator[str]:
    yield "| set | programs | lines to write | rules to keep |"
    yield "|---|---|---|---|"
    for source in sources:
        described = programs(source)
        names = ", ".join(f"`{name}`" for name in described.files)
        rules = f": {'; '.join(described.rules)}" if described.rules else ""
        yield f"| {source.name} | {names} | {described.lines} | {len(described.rules)}{rules} |"


if __name__ == "__main__":
    for path, text in outdated(Path(sys.argv[1] if len(sys.argv) > 1 else ".")).items():
        path.write_text(text)
        print(path)
