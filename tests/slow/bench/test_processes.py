"""Benchmarks that start processes measure what they claim to measure."""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from bench import programs
from bench.rounds import Others, Rules
from tests.support.commands import completed


def test_cpu_use_of_other_processes_is_measured() -> None:
    # Use an orphan, because our descendants are not counted.
    busy = "import time; end = time.monotonic() + 20\nwhile time.monotonic() < end: pass"
    script = 'exec "$0" -c "$1" >&- 2>&- & echo $!'
    done = completed(["sh", "-c", script, sys.executable, busy], check=True)
    try:
        shares = [_share_while_it_computes(int(done.stdout)) for _ in range(3)]
        assert max(shares) > 0  # CPU time of processes that end meanwhile is missing
    finally:
        os.kill(int(done.stdout), 9)


def _share_while_it_computes(pid: int) -> float:
    with Others() as others:
        enough = _cpu_ticks(pid) + 10
        deadline = time.monotonic() + 5
        while _cpu_ticks(pid) < enough and time.monotonic() < deadline:
            time.sleep(0.05)
    return others.share


def _cpu_ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def test_file_methods_are_measured(
    monkeypatch: pytest.MonkeyPatch, tool: Callable[[str], str]
) -> None:
    tool("ip")  # sets the congestion control of the contests
    monkeypatch.setattr(programs, "FILE_BYTES", 16 << 20)
    part = programs.measure(Rules(rounds=1, repeats=0), only="file")
    calls = {row["entrant"]: row["system_calls"] for row in part.tables[0].rows}
    assert set(calls) == {f"sendfile_client -m {method}" for method in programs.METHODS}
    assert calls["sendfile_client -m sendfile"] < calls["sendfile_client -m read"]
    assert [goal.entrant for goal in part.goals] == ["sendfile_client -m sendfile"]
