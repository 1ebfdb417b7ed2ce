"""Test the panel's widgets as a browser sets and reads them, without a browser or a run."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.figures.readable import assert_readable
from tests.support.nonempty import each

from tcplab import demos, figures, widgets
from tcplab.demos.view import DemoView
from tcplab.tables import Table
from tcplab.timeline.modelled import message_timeline
from tcplab.widgets import words, worker
from tcplab.widgets.controls import Number
from tcplab.widgets.fields import NumberField, TextField
from tcplab.widgets.panel import Panel
from tcplab.widgets.runs import Runs
from tcplab.widgets.spec import PANELS, Job, Lane, Shown, load
from tcplab.widgets.strip import LONG_S, Strip
from tcplab.widgets.view import PanelView


def with_view(panel: Panel) -> PanelView:
    panel._view = panel.make_view()
    return panel._view


def number_field(panel: Panel, name: str) -> NumberField:
    field = with_view(panel).fields[name]
    assert isinstance(field, NumberField)
    return field


def run_of(panel: Runs, number: int, headline: float, **values: Any) -> dict[str, Any]:
    """Return a run as a panel stores it."""
    return {
        "number": number,
        "headline": headline,
        "values": {**panel.values, **values},
        "prediction": None,
        "label": f"label {number}",
        "table": f"<p>table {number}</p>",
        "figure": "",
        "title": "",
        "steps": {},
        "code": "",
        "capture": False,
        "provenance": {},
        "seconds": dict.fromkeys(["experiment", "overhead", "drawing"], 0.1),
    }


class Late:
    """A measurement whose link was late."""

    def run(self, _job: Job) -> Shown:
        origin, notes = {"wire_late": "the wire was late"}, ["said twice", "said twice"]
        return Shown.of("", None, None, Table.of(["n"], [[1]]), origin, notes=notes)


def test_repeated_notes_of_a_run_are_sent_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[dict[str, Any]] = []
    monkeypatch.setattr(worker, "_send", lambda **message: sent.append(message))
    late: Any = Late()
    monkeypatch.setattr(worker, "load", lambda name: replace(load(name), measurement=late))
    owner: Any = SimpleNamespace()
    worker._answer({"run": "mtu", "values": {}}, owner, -1)
    assert sent[-1]["result"]["notes"] == ["said twice", "the wire was late"]


# ---- controls ----


def stops() -> list[Number]:
    controls = [control for name in PANELS for control in load(name).controls]
    return [control for control in controls if isinstance(control, Number)]


@pytest.mark.parametrize("control", stops(), ids=lambda it: it.name)
def test_slider_stops_are_allowed_values_from_end_to_end(control: Number) -> None:
    values = control.stops()
    assert (values[0], values[-1]) == (control.low, control.high)
    assert values == sorted({*values})
    assert all(control.check(value) == value for value in each(values))
    assert control.default in values
    assert len(values) <= 252


def test_box_slider_and_panel_follow_each_other() -> None:
    panel = widgets.small_writes()
    field = number_field(panel, "write_bytes")
    stops = field._stops
    field._box.value = 100.0
    assert panel.values["write_bytes"] == 100
    assert stops[field._slider.index] == 100
    field._slider.index += 1
    assert panel.values["write_bytes"] == field._box.value == stops[field._slider.index] > 100
    panel.set(write_bytes=2)
    assert (field._box.value, stops[field._slider.index]) == (2, 2)


def test_typed_value_between_two_stops_is_kept() -> None:
    panel = widgets.buffers()
    field = number_field(panel, "request_bytes")
    field._box.value = 65_537.0
    assert panel.values["request_bytes"] == field._box.value == 65_537


@pytest.mark.parametrize("typed", [500.0, 0.0, 1.5])
def test_refused_number_stays_and_is_not_run(typed: float) -> None:
    panel = widgets.small_writes()
    field = number_field(panel, "writes")
    view = panel._view
    assert view is not None
    field._box.value = typed
    assert field._refusal.value.endswith(" must be a whole number from 1 to 200")
    assert field._refusal.value.startswith(f"{typed:g}")
    assert (panel.values["writes"], view.run.disabled) == (15, True)
    panel.set(rtt_ms=5)
    assert field._box.value == typed
    field._box.value = 15.0
    assert (field._refusal.value, view.run.disabled) == ("", False)


@pytest.mark.parametrize("typed", ["1,5", "-3", "nan", "soon"])
def test_prediction_that_is_no_number_is_refused(typed: str) -> None:
    panel = widgets.small_writes().predict(7)
    view = with_view(panel)
    view.prediction._box.value = typed
    assert view.prediction._refusal.value.startswith(f"“{typed}” must be a number")
    assert (panel.prediction, view.run.disabled) == (None, True)
    view.prediction._box.value = "0.5"
    assert (panel.prediction, view.run.disabled) == (0.5, False)
    view.prediction._box.value = ""
    assert (panel.prediction, view.run.disabled) == (None, False)


# ---- runs ----


def test_a_command_that_is_not_closed_stays_and_is_not_run() -> None:
    panel = Panel(load("real-programs"))
    view = with_view(panel)
    field, before = view.fields["client"], panel.values["client"]
    assert isinstance(field, TextField)
    field._box.value = "curl 'x"
    assert "closing quotation" in field._refusal.value
    assert (view.run.disabled, panel.values["client"]) == (True, before)
    field._box.value = "curl -s 'x' "
    assert (field._refusal.value, view.run.disabled) == ("", False)
    assert panel.values["client"] == "curl -s 'x'"
    field._box.value = ""
    assert field._refusal.value.startswith("no client: give a command")
    panel.set(client="wget x")
    assert field._box.value == ""  # an invalid text stays until it is corrected


def test_runs_are_named_by_what_differs() -> None:
    panel = widgets.small_writes()
    first = run_of(panel, 1, 44)
    controls = panel.spec.controls
    assert words.names(controls, [first]) == ["Run 1 · label 1"]
    runs = [first, run_of(panel, 2, 84, rtt_ms=20.0), run_of(panel, 3, 20, quickack="always")]
    assert words.names(controls, runs) == [
        "Run 1 · RTT 0 ms, Receiver's ACKs: as the kernel likes",
        "Run 2 · RTT 20 ms, Receiver's ACKs: as the kernel likes",
        "Run 3 · RTT 0 ms, Receiver's ACKs: at once",
    ]


def test_runs_prediction_and_model_are_rows_of_one_table() -> None:
    panel = widgets.small_writes().predict(10)
    view = with_view(panel)
    panel.runs = [run_of(panel, 1, 44), run_of(panel, 2, 0.1, variant="writev")]
    panel.refresh()
    rows = view.comparison.value.split("<tr ")[1:]
    heads = [row.partition('scope="row">')[2].partition("<")[0] for row in rows]
    assert heads == [
        "Run 1 · How to send: default",
        "Run 2 · How to send: one writev()",
        "your prediction",
        "the model",
    ]
    assert ", logarithmic" in view.comparison.value
    assert [row for row in rows if "chosen" in row] == [rows[1]]


@pytest.mark.parametrize("name", ["small-writes", "cork"])
@pytest.mark.parametrize("answer", ["12", "skip"])
def test_model_waits_for_an_answer_and_follows_the_settings(name: str, answer: str) -> None:
    panel = Panel(load(name))
    view = with_view(panel)
    assert view.timeline.value == view.comparison.value == ""
    assert "after your prediction" in view.picture.value
    assert "tcplab-empty" in view.frame._dom_classes
    view.prediction._box.value = answer
    assert panel.prediction == {"12": 12}.get(answer)
    assert view.prediction._box.value == answer
    assert "the model" in view.comparison.value
    assert "The model: " in view.timeline.value
    panel.set(rtt_ms=7)
    assert "RTT 7.00 ms" in view.timeline.value


def test_the_models_timeline_is_that_of_the_rule() -> None:
    timeline = message_timeline("default", (2,) * 15, 0.0)
    picture = figures.timeline(timeline)
    assert (
        picture.title == "28 bytes held 43.9 ms by Nagle, waiting for an ACK that the peer delays"
    )
    assert picture.note.startswith("15 writes, 30 bytes, 2 segments, 44.0 ms · ")
    corked = figures.timeline(message_timeline("cork", (4, 100, 100), 20.0))
    assert corked.note.startswith("3 writes, 204 bytes, 1 segment, 20.1 ms · ")
    forgotten = message_timeline("forgotten", (4, 100, 100), 20.0)
    assert "204 bytes held 228.0 ms by the cork" in figures.timeline(forgotten).title
    assert not message_timeline("default+no_delay", (2,) * 3, 20.0).merged_holds()[0].waiting_bytes


def test_chosen_run_is_shown_until_the_next() -> None:
    panel = widgets.small_writes()
    view = with_view(panel)
    panel.runs = [run_of(panel, number, 44) for number in (1, 2)]
    panel.refresh()
    assert (view.choice.index, view.numbers.value) == (1, "<p>table 2</p>")
    view.choice.index = 0
    assert view.numbers.value == "<p>table 1</p>"
    panel.refresh()
    assert (view.choice.index, view.numbers.value) == (0, "<p>table 1</p>")


def test_provenance_is_shown_in_words() -> None:
    provenance = {"congestion": "cubic", "link": {"rtt_ms": 20.0, "loss": None}, "drops": [0, 1]}
    html = words.origin(
        {**run_of(widgets.cork(), 1, 1), "provenance": provenance | {"offload": False}}
    )
    assert "<dt>link</dt><dd>rtt ms 20; loss not known</dd>" in html
    assert "<dt>drops</dt><dd>0, 1</dd>" in html
    assert "<dt>offload</dt><dd>no</dd>" in html


# ---- live runs ----


def test_strip_shows_the_last_seconds_and_the_marks_in_them() -> None:
    strip = Strip()
    strip.mark("before there was anything")
    for tenth in range(400):
        strip.add({"t": tenth / 10, "rate": float(tenth)})
        if tenth in (100, 300, 303):
            strip.mark(f"RTT {tenth} ms")
    picture = strip.picture([Lane("rate", "Rate (Mbit/s)", 10)], {"rate": 50.0})
    [axes] = picture.figure.axes
    assert len(axes.lines[0].get_xdata()) == 10 * LONG_S + 1  # type: ignore[arg-type]
    # A slider that is moved several times in quick succession leaves one mark.
    assert [text.get_text() for text in axes.texts] == ["RTT 303 ms"]
    assert axes.get_title(loc="left") == "Rate (Mbit/s): 399; the model, dotted: 50"
    assert axes.get_xlim() == (39.9 - LONG_S, 39.9)


def test_live_run_is_not_redrawn_for_every_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    panel = widgets.wire()
    view, now_s = with_view(panel), [100.0]
    monkeypatch.setattr("tcplab.widgets.view.time.monotonic", lambda: now_s[0])
    assert "data:image/svg" not in view.picture.value
    panel.phase, seen = "running", []
    panel.refresh()
    assert view.levels()
    for tenth in range(12):
        now_s[0] += 0.1
        view.add({"t": tenth / 10, **{lane.key: float(tenth) for lane in panel.spec.lanes}})
        seen.append(view.picture.value)
    assert "data:image/svg" in seen[0]
    assert 2 <= len(set(seen)) <= 4
    assert_readable(view.strip.picture(panel.spec.lanes, {}))


# ---- demos ----


@pytest.fixture
def demo() -> DemoView:
    panel = demos.show("small-writes")
    panel.warm = lambda: None  # type: ignore[method-assign]
    view = with_view(panel)
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
