"""A tiny assignment of 7 points with every kind of question, which runs quickly.

q1 (2 points) asks for a number, q2 (1) for a choice, q3 (2) for a C program that adds up, and w1
(2) for a written answer.
"""

import re
import shutil
from pathlib import Path
from typing import Any

import nbformat
from nbformat import v4
from tests.support.grading.sets import BY_PRODUCTS

from tcplab.grading.release import SOLUTION, released_files

TASK = """
from tcplab.grading import Numbers, Verdict
from tcplab.grading.submission import Submission

ANSWERS = {"q1": ["q1_sum"], "q2": ["q2_word"], "q3": []}
FILES = ["total.c"]

def numbers(own: Numbers) -> dict:
    return {"a": own.integer("a", 2, 90), "b": own.integer("b", 100, 900)}

def check_q1(submission: Submission) -> Verdict:
    given = submission.answers["q1_sum"]
    return Verdict(float(isinstance(given, int)), f"q1_sum is of type {type(given).__name__}.")
"""

JUDGE = """
from tcplab.grading.checks import Hint, Verdict, choice, number
from tcplab.grading.submission import Submission
from tcplab.grading.sandbox import Limits

SECRET = "the-hidden-judge-was-read"

def q1(submission: Submission) -> Verdict:
    n = submission.numbers
    return number(submission.answers["q1_sum"], n["a"] + n["b"], name="q1_sum", within=0,
                  hints=[Hint(n["b"] - n["a"], "this is the difference.", 0.5)])

def q2(submission: Submission) -> Verdict:
    return choice(submission.answers["q2_word"], "cork", ["cork", "nodelay"], name="q2_word")

def q3(submission: Submission) -> Verdict:
    built = submission.compile("total.c")
    if built.binary is None:
        return Verdict(0, f"total.c does not compile:\\n{built.messages}")
    limits = Limits(wall_s=4, cpu_s=2, memory_bytes=256 << 20, processes=8,
                    folder_bytes=8 << 20, output_bytes=100_000)
    with submission.start(built, ["20", "22"], limits=limits) as program:
        outcome = program.finish()
    if not outcome.ok:
        return Verdict(0, f"total {outcome.how_it_ended()}.")
    if outcome.output.split() != [b"42"]:
        return Verdict(0, "total 20 22 does not print their sum.")
    return Verdict(1, "total adds up.")
"""

TOTAL_C = """
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    /* BEGIN SOLUTION */
    printf("%d\\n", atoi(argv[1]) + atoi(argv[2]));
    /* END SOLUTION */
    /* STUB
    printf("%s\\n", argv[1]);
    */
    return 0;
}
"""


def cell(kind: str, name: str, source: str, **own: Any) -> Any:
    make: Any = v4.new_code_cell if kind == "code" else v4.new_markdown_cell
    made = make(source)
    made["id"] = name
    if own:
        base = {"schema_version": 3, "grade": False, "solution": False, "locked": False}
        made.metadata["nbgrader"] = {**base, "task": False, "grade_id": name, **own}
    return made


def answer(name: str, variable: str, solution: str) -> Any:
    source = f"{variable} = None\n### BEGIN SOLUTION\n{solution}\n### END SOLUTION"
    return cell("code", name, source, solution=True)


def check_cell(name: str, points: float) -> Any:
    return cell(
        "code", name, f'assignment.check("{name}")', grade=True, locked=True, points=float(points)
    )


def write_tiny(folder: Path) -> None:
    (folder / "hidden").mkdir(parents=True)
    (folder / "task.py").write_text(TASK)
    (folder / "hidden" / "judge.py").write_text(JUDGE)
    (folder / "hidden" / "total.c").write_text(TOTAL_C)
    scheme = "=== BEGIN MARK SCHEME ===\nTwo points for anything.\n=== END MARK SCHEME ==="
    cells = [
        cell("markdown", "title", "# Tiny", locked=True),
        cell(
            "code",
            "open",
            "from tcplab.grading import open_assignment\n\nstudent = None\n"
            'assignment = open_assignment("tiny", student)\nn = assignment.numbers',
        ),
        cell("markdown", "q1-text", "What is a + b?", locked=True),
        answer("q1-answer", "q1_sum", 'q1_sum = n["a"] + n["b"]'),
        check_cell("q1", 2),
        cell("markdown", "q2-text", "Which word?", locked=True),
        answer("q2-answer", "q2_word", 'q2_word = "cork"'),
        check_cell("q2", 1),
        cell("markdown", "q3-text", "Make total.c add up.", locked=True),
        check_cell("q3", 2),
        cell(
            "markdown", "w1", f"**Why?** (2 points)\n\n{scheme}", task=True, locked=True, points=2.0
        ),
        cell("markdown", "w1-answer", "*Write your answer here.*"),
    ]
    notebook = v4.new_notebook(cells=cells)
    notebook.metadata["kernelspec"] = {
        "display_name": "Python 3 (ipykernel)",
        "language": "python",
        "name": "python3",
    }
    notebook.metadata["language_info"] = {"name": "python"}
    nbformat.write(notebook, folder / "tiny.ipynb")


def release_by_hand(source: Path, exercise: Path) -> None:
    """Release an assignment as nbgrader would, but in a millisecond."""
    shutil.copytree(source, exercise, ignore=shutil.ignore_patterns("hidden", *BY_PRODUCTS))
    for name, data in released_files(source).items():
        (exercise / name).write_bytes(data)
    notebook = nbformat.read(source / f"{source.name}.ipynb", as_version=4)
    for made in notebook.cells:
        text = SOLUTION.sub("# Your lines go here.\n", made.source)
        made.source = re.sub(r"=== BEGIN.*END MARK SCHEME ===", "", text, flags=re.S).strip()
    nbformat.write(notebook, exercise / f"{source.name}.ipynb")
