"""Test the options and TCP_INFO of a Python socket."""

import socket
from collections.abc import Iterator

import pytest

from tcplab.timeline.sockets import read_options, read_tcp_info, sampling


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname(), timeout=10)
        server, _address = listener.accept()
    with client, server:
        yield client, server


def test_tcp_info_counts_what_was_sent(pair: tuple[socket.socket, socket.socket]) -> None:
    client, server = pair
    before = read_tcp_info(client)
    client.sendall(b"x" * 100)
    server.recv(100, socket.MSG_WAITALL)
    after = read_tcp_info(client)
    assert before["state"] == 1  # TCP_ESTABLISHED
    assert before["snd_cwnd"] > 0
    assert before["time_ns"] < after["time_ns"]
    assert after["bytes_sent"] - before["bytes_sent"] == 100
    assert after["data_segs_out"] - before["data_segs_out"] == 1
    assert after["snd_mss_bytes"] == client.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)
    assert read_tcp_info(server)["bytes_received"] == 100


def test_options_are_those_of_the_socket(pair: tuple[socket.socket, socket.socket]) -> None:
    client, _server = pair
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    options = read_options(client)
    assert options.nodelay is True
    assert options.local_port == client.getsockname()[1]
    assert options.peer_port == client.getpeername()[1]
    assert options.sndbuf_bytes == client.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)


def test_samples_are_taken_while_the_body_runs(pair: tuple[socket.socket, socket.socket]) -> None:
    client, server = pair
    with sampling(client, interval_ms=1) as samples:
        for _ in range(3):
            client.sendall(b"x" * 10)
            server.recv(10)
    assert len(samples) >= 2
    assert samples[-1]["bytes_sent"] - samples[0]["bytes_sent"] == 30
    assert [sample["time_ns"] for sample in samples] == sorted(
        sample["time_ns"] for sample in samples
    )
