"""Sending files: counts of system calls, copies and segments; what is not possible is reported."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from tests.support.nonempty import each

from tcplab.cli import main
from tcplab.experiments import as_json, recordings, sendfile, table
from tcplab.experiments.sendfile import SendFiles, memory_limits
from tcplab.models import goodput_mbyte_s

A, B, C = "A: read 4096 + send", "B: sendfile", "C: cork, sendfile"
MEASURE: Mapping[str, Callable[[], SendFiles]] = {
    "loopback": lambda: sendfile.measure([3, 8], runs=1),
    "offload": lambda: sendfile.measure_offload(8, runs=1),
    "cold_cache": lambda: sendfile.measure_cold_cache(8, runs=1),
    "clients": lambda: sendfile.measure_clients(size_mb=3, runs=1),
    "memory": lambda: sendfile.measure_memory(runs=1),
    "header": lambda: sendfile.header.measure(runs=1),
}


@pytest.fixture(scope="module")
def results() -> dict[str, SendFiles]:
    return {name: measure() for name, measure in MEASURE.items()}


@pytest.mark.parametrize("name", MEASURE)
def test_every_plan_was_carried_out_or_says_why_not(
    results: dict[str, SendFiles], name: str
) -> None:
    for transfer in each(results[name].variants):
        assert bool(transfer.costs) != bool(transfer.missing), transfer
        plan = transfer.plan
        for cost in transfer.costs:
            assert cost.bytes == plan.connections * (plan.file_bytes + plan.header.header_bytes)
    assert any(transfer.costs for transfer in results[name].variants)
    assert len(table(results[name]).text().splitlines()) == 2 + len(results[name].variants)


@pytest.mark.parametrize(
    ("name", "calls"),
    [
        (A, 2 * -(-8_000_000 // 4096)),
        ("read 1024 + send", 2 * -(-8_000_000 // 1024)),
        ("read 8192 + send", 2 * -(-8_000_000 // 8192)),
        ("read 131072 + send", 2 * -(-8_000_000 // 131_072)),
        ("mmap + send", -(-8_000_000 // 131_072)),
    ],
)
def test_system_calls(results: dict[str, SendFiles], name: str, calls: int) -> None:
    assert results["loopback"].find(name, 8).system_calls == calls


def test_sendfile_takes_a_call_or_a_few(results: dict[str, SendFiles]) -> None:
    assert 1 <= (results["loopback"].find(B, 8).system_calls or 0) < 50
    assert 2 <= (results["loopback"].find(C, 8).system_calls or 0) < 51  # set, never cleared


def test_zero_copy_within_a_machine_is_copied_after_all(results: dict[str, SendFiles]) -> None:
    cost = results["loopback"].find("MSG_ZEROCOPY").costs[0]
    assert cost.zerocopy_copied == cost.zerocopy_sends > 0


def test_clients_are_served_at_once(results: dict[str, SendFiles]) -> None:
    clients = results["clients"].variants
    assert [each.plan.connections for each in clients[::2]] == [1, 4, 16, 64]
    assert {each.plan.file_bytes for each in clients} == {3_000_000}


def test_an_address_space_smaller_than_the_file(results: dict[str, SendFiles]) -> None:
    memory = results["memory"]
    for name in (A, B, "splice"):
        assert memory[f"{name}, ulimit -v", 64].costs
    for name in ("mmap + send", "MSG_ZEROCOPY"):
        missing = memory[f"{name}, ulimit -v", 64].missing
        assert missing == "mmap of the file: ENOMEM: Cannot allocate memory"


def test_control_group_or_the_reason_that_there_is_none(results: dict[str, SendFiles]) -> None:
    limited = [each for each in results["memory"].variants if each.plan.special == "cgroup"]
    for transfer in each(limited):
        if not transfer.costs:
            reasons = ("systemd-run --user --scope", "tmpfs", "had no memory left")
            assert any(reason in transfer.missing for reason in reasons)
    mine = f"tcplab-{os.getpid()}"
    groups = [parent / mine for parent, _file in memory_limits.memory_groups()]
    assert not [group for group in groups if group.exists()]


def test_segments_of_a_header(results: dict[str, SendFiles]) -> None:
    alone, joined = [100, *[1448] * 6, 1312], [*[1448] * 6, 1412]
    header = results["header"]
    assert {each.plan.name: list(each.segments) for each in header.variants} == {
        "default": alone,
        "TCP_NODELAY": alone,
        "TCP_CORK": joined,
        "TCP_CORK, never cleared": joined,
        "TCP_CORK and TCP_NODELAY": joined,
        "MSG_MORE": joined,
    }
    assert header.provenance["capture_drops"] == 0
    rows = {row["variant"]: row for row in header.rows()}
    assert rows["default"]["segments"] == "100 + 6 × 1448 + 1312"
    assert (rows["default"]["header_alone"], rows["MSG_MORE"]["header_alone"]) == ("yes", "no")


def test_results_survive_a_recording(results: dict[str, SendFiles], tmp_path: Path) -> None:
    for name, result in results.items():
        path = recordings.save(tmp_path, name, {}, result)
        again = recordings.load(name, {}, tmp_path)
        assert again.rows() == result.rows()
        assert path.stat().st_size < 50_000
        assert set(json.loads(as_json(again))) == {"experiment", "rows", "provenance"}


def test_published_seconds_stand_beside_ours() -> None:
    wire = sendfile.wire.measure([9], [1024], runs=2)
    rows = {row["variant"]: row for row in wire.rows()}
    published = [rows[name]["published_s"] for name in (A, B, C)]
    assert published == ["0.71–0.76", "0.71–1.08", "0.72–0.75"]
    # No method is faster than the wire; a busy machine may be slower.
    computed_s = 9 / goodput_mbyte_s(100)
    for row in each(rows.values()):
        assert row["seconds"] >= 0.99 * computed_s
        assert row["runs"] == 2
        assert row["seconds_min"] <= row["seconds"] <= row["seconds_max"]
    into_file = {each.plan.shown for each in wire.variants if each.plan.into_file}
    assert set(rows) - into_file == {f"{A}, to /dev/null", f"{B}, to /dev/null"}
    assert len(sendfile.wire.PUBLISHED_S) == 9
    assert rows["read 1024 + send"]["system_calls"] == 2 * -(-9_000_000 // 1024)


def test_without_a_laboratory_one_machine_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCPLAB_MODE", "loopback")
    result = sendfile.measure([1], runs=1)
    assert all(transfer.costs for transfer in each(result.variants))
    assert "recorded" in sendfile.header.measure(3).provenance


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sizes_mb": []}, "sizes_mb is empty"),
        ({"sizes_mb": [0]}, "sizes_mb=0 must be a whole number from 1 to 20000 MB"),
        ({"sizes_mb": [10**12]}, "sizes_mb=1000000000000 must be"),
        ({"block_bytes": [0]}, "block_bytes=0 must be a whole number from 1 to 16777216 bytes"),
        ({"runs": 0}, "runs=0 must be"),
    ],
)
def test_bad_values_are_named(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sendfile.measure(**arguments)  # type: ignore[arg-type]


def test_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "sendfile-clients", "--size-mb", "-1"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert main(["run", "sendfile-clients", "--size-mb", "1", "--runs", "1"]) == 0
    assert "B: sendfile, 64 clients" in capsys.readouterr().out
