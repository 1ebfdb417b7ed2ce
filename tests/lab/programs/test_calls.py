"""Test tcplab.programs: one typed call for each program, in a laboratory and on loopback."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from tcplab.errors import LabError
from tcplab.lab import Host, Lab, Loopback
from tcplab.programs import (
    HeaderOptions,
    RunOptions,
    page_cache,
    send_file,
    small_writes,
    tcp_bulk,
    udp_bulk,
)
from tcplab.programs.chain import pipe_chain
from tcplab.programs.messages import quotes, records
from tcplab.programs.pair import AnyNetwork


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab(rtt_ms=4) as made:
        yield made


@pytest.fixture(
    scope="module", params=[pytest.param("lab", marks=pytest.mark.needs_lab), "loopback"]
)
def network(request: pytest.FixtureRequest) -> Iterator[AnyNetwork]:
    if request.param == "lab":
        yield request.getfixturevalue("lab")
    else:
        with Loopback() as made:
            yield made


@pytest.fixture(scope="module")
def some_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("files") / "{port} is part of this name"
    path.write_bytes(os.urandom(500_000))
    return path


#: Calls by the name of the function, each with values that the result must have.
CALLS: dict[str, tuple[Callable[[AnyNetwork], Any], dict[str, Any]]] = {
    "small_writes": (
        lambda network: small_writes(network, "cork", 5, writes=3, write_bytes=7),
        {"mode": "cork", "messages": 5, "writes": 3, "write_bytes": 7, "bytes": 105}
        | {"system_calls": 5 * 6},
    ),
    "tcp_bulk": (
        lambda network: tcp_bulk(network, count=200, write_bytes=1000, mss_bytes=500),
        {"source.bytes": 200_000, "sink.bytes": 200_000}
        | {"source.options.mss_bytes": pytest.approx(494, abs=6)}
        | {"source.sndbuf_granted_bytes": 65_536, "sink.rcvbuf_granted_bytes": 65_536},
    ),
    "udp_bulk": (
        lambda network: udp_bulk(network, count=150, pace_mbit=20, rcvbuf_bytes=1_000_000),
        {"sink.arrived": 150, "sink.sent": 150, "sink.lost": 0},
    ),
    "udp_bulk, offloaded": (
        lambda network: udp_bulk(network, count=150, gso=True, gro=True, rcvbuf_bytes=1_000_000),
        {"source.gso": True},
    ),
    "records": (
        lambda network: records(network, count=100, batch=30),
        {"records": 100, "sends": 4, "batch": 30},
    ),
    "quotes": (
        lambda network: quotes(network, count=10),
        {"quotes": 10, "single": False, "tcp_info": {"bytes_sent": 80, "bytes_received": 0}},
    ),
    "quotes, single": (
        lambda network: quotes(network, count=10, single=True),
        {"single": True, "tcp_info": {"bytes_sent": 80, "bytes_received": 320}},
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_each_call_returns_its_expected_result(network: AnyNetwork, name: str) -> None:
    call, expected = CALLS[name]
    result = call(network)
    for path, value in expected.items():
        actual = attrgetter(path)(result)
        assert actual == value if not isinstance(value, dict) else value.items() <= actual.items()


def test_congestion_control_is_the_networks_unless_given(network: AnyNetwork) -> None:
    few: dict[str, Any] = {"count": 3, "write_bytes": 10}
    pinned = tcp_bulk(network, **few)
    assert pinned.source.options.congestion == network.congestion
    chosen = tcp_bulk(network, run=RunOptions(congestion="reno"), **few)
    assert chosen.source.options.congestion == chosen.sink.options.congestion == "reno"


def test_send_file_adds_a_header(network: AnyNetwork, some_file: Path, tmp_path: Path) -> None:
    output = tmp_path / "output"
    result = send_file(network, some_file, method="read", header=HeaderOptions(9), output=output)
    assert output.read_bytes() == some_file.read_bytes()
    assert (result.bytes, result.receiver.bytes) == (500_009, 500_000)
    three = send_file(network, some_file, connections=3, discard=True)
    assert three.receiver.bytes == 1_500_000


def test_page_cache_returns_the_cached_share(network: AnyNetwork, some_file: Path) -> None:
    assert page_cache(network, some_file, "warm") == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda network: small_writes(network, messages=0), "N: 0 is outside 1 to 10000000"),
        (
            lambda network: tcp_bulk(network, run=RunOptions(congestion="no")),
            "--congestion no (this kernel offers: ",
        ),
        (lambda network: page_cache(network, "/none"), "/none: ENOENT: No such file or directory"),
        (
            lambda network: pipe_chain(network, [["true"]], [["false"]], bytes_expected=1),
            "'false' failed (exit 1)",
        ),
        (
            lambda network: pipe_chain(
                network, [["cat"]], [["cat"], ["no-such"]], bytes_expected=1
            ),
            "no command 'no-such'",
        ),
    ],
)
def test_a_failure_is_one_line(lab: Lab, call: Callable[[AnyNetwork], Any], message: str) -> None:
    with pytest.raises(LabError) as caught:
        call(lab)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_interrupted_call_leaves_nothing(lab: Lab) -> None:
    """Ctrl-C in a terminal and a notebook's stop button send SIGINT."""
    main = threading.main_thread().ident
    threading.Timer(0.5, signal.pthread_kill, [main, signal.SIGINT]).start()
    with pytest.raises(KeyboardInterrupt):
        tcp_bulk(lab, duration_s=60)
    assert tcp_bulk(lab, count=10).sink.bytes == 14400


def udp_counters(host: Host) -> dict[str, int]:
    names, values = (
        line.split()[1:]
        for line in host.read("/proc/net/snmp").splitlines()
        if line.startswith("Udp:")
    )
    return dict(zip(names, map(int, values), strict=True))


def test_the_kernel_has_dropped_the_same_datagrams(lab: Lab) -> None:
    before = udp_counters(lab.server)
    result = udp_bulk(lab, count=5000, datagram_bytes=200, rcvbuf_bytes=2048)
    after = udp_counters(lab.server)
    assert after["RcvbufErrors"] - before["RcvbufErrors"] == result.sink.drops
    assert result.sink.arrived + result.sink.lost == result.sink.sent == 5000
    # On loopback only a full buffer loses datagrams, and sometimes end markers.
    assert 0 <= result.sink.drops - result.sink.lost <= result.source.end_markers
    # InDatagrams counts what was read, end markers included.
    read = after["InDatagrams"] - before["InDatagrams"]
    assert read == result.sink.reads
    assert result.sink.arrived < read <= result.sink.arrived + result.source.end_markers
