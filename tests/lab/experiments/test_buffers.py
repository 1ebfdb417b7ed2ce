"""The experiments of lesson 04: their form. What they find is in tests/lessons."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tcplab.cli import main
from tcplab.experiments import as_json, buffers, recordings, table
from tcplab.segments import SegmentArray

pytestmark = pytest.mark.needs_lab


def test_results_are_tables_json_and_recordings() -> None:
    grants = buffers.measure_grants((65_536,), transfer_bytes=10_000)
    data = json.loads(as_json(grants))
    assert set(data) == {"experiment", "rows", "provenance"}
    assert {"kernel", "cpu", "sysctls", "link", "rmem_max_bytes"} <= set(data["provenance"])
    assert len(table(grants).text().splitlines()) == 2 + len(grants.variants)
    assert recordings.decode(recordings.encode(grants)) == grants


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: buffers.measure([0]), "rtts_ms=0 must be a number from 1 to 500 ms"),
        (lambda: buffers.measure([]), "rtts_ms is empty"),
        (
            lambda: buffers.measure([10], [0]),
            "requests=0 must be a whole number from 1 to 1073741824 bytes",
        ),
        (
            lambda: buffers.measure(rate_mbit=0),
            "rate_mbit=0 must be a number from 1 to 1000 Mbit/s",
        ),
        (lambda: buffers.measure(side="both"), "side='both' is not known"),  # type: ignore[arg-type]
        (lambda: buffers.measure_limits(["disk"]), "variants='disk' is not known"),  # type: ignore[list-item]
        (lambda: buffers.measure_zero_window(pause_ms=1), "pause_ms=1 must be a number from 300"),
        (
            lambda: buffers.measure_one_segment(writes=1),
            "writes=1 must be a whole number from 4 to 1000",
        ),
        (
            lambda: buffers.measure_queues([(0, None)]),
            "queue_packets=0 must be a whole number",
        ),
        (lambda: buffers.measure_held([0]), "writes_bytes=0 must be a whole number from 1"),
        (lambda: buffers.measure_order([(0.5, None)]), "sizes=0.5 must be a whole number from 1"),  # type: ignore[list-item]
    ],
)
def test_bad_values_are_named(call: object, message: str) -> None:
    assert callable(call)
    with pytest.raises(ValueError, match=message):
        call()


def test_a_window_may_close_once_more() -> None:
    """Where the reader falls behind a second time; by hand, since only a busy machine does it."""
    moments = [  # ms, from the receiver, window, seq, ack
        (0, 1, 500, 0, 1),
        (10, 1, 0, 0, 1001),
        (20, 0, 64, 1000, 1),  # a probe: one byte behind
        (30, 1, 0, 0, 1001),
        (40, 1, 400, 0, 1001),
        (50, 1, 0, 0, 1401),
        (60, 1, 900, 0, 1401),
    ]
    numbers = ["time_ns", "direction", "window", "seq", "ack", "payload_bytes"]
    rows = np.array(
        [
            (ms * 1_000_000, direction, window, seq, ack, 0, True, window == 0)
            for ms, direction, window, seq, ack in moments
        ],
        [*((name, "i8") for name in numbers), ("is_pure_ack", "?"), ("is_zero_window", "?")],
    )
    options: Any = None
    result = buffers.ZeroWindow(1, 1, 1, [], options, rows.view(SegmentArray), {})
    assert result.probes_ms() == [20]
    assert [(row["time_ms"], row["variant"]) for row in result.rows()] == [
        (10, "the window is closed"),
        (20, "the sender asks (window probe)"),
        (30, "still closed"),
        (40, "the window is open again"),
        (50, "the window is closed again"),
        (60, "the window is open again"),
    ]


def test_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "buffers", "--rtts-ms", "10", "--requests", "8192", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["granted_bytes"] for row in rows] == [16_384]
