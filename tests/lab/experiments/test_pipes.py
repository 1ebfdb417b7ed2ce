"""Pipes: every published row is there, what is missing is reported, and the counts are true."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.nonempty import each

from tcplab.cli import main
from tcplab.errors import LabError
from tcplab.experiments import as_json, pipes, recordings, table
from tcplab.lab import Loopback
from tcplab.models import chain_cost, goodput_mbyte_s
from tcplab.programs import pipe_chain

OWN = ("dd-netcat", "dd-netcat-dd", "netcat-warm", "tcp-only", "splice", "no-copy")


@pytest.fixture(scope="module")
def result() -> pipes.Pipes:
    return pipes.measure(runs=1, size_mb=40, wire_size_mb=5)


def test_every_pipeline_was_measured_or_says_why_not(result: pipes.Pipes) -> None:
    assert [chain.key for chain in result.variants] == list(pipes.PIPELINES)
    for chain in each(result.variants):
        assert bool(chain.runs) != bool(chain.missing)
        assert bool(chain.row()["mb_per_s"]) == bool(chain.runs)
    assert all(result[key].runs for key in OWN)


def test_published_rows_and_figures(result: pipes.Pipes) -> None:
    text = [row for row in result.rows() if row["published_mb_per_s"]]
    assert [row["published_mb_per_s"] for row in text] == [
        118,
        580,
        115.72,
        1074.87,
        477,
        118,
        117.4,
    ]
    assert [row["where"] == "one machine" for row in text] == [False] + 4 * [True] + 2 * [False]


def test_copies_are_the_models(result: pipes.Pipes) -> None:
    for chain in each(result.variants):
        assert chain.row()["copies"] == chain_cost(*chain.pipeline.stages).copies
        assert len(chain.pipeline.stages) == len(chain.pipeline.commands)
    copies = {row["variant"]: row["copies"] for row in result.rows()}
    assert [copies[key] for key in OWN] == [5, 7, 3, 2, 1, 0]
    assert (copies["dd-nc"], copies["warm"], copies["dd-nc-pv-copying"]) == (5, 3, 7)


def test_each_process_is_accounted_for(result: pipes.Pipes) -> None:
    for chain in result.variants:
        for run in chain.runs:
            assert len(run.processes) == len(chain.pipeline.commands)
            # CPU of the whole chain and of its parts, the latter without the start of some.
            assert 0 < sum(each.cpu_s for each in run.processes) <= run.cpu_s + 0.02
    names = [each.command.split()[0] for each in result["dd-netcat-dd"].runs[0].processes]
    assert names == ["dd", "netcat", "netcat", "dd"]


def test_sizes_of_reads(result: pipes.Pipes) -> None:
    # Files and pipes that are full: as much as was asked for. The first reads load the program, and
    # on a busy machine the last look at the counts may come long before the end.
    sending, _receiving = result["netcat-warm"].bytes_per_read
    if sending is None:
        pytest.skip("this kernel does not count reads (CONFIG_TASK_IO_ACCOUNTING)")
    assert 4 * 16_384 < sending <= 131_072
    if result["warm"].runs:
        nc, _receiving = result["warm"].bytes_per_read
        assert nc is None or nc <= 16_384
    assert result["tcp-only"].bytes_per_read == [None, None]  # recv(2) and send(2) are not counted


def test_wire_is_never_faster_than_computed(result: pipes.Pipes) -> None:
    # Ours is never faster than computed; slower it may be, on a busy machine.
    for chain in each(chain for chain in result.variants if chain.pipeline.wire and chain.runs):
        assert max(chain.mb_per_s) <= goodput_mbyte_s(1000) * 1.001


def test_file_is_cold_or_warm_before_each_run() -> None:
    result = pipes.measure(["netcat-warm", "cold", "dd-netcat"], runs=2, size_mb=4)
    assert min(result["netcat-warm"].cached_share) >= 0.95
    assert result["dd-netcat"].cached_share == []
    if result["cold"].missing:
        assert "nc" in result["cold"].missing or "tmpfs" in result["cold"].missing
    else:
        assert len(result["cold"].cached_share) == 2
        assert max(result["cold"].cached_share) <= 0.05


def test_result_survives_a_recording(result: pipes.Pipes, tmp_path: Path) -> None:
    path = recordings.save(tmp_path, "pipes", {"runs": 1}, result)
    again = recordings.load("pipes", {"runs": 1}, tmp_path)
    assert again.rows() == result.rows()
    assert path.stat().st_size < 50_000
    assert json.loads(as_json(again))["provenance"]["programs"]["dd"]
    assert len(table(again).text().splitlines()) == 2 + len(pipes.PIPELINES)


# ---- programs that are not there -----------------------------------------------------------------


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with little on it."""
    for name in ("dd", "sh", "rm", "sleep", "python3"):
        found = shutil.which(name)
        assert found, name
        (tmp_path / name).symlink_to(found)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


@pytest.mark.usefixtures("bare")
def test_missing_programs_are_named_with_their_package() -> None:
    result = pipes.measure(["dd-nc", "dd-nc-pv", "dd-netcat"], runs=1, size_mb=4)
    notes = [row["note"] for row in result.rows()]
    assert notes[0] == notes[1] == "nc.openbsd is not installed: apt install netcat-openbsd"
    assert result["dd-netcat"].runs
    assert result.provenance["programs"].keys() == {"dd"}
    assert "apt install netcat-openbsd" in table(result).text()


def test_other_netcats_are_not_taken_for_openbsds(bare: Path) -> None:
    other = bare / "nc"
    other.write_text("#!/bin/sh\necho '[v1.10-47]'\n")
    other.chmod(0o755)
    result = pipes.measure(["dd-nc", "dd-netcat"], runs=1, size_mb=4)
    assert "netcat-openbsd" in result["dd-nc"].missing


def test_without_a_laboratory_the_wire_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCPLAB_MODE", "loopback")
    result = pipes.measure(["wire-netcat", "dd-netcat"], runs=1, size_mb=4)
    assert result["wire-netcat"].missing == "needs a wire: not possible on plain loopback"
    assert result["dd-netcat"].runs
    assert result.provenance["wire"] is None


def test_bad_values_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="variants='fast' is not known; use one of wire, dd-nc"):
        pipes.measure(["fast"])
    with pytest.raises(ValueError, match="variants is empty"):
        pipes.measure([])
    with pytest.raises(ValueError, match="size_mb=0 must be a whole number from 1 to 20000"):
        pipes.measure(size_mb=0)
    assert main(["run", "pipes", "--wire-size-mb", "1000000000000"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert main(["run", "pipes", "--variants", "dd-netcat", "--runs", "0", "--size-mb", "1"]) == 2


def test_command(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", "pipes", "--variants", "dd-netcat", "splice", "--runs", "2", "--size-mb", "4"]
    assert main([*words, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [row["runs"] for row in data["rows"]] == [2, 2]
    assert data["provenance"]["congestion"] in ("cubic", "reno")


# ---- failures ------------------------------------------------------------------------------------


def test_no_room_for_a_file_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=1_000_000))
    assert main(["run", "pipes", "--variants", "netcat-warm", "--size-mb", "5", "--runs", "1"]) == 1
    error = capsys.readouterr().err
    assert "a file of 5 MB needs more than the 1 MB that are free in" in error
    assert error.count("\n") == 1


def test_failed_program_ends_the_chain_soon() -> None:
    with Loopback() as network, network.server.socket() as probe:
        probe.bind((network.server.address, 0))
        port = probe.getsockname()[1]
        probe.close()
        start = time.monotonic()
        with pytest.raises(LabError, match="'sh -c exit 3' failed"):
            pipe_chain(
                network,
                [["sleep", "60"], ["sh", "-c", "exit 3"]],
                [["netcat", "-l", "{port}"]],
                bytes_expected=1,
                port=port,
            )
    assert time.monotonic() - start < 50


# ---- a composed pipeline ----


def test_every_composition_has_a_stage_a_command_and_a_copy_count() -> None:
    for source, sender, receiver in itertools.product(
        pipes.SOURCES, pipes.SENDERS, pipes.RECEIVERS
    ):
        pipeline = pipes.compose(source, sender, receiver)
        assert len(pipeline.stages) == len(pipeline.commands)
        assert 0 <= pipeline.cost.copies <= 7
        assert "{" not in pipeline.shown.replace("{host}", "").replace("{port}", "")
    zeros = pipes.compose("zeros", "nc", "pv-copying", block_bytes=512)
    assert zeros.shown == "dd bs=512 | nc → nc | pv -C"
    assert zeros.stages == pipes.PIPELINES["dd-nc-pv-copying"].stages
    assert pipes.compose("warm", "netcat").stages == pipes.PIPELINES["netcat-warm"].stages
    assert pipes.compose("warm", "splice", "discard").stages == pipes.PIPELINES["no-copy"].stages


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"source": "tape"}, "source='tape' is not known; use one of zeros, piped, warm, cold"),
        ({"sender": "cat"}, "sender='cat' is not known; use one of nc, netcat, splice"),
        (
            {"receiver": "x"},
            "receiver='x' is not known; use one of null, pv, pv-copying, dd, discard",
        ),
        ({"block_bytes": 1}, "block_bytes=1 must be a whole number from 128 to 16777216"),
    ],
)
def test_a_composition_of_unknown_parts_is_refused(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        pipes.compose(**wrong)


def test_zeros_are_as_many_as_asked_for_in_any_block() -> None:
    for block_bytes in (512, 50_000, 4_000_000):
        _dd, *options = pipes.compose(block_bytes=block_bytes).sending[0]
        words = ["dd", *(each.replace("{size}", "3") for each in options)]
        made = subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout
        assert made == bytes(3_000_000)


def test_composed_pipelines_are_measured_and_recorded() -> None:
    pipelines = (
        pipes.compose("zeros", "netcat", "dd", block_bytes=50_000),
        pipes.compose("piped", "splice", "discard", block_bytes=50_000),
    )
    for pipeline in pipelines:
        result = pipes.measure(("tcp-only", pipeline), runs=1, size_mb=3)
        assert [chain.pipeline.key for chain in result.variants] == ["tcp-only", pipes.COMPOSED]
        (run,) = result[pipes.COMPOSED].runs
        assert [each.command.split()[0] for each in run.processes] == [
            words.lower() for words in pipeline.commands
        ]
        again = recordings.decode(recordings.encode(result))
        assert again[pipes.COMPOSED].pipeline == pipeline
