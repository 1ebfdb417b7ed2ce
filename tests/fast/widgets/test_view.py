"""Test the panel's widgets as a browser sets and reads them, without a browser or a run."""

from __future__ import annotations

from typing import Any

import pytest

from tcplab import demos, widgets
from tcplab.demos.view import DemoView
from tcplab.widgets import words
from tcplab.widgets.panel import Panel
from tcplab.widgets.runs import Runs
from tcplab.widgets.spec import Lane
from tcplab.widgets.strip import LONG_S, live
from tcplab.widgets.view import PanelView


def with_view(panel: Panel) -> PanelView:
    panel._view = panel.make_view()
    return panel._view


def run_of(panel: Runs, number: int, headline: float, **values: Any) -> dict[str, Any]:
    """Return a run as a panel stores it."""
    return {
        "number": number,
        "headline": headline,
        "values": {**panel.values, **values},
        "prediction": None,
        "table": f"<p>table {number}</p>",
        "figure": "",
        "code": "",
        "capture": b"",
        "png": b"",
        "provenance": {},
    }


# ---- controls ----


@pytest.mark.parametrize("name", ["write_bytes", "rtt_ms"])
def test_box_slider_and_panel_follow_each_other(name: str) -> None:
    panel = widgets.small_writes()
    view = with_view(panel)
    box, slider = view.fields[name].children
    box.value = 101
    assert panel.values[name] == slider.value == 101
    slider.value = 126.0
    assert panel.values[name] == box.value == {"write_bytes": 130, "rtt_ms": 126}[name]
    panel.set(**{name: 2})
    assert box.value == slider.value == 2
    slider.value = 2.24
    assert box.value == slider.value == {"write_bytes": 3, "rtt_ms": 2.24}[name]


@pytest.mark.parametrize("typed", ["1,5", "-3", "nan", "soon"])
def test_prediction_that_is_no_number_is_refused(typed: str) -> None:
    panel = widgets.small_writes().predict(7)
    view = with_view(panel)
    view.prediction.value = typed
    assert view.refused.value.startswith(f"“{typed}” must be a number")
    assert (panel.prediction, view.shows_model) == (None, False)
    view.prediction.value = "0.5"
    assert (panel.prediction, view.refused.value) == (0.5, "")


# ---- runs ----


def test_runs_prediction_and_model_are_rows_of_one_table() -> None:
    panel = widgets.small_writes().predict(10)
    view = with_view(panel)
    panel.runs = [run_of(panel, 1, 44), run_of(panel, 2, 20, variant="writev", rtt_ms=20.0)]
    panel.refresh()
    rows = view.comparison.value.split("<tr ")[1:]
    heads = [row.partition('scope="row">')[2].partition("<")[0] for row in rows]
    assert heads == [
        "Run 1 · How to send: default, RTT 0 ms",
        "Run 2 · How to send: one writev(), RTT 20 ms",
        "your prediction",
        "the model",
    ]
    assert [row.partition("width:")[2][:5] for row in rows[:2]] == ["100.0", "45.5%"]
    assert view.numbers.value == "<p>table 2</p>"
    assert words.names(panel.spec.controls, panel.runs[:1]) == ["Run 1"]


@pytest.mark.parametrize("answer", ["12", "skip"])
def test_model_waits_for_an_answer_and_follows_the_settings(answer: str) -> None:
    panel = widgets.cork()
    view = with_view(panel)
    assert view.timeline.value == view.comparison.value == ""
    assert "after your prediction" in view.picture.value
    assert "tcplab-empty" in view.frame._dom_classes
    view.prediction.value = answer
    assert panel.prediction == {"12": 12}.get(answer)
    assert "the model" in view.comparison.value
    assert "The model: " in view.timeline.value
    panel.set(rtt_ms=7)
    assert "RTT 7.00 ms" in view.timeline.value


# ---- live runs ----


def test_strip_shows_the_last_seconds_and_the_marks_in_them() -> None:
    samples = [{"t": tenth / 10, "rate": float(tenth)} for tenth in range(400)]
    picture = live([Lane("rate", "Rate (Mbit/s)")], samples, [10, 30], {"rate": 50.0})
    [axes] = picture.figure.axes
    line, _level, *marks = axes.lines
    assert len(line.get_xdata()) == 10 * LONG_S + 1  # type: ignore[arg-type]
    assert [mark.get_xdata() for mark in marks] == [[30, 30]]
    assert axes.get_title(loc="left") == "Rate (Mbit/s): 399; the model, dotted: 50"
    assert axes.get_xlim() == (39.9 - LONG_S, 39.9)


# ---- demos ----


@pytest.fixture
def demo() -> DemoView:
    view = with_view(demos.show("small-writes"))
    assert isinstance(view, DemoView)
    return view


def test_answer_model_and_tick_appear_after_the_run(demo: DemoView) -> None:
    demo.ballot.children[3].children[0].value = 3
    demo.ballot.children[0].children[0].value = 1
    shares = [row.children[1].value for row in demo.ballot.children]
    assert ["75%" in share for share in shares] == [False, False, False, True, False]
    assert "✔" not in "".join(shares)
    assert demo.answer.value == demo.comparison.value == demo.timeline.value == ""
    demo.panel.runs = [run_of(demo.panel, 1, 43.9)]
    demo.panel.refresh()
    assert "43.9 ms" in demo.answer.value
    assert demo.step.explain.split(".")[0] in demo.answer.value
    assert "the model" in demo.comparison.value
    assert ["✔" in row.children[1].value for row in demo.ballot.children] == [
        option.value == 50 for option in demo.step.options
    ]


def test_step_that_was_run_shows_its_votes_and_result_again(demo: DemoView) -> None:
    demo.ballot.children[0].children[0].value = 4
    demo.panel.runs = [run_of(demo.panel, 1, 44)]
    demo.steps.index = 1
    assert demo.panel.values == demo.step.settings
    assert demo.answer.value == ""
    assert demo.ballot.children[0].children[0].value == 0
    demo.steps.index = 0
    assert "44 ms" in demo.answer.value
    assert demo.ballot.children[0].children[0].value == 4
