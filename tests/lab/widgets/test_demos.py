"""The demos as they are shown: in a terminal, as slides, from recordings."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from tests.support.nonempty import each

from tcplab import cli, demos
from tcplab.demos import Demo
from tcplab.demos.terminal import in_terminal
from tcplab.errors import LabError
from tcplab.timeline import Timeline
from tcplab.widgets.panel import Panel
from tcplab.widgets.spec import load


def test_terminal_marks_the_right_answer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = iter(["3 x", "1 2 3 4 0"])
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda _prompt: next(typed))
    monkeypatch.setenv("COLUMNS", "80")
    said: list[str] = []
    in_terminal("cork", 1, say=said.append)
    shown = "\n".join(said)
    assert [line for line in shown.splitlines() if len(line) > 80] == []
    text = " ".join(shown.split())
    assert demos.find("cork").steps[0].ask in text
    assert "✔ 50 ms" in shown
    assert "4\n" in shown.partition("✔ 50 ms")[2]
    assert demos.find("cork").steps[0].explain in text
    assert "Give 5 numbers" in capsys.readouterr().out


def test_terminal_shows_notes_and_that_a_run_is_a_recording(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TCPLAB_MODE", "recorded")
    monkeypatch.setenv("COLUMNS", "80")
    keep = Panel._keep

    def with_a_note(self: Panel, message: dict[str, Any]) -> None:
        message["result"]["notes"] = ["the capture ends after the first 9 s, it is large"]
        keep(self, message)

    monkeypatch.setattr(Panel, "_keep", with_a_note)
    said: list[str] = []
    in_terminal("cork", 1, say=said.append)
    shown = " ".join(" ".join(said).split())
    assert "not measured now: TCPLAB_MODE=recorded." in shown
    assert "Note: the capture ends after the first 9 s, it is large." in shown


def test_wire_names_the_mode_that_forbids_its_laboratory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCPLAB_MODE", "recorded")
    with pytest.raises(LabError, match=r"none here: TCPLAB_MODE=recorded forbids it$"):
        in_terminal("wire", 1, say=lambda _line: None)


# ---- the files ----


def test_slides_are_a_question_and_an_answer_per_step(
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


class Step:
    """A run of a demo's step as its panel's measurement sees it where no laboratory can be made."""

    wants_picture = False
    stop_asked = False

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values

    def stage(self, words: str, share: float | None = None) -> None:
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
    [each for each in demos.every() if not load(each.panel).lanes],
    ids=lambda it: it.name,
)
def test_demos_are_shown_from_recordings(demo: Demo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCPLAB_MODE", "recorded")
    for step in each(demo.steps):
        shown = load(demo.panel).measurement.run(Step(step.settings))
        assert shown.provenance["recorded"]["why"] == "TCPLAB_MODE=recorded"
