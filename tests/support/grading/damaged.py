"""Submissions that were damaged by accident, each named after the accident.

In each case a function damages a submission that would otherwise get 5 points from the grader. The
case also lists the expected score, repairs and flags.
"""

import base64
import json
import math
import os
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.support.grading.fixtures import Tiny, judge_submission
from tests.support.paths import DATA

from tcplab.grading.release import strip_solution

Notebook = dict[str, Any]


@dataclass(frozen=True)
class Damage:
    """The damage, the expected score, and the repairs and flags that must be reported."""

    do: Callable[[Path], object]
    score: float = 5.0
    repairs: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()


def notebook_of(folder: Path) -> Path:
    """Return the notebook of a submission, which is named like its folder."""
    return folder / f"{folder.name}.ipynb"


def changed(change: Callable[[Notebook], None]) -> Callable[[Path], None]:
    """Return a function that changes the JSON of a submission's notebook."""

    def do(folder: Path) -> None:
        path = notebook_of(folder)
        notebook = json.loads(path.read_text())
        change(notebook)
        path.write_text(json.dumps(notebook, indent=1))

    return do


def raw(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    """Return a function that changes the bytes of a submission's notebook."""

    def do(folder: Path) -> None:
        path = notebook_of(folder)
        path.write_bytes(change(path.read_bytes()))

    return do


def c_file(change: Callable[[str], str]) -> Callable[[Path], None]:
    def do(folder: Path) -> None:
        path = folder / "total.c"
        path.write_bytes(change(path.read_text()).encode("cp1252"))

    return do


def find(notebook: Notebook, name: str) -> tuple[int, Notebook]:
    for index, cell in enumerate(notebook["cells"]):
        if cell["id"] == name:
            return index, cell
    raise KeyError(name)


def duplicate(name: str, *, stub: bool = False) -> Callable[[Notebook], None]:
    def change(notebook: Notebook) -> None:
        index, cell = find(notebook, name)
        copy = json.loads(json.dumps(cell))
        copy["id"] = "another-id"
        if stub:
            copy["source"] = "q1_sum = None\n# Your lines go here."
        notebook["cells"].insert(index + 1, copy)

    return change


def delete(*names: str) -> Callable[[Notebook], None]:
    def change(notebook: Notebook) -> None:
        notebook["cells"] = [cell for cell in notebook["cells"] if cell["id"] not in names]

    return change


def join_answers(notebook: Notebook) -> None:
    sources = ["".join(find(notebook, f"q{number}-answer")[1]["source"]) for number in (1, 2)]
    delete("q1-answer", "q2-answer")(notebook)
    notebook["cells"].append(code_cell("\n".join(sources)))


def retype(name: str, kind: str) -> Callable[[Notebook], None]:
    def change(notebook: Notebook) -> None:
        _, cell = find(notebook, name)
        cell["cell_type"] = kind
        if kind != "code":
            cell.pop("outputs", None)
            cell.pop("execution_count", None)
        else:
            cell.update(outputs=[], execution_count=None)

    return change


def set_source(name: str, source: str) -> Callable[[Notebook], None]:
    def change(notebook: Notebook) -> None:
        find(notebook, name)[1]["source"] = source

    return change


def before(name: str, source: str) -> Callable[[Notebook], None]:
    """Return a function that inserts a learner's cell before a cell of the assignment."""

    def change(notebook: Notebook) -> None:
        index, _ = find(notebook, name)
        notebook["cells"].insert(index, code_cell(source))

    return change


def code_cell(source: str) -> Notebook:
    return {
        "cell_type": "code",
        "id": "mine",
        "metadata": {},
        "source": source,
        "outputs": [],
        "execution_count": None,
    }


def reverse(notebook: Notebook) -> None:
    notebook["cells"] = [
        notebook["cells"][1],
        *reversed(notebook["cells"][2:]),
        notebook["cells"][0],
    ]


def lose_metadata(notebook: Notebook) -> None:
    for cell in notebook["cells"]:
        cell["metadata"] = {}
        cell.pop("id")
    notebook["nbformat_minor"] = 4


def huge_output(notebook: Notebook) -> None:
    line = "spam and eggs " * 1000 + "\n"
    output = {"output_type": "stream", "name": "stdout", "text": [line] * 3700}
    find(notebook, "q1-answer")[1]["outputs"] = [output]


def odd_values(notebook: Notebook) -> None:
    """Add values to each cell that Python's JSON writes, or reads only under other settings."""
    odd = {"execution_count": math.nan, "tab": "\t", "nested": [[[{}]]], "scale": math.inf}
    for cell in notebook["cells"]:
        cell["metadata"] |= {"collapsed": "no", "tags": {"a": None}, "jupyter": [odd]}
        if cell["cell_type"] == "code":
            cell.update(execution_count=[-1e308], outputs=[odd, None, {"data": {"text/plain": 5}}])


def deep_value(data: bytes) -> bytes:
    return data.replace(b'"id": "q2-answer"', b'"deep": %s' % (b"[" * 100_000 + b"]" * 100_000), 1)


def other_kernel(notebook: Notebook) -> None:
    notebook["metadata"]["kernelspec"] = {"name": "conda-env-x", "display_name": "x"}


def last_year(notebook: Notebook) -> None:
    for name in ("q1-answer", "q1"):
        find(notebook, name)[1]["metadata"]["nbgrader"]["grade_id"] = f"old-{name}"
    find(notebook, "q1-answer")[1]["id"] = "elsewhere-1"
    find(notebook, "q1")[1].update(id="elsewhere-2", source="assert q1_sum == 7  # last year's")


def old_format(notebook: Notebook) -> None:
    sheet = {"cells": notebook.pop("cells"), "metadata": {}}
    for cell in sheet["cells"]:
        if cell["cell_type"] == "code":
            cell["input"] = cell.pop("source")
    notebook.update(nbformat=3, nbformat_minor=0, worksheets=[sheet])


def conflict(data: bytes) -> bytes:
    """Put an unresolved merge conflict around the line with the answer."""
    lines = [line for line in data.splitlines() if b'n[\\"a\\"]' in line]
    line = lines[0]
    theirs = line.replace(b"+", b"-")
    text = b"\n".join([b"<<<<<<< HEAD", line, b"=======", theirs, b">>>>>>> other"])
    return data.replace(line, text)


def bad_types(notebook: Notebook) -> None:
    notebook["cells"].insert(3, "not a cell")
    notebook["cells"].insert(5, {"cell_type": "code"})
    notebook["cells"].insert(6, {"cell_type": "code", "source": 5, "metadata": []})
    find_safe = [cell for cell in notebook["cells"] if isinstance(cell, dict) and "id" in cell]
    find_safe[2]["metadata"] = None


def rename(name: str) -> Callable[[Path], None]:
    def do(folder: Path) -> None:
        (folder / name).parent.mkdir(exist_ok=True)
        notebook_of(folder).rename(folder / name)

    return do


PNG: Final = base64.b64encode(b"\x89PNG\r\n\x1a\n a picture").decode()
#: Half of an emoji that an editor cut in two.
HALF: Final = "\ud83d"


def paste_a_picture(notebook: Notebook) -> None:
    """Store a picture in the cell's attachments, as JupyterLab does."""
    _, cell = find(notebook, "w1-answer")
    cell["source"] = "Because of this: ![image.png](attachment:a%20b.png)"
    cell["attachments"] = {"a b.png": {"image/png": PNG}}


def lose_a_picture(notebook: Notebook) -> None:
    paste_a_picture(notebook)
    del find(notebook, "w1-answer")[1]["attachments"]


def halve_emojis(notebook: Notebook) -> None:
    find(notebook, "w1-answer")[1]["source"] = f"Because {HALF} two and two."
    find(notebook, "q2-answer")[1]["source"] += f"  # {HALF}"


def beside_the_notebook(*captures: str, mib: int) -> Callable[[Path], None]:
    def do(folder: Path) -> None:
        for name in captures:
            with (folder / name).open("wb") as file:
                file.truncate(mib << 20)

    return do


def second_download(folder: Path) -> None:
    """Rename the solution as a browser names a second download, next to the handed-out file."""
    (folder / "total.c").rename(folder / "total (1).c")
    text = (folder / "total (1).c").read_text()
    (folder / "total.c").write_text(strip_solution(text, "total.c"))


def backed_up(folder: Path) -> None:
    (folder / "total.c").rename(folder / "Kopie von total.c")
    (folder / "total.c~").write_text("int main(void) {}")


def folder_named(name: str, *inside: str) -> Callable[[Path], None]:
    """Return a function that replaces a file by a folder of that name with these files inside."""

    def do(folder: Path) -> None:
        (folder / name).rename(folder / "aside")
        (folder / name).mkdir()
        for child in inside:
            (folder / ("aside" if child == name else child)).rename(folder / name / child)
        (folder / name / "notes.txt").write_text("mine")

    return do


def below(folder: Path, name: str, depth: int) -> int:
    """Make folders of this name inside each other; return a descriptor of the last one."""
    at = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir(name, dir_fd=at)
        inner = os.open(name, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = inner
    return at


def deep_path(folder: Path) -> None:
    """Add a file whose path is longer than the 4096 bytes that a system call accepts."""
    at = below(folder, "d" * 200, 25)
    os.close(os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=at))
    os.close(at)


def nested(folder: Path) -> None:
    """Add 300 nested folders, which pytest can still remove."""
    os.close(below(folder, "d", 300))


def _listed(score: float = 5.0, flags: Sequence[str] = (), **do: Any) -> Damage:
    """Return a damage that tests/data/damages.toml lists."""
    if "replace" in do:
        damage = c_file(lambda text: text.replace(*do["replace"]))
    elif "answer" in do:
        damage = changed(set_source("q1-answer", do["answer"]))
    else:
        damage = changed(before(do["before"], do["cell"]))
    return Damage(damage, score, flags=tuple(flags))


LISTED: Final = tomllib.loads((DATA / "damages.toml").read_text())
DAMAGES: Final[dict[str, Damage]] = {
    # ---- cells ----
    "answer-cell-duplicated": Damage(
        changed(duplicate("q1-answer")), repairs=("duplicated-cell: q1-answer",)
    ),
    "answer-cell-duplicated-and-the-copy-emptied": Damage(
        changed(duplicate("q1-answer", stub=True)), repairs=("duplicated-cell: q1-answer",)
    ),
    "test-cell-duplicated": Damage(changed(duplicate("q1")), repairs=("duplicated-cell: q1",)),
    "test-cell-deleted": Damage(changed(delete("q1")), repairs=("missing-cell: q1",)),
    "answer-cell-deleted": Damage(
        changed(delete("q1-answer")), score=3.0, repairs=("missing-cell: q1-answer",)
    ),
    "all-tests-deleted": Damage(
        changed(delete("q1", "q2", "q3")), repairs=("missing-cell: q1", "missing-cell: q3")
    ),
    "all-answers-in-a-last-cell": Damage(
        changed(join_answers), repairs=("reordered-cells", "lost-cell-id", "missing-cell")
    ),
    "opening-cell-deleted": Damage(changed(delete("open")), repairs=("missing-cell: open",)),
    "test-cell-turned-into-text": Damage(
        changed(retype("q1", "markdown")), repairs=("retyped-cell: q1",)
    ),
    "answer-cell-turned-into-text": Damage(
        changed(retype("q1-answer", "raw")), repairs=("retyped-cell: q1-answer",)
    ),
    "cells-reordered": Damage(changed(reverse), repairs=("reordered-cells",)),
    "all-cell-ids-lost": Damage(changed(lose_metadata), repairs=("lost-cell-id: q1-answer",)),
    "broken-cells-among-good-ones": Damage(changed(bad_types), repairs=("broken-cell",)),
    # ---- the file ----
    "wrong-file-name": Damage(rename("tiny (1).ipynb"), repairs=("wrong-file-name",)),
    "exported-as-html": Damage(
        lambda folder: (folder / "tiny.html").write_text("<p>mine</p>"), repairs=("name-clash",)
    ),
    "file-named-captures": Damage(
        lambda folder: (folder / "captures").write_text("mine"), repairs=("name-clash",)
    ),
    "program-with-a-name-of-its-own": Damage(
        lambda folder: (folder / "total.c").rename(folder / "main.c"), repairs=("wrong-file-name",)
    ),
    "notebook-in-a-folder-below": Damage(
        rename("tiny-ada/Untitled.ipynb"), repairs=("wrong-file-name",)
    ),
    "no-notebook-at-all": Damage(
        lambda folder: (folder / "tiny.ipynb").unlink(), score=2.0, repairs=("no-notebook",)
    ),
    "empty-file": Damage(raw(lambda _: b""), score=2.0, repairs=("empty-file",)),
    "half-written-json": Damage(
        # The upload stopped in the cell with the test of q2.
        raw(lambda data: data[: data.index(b'check(\\"q2\\")')]),
        repairs=("half-written",),
    ),
    "merge-markers-in-the-json": Damage(raw(conflict), repairs=("merge-markers",)),
    "output-of-50-megabytes": Damage(changed(huge_output)),
    "another-kernels-name": Damage(changed(other_kernel), repairs=("other-kernel",)),
    "number-of-5000-digits-in-each-cell": Damage(
        raw(
            lambda data: data.replace(
                b'"execution_count": null', b'"execution_count": ' + b"1" * 5000
            )
        )
    ),
    "odd-values-in-each-cell": Damage(changed(odd_values)),
    "tabs-and-line-ends-in-texts": Damage(raw(lambda data: data.replace(b"\\n", b"\n"))),
    "cell-that-is-no-json": Damage(
        raw(lambda data: data.replace(b'"execution_count": null', b'"execution_count": nil', 1)),
        repairs=("half-written: 11 cells", "missing-cell: open"),
    ),
    "value-too-deep-for-the-parser": Damage(
        raw(deep_value), score=4.0, repairs=("half-written: 11 cells", "missing-cell: q2-answer")
    ),
    "notebook-format-of-2013": Damage(changed(old_format), repairs=("old-format",)),
    "last-years-version": Damage(changed(last_year), repairs=("lost-cell-id: q1-answer",)),
    "not-utf-8": Damage(
        raw(lambda data: data.replace(b"Because", "Weil es größer ist: because".encode("cp1252"))),
        repairs=("not-utf8",),
    ),
    "utf-16-with-byte-order-mark": Damage(
        raw(lambda data: data.decode().encode("utf-16")), repairs=("not-utf8",)
    ),
    "byte-order-mark": Damage(raw(lambda data: b"\xef\xbb\xbf" + data)),
    "windows-line-ends-in-the-cells": Damage(
        raw(lambda data: data.replace(b"\\n", b"\\r\\n")), repairs=("windows-line-ends",)
    ),
    "utf-16-without-a-mark": Damage(
        raw(lambda data: data.decode().encode("utf-16-le")), repairs=("not-utf8",)
    ),
    "utf-32": Damage(raw(lambda data: data.decode().encode("utf-32")), repairs=("not-utf8",)),
    "utf-32-without-a-mark": Damage(
        raw(lambda data: data.decode().encode("utf-32-be")), repairs=("not-utf8",)
    ),
    "some-bytes-that-are-no-utf-8": Damage(
        raw(lambda data: data.replace(b"Because", "größer, größer".encode() + b" \xed\xa0\xbd")),
        repairs=("damaged-text",),
    ),
    "half-an-emoji-in-texts-and-code": Damage(changed(halve_emojis), repairs=("half-a-character",)),
    "picture-pasted-into-an-answer": Damage(changed(paste_a_picture)),
    "picture-lost-from-an-answer": Damage(changed(lose_a_picture)),
    "notebook-name-in-capitals": Damage(rename("TINY.IPYNB"), repairs=("wrong-file-name",)),
    "folder-named-like-the-notebook": Damage(
        folder_named("tiny.ipynb", "tiny.ipynb"), repairs=("name-clash", "wrong-file-name")
    ),
    "folder-named-like-a-file": Damage(
        folder_named("task.py"), repairs=("name-clash: 'task.py/notes.txt'",)
    ),
    "captures-of-300-megabytes": Damage(
        beside_the_notebook("a.pcap", "b.pcap", "c.pcap", "d.pcap", "e.pcap", mib=60),
        repairs=("left-out: 'c.pcap', 'd.pcap', 'e.pcap', 189 MB",),
    ),
    "timestamp-of-nonsense": Damage(
        lambda folder: (folder / "timestamp.txt").write_text("yesterday-ish \x1b"),
        repairs=("broken-timestamp: 'yesterday-ish \\x1b'",),
    ),
    "html-page-instead-of-a-notebook": Damage(
        raw(lambda _: b"<!doctype html><title>Log in</title>"), score=2.0, repairs=("half-written",)
    ),
    # ---- the C file ----
    "c-file-missing": Damage(lambda folder: (folder / "total.c").unlink(), score=3.0),
    "c-file-of-a-second-download": Damage(
        second_download, repairs=("wrong-file-name: 'total (1).c'",)
    ),
    "c-file-beside-an-editors-backup": Damage(
        backed_up,
        repairs=("wrong-file-name: 'Kopie von total.c'",),
    ),
    "c-file-in-utf-16": Damage(
        lambda folder: (folder / "total.c").write_text((folder / "total.c").read_text(), "utf-16")
    ),
    "c-file-in-capitals": Damage(
        lambda folder: (folder / "total.c").rename(folder / "TOTAL.C"),
        repairs=("wrong-file-name: 'TOTAL.C'",),
    ),
    "c-file-in-a-folder-below": Damage(
        folder_named("total.c", "total.c"), repairs=("name-clash", "wrong-file-name")
    ),
    **{name: _listed(**listed) for name, listed in LISTED.items()},
}


def assert_scored(name: str, tiny: Tiny, folder: Path) -> None:
    """Damage a good submission, grade it, and compare its score, repairs and flags."""
    damage = DAMAGES[name]
    submission = tiny.hand_in(folder)
    damage.do(submission)
    report = judge_submission(tiny.judge, tiny.exercise, submission, "ada")
    assert sum(points or 0.0 for points in report.scores.values()) == damage.score, report
    assert None not in report.scores.values()
    for repair in damage.repairs:
        assert any(note.startswith(repair) for note in report.repairs), report.repairs
    for flag in damage.flags:
        assert any(note.startswith(flag) for note in report.flags), report.flags
    if not damage.repairs:
        assert report.repairs == []
    if not damage.flags:
        # An accident must not look like an attack. Only changed locked cells may be flagged.
        assert [flag for flag in report.flags if not flag.startswith("locked-cell-changed")] == []
