"""Test demos that show their recordings, as slides and as a page."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Final

import pytest
from tests.support.nonempty import each

from tcplab import cli, demos
from tcplab.demos import Demo
from tcplab.timeline import Timeline
from tcplab.widgets.spec import load

OWN: Final = """
title = "Mine"
lesson = "small-writes"
panel = "small-writes"
[[steps]]
title = "One"
ask = "How long?"
explain = "Because."
"""


def test_demo_is_served_as_a_page_until_it_is_terminated(tmp_path: Path) -> None:
    """Use a lecturer's own demo, in a folder without lessons."""
    own = tmp_path / "mine.toml"
    own.write_text(OWN)
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    environment = os.environ | {"CI": "1", "TMPDIR": str(temporary)}
    with subprocess.Popen(
        [sys.executable, "-m", "tcplab", "demo", own.name],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        _press_run, _running, url = (next(lines).strip() for _ in range(3))
        try:
            with urllib.request.urlopen(url, timeout=300) as page:
                text = page.read().decode()
        finally:
            process.terminate()
        rest = process.stdout.read()
    assert "<title>mine</title>" in text
    assert "Traceback" not in text
    assert rest == ""
    assert process.returncode == 0
    assert list(temporary.iterdir()) == []


def test_wire_demo_names_the_mode_that_forbids_a_laboratory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TCPLAB_MODE", "recorded")
    assert cli.main(["demo", "wire", "--slides", str(tmp_path)]) == 1
    assert capsys.readouterr().err.endswith("none here: TCPLAB_MODE=recorded forbids it\n")


def test_slides_show_the_question_and_answer_of_each_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TCPLAB_MODE", "recorded")
    assert cli.main(["demo", "small-writes", "--slides", str(tmp_path / "slides")]) == 0
    pictures = sorted((tmp_path / "slides").glob("*.png"))
    assert len(pictures) == 2 * len(demos.find("small-writes").steps)
    for picture in each(pictures):
        assert struct.unpack(">II", picture.read_bytes()[16:24]) == (1280, 720)
    notes = (tmp_path / "slides" / "notes.md").read_text()
    assert all(picture.name in notes for picture in each(pictures))
    assert notes.count("**Ask:**") == 5
    assert notes.count("not measured now: TCPLAB_MODE=recorded.") == len(pictures) // 2


class Step:
    """A run of a demo's step, as its panel measures it where no laboratory can be made."""

    stop_asked = False

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values

    def stage(self, message: str, share: float | None = None) -> None:
        pass

    def sample(self, values: Mapping[str, float]) -> None:
        pass

    def changes(self) -> Iterator[Mapping[str, Any]]:
        return iter(())

    def lab(self, **_parameters: Any) -> AbstractContextManager[None]:
        return nullcontext()

    def explained(self, timelines: Iterable[Timeline]) -> None:
        pass


@pytest.mark.parametrize(
    "demo",
    [demo for demo in demos.every() if not load(demo.panel).lanes],
    ids=lambda demo: demo.name,
)
def test_demos_are_shown_from_recordings(demo: Demo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCPLAB_MODE", "recorded")
    for step in each(demo.steps):
        shown = load(demo.panel).measurement.run(Step(step.settings))
        assert shown.provenance["recorded"]["why"] == "TCPLAB_MODE=recorded"
