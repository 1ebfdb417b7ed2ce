"""The experiments of lesson 04: their form. What they find is in tests/lessons."""

from __future__ import annotations

import json

import pytest

from tcplab.cli import main
from tcplab.experiments import as_json, buffers, recordings, table
from tcplab.lab import why_no_lab

pytestmark = pytest.mark.skipif(why_no_lab() is not None, reason=f"NO LAB: {why_no_lab()}")


def test_results_are_tables_json_and_recordings() -> None:
    grants = buffers.measure_grants((65_536,), transfer_bytes=10_000)
    data = json.loads(as_json(grants))
    assert set(data) == {"experiment", "rows", "provenance"}
    assert {"kernel", "cpu", "sysctls", "link", "rmem_max_bytes"} <= set(data["provenance"])
    assert len(table(grants).text().splitlines()) == 2 + len(grants.grants)
    assert recordings.decode(recordings.encode(grants)) == grants


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: buffers.measure([0]), "rtts_ms=0 must be from 1 to 500 ms"),
        (lambda: buffers.measure([]), "rtts_ms is empty"),
        (lambda: buffers.measure([10], [0]), "requests=0 must be from 1 to 1,073,741,824 bytes"),
        (lambda: buffers.measure(rate_mbit=0), "rate_mbit=0 must be from 1 to 1,000 Mbit/s"),
        (lambda: buffers.measure(side="both"), "side='both' must be one of receive, send"),  # type: ignore[arg-type]
        (lambda: buffers.measure_limits(["disk"]), "case 'disk' is not one of"),  # type: ignore[list-item]
        (lambda: buffers.measure_zero_window(pause_ms=1), "pause_ms=1 must be from 300"),
        (lambda: buffers.measure_one_segment(writes=1), "writes=1 must be from 4 to 1,000"),
        (lambda: buffers.measure_queues([(0, None)]), "queue_packets=0 must be from 1"),
        (lambda: buffers.measure_held([0]), "write_sizes=0 must be from 1"),
        (lambda: buffers.measure_order([(0.5, None)]), "sizes=0.5 must be from 1"),  # type: ignore[list-item]
    ],
)
def test_bad_values_are_named(call: object, message: str) -> None:
    assert callable(call)
    with pytest.raises(ValueError, match=message):
        call()


def test_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "buffers", "--rtt-ms", "10", "--sizes", "8192", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["granted_bytes"] for row in rows] == [16_384]
    assert main(["run", "buffers", "order", "--rtt-ms", "3"]) == 2
    assert "--rtt-ms does not go with 'order'" in capsys.readouterr().err
