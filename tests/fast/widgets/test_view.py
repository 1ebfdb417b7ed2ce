"""Test the panel's widgets as a browser sets and reads them, without a browser or a run."""

import itertools
import os
import sys
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.figures.readable import assert_readable

from tcplab import demos, figures, widgets
from tcplab.demos.view import DemoView
from tcplab.timeline import Reason
from tcplab.widgets import job, words
from tcplab.widgets.modelled import message_timeline
from tcplab.widgets.panel import Panel
from tcplab.widgets.spec import Job, Shown, load
from tcplab.widgets.strip import LONG_S, live
from tcplab.widgets.view import PanelView


def with_view(panel: Panel) -> PanelView:
    panel._view = panel.make_view()
    return panel._view


def run_of(panel: Panel, number: int, headline: float, **values: Any) -> dict[str, Any]:
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
    reached = []  # the limits of the box, then those of the slider
    for part, value in itertools.product((box, slider), (-1e6, 1e6)):
        part.value = value
        reached.append(panel.values[name])
    assert reached == {"write_bytes": [1, 1448, 1, 1400], "rtt_ms": [0, 200, 0, 200]}[name]


@pytest.mark.parametrize("typed", ["1,5", "-3", "nan", "soon"])
def test_prediction_that_is_no_number_is_refused(typed: str) -> None:
    panel = widgets.small_writes().predict(7)
    view = with_view(panel)
    view.prediction.value = typed
    assert view.refused.value.startswith(f"“{typed}” must be a number")
    assert (panel.prediction, view.shows_model) == (None, False)
    for accepted, value in (("0.5", 0.5), ("", None)):
        view.prediction.value = accepted
        assert (panel.prediction, view.refused.value) == (value, "")


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


@pytest.mark.parametrize(("name", "answer"), [("small-writes", "12"), ("cork", "skip")])
def test_model_waits_for_an_answer_and_follows_the_settings(name: str, answer: str) -> None:
    panel = Panel(load(name))
    view = with_view(panel)
    assert view.timeline.value == view.comparison.value == ""
    assert "after Run, and the model after your prediction or" in view.picture.value
    assert "tcplab-empty" in view.frame._dom_classes
    view.prediction.value = answer
    assert panel.prediction == {"12": 12}.get(answer)
    assert "the model" in view.comparison.value
    assert "The model: " in view.timeline.value
    panel.set(rtt_ms=7)
    assert "RTT 7.00 ms" in view.timeline.value


@pytest.mark.parametrize(
    ("option", "sizes", "rtt_ms", "expected"),
    [
        ("default", (2,) * 15, 0, "28 bytes held 43.9 ms by Nagle, waiting for an ACK that the"),
        ("default+no_delay", (2,) * 3, 20, "Nothing was held back: 3 writes, 6 bytes, 3 segments"),
        ("cork", (4, 100, 100), 20, "204 bytes held for no more than 6 µs by the cork: 3 writes"),
        ("forgotten", (4, 100, 100), 20, "204 bytes held 228.0 ms by the cork: 3 writes, 204"),
    ],
)
def test_the_models_timeline_is_that_of_the_rule(
    option: str, sizes: tuple[int, ...], rtt_ms: float, expected: str
) -> None:
    timeline = message_timeline(option, sizes, rtt_ms)
    picture = figures.timeline(timeline)
    assert f"{picture.title}: {picture.note}".startswith(expected)
    assert Reason.UNKNOWN not in {segment.reason for segment in timeline.segments}


def test_provenance_is_shown_in_words() -> None:
    provenance = {"link": {"rtt_ms": 20.0, "loss": None}, "drops": [0, 1], "offload": False}
    html = words.origin({"code": "", "provenance": provenance})
    assert "<dt>link</dt><dd>rtt ms 20; loss not known</dd><dt>drops</dt><dd>0, 1</dd>" in html
    assert "<dt>offload</dt><dd>no</dd>" in html


def test_notes_are_sent_once_and_a_fault_in_one_line() -> None:
    origin, notes = {"disturbed": "the wire was\nlate"}, ["said twice", "said twice"]
    result = Shown.of(None, None, [], origin, notes=notes)
    owner: Any = SimpleNamespace()
    late: Any = SimpleNamespace(run=lambda _job: result)
    faulty: Any = SimpleNamespace(run=lambda _job: os.environ["NO_SUCH"])
    specs = [replace(load("mtu"), measurement=measurement) for measurement in (late, faulty)]
    noted, failed = (job.answer(Job(spec, {}, owner)) for spec in specs)
    assert noted["result"].notes == ["said twice", "the wire was late"]
    assert failed == {"error": "KeyError: 'NO_SUCH'"}


def test_half_a_message_or_a_fault_of_the_view_does_not_keep_the_user_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "job"
    half = r"os.write(int(sys.argv[3]), b'\0\0\0\7half')"
    path.write_text(f"#!{sys.executable}\nimport os, sys\n{half}\nos.kill(os.getpid(), 9)\n")
    path.chmod(0o755)
    faults: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", faults.append)
    monkeypatch.setattr(sys, "executable", str(path))
    view = with_view(panel := widgets.small_writes())
    panel.start().wait()
    message = "Failed: the process of the experiment ended by SIGKILL; press Run to try again"
    assert (view.status.value, faults) == (f'<p class="failed">{message}</p>', [])
    assert message.removeprefix("Failed: ") in panel.html()
    monkeypatch.setattr(view, "_show_results", lambda: 1 / (panel.phase != "failed"))
    panel.start()
    assert panel._finished.wait(60)


# ---- live runs ----


def test_strip_shows_the_last_seconds_and_the_marks_in_them() -> None:
    samples = [{"t": tenth / 10, "rate": float(tenth)} for tenth in range(400)]
    picture = live({"rate": "Rate (Mbit/s)"}, samples, [10, 30])
    [axes] = picture.figure.axes
    line, *marks = axes.lines
    assert len(line.get_xdata()) == 10 * LONG_S + 1  # type: ignore[arg-type]
    assert [mark.get_xdata() for mark in marks] == [[30, 30]]
    assert axes.get_title(loc="left") == "Rate (Mbit/s): 399"
    assert axes.get_xlim() == (39.9 - LONG_S, 39.9)


def test_live_run_is_redrawn_twice_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    panel = widgets.wire()
    view, now_s = with_view(panel), [100.0]
    monkeypatch.setattr("tcplab.widgets.view.time.monotonic", lambda: now_s[0])
    panel.phase, seen = "running", []
    panel.refresh()
    for tenth in range(12):
        now_s[0] += 0.1
        view.add({"t": tenth / 10, **dict.fromkeys(panel.spec.lanes, float(tenth))})
        seen.append(view.picture.value)
    assert "data:image/svg" in seen[0]
    assert 2 <= len(set(seen)) <= 4
    view.boxes["rtt_ms"].value = 80
    assert view._marks == [1.1]
    assert_readable(live(panel.spec.lanes, view._samples, view._marks))


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


def test_reloaded_page_continues_with_both_votes_and_the_runs(tmp_path: Path) -> None:
    def page() -> DemoView:
        view = with_view(demos.show("small-writes", str(tmp_path / "state")))
        assert isinstance(view, DemoView)
        return view

    first = page()
    first.steps.index = 1
    first.ballot.children[0].children[0].value = 3
    first._vote_again()
    first.ballot.children[3].children[0].value = 1
    first.panel.runs = [run_of(first.panel, 7, 0.05)]
    first.panel.refresh()
    again = page()
    assert again.steps.index == 1
    assert again.panel.values == again.step.settings
    assert "0.05 ms" in again.answer.value
    assert [row.children[0].value for row in again.ballot.children] == [0, 0, 0, 1, 0]
    shares = [row.children[1].value for row in again.ballot.children]
    assert "100 → 0%<" in shares[0]
    assert "0 → 100%" in shares[3]
    assert again.panel._number == 7


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
