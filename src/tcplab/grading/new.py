"""`tcplab new-assignment`: the source folder of an assignment, with one question of each kind."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from tcplab.errors import ParameterError

__all__ = ["new_assignment"]

_TASK: Final = '''"""{name}: what is asked, each student's numbers, public checks. For learners."""

from __future__ import annotations

from typing import Any

from tcplab.grading import Numbers, Verdict
from tcplab.grading.checks import numbers_in
from tcplab.grading.programs import compiled, departures, how_it_ended
from tcplab.grading.work import Work

#: question -> the notebook's variables; none for a question about a file
ANSWERS = {{"q1": ["q1_window_bytes"], "q2": []}}
FILES = ["hello.c"]


def numbers(own: Numbers) -> dict[str, Any]:
    """The student's own numbers."""
    return {{
        "rtt_ms": own.pick("rtt_ms", [10, 20, 40]),
        "rate_mbit": own.integer("rate_mbit", 10, 90, 10),
    }}


def check_q1(work: Work) -> Verdict:
    """Is it an answer at all? Public checks never say what is right."""
    given = numbers_in(work.answers, ANSWERS["q1"], unit="bytes")
    if isinstance(given, Verdict):
        return given
    if given[0] <= 0:
        return Verdict(0, "q1_window_bytes: something must be under way.")
    return Verdict(1, "A number of bytes. Is it one way, or there and back?")


def check_q2(work: Work) -> Verdict:
    """Compiles hello.c, runs it in a lab and looks at the wire."""
    return look_at_hello(work, rtt_ms=10)


@compiled("hello.c")
def look_at_hello(work: Work, rtt_ms: float) -> Verdict:
    """The learner's program on the client, tcpsink on the server: counts and sizes, never times."""
    run = work.run_in_lab(
        work.compile("hello.c"),
        ["10.0.0.2", "{{port}}"],
        peer=["tcpsink", "--json", "--port", "0"],
        lab={{"rtt_ms": rtt_ms}},
    )
    if not run.outcome.ok:
        return Verdict(0, f"{{how_it_ended(run, 'hello')}}.")
    sent = departures(run)
    came = sum(each.size_bytes for each in sent)
    if came != 12:
        return Verdict(0, f"{{came}} bytes came; the greeting has another length.")
    if len(sent) > 1:
        return Verdict(0.5, f"All bytes came, in {{len(sent)}} segments: write them at once.")
    return Verdict(1, "One segment with all of it.")
'''

_JUDGE: Final = '''"""The hidden judge of {name}: a function a question. Only the grader runs it."""

from __future__ import annotations

from pathlib import Path

from tcplab.grading.assignment import load_module
from tcplab.grading.checks import Hint, Verdict, number
from tcplab.grading.work import Work
from tcplab.models import bdp_bytes

task = load_module(Path(__file__).parent.parent / "task.py", "tcplab_task_for_the_judge")


def q1(work: Work) -> Verdict:
    """Compute what is right; hints are the mistakes that you expect, and what each is worth."""
    n = work.numbers
    expected = bdp_bytes(n["rate_mbit"], n["rtt_ms"])
    return number(
        work.answers["q1_window_bytes"],
        expected,
        name="q1_window_bytes",
        unit="bytes",
        hints=[Hint(8 * expected, "these are bits.", 0.5)],
        wrong="How much is under way between a byte and its ACK?",
    )


def q2(work: Work) -> Verdict:
    """hello.c on another wire than the public check's."""
    verdict: Verdict = task.look_at_hello(work, rtt_ms=work.numbers["rtt_ms"])
    return verdict
'''

_MUTANTS: Final = '''"""Wrong solutions of {name}, each with the score that it must get, always."""

from tcplab.grading.trial import Mutant

MUTANTS = {{
    "bits-instead-of-bytes": Mutant(
        7.5, answers={{"q1-answer": 'q1_window_bytes = n["rate_mbit"] * n["rtt_ms"] * 1000'}}
    ),
    "half-a-greeting": Mutant(5.0, files={{"hello.c": [("hello, world", "hello")]}}),
}}
'''

_PROGRAM: Final = """/*
 * hello - send a greeting of 12 bytes over TCP, in one segment.
 *
 *     hello ADDRESS PORT
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    struct sockaddr_in server = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[2]))};
    inet_pton(AF_INET, argv[1], &server.sin_addr);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&server, sizeof server) < 0) {
        perror("connect");
        return 1;
    }
    /* BEGIN SOLUTION */
    const char *text = "hello, world";
    if (write(fd, text, strlen(text)) < 0)
        perror("write");
    /* END SOLUTION */
    /* STUB
    // Your lines go here.
    */
    close(fd);
    return 0;
}
"""

_SCHEME: Final = """=== BEGIN MARK SCHEME ===
One point for …, one point for …
=== END MARK SCHEME ==="""


def _cell(kind: str, name: str, source: str, **own: Any) -> Any:
    from nbformat import v4

    make: Any = v4.new_code_cell if kind == "code" else v4.new_markdown_cell
    made = make(source)
    made["id"] = name
    if own:
        roles = {"grade": False, "solution": False, "locked": False, "task": False}
        made.metadata["nbgrader"] = {"schema_version": 3, **roles, "grade_id": name, **own}
    return made


def _notebook(name: str) -> Any:
    from nbformat import v4

    cells = [
        _cell("markdown", f"{name}-title", f"# {name}\n\nWhat it is about.", locked=True),
        _cell(
            "code",
            f"{name}-open",
            "from tcplab.grading import open_assignment\n\n"
            "student = None  # your id, if you hand in under another name than your login's\n"
            f'assignment = open_assignment("{name}", student)\nn = assignment.numbers\nassignment',
        ),
        _cell(
            "markdown",
            f"{name}-q1-text",
            '**q1** (5 points). How many bytes must be under way to fill a link of `n["rate_mbit"]`'
            ' Mbit/s with a round-trip time of `n["rtt_ms"]` ms?',
            locked=True,
        ),
        _cell(
            "code",
            "q1-answer",
            "q1_window_bytes = None\n### BEGIN SOLUTION\n"
            'q1_window_bytes = n["rate_mbit"] * n["rtt_ms"] * 1000 / 8\n### END SOLUTION',
            solution=True,
        ),
        _test("q1", 5),
        _cell(
            "markdown",
            f"{name}-q2-text",
            "**q2** (5 points). Complete `hello.c`, beside this notebook.",
            locked=True,
        ),
        _test("q2", 5),
        _cell(
            "markdown",
            "w1",
            f"**Written answer** (2 points). Why?\n\n{_SCHEME}",
            task=True,
            locked=True,
            points=2.0,
        ),
        _cell("markdown", "w1-answer", "*Write your answer here.*"),
    ]
    notebook = v4.new_notebook(cells=cells)
    notebook.metadata["kernelspec"] = {
        "display_name": "Python 3 (ipykernel)",
        "language": "python",
        "name": "python3",
    }
    notebook.metadata["language_info"] = {"name": "python"}
    return notebook


def _test(name: str, points: float) -> Any:
    source = f'assignment.check("{name}")'
    return _cell("code", name, source, grade=True, locked=True, points=float(points))


def new_assignment(course: Path, name: str) -> Path:
    """Writes solutions/NAME with a complete small assignment to be edited; the folder.

    Raises:
        ParameterError: the name can't be one of a folder and a notebook, or there is one already.
    """
    import nbformat

    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,60}", name):
        raise ParameterError(f"name {name!r} must be letters, digits, - and _, at most 61 of them")
    folder = course.resolve() / "solutions" / name
    if folder.exists():
        raise ParameterError(f"{folder} exists already; choose another name")
    (folder / "hidden").mkdir(parents=True)
    (folder / "task.py").write_text(_TASK.format(name=name))
    (folder / "hidden" / "judge.py").write_text(_JUDGE.format(name=name))
    (folder / "hidden" / "mutants.py").write_text(_MUTANTS.format(name=name))
    (folder / "hidden" / "hello.c").write_text(_PROGRAM)
    nbformat.write(_notebook(name), folder / f"{name}.ipynb")
    return folder
