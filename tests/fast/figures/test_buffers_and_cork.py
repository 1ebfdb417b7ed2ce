"""Test the text and legibility of the figures of buffers and cork, on made-up results."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from tests.support.figures.readable import assert_readable
from tests.support.timeline.made_up import ack, capture, data, handshake, ns, socket_options

from tcplab import figures
from tcplab.experiments import buffers, cork
from tcplab.programs import Event, PatternResult
from tcplab.timeline import Exchange

OPTIONS = socket_options()


def point(rtt_ms: float, request: int, mbit: float, model: float) -> buffers.Transfer:
    window = request * 5 // 4
    return buffers.Transfer(
        rtt_ms, request, 2 * request, window - 1000, window, mbit, model, 0.9, 0.0
    )


def sweep() -> buffers.Sweep:
    points = [
        point(rtt_ms, size, min(0.9 * size * 10 / rtt_ms / 1e3, 47.0), size / 100 / rtt_ms)
        for rtt_ms in (10, 20, 40)
        for size in buffers.REQUESTS
    ]
    return buffers.Sweep(points, {}, "receive", 50)


def played(log: list[Event], *sent: tuple[float, int], calls: int = 5) -> cork.Played:
    rows, offset = handshake(10), 0
    for time_ms, size in sent:
        rows += [data(time_ms, offset, size), ack(time_ms + 10, offset + size)]
        offset += size
    rows.sort(key=lambda entry: int(entry["time_ns"]))
    segments = capture(rows)
    result = PatternResult(0, 40000, 1448, ())
    exchange = Exchange(result, log, segments, peer_segments=segments, options=OPTIONS)
    return cork.Played(calls, exchange)


def scenarios() -> cork.Scenarios:
    pulled = [Event(ns(0), "cork", 0), Event(ns(0.01), "write", 100), Event(ns(120), "uncork", 0)]
    nagle = [Event(ns(0), "write", 10), Event(ns(0.05), "write", 20)]
    return cork.Scenarios(
        [
            cork.Scenario(
                "cork on, write 100, wait 120, cork off", played(pulled, (120.01, 100)), ()
            ),
            cork.Scenario("write 10, write 20", played(nagle, (0.01, 10), (10.2, 20)), ()),
        ],
        {},
    )


MADE: dict[str, Callable[[], figures.Picture]] = {
    "buffer_sweep": cache(lambda: figures.buffer_sweep(sweep())),
    "cork_scenarios": cache(lambda: figures.cork_scenarios(scenarios())),
}


@pytest.mark.parametrize("name", MADE)
def test_every_figure_is_readable(name: str) -> None:
    assert_readable(MADE[name]())


def test_sweep_names_rule_and_knees() -> None:
    picture = MADE["buffer_sweep"]()
    assert picture.title == "Throughput is window / RTT until the link is full"
    assert picture.note.endswith("from 58.8 kB at 10 ms, 118 kB at 20 ms, 235 kB at 40 ms")
    send = figures.buffer_sweep(buffers.Sweep(sweep().variants, {}, "send", 50))
    assert "the send buffer holds" in send.figure.axes[0].get_xlabel()


def test_scripts_name_each_wait() -> None:
    picture = MADE["cork_scenarios"]()
    assert picture.title == "No segment had to wait for the timer"
    reasons = [entry["waited_for"] for entry in picture.table.rows]
    assert reasons == ["held by the cork", None, "held by Nagle"]


@pytest.mark.parametrize(
    "draw",
    [
        lambda: figures.buffer_sweep(buffers.Sweep([], {}, "receive", 50)),
        lambda: figures.cork_scenarios(cork.Scenarios([], {})),
    ],
)
def test_nothing_to_draw_is_refused(draw: Callable[[], Any]) -> None:
    with pytest.raises(ValueError, match="draw"):
        draw()
