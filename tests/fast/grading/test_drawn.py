"""Facts that a program must find out are drawn at grading, so no student knows them beforehand."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.support.paths import ROOT

from tcplab.grading.assignment import Task, load_module
from tcplab.grading.submission import Submission
from tcplab.programs.compile import Built


class RunRequestedError(Exception):
    """Raised instead of a program's first run; holds the run that the judge asked for."""

    def __init__(self, *asked: Any) -> None:
        super().__init__()
        self.asked = tuple(map(str, asked))


class NotRun(Submission):
    """A submission whose programs compile but are not run."""

    def compile(self, name: str, **_flags: Any) -> Built:
        return Built(name, b"\x7fELF", "")

    def run_in_lab(self, built: Built, arguments: Any, **options: Any) -> Any:
        assert built.binary
        peer = [word for word in options["peer"] if "tcplab-received" not in word]
        files: Mapping[str, bytes] = options.get("files") or {}
        raise RunRequestedError(arguments, peer, options["lab"], sorted(files.items()))


def asked(name: str, question: str) -> tuple[str, ...]:
    """Return the run that the judge asks for: ada's arguments, the peer's, network and files."""
    source = ROOT / "solutions" / name
    judge = load_module(source / "hidden" / "judge.py", f"tcplab_judge_{name}_of_a_test")
    numbers = Task(source / "task.py", name).numbers("ada")
    with NotRun("ada", numbers, {}, {}, folder=Path()) as work:
        with pytest.raises(RunRequestedError) as ended:
            getattr(judge, question)(work)
        return ended.value.asked


@pytest.mark.parametrize(
    ("name", "question"),
    [(name, "q7") for name in ("pipes", "tcp-vs-udp", "segments", "buffers", "cork", "sendfile")]
    + [
        ("diagnosis", "q8"),
        ("slow-start", "q7"),
        ("queues", "q7"),
        ("real-programs", "q6"),
        ("real-programs", "q7"),
    ],
)
def test_two_gradings_of_one_student_differ(name: str, question: str) -> None:
    first = asked(name, question)
    assert any(asked(name, question) != first for _ in range(20))


def test_paths_of_segments_are_not_among_the_students_numbers() -> None:
    numbers = Task(ROOT / "solutions" / "segments" / "task.py", "segments").numbers("ada")
    assert not [name for name in numbers if name.endswith("path_mtu_bytes")]
