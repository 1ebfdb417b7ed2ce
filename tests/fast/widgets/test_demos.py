"""Test the demos' files and steps."""

from pathlib import Path

import pytest
from tests.support.nonempty import each

from tcplab import cli, demos
from tcplab.errors import ParameterError

NAMES = [demo.name for demo in demos.every()]


@pytest.mark.parametrize("name", NAMES)
def test_demo_has_three_to_five_steps_that_set_the_whole_panel(name: str) -> None:
    panel = demos.show(name)
    demo = demos.find(name)
    assert 3 <= len(demo.steps) <= 5
    assert all(step.ask.endswith("?") and step.explain for step in each(demo.steps))
    assert len({step.title for step in demo.steps}) == len(demo.steps)
    assert any(step.options for step in demo.steps)
    assert (panel.title, panel.values) == (demo.title, demo.steps[0].settings)
    names = {control.name for control in panel.spec.controls}
    assert all(set(step.settings) == names for step in each(panel.steps))


def test_demos_are_listed_and_an_unknown_one_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["demo"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == NAMES
    assert cli.main(["demo", "karaoke"]) == 2
    known = ", ".join(sorted(NAMES))
    assert capsys.readouterr().err == f"tcplab: demo 'karaoke' is not known; use one of {known}\n"


# ---- the files ----

GOOD = """
title = "Mine"
lesson = "small-writes"
panel = "small-writes"
unit = "ms"
[[steps]]
title = "One"
ask = '''How
  long?'''
settings = { writes = 3 }
options = [1, 44.5]
explain = "Because."
"""


def test_users_toml_file_is_a_demo(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(GOOD)
    demo = demos.find(str(path))
    assert (demo.name, demo.title, demo.steps[0].ask) == ("mine", "Mine", "How long?")
    assert demo.steps[0].settings["writes"] == 3
    assert [option.label for option in demo.steps[0].options] == [
        "≈ 1 ms or less",
        "≈ 44.5 ms or more",
    ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('lesson = "small-writes"', "", "mine.toml: lesson is missing"),
        ('lesson = "small-writes"', "lesson = 5", "mine.toml: lesson=5 must be a text"),
        ('panel = "small', 'panel = "tiny', "mine.toml: panel 'tiny-writes' is not known"),
        (
            "unit",
            "units",
            "mine.toml: key 'units' is not known; did you mean unit?",
        ),
        (
            "ask =",
            "question =",
            "mine.toml, step 1: key 'question' is not known; use one of title",
        ),
        ("writes = 3", "writes = 0", "mine.toml, step 1: settings: writes=0 must be a whole"),
        ("[1, 44.5]", '["1 ms"]', "mine.toml, step 1: options='1 ms' must be a number of at"),
        ("[1, 44.5]", "[44, 1]", "mine.toml, step 1: options=[44, 1] must be two or more numbers"),
        ("[[steps]]", "[[steps]", "mine.toml: not a TOML file: "),
        ("[[steps]]", "[steps]", "mine.toml: steps={"),
    ],
)
def test_fault_in_a_file_is_one_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "mine.toml"
    assert old in GOOD
    path.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(ParameterError) as caught:
        demos.find(str(path))
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("measured", "right"),
    [(0.02, 1), (1.2, 1), (3, None), (8, 10), (30, None), (44, 50), (999, 200)],
)
def test_an_option_is_right_if_it_agrees_with_the_run(measured: float, right: float | None) -> None:
    options = tuple(demos.Option(str(value), value) for value in (1, 10, 50, 200))
    option = demos.Step("", "", {}, options, "").right(measured)
    assert (option and option.value) == right
