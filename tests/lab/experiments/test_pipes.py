import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.support.lifetime import until
from tests.support.nonempty import each

from tcplab import machine
from tcplab.errors import LabError
from tcplab.experiments import page_cache, pipes, recordings, table
from tcplab.experiments.files import NO_DISK, file_of
from tcplab.lab import Loopback
from tcplab.models import goodput_mbyte_s
from tcplab.programs.chain import pipe_chain

OWN = {"dd-netcat", "dd-netcat-dd", "netcat-warm", "tcp-only", "splice", "no-copy"}


@pytest.mark.needs_lab
def test_every_pipeline_is_measured_or_says_why_not() -> None:
    result = pipes.measure(runs=1, size_mb=4, wire_size_mb=2)
    assert [chain.key for chain in result.variants] == list(pipes.PIPELINES)
    assert {chain.key for chain in result.variants if chain.runs} >= {*OWN, "wire-netcat"}
    for chain in each(result.variants):
        assert bool(chain.runs) != bool(chain.missing)
        assert not chain.missing or "apt install" in chain.missing or chain.missing == NO_DISK
        for share in chain.cached_share:
            assert share <= 0.05 if chain.pipeline.cache == "cold" else share >= 0.95
        for run in chain.runs:
            names = [process.command.split()[0].split(".")[0] for process in run.processes]
            assert names == chain.pipeline.commands
            assert 0 < sum(process.cpu_s for process in run.processes) <= run.cpu_s + 0.02
            if chain.pipeline.wire:
                assert run.mb_per_s <= goodput_mbyte_s(1000) * 1.001
    sending, _receiving = result["netcat-warm"].bytes_per_read
    assert sending is None or 0 < sending <= 131_072  # None if the kernel does not count
    assert recordings.decode(recordings.encode(result)).rows() == result.rows()
    assert len(table(result).text().splitlines()) == 2 + len(pipes.PIPELINES)
    assert result.provenance["congestion"] in ("cubic", "reno")


def test_composed_pipelines_on_plain_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCPLAB_MODE", "loopback")
    for pipeline in (
        pipes.compose("zeros", "netcat", "dd", block_bytes=50_000),
        pipes.compose("piped", "splice", "discard", block_bytes=50_000),
    ):
        result = pipes.measure(("wire-netcat", pipeline), runs=1, size_mb=3)
        assert result["wire-netcat"].missing == "needs a link: not possible on plain loopback"
        (run,) = result[pipes.COMPOSED].runs
        assert [process.command.split()[0] for process in run.processes] == pipeline.commands
        assert recordings.decode(recordings.encode(result))[pipes.COMPOSED].pipeline == pipeline


def test_a_missing_netcat_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCPLAB_MODE", "loopback")
    other = tmp_path / "nc"
    other.write_text("#!/bin/sh\necho '[v1.10-47]'\n")  # this is not OpenBSD's
    other.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    for found in ({}, {"nc": str(other)}):
        monkeypatch.setattr(machine, "find", found.get)
        why = pipes.measure(["warm"], runs=1, size_mb=1)["warm"].missing
        assert "apt install netcat-openbsd" in why


def test_failed_program_ends_the_chain_soon() -> None:
    start = time.monotonic()
    with Loopback() as network, pytest.raises(LabError, match="'sh -c exit 3' failed"):
        pipe_chain(
            network,
            [["sleep", "60"], ["sh", "-c", "exit 3"]],
            [["netcat", "-l", "{port}"]],
            bytes_expected=1,
        )
    assert time.monotonic() - start < 50


# ---- files ---------------------------------------------------------------------------------------


def test_file_goes_into_the_page_cache_step_by_step() -> None:
    result = page_cache.measure(size_mb=16)
    if "recorded" in result.provenance:
        pytest.skip(NO_DISK)
    written, dropped, quarter, everything, again = result.variants
    assert dropped.cached_share <= 0.05
    assert 0.2 <= quarter.cached_share <= 1
    assert min(step.cached_share for step in (written, everything, again)) >= 0.95


def test_without_a_disk_its_recording_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tcplab.experiments.files._ELSEWHERE", ())
    with tempfile.TemporaryDirectory(dir="/dev/shm") as in_memory:
        monkeypatch.setattr("tempfile.tempdir", in_memory)
        assert page_cache.measure().provenance["recorded"]["why"] == NO_DISK
        assert not list(Path(in_memory).iterdir())


def test_file_is_removed_at_the_end_and_with_a_killed_owner() -> None:
    with file_of(2_500_000) as path:
        assert path.stat().st_size == 2_500_000
    assert not path.exists()
    code = "import time\nfrom tcplab.experiments.files import file_of\nwith file_of(9) as path:\n"
    code += "    print(path, flush=True)\n    time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout
        left = Path(owner.stdout.readline().strip())
        assert left.exists()
        os.kill(owner.pid, signal.SIGKILL)
    until(lambda: not left.exists())


def test_no_room_for_a_file_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=1_000_000))
    message = "a file of 5 MB needs more than the 1 MB that are free in"
    with pytest.raises(LabError, match=message), file_of(5_000_000):
        pass
