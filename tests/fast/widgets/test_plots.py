"""The drawings of a panel in the page: places in percent, as many marks as there are results."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from tests.support.nonempty import each

from tcplab.widgets import chart, course
from tcplab.widgets.plot import Axis, percent
from tcplab.widgets.spec import Lane
from tcplab.widgets.strip import LONG_S, Strip

LANES = [Lane("rate", "Rate (Mbit/s)", 10)]
LEVELS = {"rate": 50.0}


def numbers(text: str) -> list[float]:
    return [float(found) for found in re.findall(r"-?[\d.]+", text)]


def parsed(html: str) -> ElementTree.Element:
    """An element; markup that a browser would have to mend is refused."""
    return ElementTree.fromstring(html)


def a_chart(scale: str = "log") -> dict[str, object]:
    x = {"label": "RTT (ms)", "scale": scale, "low": 1, "high": 1000}
    line = [(1.0, 0.0), (10.0, 5.0), (1000.0, 10.0)]
    return chart.chart(
        line, x, y_label="rate", y_high=10, label="a <model>", marks={"now": 10}, alt="it rises"
    )


@pytest.mark.parametrize(
    ("axis", "values"),
    [
        (Axis(0, 45), [0, 5, 10, 15, 20, 25, 30, 35, 40, 45]),
        (Axis(3, 9), [3, 4, 5, 6, 7, 8, 9]),
        (Axis(0, 0.01), [0, 0.002, 0.004, 0.006, 0.008, 0.01]),
        (Axis(576, 9000, "log"), [1000, 2000, 5000]),
        (Axis(4096, 4e6, "log"), [5000, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 2e6]),
        (Axis(1, 1e6, "log"), [1, 10, 100, 1000, 1e4, 1e5, 1e6]),
    ],
)
def test_ticks_are_round_values_within_the_axis(axis: Axis, values: list[float]) -> None:
    assert [value for value, _is_minor in axis.ticks(9)] == pytest.approx(values)


def test_value_beyond_an_axis_is_at_its_end() -> None:
    axis = Axis(1, 100, "log")
    assert [axis.part(value) for value in (0, 1, 10, 100, 1e9)] == [0, 0, 0.5, 1, 1]


def test_chart_draws_model_runs_and_prediction_where_they_are() -> None:
    run = {"number": 1, "points": [(10, 5), (100, 2.5)]}
    data = chart.with_runs(a_chart(), [run], ["Run 1"], 10.0, "Mbit/s")
    page = parsed(chart.html(data))
    assert page.get("aria-label") == "it rises"
    (model,) = page.findall(".//path[@class='line model']")
    high = data["y"]["high"]
    wanted = [0, 1000, 333, 1000 * (1 - 5 / high), 1000, 1000 * (1 - 10 / high)]
    assert numbers(model.get("d", "")) == pytest.approx(wanted, abs=1)
    markers = [at for at in page.iter("svg") if at.find("path[@class='marker run1']") is not None]
    legend, *points = markers
    assert legend.get("x") == "50.00%"
    assert [point.get("x") for point in points] == [percent(1 / 3), percent(2 / 3)]
    assert [point.get("y") for point in points] == [percent(1 - y / high) for y in (5, 2.5)]
    (level,) = page.findall(".//line[@class='level']")
    assert level.get("y1") == level.get("y2") == percent(1 - 10 / high)
    words = "".join(page.itertext())
    for said in ("a <model>", "Run 1", "now", "your prediction: 10 Mbit/s", "RTT (ms)", "rate"):
        assert said in words


def test_course_draws_each_event_and_wait() -> None:
    events = [(0.0, "call", 2), (0.1, "segment", 2), (0.2, "call", 35), (40.0, "segment", 28)]
    events += [(40.1, "segment", 7), (50.0, "reply", 4)]
    data = course.model_course({"the model": events})
    page = parsed(course.html(data))
    drawn = [path.get("class", "").split()[1] for path in page.findall(".//svg/svg/path")]
    assert drawn == ["call", "segment", "call", "segment", "segment", "reply"]
    waits = page.findall(".//rect")
    assert [wait.get("x") for wait in waits] == [percent(0), percent(0.2 / 56)]
    assert waits[1].get("width") == percent(39.9 / 56)
    texts = [text.text for text in page.iter("text")]
    # The bytes of a segment are said where there is room for them.
    assert [text for text in texts if text and text.endswith(" B")] == ["2 B", "28 B"]
    assert "50 ms" in texts


def test_no_arrow_of_a_course_crosses_the_words_of_another() -> None:
    events = [(time_ms, "segment", size) for size, time_ms in enumerate([0, 4, 8, 40, 41, 60], 1)]
    page = parsed(course.html(course.model_course({"the model": events})))
    texts = [text.text or "" for text in page.iter("text")]
    assert [text for text in texts if text.endswith(" B")] == ["3 B", "4 B", "6 B"]


def test_strip_shows_the_last_seconds_and_the_marks_in_them() -> None:
    strip = Strip()
    strip.mark("before there was anything")
    for tenth in range(400):
        strip.add({"t": tenth / 10, "rate": float(tenth)})
        if tenth in (100, 300, 303):
            strip.mark(f"RTT {tenth} ms")
    html = strip.html(LANES, LEVELS)
    page = parsed(html)
    (path,) = page.findall(".//path[@class='line lane0']")
    xs = numbers(path.get("d", ""))[::2]
    assert len(xs) == 10 * LONG_S + 1
    assert (xs[0], xs[-1]) == (0, 1000)
    # A slider that moves on leaves one mark.
    assert [mark in html for mark in ("before", "RTT 100", "RTT 300", "RTT 303")] == [
        False,
        False,
        False,
        True,
    ]
    assert "Rate (Mbit/s): 399" in html
    assert "the model: 50" in html


def test_strip_without_a_reading_has_its_lanes_and_levels() -> None:
    page = parsed(Strip().html(LANES, LEVELS))
    assert page.findall(".//path") == []
    assert len(page.findall(".//line[@class='level']")) == 1
    assert "Rate (Mbit/s): –" in "".join(page.itertext())


def test_a_reading_and_a_move_of_a_slider_cost_a_few_kilobytes() -> None:
    strip = Strip()
    for tenth in range(1000):
        strip.add({"t": tenth / 10, **dict.fromkeys("abcd", tenth % 77)})
    lanes = [Lane(name, name, 1) for name in "abcd"]
    sizes = [len(strip.html(lanes, {})), len(chart.html(a_chart()))]
    assert all(size < 20_000 for size in each(sizes))
