"""`tcplab bench wire`: its numbers are witnesses' of the wire, and what is missing is said."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.nonempty import each

from tcplab.cli import main
from tcplab.errors import ParameterError
from tcplab.experiments import wire_bench


def test_delay_rate_and_throughput_are_measured() -> None:
    result = wire_bench.measure(delays=[(30.0, 200)], rates_mbit=[10], seconds=0.3, rounds=2)
    delay = next(row for row in result.delay if row["road"] == "the wire")
    assert delay["sent"] == 60
    assert delay["lost"] < 60
    assert len(delay["error_us_p99_rounds"]) == delay["rounds"] == 2
    # No machine is so busy that a packet comes early.
    assert 0 <= delay["error_us_p50"] <= delay["error_us_p99"] <= delay["error_us_max"]
    rate = next(row for row in result.rate if row["road"] == "the wire")
    assert rate["segments"] >= 240  # 24 writes of 10: 0.3 s at 10 Mbit/s
    # A first segment that comes late makes the rest look faster than it was, but not by much.
    assert 0 < rate["measured_mbit"] < 20
    assert 0 < rate["goodput_mb_per_s"] < 2 * rate["expected_mb_per_s"]
    assert [row["offload"] for row in result.throughput] == ["off", "on"]
    assert all(row["wire_cpu_s_per_gb"] > 0 for row in each(result.throughput))
    roads = {row["road"] for row in (*result.delay, *result.rate)}
    for other in ("netem", "mm-delay"):
        named = any(other in reason for reason in result.absent)
        assert (other in roads) != named
    assert json.loads(result.as_json())["provenance"]["kernel"] == os.uname().release
    assert "Throughput: TCP" in str(result)


def test_a_round_that_was_disturbed_does_not_spoil_the_row() -> None:
    quiet = {"road": "r", "sent": 10, "lost": 0, "late_us_p99": None}
    rows = [
        {**quiet, "error_us_p50": 9.0 + n, "error_us_p99": 100.0 * 9**n, "error_us_max": 9e4 * n}
        for n in range(3)
    ]
    rows[2]["lost"] = 4
    together = wire_bench._all_rounds(rows)
    assert (together["error_us_p50"], together["error_us_p99"]) == (10, 900)
    assert (together["sent"], together["lost"], together["error_us_max"]) == (30, 4, 18e4)
    assert together["late_us_p99"] is None


@pytest.mark.parametrize("bad", [{"seconds": 0}, {"seconds": 1e9}, {"rounds": 0}])
def test_a_bad_value_is_named(bad: dict[str, float]) -> None:
    with pytest.raises(ParameterError, match=f"{next(iter(bad))}=.* must be"):
        wire_bench.measure(**bad)  # type: ignore[arg-type]


def test_the_command_line_tells_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "wire", "--rounds", "-1"]) == 2
    assert capsys.readouterr().err == "tcplab: rounds=-1 must be from 1 to 1000\n"


def test_mahimahi_is_measured_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in {
        "mm-delay": 'shift; MAHIMAHI_BASE=100.64.0.1 exec "$@"',
        "ping": 'echo "64 bytes from $6: icmp_seq=1 ttl=64 time=20.25 ms"',
    }.items():
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    absent: list[str] = []
    rows = wire_bench._mahimahi_rows(
        [(20.0, 100), (0.0, 100), (20.0, 10_000)], 0.1, absent, lambda _line: None
    )
    assert [(row["rtt_ms"], row["error_us_p50"], row["lost"]) for row in rows] == [
        (20.0, pytest.approx(250), 9)
    ]
    assert absent == []
