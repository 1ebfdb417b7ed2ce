"""Test the text and legibility of the figures of lessons queues, sharing and send-buffer."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tests.support.figures.readable import assert_readable

from tcplab import figures
from tcplab.experiments import bottleneck, notsent_lowat
from tcplab.experiments.bottleneck import Contest, Contests, Flow, Moment, Shared
from tcplab.experiments.bottleneck.bufferbloat import Manager


@pytest.fixture(autouse=True)
def recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the shipped results, so that no laboratory is needed."""
    monkeypatch.setenv("TCPLAB_MODE", "recorded")


def test_title_states_the_longest_and_the_shortest_wait() -> None:
    managers: list[Manager] = ["tail_drop", "codel", "pie", "fq_codel"]
    routers = bottleneck.measure_bufferbloat([1000], ["cubic"], managers, rtt_ms=20)
    picture = figures.managed_queues(routers)
    assert_readable(picture)
    waits = [entry.probe_ms for entry in routers.variants]
    assert f"{max(waits) / min(waits):.0f} times as long with tail drop" in picture.title
    assert f"{max(waits):.0f} ms" in picture.note
    assert f"{min(waits):.0f} ms" in picture.note


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


def test_line_use_draws_each_number_of_flows_and_the_model() -> None:
    result = bottleneck.measure_router_buffers()
    picture = figures.line_use(result)
    assert_readable(picture)
    (axes,) = picture.figure.axes
    labels = axes.get_legend_handles_labels()[1]
    assert labels == ["model: Reno's sawtooth", "1 flow", "9 flows"]
    model, *measured = axes.get_lines()
    shares = np.asarray(model.get_ydata())
    assert shares.min() > 75
    assert shares.max() == 100
    assert [np.size(line.get_xdata()) for line in measured] == [3, 3]


def test_contests_show_each_rate_and_name_the_most_uneven() -> None:
    result = bottleneck.measure_controls()
    picture = figures.contests(result)
    assert_readable(picture)
    (axes,) = picture.figure.axes
    pairs = sum(contest.second_mbit is not None for contest in result.variants)
    assert len(axes.patches) == len(result.variants) + pairs
    assert picture.title == "The length of the queue decides whether bbr or reno gets more"
    first, second = picture.note.split(" · ")
    assert re.match(r"queue of \d+: \w+ [\d.]+, \w+ [\d.]+ Mbit/s", first)
    assert first.split(":")[0] != second.split(":")[0]


def test_contests_without_a_pair_have_a_title() -> None:
    flow = Flow("client", "reno", 40, [Moment(at, 10, 40.0, 0, 0, 0) for at in range(10)])
    run = Shared([flow], [(0, 1)], [], [], [], [])
    alone = Contest("reno", 16, run)
    picture = figures.contests(Contests([alone], {"left_out": "Not offered: bbr."}))
    assert picture.title == "reno, queue of 16, alone"
    assert "Not offered: bbr." in picture.table.caption
    with pytest.raises(ValueError, match="nothing to draw"):
        figures.contests(Contests([], {}))


def test_ages_of_data_are_the_models_bars_and_the_measured_dots() -> None:
    result = notsent_lowat.measure()
    picture = figures.data_ages(result)
    assert_readable(picture)
    (axes,) = picture.figure.axes
    assert len(axes.patches) == 2 * len(result.variants)
    ends = [
        bar.get_path().transformed(bar.get_patch_transform()).get_extents().x1
        for bar in axes.patches[1::2]
    ]
    assert ends == pytest.approx([variant.model_age_ms for variant in result.variants])
    assert "TCP_NOTSENT_LOWAT" in picture.title
