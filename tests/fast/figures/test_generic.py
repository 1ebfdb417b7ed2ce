"""Test the figures of results that the lessons draw: bars, curves, strips and diagnoses."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.support.figures.readable import assert_readable, texts

from tcplab import figures
from tcplab.experiments import (
    Result,
    bottleneck,
    catalogue,
    declaration,
    diagnosis,
    find,
    recordings,
)
from tcplab.experiments.bottleneck.comparisons import Manager
from tcplab.experiments.diagnosis.cases import Program
from tcplab.experiments.quantities import Variant, column, spread
from tcplab.figures import draw_bars, draw_curves
from tcplab.figures.finding import finding
from tcplab.tables import digits

MANAGERS: list[Manager] = ["tail_drop", "codel", "pie", "fq_codel"]


class Case(Variant):
    """A made-up variant."""

    name: str = column("name")
    rate: list[float] = spread("min", "rate", "max", ".0f")
    published_rate: float | None = column("published", ".0f")
    cost: float | None = column("cost", ".2f")


@pytest.fixture(autouse=True)
def recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the shipped results, so that no laboratory is needed."""
    monkeypatch.setenv("TCPLAB_MODE", "recorded")


@pytest.mark.parametrize("name", catalogue())
def test_figure_of_each_experiment_is_readable_and_titled_by_a_finding(name: str) -> None:
    results = [result for _arguments, result in recordings.shipped(name)]
    assert results, "run `make recordings ARGS=defaults`, which records what has no recording"
    picture = figures.draw(max(results, key=lambda result: len(result.rows())))
    assert_readable(picture, fewest=5)
    assert ": from" not in picture.title


@pytest.mark.parametrize("name", [name for name in catalogue() if find(name).finding])
def test_a_recording_shows_the_declared_finding(name: str) -> None:
    template = find(name).finding
    pattern = ".+".join(map(re.escape, re.split(r"\{[^}]*\}", template)))
    keys = re.findall(r"\{(\w+)", template)
    titles = [finding(result, keys)[0] for _call, result in recordings.shipped(name)]
    assert any(re.fullmatch(pattern, title) for title in titles), titles


def compared(fast: float, slow: float, **origin: Any) -> tuple[str, str]:
    cases = [Case("fast", [fast], None, 1), Case("slow", [slow], None, None)]
    return finding(Result(cases, {"experiment": "made-up", **origin}), ["rate"])


def test_a_title_says_what_was_measured_if_the_run_contradicts_the_finding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    template = "The slow one is {rate[slow/fast]} times as large as {rate[fast]}"
    made_up = replace(find("mtu"), finding=template)
    monkeypatch.setitem(declaration._REGISTRY, "made-up", made_up)
    measured = "Rate: 40 (fast) is 2 times 20 (slow)"
    assert compared(20, 2000) == ("The slow one is 100 times as large as 20", "")
    title, why = compared(40, 20)
    assert (title, why.endswith("slow is not clearly above fast")) == (measured, True)
    assert compared(40, 20, disturbed="the machine was busy") == (measured, "")
    monkeypatch.setitem(
        declaration._REGISTRY, "made-up", replace(made_up, finding="{rate[last]} is there")
    )
    assert compared(40, 20) == (measured, "")


def test_a_disturbed_run_is_named_in_the_note() -> None:
    result = Result([Case("one", [1], None, 1)], {"disturbed": "the machine was busy"})
    assert draw_bars(result, "rate").note == "The machine was busy"


def test_bars_of_a_special_figures_result_are_readable() -> None:
    result = bottleneck.measure_bufferbloat([1000], ["cubic"], MANAGERS, rtt_ms=20)
    picture = draw_bars(result, "probe_ms", "most_probe_ms", "page_s")
    assert_readable(picture)
    assert picture.title.startswith("A ping takes ")


def test_bars_show_value_spread_and_published_number() -> None:
    cases = [
        Case("slow", [10, 20, 30], 15, 0.5),
        Case("fast", [40], None, None),
    ]
    picture = draw_bars(Result(cases, {}), "rate", "cost")
    assert picture.title == "Rate: 40 (fast) is 2 times 20 (slow)"
    rates, costs = picture.figure.axes
    assert [bar.get_width() for bar in rates.patches] == [20, 40]  # type: ignore[attr-defined]
    lines = {line.get_marker(): line for line in rates.lines}
    assert list(np.asarray(lines["D"].get_xdata())) == [15]
    assert [10, 30] in [list(np.asarray(line.get_xdata())) for line in rates.lines]
    assert {"20", "40", "0.50", "–"} < {text.get_text() for text in texts(picture)}
    assert len(costs.patches) == 2


def test_dots_replace_bars_that_would_be_invisible() -> None:
    cases = [Case("slow", [1], 5, 1), Case("fast", [900], None, 1)]
    [axes] = draw_bars(Result(cases, {}), "rate").figure.axes
    assert not axes.patches
    assert axes.get_xscale() == "log"


def test_rows_without_the_first_quantity_are_left_out() -> None:
    cases = [Case("slow", [1], 5, None), Case("fast", [900], None, 1)]
    [axes] = draw_bars(Result(cases, {}), "cost").figure.axes
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["fast"]


def test_curves_have_a_look_for_each_group_and_one_model() -> None:
    keys = "used_percent", "model_percent"
    result = bottleneck.measure_router_buffers()
    picture = draw_curves(result, "bdps", *keys, by="flows", log="x")
    assert_readable(picture)
    [axes] = picture.figure.axes
    few, many, model_name = axes.get_legend_handles_labels()[1]
    assert (few, many) == ("flows: 1", "flows: 9")
    assert model_name.startswith("model")
    sizes = [np.size(line.get_xdata()) for line in axes.get_lines()]
    assert sizes == [3, 3, 3, 3]  # each group has its measurements and its model
    assert np.asarray(axes.get_lines()[-1].get_ydata()).min() > 75


def test_more_groups_than_looks_are_drawn() -> None:
    cases = [Case(str(number), [number], 5, 1) for number in range(1, 9)]
    [axes] = draw_curves(Result(cases, {}), "cost", "rate", by="name").figure.axes
    assert len(axes.get_lines()) == 8


def test_quantities_of_one_unit_share_a_scale() -> None:
    _call, limits = recordings.shipped("buffer-limits")[0]
    flying, window, _cwnd, _unsent = draw_bars(
        limits, "in_flight_bytes", "peer_window_bytes", "cwnd_bytes", "unsent_bytes"
    ).figure.axes
    assert flying.get_xlim() == window.get_xlim()
    _call, limits = recordings.shipped("autotuning")[0]
    rate, window = draw_bars(limits, "mbit", "window_bytes").figure.axes
    assert rate.get_xlim() != window.get_xlim()


def test_nothing_to_draw_is_refused() -> None:
    empty: Result[Case] = Result([], {})
    for draw in (draw_bars, figures.draw_curves):
        with pytest.raises(ValueError, match="nothing to draw"):
            draw(empty, "mbit", "used")


def test_strips_of_one_router_show_the_bystander_and_the_marks() -> None:
    full = bottleneck.measure_bufferbloat([20, 1000], ["cubic"], ["tail_drop"], rtt_ms=20)
    managers: list[Manager] = ["codel", "codel+ecn"]
    marks = bottleneck.measure_bufferbloat([1000], ["cubic"], managers, rtt_ms=20, duration_s=10)
    for result, router in ((full, "tail_drop"), (marks, "codel+ecn")):
        run = result[1000, "cubic", router].run
        picture = figures.bottleneck(result, (1000, "cubic", router))
        (legend,) = picture.figure.legends
        labels = {text.get_text() for text in legend.get_texts()}
        assert ("packet dropped" in labels) == bool(run.drops_s)
        assert ("packet marked" in labels) == bool(run.marks_s) == (router == "codel+ecn")
        assert {"the transfer", "a bystander's ping"} < labels
    assert_readable(picture)


def test_strips_of_fairness_have_a_curve_for_each_flow() -> None:
    races = bottleneck.measure_rtt_fairness()
    picture = figures.bottleneck(races)
    assert [len(axes.lines) for axes in picture.figure.axes] == [3, 3, 2, 3]
    assert_readable(picture)
    assert figures.bottleneck(races, ("reno", "tail_drop")).title != picture.title
    with pytest.raises(ValueError, match="nothing to draw"):
        figures.bottleneck(Result([], {}))


@pytest.mark.parametrize("program", diagnosis.PROGRAMS)
def test_figures_of_a_diagnosis_are_legible(program: Program) -> None:
    case = diagnosis.measure(program)
    symptom, cause = figures.symptom(case), figures.cause(case)
    assert_readable(symptom)
    assert digits(case.excess.taken) in symptom.note
    telltales = {"request": "held", "backup": "would fill the path"}
    if program == "ticker":  # whose symptom, the sizes of its packets, is the cause
        assert cause.title == symptom.title
        return
    if program == "backup":  # the other figure is the timeline, which has separate tests
        assert_readable(cause)
    assert telltales[program] in cause.title
    assert telltales[program] not in symptom.title
