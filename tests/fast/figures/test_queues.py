"""Test the text and legibility of the figures of transfers that share a bottleneck."""

from __future__ import annotations

import pytest
from tests.support.figures.readable import assert_readable

from tcplab import figures
from tcplab.experiments import bottleneck
from tcplab.experiments.bottleneck import Contest, Contests, Flow, Moment, Shared
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


def test_strips_of_fairness_and_bufferbloat_are_readable() -> None:
    races, bloat = bottleneck.measure_rtt_fairness(), bottleneck.measure_bufferbloat()
    pictures = [figures.bottleneck(result) for result in (races, bloat)]
    for picture in pictures:
        assert len(picture.figure.axes) == 4
    assert_readable(pictures[0])  # the figure with the most curves
    assert figures.bottleneck(races, ("reno", "tail_drop")).title != pictures[0].title
    with pytest.raises(KeyError, match="7 was not measured"):
        figures.bottleneck(races, 7)
    with pytest.raises(ValueError, match="nothing to draw"):
        figures.bottleneck(bottleneck.RttFairness([], {}))


def test_contests_show_each_rate() -> None:
    result = bottleneck.measure_controls()
    picture = figures.contests(result)
    assert_readable(picture)
    (axes,) = picture.figure.axes
    pairs = sum(contest.second_mbit is not None for contest in result.variants)
    assert len(axes.patches) == len(result.variants) + pairs


def test_controls_that_are_missing_are_named() -> None:
    flow = Flow("client", "reno", 40, [Moment(at, 10, 40.0, 0, 0, 0) for at in range(10)])
    run = Shared([flow], [(0, 1)], [], [], [], [])
    alone = Contest("reno", 16, run)
    picture = figures.contests(Contests([alone], {"left_out": "Not offered: bbr."}))
    assert "Not offered: bbr." in picture.table.caption
    with pytest.raises(ValueError, match="nothing to draw"):
        figures.contests(Contests([], {}))
