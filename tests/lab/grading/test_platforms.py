"""Test `tcplab autograde`: each platform gets the points and messages that `tcplab grade` gives."""

import json
from pathlib import Path

import pytest
from tests.support.grading.damaged import changed, set_source
from tests.support.grading.fixtures import Tiny, refused

from tcplab.cli import main


@pytest.mark.parametrize(
    ("platform", "keys", "total"),
    [("gradescope", ("score", "max_score"), 3.0), ("prairielearn", ("points", "max_points"), 0.6)],
)
def test_results_are_those_of_the_judge(
    platform: str, keys: tuple[str, str], total: float, tiny: Tiny, course: Path, tmp_path: Path
) -> None:
    submission = tiny.hand_in(tmp_path)
    changed(set_source("q1-answer", "q1_sum = 1"))(submission)
    results = tmp_path / "results.json"
    call = ["autograde", str(submission), "--assignment", "tiny", "--course", str(course)]
    call += ["--student", "ada", "--results", str(results), "--platform", platform]
    assert main(call) == 0
    found = json.loads(results.read_text())
    points = {test["name"]: tuple(test[key] for key in keys) for test in found["tests"]}
    assert points == {"q1": (0.0, 2.0), "q2": (1.0, 1.0), "q3": (2.0, 2.0)}
    assert found["score"] == total
    assert not (course / "submitted").exists()


def test_wrong_platform_is_refused(
    tiny: Tiny, course: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call = ["autograde", str(tiny.hand_in(tmp_path)), "--assignment", "tiny", "--student", "ada"]
    call += ["--results", str(tmp_path / "r"), "--course", str(course), "--platform", "x"]
    assert "gradescope" in refused(call, capsys)
