"""The demos: their steps can be run, and the terminal twin goes through them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from tests.nonempty import each

from tcplab import cli, demos
from tcplab.demos import DEMOS, Demo
from tcplab.errors import LabError
from tcplab.widgets.controls import checked
from tcplab.widgets.instrument import load
from tcplab.widgets.panel import Panel

NOTEBOOKS = Path(__file__).parents[2] / "lessons" / "demos"


@pytest.fixture(params=DEMOS.values(), ids=lambda demo: demo.name)
def demo(request: pytest.FixtureRequest) -> Demo:
    found: Demo = request.param
    return found


def test_three_to_five_steps_with_a_question_each(demo: Demo) -> None:
    assert 3 <= len(demo.steps) <= 5
    assert all(step.ask.endswith("?") and step.explain for step in each(demo.steps))
    assert len({step.title for step in demo.steps}) == len(demo.steps)
    assert any(step.options for step in demo.steps)


def test_every_step_can_be_set(demo: Demo) -> None:
    controls = load(demo.instrument).controls
    for step in each(demo.steps):
        assert checked(controls, demo.settings(step)) == demo.settings(step)


def test_a_step_begins_with_the_defaults(demo: Demo) -> None:
    panel = demos.show(demo.name)
    assert panel.title == demo.title
    assert panel.values == demo.settings(demo.steps[0])
    assert [step["title"] for step in panel.steps] == [step.title for step in demo.steps]
    names = {control.name for control in panel.instrument.controls}
    assert all(set(step["values"]) == names for step in each(panel.steps))


def test_every_demo_has_its_notebook_and_the_other_way_round() -> None:
    assert {path.stem for path in NOTEBOOKS.glob("*.ipynb")} == set(DEMOS)


def test_a_notebook_shows_its_own_demo(demo: Demo) -> None:
    notebook = nbformat.read(NOTEBOOKS / f"{demo.name}.ipynb", as_version=4)
    (code,) = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert f'demos.show("{demo.name}")' in code.source
    assert code.outputs == []


def test_an_unknown_demo_or_step_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["demo", "karaoke"]) == 2
    assert cli.main(["demo", "cork", "--step", "9"]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert errors == [
        f"tcplab: demo 'karaoke': there are {', '.join(DEMOS)}",
        "tcplab: step 9: the demo cork has steps 1 to 4",
    ]


def test_without_a_name_they_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["demo"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in listed] == list(DEMOS)


def test_in_a_terminal_the_right_answer_is_marked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = iter(["3 x", "1 2 3 4 0"])
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda _prompt: next(typed))
    monkeypatch.setenv("COLUMNS", "80")
    said: list[str] = []
    assert demos.in_terminal("cork", 1, say=said.append) == 1
    shown = "\n".join(said)
    assert [line for line in shown.splitlines() if len(line) > 80] == []
    words = " ".join(shown.split())
    assert DEMOS["cork"].steps[0].ask in words
    assert "✔ 44 ms" in shown
    assert "4\n" in shown.partition("✔ 44 ms")[2]
    assert DEMOS["cork"].steps[0].explain in words
    assert "Give 5 numbers" in capsys.readouterr().out


def test_in_a_terminal_a_recording_and_the_notes_of_a_run_are_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TCPLAB_MODE", "recorded")
    monkeypatch.setenv("COLUMNS", "80")
    keep = Panel._keep

    def with_a_note(self: Panel, words: dict[str, Any]) -> None:
        words["result"]["notes"] = ["the capture ends after the first 9 s, it is large"]
        keep(self, words)

    monkeypatch.setattr(Panel, "_keep", with_a_note)
    said: list[str] = []
    assert demos.in_terminal("cork", 1, say=said.append) == 1
    shown = " ".join(" ".join(said).split())
    assert "not measured now: TCPLAB_MODE=recorded." in shown
    assert "Note: the capture ends after the first 9 s, it is large." in shown


def test_the_wire_says_who_took_its_laboratory_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCPLAB_MODE", "recorded")
    with pytest.raises(LabError, match=r"none here: TCPLAB_MODE=recorded forbids it$"):
        demos.in_terminal("wire", 1, say=lambda _line: None)
