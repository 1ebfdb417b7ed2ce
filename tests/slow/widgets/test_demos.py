"""Every demo from recordings: in its panel, as slides, in a terminal."""

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
from tcplab.widgets.spec import load


def test_wire_names_the_mode_that_forbids_its_laboratory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCPLAB_MODE", "recorded")
    with pytest.raises(LabError, match=r"none here: TCPLAB_MODE=recorded forbids it$"):
        in_terminal("wire", 1, say=lambda _line: None)


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
