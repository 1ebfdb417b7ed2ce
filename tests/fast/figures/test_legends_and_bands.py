"""Test the space that a legend takes in its figure, and waits drawn as bands behind a curve."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tcplab.figures import canvas
from tcplab.figures.curves import _bands
from tcplab.models import Reason


@pytest.mark.parametrize(
    ("widths", "columns"),
    [
        ([85, 215, 60], 3),  # not every column is as wide as the widest
        ([380, 60, 60], 3),
        ([400, 150, 60], 2),
        ([500, 150, 60], 1),
        ([640], 1),
    ],
)
def test_a_legend_has_as_few_lines_as_have_room(widths: list[float], columns: int) -> None:
    assert canvas._most_columns(widths, canvas.WIDTH) == columns


def bands(*waits_ms: tuple[float, float]) -> list[tuple[Any, ...]]:
    """Return the bands of these waits in a picture that covers 100 ms."""
    holds = [
        SimpleNamespace(reason=Reason.CWND_LIMITED, where="kernel", start_ns=start, end_ns=end)
        for start, end in waits_ms
    ]
    timeline = SimpleNamespace(merged_holds=lambda: holds)
    return _bands(SimpleNamespace(timeline=timeline, length_ms=100, ms=float))  # type: ignore[arg-type]


def test_waits_with_a_tiny_gap_are_one_band() -> None:
    reason = Reason.CWND_LIMITED
    assert bands((0, 40), (41, 80)) == [(reason, 0, 80)]
    assert bands((0, 40), (44, 80)) == [(reason, 0, 40), (reason, 44, 80)]


def test_waits_too_short_to_see_make_no_band() -> None:
    assert not bands(*((start, start + 0.1) for start in range(50)))
