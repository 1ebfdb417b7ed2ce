"""Sending files: counts of system calls, copies and segments; what is not possible is said."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.nonempty import each

from tcplab.cli import main
from tcplab.errors import LabError
from tcplab.experiments import as_json, recordings, send_file, send_queue, table
from tcplab.experiments.send_file import Transfer
from tcplab.models import goodput_mbyte_s

A, B, C = "A: read 4096 + send", "B: sendfile", "C: cork, sendfile"


@pytest.fixture(scope="module")
def result() -> send_file.SendFiles:
    parts: list[send_file.Part] = ["loopback", "veth", "cold", "clients", "memory", "header"]
    return send_file.measure(parts=parts, sizes_mb=[3, 8], runs=1)


def find(result: send_file.SendFiles, part: send_file.Part, name: str) -> Transfer:
    found = [each for each in result.part(part) if each.case.variant == name]
    return found[-1]


def test_every_case_was_measured_or_says_why_not(result: send_file.SendFiles) -> None:
    for transfer in each(result.transfers):
        assert bool(transfer.costs) != bool(transfer.missing), transfer
        case = transfer.case
        for cost in transfer.costs:
            assert cost.bytes == case.connections * (case.file_bytes + case.header_bytes)
    assert any(transfer.costs for transfer in result.transfers)


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
def test_system_calls(result: send_file.SendFiles, name: str, calls: int) -> None:
    assert find(result, "loopback", name).system_calls == calls


def test_sendfile_takes_a_call_or_a_few(result: send_file.SendFiles) -> None:
    assert 1 <= (find(result, "loopback", B).system_calls or 0) < 50
    assert 3 <= (find(result, "loopback", C).system_calls or 0) < 52  # the cork's two ends


def test_zero_copy_within_a_machine_is_copied_after_all(result: send_file.SendFiles) -> None:
    cost = find(result, "loopback", "MSG_ZEROCOPY").costs[0]
    assert cost.zerocopy_copied == cost.zerocopy_sends > 0


def test_clients_are_served_at_once(result: send_file.SendFiles) -> None:
    clients = result.part("clients")
    assert [each.case.connections for each in clients[::2]] == list(send_file.CLIENTS)
    assert {each.case.file_bytes for each in clients} == {3_000_000}


def test_an_address_space_smaller_than_the_file(result: send_file.SendFiles) -> None:
    limited = {
        each.case.variant: each for each in result.part("memory") if each.case.limit == "ulimit -v"
    }
    assert limited[A].costs
    assert limited[B].costs
    assert limited["splice"].costs
    for name in ("mmap + send", "MSG_ZEROCOPY"):
        assert limited[name].missing == "mmap of the file: ENOMEM: Cannot allocate memory"


def test_a_control_group_or_the_way_to_get_one(result: send_file.SendFiles) -> None:
    for transfer in result.part("memory"):
        if transfer.case.limit == "cgroup" and not transfer.costs:
            words = ("systemd-run --user --scope", "tmpfs", "had no memory left")
            assert any(each_word in transfer.missing for each_word in words)
    mine = f"tcplab-{os.getpid()}"
    groups = [parent / mine for parent, _file in send_file._memory_groups()]
    assert not [group for group in groups if group.exists()]


def test_the_segments_of_a_header(result: send_file.SendFiles) -> None:
    alone, joined = [100, *[1448] * 6, 1312], [*[1448] * 6, 1412]
    seen = {each.case.variant: list(each.segments) for each in result.part("header")}
    assert seen == {
        "default": alone,
        "TCP_NODELAY": alone,
        "TCP_CORK": joined,
        "TCP_CORK and TCP_NODELAY": joined,
        "MSG_MORE": joined,
    }
    assert result.provenance["capture_drops"] == 0
    rows = {row["variant"]: row for row in result.rows() if row["part"] == "header"}
    assert rows["default"]["segments"] == "100 + 6 × 1448 + 1312"
    assert (rows["default"]["header_alone"], rows["MSG_MORE"]["header_alone"]) == ("yes", "no")


def test_a_table_a_part(result: send_file.SendFiles) -> None:
    for part in {transfer.case.part for transfer in result.transfers}:
        assert len(result.table(part).text().splitlines()) == 2 + len(result.part(part))
    assert len(table(result).text().splitlines()) == 2 + len(result.transfers)


def test_it_survives_a_recording(result: send_file.SendFiles, tmp_path: Path) -> None:
    path = recordings.save(tmp_path, "sendfile", {}, result)
    again = recordings.load("sendfile", {}, tmp_path)
    assert again.rows() == result.rows()
    assert path.stat().st_size < 50_000
    assert set(json.loads(as_json(again))) == {"experiment", "rows", "provenance"}


def test_the_texts_figures_stand_beside_ours() -> None:
    wire = send_file.measure(parts=["wire"], sizes_mb=[9], wire_runs=1, blocks=[1024])
    rows = {row["variant"]: row for row in wire.rows()}
    assert [rows[name]["text_s"] for name in (A, B, C)] == ["0.71–0.76", "0.71–1.08", "0.72–0.75"]
    # No way is faster than the wire; a busy machine may be slower.
    computed_s = 9 / goodput_mbyte_s(100)
    for row in rows.values():
        assert row["seconds"] >= 0.99 * computed_s
    assert len(send_file.TEXT_S) == 9
    assert rows["read 1024 + send"]["system_calls"] == 2 * -(-9_000_000 // 1024)


def test_without_a_laboratory_two_hosts_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCPLAB_MODE", "loopback")
    result = send_file.measure(parts=["loopback", "veth", "header"], sizes_mb=[1], runs=1)
    assert all(transfer.costs for transfer in each(result.part("loopback")))
    for part in ("veth", "header"):
        for transfer in each(result.part(part)):
            assert transfer.missing == "needs two hosts and a wire: not possible on plain loopback"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"parts": ["fast"]}, "part 'fast' is not one of wire, loopback"),
        ({"parts": []}, "parts is empty"),
        ({"sizes_mb": []}, "sizes_mb is empty"),
        ({"sizes_mb": [0]}, "sizes_mb: 0 must be a whole number from 1 to 20000"),
        ({"sizes_mb": [10**12]}, "sizes_mb: 1000000000000 must be"),
        ({"blocks": [0]}, "blocks: 0 must be a whole number from 1 to 16777216"),
        ({"runs": 0}, "runs: 0 must be"),
    ],
)
def test_bad_values_are_named(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        send_file.measure(**arguments)  # type: ignore[arg-type]


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "sendfile", "--parts", "clients", "--sizes", "-1"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    words = ["run", "sendfile", "--parts", "clients", "--sizes", "1", "--runs", "1"]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "B: sendfile, 64 clients" in out


# ---- the send queue ------------------------------------------------------------------------------


def test_queued_copies_take_memory_and_queued_pages_do_not() -> None:
    # Other programs take and give memory, too: so several looks, until one was undisturbed.
    for _attempt in range(12):
        queues = send_queue.measure(clients=16, runs=1)
        copied, shared = queues["read + send"], queues["sendfile"]
        assert min(copied.queued_bytes[0], shared.queued_bytes[0]) > 16 * 100_000
        if copied.memory_per_byte > 0.5 and abs(shared.memory_per_byte) < 0.25:
            break
    else:
        pytest.fail(f"never seen apart: {table(queues)}")
    assert len(table(queues).text().splitlines()) == 2 + 2


def test_bad_numbers_of_clients_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="clients=0 must be from 1 to 400"):
        send_queue.measure(clients=0)
    monkeypatch.setattr(send_queue, "_meminfo_bytes", lambda _name: 1_000_000)
    with pytest.raises(LabError, match="try fewer clients"):
        send_queue.measure(clients=400)
