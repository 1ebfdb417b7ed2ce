"""strace and tshark confirm the counts of the programs, and another netcat their bytes."""

import collections
import random
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.commands import completed
from tests.support.programs.harness import Programs, last_object

from tcplab.lab import Lab
from tcplab.programs import small_writes, udp_bulk
from tcplab.programs.chain import pipe_chain
from tcplab.programs.messages import SmallWritesMode

Tool = Callable[[str], str]


# ---- strace: system calls ----


def traced(
    programs: Programs, tool: Tool, tmp_path: Path, arguments: list[object]
) -> tuple[dict[str, Any], collections.Counter[str]]:
    """Run a program under strace; return its report and its number of calls by name."""
    trace = tmp_path / "trace"
    command = [tool("strace"), "-f", "-qq", "-o", str(trace)]
    command += [*programs.command(*map(str, arguments)), "--json"]
    done = completed(command)
    if "ptrace" in done.stderr and done.returncode:
        pytest.skip(f"strace may not trace here: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    # Leave out the calls before connect(), which look up the host's address.
    connected = re.split(r"connect\(\d+, .*sin_port=htons.*= 0\n", trace.read_text())[-1]
    calls = re.findall(r"^\d+ +(\w+)\(", connected, re.MULTILINE)
    return last_object(done.stdout), collections.Counter(calls)


@pytest.mark.parametrize("mode", ["default", "cork", "writev"])
def test_strace_counts_the_same_calls_for_small_writes(
    installed: Programs, tool: Tool, tmp_path: Path, mode: str
) -> None:
    with listening(installed, "tcp_nodelay_server", "0", 5) as port:
        arguments = ["tcp_nodelay_client", "127.0.0.1", port, 5, mode]
        report, calls = traced(installed, tool, tmp_path, arguments)
    sends, corks = {"default": (75, 0), "cork": (75, 10), "writev": (0, 0)}[mode]
    assert calls["sendto"] == sends
    assert calls["writev"] == (5 if mode == "writev" else 0)
    receives = calls["recvfrom"] - 1  # the end of the connection is not part of the loop
    assert report["system_calls"] == calls["sendto"] + calls["writev"] + receives + corks


@pytest.mark.parametrize("method", ["read", "mmap", "sendfile", "splice", "zerocopy"])
def test_strace_counts_the_same_calls_for_a_file(
    installed: Programs, tool: Tool, tmp_path: Path, method: str
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 1_000_000)
    with listening(installed, "sendfile_server", "-p", "0") as port:
        arguments = ["sendfile_client", "-m", method, "-s", 40_000, "-p", port, "127.0.0.1", path]
        report, calls = traced(installed, tool, tmp_path, arguments)
    used = ["pread64", "sendto", "sendfile", "splice", "recvmsg", "poll"]
    assert report["system_calls"] == sum(calls[name] for name in used)


@contextmanager
def listening(programs: Programs, *arguments: object) -> Iterator[int]:
    """Yield a listener's port; check at the end that the listener exits cleanly."""
    with programs.listening(*map(str, arguments)) as (process, port):
        yield port
        assert programs.finish(process).returncode == 0


# ---- tshark: segments ----


def tshark(tool: Tool, path: Path, display_filter: str, field: str) -> list[int]:
    command = [tool("tshark"), "-n", "-r", str(path), "-Y", display_filter, "-T", "fields"]
    done = completed([*command, "-e", field], check=True)
    return [int(line) for line in done.stdout.split()]


@pytest.mark.parametrize("mode", ["default", "no_delay", "cork", "writev"])
def test_tshark_sees_the_same_segments(
    lab: Lab, tool: Tool, tmp_path: Path, mode: SmallWritesMode
) -> None:
    with lab.client.capture() as capture:
        result = small_writes(lab, mode, messages=5)
    path = capture.save(tmp_path / "capture.pcapng")
    sizes = tshark(tool, path, f"ip.src == {lab.client.address} && tcp.len > 0", "tcp.len")
    assert len(sizes) == result.tcp_info["data_segs_out"]
    # On a busy machine an ACK may be late, so that a segment is retransmitted.
    assert sum(sizes) - result.tcp_info["bytes_retrans"] == result.bytes == 150


def test_tshark_sees_the_same_datagrams(lab: Lab, tool: Tool, tmp_path: Path) -> None:
    with lab.client.capture() as capture:
        result = udp_bulk(lab, count=200, datagram_bytes=300, pace_mbit=10)
    path = capture.save(tmp_path / "capture.pcapng")
    # An end marker to a sink that has gone comes back within an ICMP error.
    sizes = tshark(tool, path, f"udp && !icmp && ip.src == {lab.client.address}", "udp.length")
    assert collections.Counter(sizes) == {308: 200, 24: result.source.end_markers}


def test_netcat_and_openbsds_understand_each_other(lab: Lab, tool: Tool, tmp_path: Path) -> None:
    other, path, output = tool("nc.openbsd"), tmp_path / "input", tmp_path / "output"
    path.write_bytes(random.Random(7).randbytes(5_000_000))
    for sends, listens in (([other, "-N"], "netcat"), (["netcat"], other)):
        sending = [["cat", str(path)], [*sends, "{host}", "{port}"]]
        receiving = [[listens, "-l", "{port}"], ["dd", f"of={output}", "status=none"]]
        pipe_chain(lab, sending, receiving, bytes_expected=5_000_000)
        assert output.read_bytes() == path.read_bytes()
