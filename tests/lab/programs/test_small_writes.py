"""Test tcp_nodelay_client and tcp_nodelay_server with the published command lines."""

import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.programs.harness import Programs, complaint

from tcplab.programs import read_log

N = 20


def exchange(
    programs: Programs, mode: str, *options: object
) -> tuple[dict[str, Any], dict[str, Any]]:
    common = ["--cpu", 0, "--congestion", "reno", *options]
    listener = ["tcp_nodelay_server", *common, "--bind", "127.0.0.1", 0, N]
    client = ["tcp_nodelay_client", *common, "127.0.0.1", "PORT", N]
    client += [] if mode == "default" else [mode]  # the published command lines
    return programs.pair(listener, client, port_option=None)


@pytest.mark.parametrize(
    ("mode", "calls", "segments"),
    [
        ("default", 16 * N, range(2 * N, sys.maxsize)),
        # Writes are joined while they wait for room in the congestion window, or for a packet that
        # a busy processor has not yet passed on.
        ("no_delay", 16 * N, range(2 * N, 15 * N + 1)),
        ("cork", 18 * N, range(N, N + 1)),
        ("msg_more", 16 * N, range(N, N + 1)),
        ("writev", 2 * N, range(N, N + 1)),
    ],
)
def test_each_mode_makes_its_system_calls_and_segments(
    programs: Programs, mode: str, calls: int, segments: range
) -> None:
    sent, served = exchange(programs, mode)
    assert (sent["mode"], sent["system_calls"]) == (mode, calls)
    assert sent["bytes"] == served["bytes"] == 30 * N
    ms = 1000 * sent["usage"]["wall_s"]
    assert sent["bytes_per_ms"] * ms == pytest.approx(30 * N, rel=1e-3)
    # The end of the connection counts as one byte once it is acknowledged.
    assert sent["tcp_info"]["bytes_acked"] in (30 * N, 30 * N + 1)
    assert (sent["options"]["nodelay"], served["options"]["nodelay"]) == (mode == "no_delay", False)
    assert (sent["options"]["congestion"], sent["options"]["cpu"]) == ("reno", 0)
    # If the other end is late, the kernel sends a segment again.
    assert sent["tcp_info"]["data_segs_out"] - sent["tcp_info"]["total_retrans"] in segments


@pytest.mark.parametrize(("writes", "size"), [(1, 1), (3, 70000), (1024, 1)])
def test_writes_of_any_size_arrive(programs: Programs, writes: int, size: int) -> None:
    for mode in ("writev", "cork"):
        sent, served = exchange(
            programs, mode, "--writes", writes, "--write-bytes", size, "--reply-bytes", 5
        )
        assert sent["bytes"] == served["bytes"] == N * writes * size
        assert served["tcp_info"]["bytes_sent"] == 5 * N


def test_logs_have_every_call_of_both_ends(programs: Programs, tmp_path: Path) -> None:
    client_log, server_log = tmp_path / "client", tmp_path / "server"
    common = ["--cpu", 0]
    programs.pair(
        ["tcp_nodelay_server", "0", N, *common, "--log", server_log],
        ["tcp_nodelay_client", "localhost", "PORT", N, "cork", *common, "--log", client_log],
        port_option=None,
    )
    assert client_log.read_text().startswith("# CLOCK_REALTIME ns, event, bytes\n")
    events = read_log(client_log)
    message = [("cork", 0), *[("write", 2)] * 15, ("uncork", 0), ("reply", 2)]
    assert [(event.name, event.bytes) for event in events] == message * N
    times = [event.time_ns for event in events]
    assert times == sorted(times)
    served = read_log(server_log)
    assert sum(event.bytes for event in served if event.name == "read") == 30 * N
    replies = [event for event in served if event.name == "reply"]
    assert [event.bytes for event in replies] == [2] * N
    # Both times are from one clock. Each reply left the server before it reached the client.
    arrivals = [event for event in events if event.name == "reply"]
    assert all(left.time_ns < came.time_ns for left, came in zip(replies, arrivals, strict=True))


def test_different_message_counts_are_reported(programs: Programs) -> None:
    with programs.listening("tcp_nodelay_server", "0", 7) as (server, port):
        client = programs.run("tcp_nodelay_client", "localhost", port, N)
        line = complaint(programs.finish(server), 1)
    assert "the client goes on after 7 messages (was it given the same N" in line
    assert client.returncode == 1
    with programs.listening("tcp_nodelay_server", "0", N) as (server, port):
        assert programs.run("tcp_nodelay_client", "localhost", port, 7).returncode == 0
        line = complaint(programs.finish(server), 1)
    assert "closed the connection after 7 of 20 messages and 0 of 30 bytes" in line
