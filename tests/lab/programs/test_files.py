"""Test sendfile_client, sendfile_server and pagecache: all bytes arrive, and costs are right."""

import os
import random
from pathlib import Path
from typing import Any

import pytest
from tests.support.programs.harness import Programs, complaint, last_object

from tcplab.experiments.files import NO_DISK

METHODS = ["read", "mmap", "sendfile", "splice", "zerocopy"]


@pytest.fixture(scope="module")
def some_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("files") / "3 MB and a bit"
    path.write_bytes(random.Random(1).randbytes(3_000_001))
    return path


def transfer(
    programs: Programs, path: Path, sender: list[object], receiver: list[object]
) -> tuple[dict[str, Any], dict[str, Any]]:
    return programs.pair(
        ["sendfile_server", "--bind", "127.0.0.1", "--congestion", "reno", *receiver],
        ["sendfile_client", "-p", "PORT", "127.0.0.1", path, "--congestion", "reno", *sender],
    )


@pytest.mark.parametrize("method", METHODS)
def test_each_method_delivers_the_whole_file(
    programs: Programs, some_file: Path, tmp_path: Path, method: str
) -> None:
    output = tmp_path / "output"
    # read() would need a 2 GB buffer.
    for block in (None, 1000, 4096, 131072, *([2147479552] if method != "read" else [])):
        size = ["-s", block] if block else []
        sent, received = transfer(programs, some_file, ["-m", method, *size], ["-o", output])
        assert output.read_bytes() == some_file.read_bytes()
        assert sent["bytes"] == received["bytes"] == 3_000_001
        assert sent["method"] == method
        assert received["writes"] >= 1
    path = tmp_path / "input"
    for file_bytes in (0, 4097):  # nothing, and about one page
        path.write_bytes(random.Random(1).randbytes(file_bytes))
        sent, received = transfer(programs, path, ["-m", method], ["-o", output])
        assert output.read_bytes() == path.read_bytes()
        assert sent["file_bytes"] == received["bytes"] == file_bytes


def test_the_system_calls_are_counted(programs: Programs, some_file: Path) -> None:
    calls = {}
    for method in METHODS:
        sent, _received = transfer(programs, some_file, ["-m", method, "-s", 65536], ["-S"])
        calls[method] = sent["system_calls"]
    blocks = -(-3_000_001 // 65536)
    assert calls["read"] == 2 * blocks
    assert calls["mmap"] == blocks
    assert calls["sendfile"] >= blocks
    assert calls["splice"] >= 2 * blocks
    assert calls["zerocopy"] > blocks
    everything, _received = transfer(programs, some_file, [], ["-S"])
    assert 1 <= everything["system_calls"] < blocks


@pytest.mark.parametrize(
    ("option", "segments"), [(None, 2), ("--cork", 1), ("--more", 1), ("--nodelay", 2)]
)
def test_a_header_and_a_small_file(
    programs: Programs, tmp_path: Path, option: str | None, segments: int
) -> None:
    path, output = tmp_path / "input", tmp_path / "output"
    path.write_bytes(b"x" * 1000)
    options = [option] if option else []
    sent, received = transfer(
        programs, path, ["-m", "read", "--header", 100, *options], ["--header", 100, "-o", output]
    )
    info = sent["tcp_info"]
    assert info["data_segs_out"] - info["total_retrans"] == segments
    assert (sent["bytes"], received["bytes"]) == (1100, 1000)
    assert output.read_bytes() == path.read_bytes()


@pytest.mark.parametrize("method", METHODS)
def test_several_clients_each_get_the_whole_file(
    programs: Programs, some_file: Path, tmp_path: Path, method: str
) -> None:
    output = tmp_path / "output"
    sent, received = transfer(programs, some_file, ["-j", 3, "-m", method], ["-j", 3, "-o", output])
    assert sent["bytes"] == received["bytes"] == 3 * 3_000_001
    assert sent["connections"] == received["connections"] == 3
    written = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert written == dict.fromkeys(["output.1", "output.2", "output.3"], some_file.read_bytes())


# ---- the page cache ----


@pytest.fixture
def file_on_disk(tmp_path: Path, installed: Programs) -> Path:
    path = tmp_path / "on disk"
    path.write_bytes(os.urandom(1_000_000))
    done = installed.run("pagecache", "--state", "cold", path)
    if "tmpfs" in done.stderr:
        pytest.skip(NO_DISK)
    return path


def test_pagecache_warms_and_drops_a_file(programs: Programs, file_on_disk: Path) -> None:
    for state, share in (("cold", 0), ("asis", 0), ("warm", 1), ("asis", 1)):
        done = programs.run("pagecache", "--state", state, "--json", file_on_disk)
        # A machine short of memory may take a page or two back at any time.
        assert last_object(done.stdout)["cached_share"] == pytest.approx(share, abs=0.05)
        assert last_object(done.stdout)["bytes"] == 1_000_000
    for cache, share in (("cold", 0), ("warm", 1)):  # after a transfer, pages may still be in use
        sent, _received = transfer(programs, file_on_disk, ["--cache", cache], [])
        assert sent["cached_share"] == pytest.approx(share, abs=0.05)


def test_file_that_stays_in_the_page_cache_is_reported(programs: Programs) -> None:
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        pytest.skip("no tmpfs at /dev/shm")
    path = memory / f"tcplab-test-{os.getpid()}"
    path.write_bytes(b"x" * 4096)
    try:
        line = complaint(programs.run("pagecache", "--state", "cold", path), 1)
    finally:
        path.unlink()
    assert line.startswith(f"cold: 100 % of {path} is still in the page cache")
