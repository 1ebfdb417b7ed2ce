"""Submissions that try to get points or do harm, each named after its attempt.

Each begins as a solved exercise. The attack replaces the answer to q1 or, if its name begins with
"c-", the C file of q3. The replaced answer must not earn points, and the attack must be flagged.
Most attacks leave the answers to the other questions intact.
"""

import json
import os
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.support.grading.damaged import changed, deep_path, find, nested, raw, set_source
from tests.support.grading.fixtures import Tiny, judge_submission
from tests.support.paths import ROOT

from tcplab.grading.judging import Judge
from tcplab.grading.sandbox import Limits

#: The limits are tight, so that a submission that only a limit can stop is stopped soon.
LIMITS: Final = Limits(
    wall_s=60,
    cpu_s=6,
    memory_bytes=400 << 20,
    processes=24,
    folder_bytes=32 << 20,
    file_bytes=16 << 20,
    output_bytes=1 << 20,
    result_bytes=1 << 20,
)


@dataclass(frozen=True)
class Attack:
    """The attack, and the flags, one of which must be raised."""

    do: Callable[[Path], object]
    flag: str | tuple[str, ...]
    q2: float = 1.0  # less if the attack also spoils this answer


def cell(*lines: str) -> Callable[[Path], None]:
    """Return a function that replaces the answer to q1 in a submission."""
    return changed(set_source("q1-answer", "\n".join(lines)))


def program(body: str, *headers: str) -> Callable[[Path], None]:
    """Return a function that replaces total.c by a whole program, or by one with this main()."""
    included = ("stdio", "stdlib", "unistd", *headers)
    includes = "".join(f"#include <{header}.h>\n" for header in included)
    whole = f"#define _GNU_SOURCE\n{includes}int main(void) {{\n{body}\nreturn 0; }}\n"

    def do(folder: Path) -> None:
        (folder / "total.c").write_text(body if "int main" in body else whole)

    return do


def forge_metadata(notebook: dict[str, Any]) -> None:
    find(notebook, "q1-answer")[1]["source"] = "q1_sum = 0"
    _, test = find(notebook, "q1")
    test["metadata"]["nbgrader"]["points"] = 200.0
    test["metadata"]["nbgrader"]["score"] = 2.0
    notebook["metadata"]["tcplab"] = {"scores": {"q1": 2.0}, "repairs": [], "flags": []}


def forge_outputs(notebook: dict[str, Any]) -> None:
    find(notebook, "q1-answer")[1]["source"] = "q1_sum = 0"
    result = {"output_type": "execute_result", "execution_count": 1, "metadata": {}}
    find(notebook, "q1")[1]["outputs"] = [{**result, "data": {"text/plain": "2.0"}}]


def change_test(notebook: dict[str, Any]) -> None:
    find(notebook, "q1-answer")[1]["source"] = "q1_sum = 0"
    find(notebook, "q1")[1]["source"] = "2.0"


def link_to(target: str) -> Callable[[Path], None]:
    def do(folder: Path) -> None:
        cell(
            'q1_sum = len(open("stolen").read())',
            'print(open("stolen").read())',
        )(folder)
        (folder / "stolen").symlink_to(target)

    return do


def pipe_instead_of_a_file(folder: Path) -> None:
    cell("q1_sum = 0")(folder)
    os.mkfifo(folder / "data.bin")


def own_judge(folder: Path) -> None:
    cell("q1_sum = 0")(folder)
    hidden = folder / "hidden"
    hidden.mkdir()
    (hidden / "judge.py").write_text(
        "from tcplab.grading import Verdict\nq1 = q2 = q3 = lambda work: Verdict(1, 'ha')\n"
    )
    (folder / "task.py").write_text(
        "ANSWERS = {}\nFILES = []\nnumbers = lambda own: {'a': 0, 'b': 0}\n"
    )
    # These files shadow modules that the grader imports.
    for name in ("tcplab", "numpy", "json"):
        (folder / f"{name}.py").write_text("raise SystemExit('shadowed')\n")
    notebook = json.loads((folder / "tiny.ipynb").read_text())
    find(notebook, "q1")[1]["source"] += "  # gradebook.db"
    (folder / "tiny.ipynb").write_text(json.dumps(notebook))


def send(expression: str) -> Callable[[Path], None]:
    """Return an attack that sends a line to each descriptor, including the result channel."""
    return cell(
        "import os",
        f"line = ({expression}).encode() + b'\\n'",
        "for fd in range(3, 64):",
        "    try: os.write(fd, line)",
        "    except OSError: pass",
        "q1_sum = 0",
    )


FORGED_PICTURE: Final = json.dumps(
    {
        "cell": 1,
        "outputs": [
            {"output_type": "stream", "name": "stdout", "text": "\ud83d \x1b[2J"},
            {
                "output_type": "display_data",
                "data": {"image/png": "AAAA"},
                "metadata": {"image/png": {"width": "1 onerror=alert(1)"}},
            },
        ],
    }
)


def _listed(flag: str | list[str], q2: float = 1.0, **do: Any) -> Attack:
    """Return an attack that tests/data/attacks.toml lists."""
    attack = cell(do["cell"]) if "cell" in do else program(do["program"], *do.get("headers", ()))
    return Attack(attack, tuple(flag) if isinstance(flag, list) else flag, q2)


LISTED: Final = tomllib.loads((ROOT / "tests/data/attacks.toml").read_text())
ATTACKS: Final[dict[str, Attack]] = {
    "link-to-the-judge": Attack(link_to("../../solutions/tiny/hidden/judge.py"), "link"),
    "link-to-etc": Attack(link_to("/etc/passwd"), "link"),
    "forged-points-and-scores-in-the-metadata": Attack(changed(forge_metadata), "points-changed"),
    "forged-outputs": Attack(changed(forge_outputs), "forged-score"),
    "changed-test": Attack(changed(change_test), "locked-cell-changed"),
    "own-judge-and-shadowing-modules": Attack(own_judge, "locked-cell-changed"),
    "sends-100-000-outputs": Attack(
        send("""'{"cell": 1, "outputs": [' + '{}, ' * 99_999 + '{}]}'"""),
        "damaged-results",
    ),
    "sends-half-an-emoji-and-a-forged-picture": Attack(
        send(repr(FORGED_PICTURE)), "damaged-results"
    ),
    "pipe-that-hangs-whoever-opens-it": Attack(pipe_instead_of_a_file, "no-plain-file"),
    **{name: _listed(**listed) for name, listed in LISTED.items()},
}


def assert_repelled(name: str, tiny: Tiny, folder: Path) -> None:
    """Grade a submission that attacks; it must gain no points and be flagged."""
    attack = ATTACKS[name]
    submission = tiny.hand_in(folder)
    attack.do(submission)
    judge = Judge(tiny.source, limits=LIMITS)
    report = judge_submission(judge, tiny.exercise, submission, "ada")
    expected = {"q1": 0.0, "q2": attack.q2, "q3": 2.0}
    if name.startswith("c-"):
        expected = {"q1": 2.0, "q2": 1.0, "q3": 0.0}
    if name == "races-with-files":  # the race decides which file is graded
        expected["q3"] = report.scores["q3"] or 0.0
    assert report.scores == expected, report
    assert any(flag.startswith(attack.flag) for flag in report.flags), report.flags
    shown = "\n".join([*report.messages.values(), *report.flags, *report.repairs])
    assert "the-hidden-judge-was-read" not in shown


# ---- the rest of a class, which does harm where submissions are read and shown ----


def sparse(folder: Path) -> None:
    with (folder / "sparse.bin").open("wb") as file:
        file.truncate(20 << 30)


def many_links(folder: Path) -> None:
    for number in range(3000):
        (folder / f"link{number}").symlink_to("nowhere")


def many_cells(kind: str, source: str, count: int) -> Callable[[Path], None]:
    """Return a function that adds cells with this source to a submission."""

    def change(notebook: dict[str, Any]) -> None:
        own: dict[str, Any] = {"outputs": [], "execution_count": None} if kind == "code" else {}
        added = {"cell_type": kind, "metadata": {}, "source": source, **own}
        notebook["cells"] += [{**added, "id": f"m{number}"} for number in range(count)]

    return changed(change)


def written(text: str) -> Callable[[Path], None]:
    return changed(set_source("w1-answer", text))


#: Addresses that a page must not lead to. The first two remain as text.
ELSEWHERE: Final = (
    "http://localhost:8888/logout",
    "https://example.org/pixel.png",
    "/hub/logout",
    "../../hub/spawn",
)


class Intake(NamedTuple):
    """A function that changes a submission, the expected score, and a note on it."""

    do: Callable[[Path], object]
    score: float | None  # None if there must be no grade
    note: str  # text that the repairs, flags or error must contain


NOTHING: Final[Callable[[Path], object]] = lambda _folder: None  # noqa: E731
INTAKE: Final[dict[str, Intake]] = {
    "ada": Intake(NOTHING, 5.0, ""),
    "zoe": Intake(NOTHING, 5.0, ""),
    # ---- logins ----
    "*": Intake(NOTHING, None, "pattern"),
    "two\nlines,1\x1b[31m": Intake(NOTHING, None, "invisible"),
    " spaces ": Intake(NOTHING, None, "space"),
    "--replace": Intake(NOTHING, None, "a hyphen"),
    "tim": Intake(NOTHING, None, "by case only"),
    "TIM": Intake(NOTHING, None, "by case only"),
    "\uff54im": Intake(NOTHING, None, "unusual width"),
    # ---- folders and files ----
    "deep-path": Intake(deep_path, 5.0, "unreadable"),
    "deep-folders": Intake(nested, 5.0, "more than 100 folders in one another"),
    "sparse": Intake(sparse, 5.0, "left-out: 'sparse.bin', 21475 MB"),
    "links": Intake(many_links, 5.0, "and 2951 more"),
    "no-time": Intake(
        lambda folder: (folder / "timestamp.txt").write_text("0x"), 5.0, "broken-timestamp: '0x'"
    ),
    # ---- the notebook's file ----
    "memory": Intake(
        raw(lambda _: b'{"x": [' + b"[]," * (16 << 20) + b"[]]}"),
        2.0,
        "unreadable-notebook: it took more than 1024 MiB of memory",
    ),
    "deep-json": Intake(raw(lambda _: b'{"cells": ' + b"[" * 200_000), 2.0, "half-written"),
    # ---- pages ----
    "slow-text": Intake(written("\\\\[" * 16_000), 5.0, "shown-as-typed: cell 12"),
    "many-texts": Intake(many_cells("markdown", "word " * 8000, 60), 5.0, "cut: cell 14"),
    "much-code": Intake(many_cells("code", "a=1;" * 24_000, 8), 5.0, "cut: cell 13"),
    "much-output": Intake(many_cells("code", "print('y' * 20_000)", 40), 5.0, "cut: cell"),
    "other-hosts": Intake(
        written("\n\n".join(f"![a]({to}) [b](<{to}>) <img src='{to}'>" for to in ELSEWHERE)),
        5.0,
        "active-html: cell 12",
    ),
    "slow-pattern": Intake(cell("'" + "tcplab." * 140_000 + "'"), 3.0, ""),
}
