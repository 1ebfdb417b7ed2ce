"""Test demos that show their recordings, as slides and as a page."""

import os
import subprocess
import sys
import urllib.request
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.fast.widgets.test_demos import GOOD
from tests.support.nonempty import each

from tcplab import cli, demos, widgets
from tcplab.demos import Demo
from tcplab.widgets.spec import Job, load


def test_demo_is_served_as_a_page_until_it_is_terminated(tmp_path: Path) -> None:
    """Use a lecturer's own demo, in a folder without lessons."""
    own = tmp_path / "mine.toml"
    own.write_text(GOOD)
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


def test_live_panel_names_the_mode_that_forbids_a_laboratory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TCPLAB_MODE", "recorded")
    panel = widgets.wire().start().wait()
    assert panel.phase == "failed"
    assert panel.message.endswith("none here: TCPLAB_MODE=recorded forbids it")


def test_slides_show_the_question_and_answer_of_each_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TCPLAB_MODE", "recorded")
    assert cli.main(["demo", "small-writes", "--slides", str(tmp_path / "slides")]) == 0
    pictures = sorted((tmp_path / "slides").glob("*.png"))
    assert len(pictures) == 3 * len(demos.find("small-writes").steps)
    notes = (tmp_path / "slides" / "notes.md").read_text()
    assert all(picture.name in notes for picture in each(pictures))
    assert notes.count("**Ask:**") == 5
    assert notes.count("not measured now: TCPLAB_MODE=recorded.") == len(pictures) // 3


@pytest.mark.parametrize(
    "demo",
    [demo for demo in demos.every() if not load(demo.panel).lanes],
    ids=lambda demo: demo.name,
)
def test_demos_are_shown_from_recordings(demo: Demo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCPLAB_MODE", "recorded")
    for step in each(demo.steps):
        owner: Any = SimpleNamespace(send=lambda _message: None)
        shown = load(demo.panel).measurement.run(Job(load(demo.panel), step.settings, owner))
        assert shown.provenance["recorded"]["why"] == "TCPLAB_MODE=recorded"
