"""Test the text and legibility of the figures of transfers that share a bottleneck."""

from __future__ import annotations

import pytest
from tests.support.figures.readable import assert_readable

from tcplab import figures
from tcplab.experiments import bottleneck
from tcplab.experiments.bottleneck.bufferbloat import Manager


@pytest.fixture(autouse=True)
def recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the shipped results, so that no laboratory is needed."""
    monkeypatch.setenv("TCPLAB_MODE", "recorded")


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
        figures.bottleneck(bottleneck.RttFairness([], {}))


def test_contests_show_each_rate() -> None:
    result = bottleneck.measure_controls()
    picture = figures.contests(result)
    assert_readable(picture)
    (axes,) = picture.figure.axes
    pairs = sum(contest.second_mbit is not None for contest in result.variants)
    assert len(axes.patches) == len(result.variants) + pairs
