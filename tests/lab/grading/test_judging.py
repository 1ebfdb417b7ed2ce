"""Judging ends in time, and a question that cannot be judged gets no score."""

import re
from pathlib import Path
from typing import Any

import pytest
from tests.support.grading.damaged import before, changed, set_source
from tests.support.grading.fixtures import Tiny, judge_submission

from tcplab.errors import LabError
from tcplab.grading import judging, submission
from tcplab.grading.submission import Submission


def test_program_has_no_more_time_than_its_submission(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    submission = tiny.hand_in(tmp_path)
    (submission / "total.c").write_text("int main(void) { for (;;) ; }\n")
    monkeypatch.setattr(judging, "JUDGING_S", 0.5)
    changed(set_source("q1-answer", "import time; time.sleep(0.6); q1_sum = 1"))(submission)
    report = judge_submission(tiny.judge, tiny.exercise, submission, "ada")
    assert set(report.scores.values()) == {None}
    assert report.messages["q3"] == "not judged within 0.5 s; a person decides."
    assert "time-used-up: more than 0.5 s" in report.flags


@pytest.mark.parametrize(
    ("what", "value", "reason"),
    [
        ("sandbox._environment", lambda _extra: {"PATH": "/nowhere"}, "no C program can be built"),
        ("submission._COMPILE", "kill -9 $$", "the compiler was ended by SIGKILL"),
        (
            "submission._COMPILE",
            submission._COMPILE.replace('"$0" "$@"', "timeout -s KILL 0.01 sleep 1"),
            "the compiler was killed; is there enough memory",
        ),
    ],
)
def test_program_that_this_machine_cannot_build_is_not_judged(
    what: str, value: Any, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"tcplab.grading.{what}", value)
    with Submission("ada", {}, {}, {"total.c": b"int main(void) { return 0; }"}) as work:
        for _ in range(2):
            with pytest.raises(LabError, match=reason):
                work.compile("total.c")
    monkeypatch.undo()
    with Submission("ada", {}, {}, {"total.c": b"int main(void) { return 0 }"}) as work:
        assert work.compile("total.c").binary is None


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ('#line 1 "gcc: fatal error: Killed signal terminated program cc1"\nint x = ;', "Killed"),
        (f"int x = {'(' * 400_000}1;", "terminated program|Segmentation|nesting"),
        (
            "char page[65 << 20] = {1};\nint main(void) { return page[0]; }",
            "File size limit|64 MiB",
        ),
        ("#include __FILE__\n#include __FILE__\n", "nested"),
        ("char page[16 << 20] = {1};\nint main(void) { return page[0]; }", ""),
    ],
    ids=["forged", "parentheses", "too-large", "itself-twice", "large"],
)
def test_source_that_the_compiler_cannot_bear_does_not_compile(source: str, message: str) -> None:
    with Submission("ada", {}, {}, {"total.c": source.encode()}) as work:
        built = work.compile("total.c")
    assert (built.binary is None) == bool(message)
    assert re.search(message, built.messages), built.messages


def test_program_that_the_kernel_kills_is_not_judged(tiny: Tiny, tmp_path: Path) -> None:
    """As the OOM killer does; a limit of the sandbox would be named in `stopped_by`."""
    submission = tiny.hand_in(tmp_path)
    program = "#include <signal.h>\nint main(void) { return raise(SIGKILL); }\n"
    (submission / "total.c").write_text(program)
    report = judge_submission(tiny.judge, tiny.exercise, submission, "ada")
    assert report.scores == {"q1": 2.0, "q2": 1.0, "q3": None}
    [flag] = report.flags
    assert flag.startswith("not-judged: q3: total.c was ended by SIGKILL")


def test_notebook_that_the_kernel_kills_is_not_judged(tiny: Tiny, tmp_path: Path) -> None:
    submission = tiny.hand_in(tmp_path)
    kill = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"
    changed(before("q2-text", kill))(submission)
    report = judge_submission(tiny.judge, tiny.exercise, submission, "ada")
    assert report.scores == {"q1": None, "q2": None, "q3": 2.0}
    reason = "the notebook's process was ended by SIGKILL in code cell 3; is there enough memory?"
    assert [f for f in report.flags if f.startswith("not-judged")] == [
        f"not-judged: {question}: {reason}" for question in ("q1", "q2")
    ]


def test_question_that_fails_is_flagged_and_has_no_score(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(*_: object, **_more: object) -> None:
        raise LabError("the recorders lost 3 packets; grade again")

    monkeypatch.setattr("tcplab.grading.submission.compile_program", lose)
    report = judge_submission(tiny.judge, tiny.exercise, tiny.hand_in(tmp_path), "ada")
    assert report.scores == {"q1": 2.0, "q2": 1.0, "q3": None}
    assert report.messages["q3"].startswith("could not be judged here (the recorders lost")
    assert report.flags == ["not-judged: q3: the recorders lost 3 packets; grade again"]
