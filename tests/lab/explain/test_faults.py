"""Faults that people reported, rebuilt with the programs that they used or in a few lines, and what
`tcplab explain` says of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.support.explain import programs as run

from tcplab import Lab
from tcplab.explain import Explanation, explain_command

pytestmark = [
    pytest.mark.needs_lab,
    pytest.mark.timeout(600),  # the first program in Go compiles its library
]

NAGLE, CORK = "nagle-delayed-ack", "forgotten-cork"


class Fault(NamedTuple):
    """A report, the run that shows it, and the right answer."""

    report: str
    server: Callable[[Path], Sequence[str]]
    client: Callable[[Path], Sequence[str]]
    cause: str
    kind: str = "fault"
    side: str = ""  #: whose writes the evidence names
    rtt_ms: float = 0.0


URL = "http://server:8080/"

FAULTS = {
    "python-http-server": Fault(
        "https://github.com/python/cpython/issues/108736",
        lambda _: run.http_server(),
        lambda _: run.curl(6, URL),
        NAGLE,
        side="server",
    ),
    "uhttpd-one-write-per-header-line": Fault(
        "https://github.com/openwrt/uhttpd/pull/34",
        lambda _: run.answers(
            "HTTP/1.1 200 OK\r\n", "Content-Length: 5\r\n", "Server: x\r\n", "\r\n", "hello"
        ),
        lambda _: run.curl(6, URL),
        NAGLE,
        side="server",
    ),
    "http-tiny-head-and-body-apart": Fault(
        "https://github.com/chansen/p5-http-tiny/pull/37",
        lambda _: run.answers("".join(run.RESPONSE), until="hello"),
        lambda _: run.sends(
            ["POST / HTTP/1.1\r\nHost: server\r\nContent-Length: 5\r\n\r\n", "hello"],
            "hello",
            8080,
        ),
        NAGLE,
        side="client",
    ),
    "memcached-rs-command-in-two-writes": Fault(
        "https://github.com/zonyitoo/memcached-rs/pull/7",
        lambda _: run.memcached(),
        run.rust_client,
        NAGLE,
        side="client",
    ),
    "node-without-set-no-delay": Fault(
        "https://github.com/maxtaco/node-framed-msgpack-rpc/pull/1",
        lambda _: run.memcached(),
        lambda folder: run.node_client(folder, nodelay=False),
        NAGLE,
        side="client",
    ),
    "go-with-nodelay-off": Fault(
        "https://github.com/golang/go/issues/57530",
        lambda folder: run.go_server(folder, "delay"),
        lambda _: run.curl(6, URL),
        NAGLE,
        side="server",
    ),
    "nginx-tcp-nodelay-off": Fault(
        "https://github.com/Varying-Vagrant-Vagrants/VVV/pull/238",
        lambda folder: run.nginx(folder, "sendfile on; tcp_nodelay off;"),
        lambda _: run.curl(6, URL + "small"),
        NAGLE,
        side="server",
    ),
    "mosquitto-qos-1": Fault(
        "https://github.com/eclipse-mosquitto/mosquitto/issues/1526",
        run.mosquitto,
        lambda _: run.publishes(10, "-q 1"),
        NAGLE,
    ),
    "sqlx-two-statements-per-query": Fault(
        "https://github.com/transact-rs/sqlx/issues/4335",
        lambda _: run.answers("ok", until="execute;"),
        lambda _: run.sends(["prepare;", "execute;"], "ok", 8080),
        NAGLE,
        side="client",
    ),
    "uwebsockets-cork-left-on": Fault(
        "https://github.com/uNetworking/uWebSockets/issues/639",
        lambda _: run.answers(*run.RESPONSE, prepare="c.setsockopt(socket.IPPROTO_TCP, 3, 1)"),
        lambda _: run.curl(3, URL),
        CORK,
        side="server",
    ),
    "galera-receive-buffer-of-fixed-size": Fault(
        "https://github.com/mariadb-corporation/galera/issues/552",
        lambda _: run.sink(rcvbuf=32768),
        lambda _: run.uploads(500_000),
        "fixed-receive-buffer",
        rtt_ms=40,
    ),
    "lightway-both-buffers-of-fixed-size": Fault(
        "https://github.com/expressvpn/lightway/pull/437",
        lambda _: run.sink(rcvbuf=65536),
        lambda _: run.uploads(1_000_000, sndbuf=262144),
        "fixed-receive-buffer",
        rtt_ms=40,
    ),
    "wstunnel-send-buffer-of-fixed-size": Fault(
        "https://github.com/erebe/wstunnel/issues/80",
        lambda _: run.sink(),
        lambda _: run.uploads(500_000, sndbuf=16384),
        "fixed-send-buffer",
        rtt_ms=40,
    ),
    "git-lfs-many-small-writes": Fault(
        "https://github.com/git-lfs/git-lfs/issues/5242",
        lambda _: run.sink(),
        run.go_upload,
        "many-small-writes",
        side="client",
    ),
    "xfr-a-window-for-everybody": Fault(
        "https://github.com/lance0/xfr/issues/60",
        lambda _: run.words("iperf3 -s"),
        lambda _: run.words("iperf3 -c server -n 4M -w 64K"),
        "fixed-receive-buffer",
        rtt_ms=40,
    ),
    "icinga-redis-without-pipelining": Fault(
        "https://github.com/Icinga/icinga2/issues/5670",
        lambda _: run.redis(),
        lambda _: run.words("redis-benchmark -h server -n 20 -c 1 -t get -q"),
        "round-trips",
        kind="limit",
        rtt_ms=40,
    ),
    "pi-hole-a-connection-for-each-request": Fault(
        "https://github.com/pi-hole/FTL/pull/2357",
        run.nginx,
        lambda _: [
            "sh",
            "-c",
            f"for i in 1 2 3 4 5 6; do curl -s -o /dev/null {URL}small; done",
        ],
        "new-connections",
        kind="limit",
        rtt_ms=40,
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named_with_its_cause(name: str, tmp_path: Path) -> None:
    fault = FAULTS[name]
    server, client = fault.server(tmp_path), fault.client(tmp_path)
    wanted = (fault.cause, fault.kind)
    found = run.told(client, server, lambda got: _cause(got) == wanted, rtt_ms=fault.rtt_ms)
    said = f"{fault.report}\n{found.report()}"
    assert found.verdict is not None, said
    assert _cause(found) == wanted, said
    assert found.verdict.share >= 0.2 or not found.verdict.ms, said
    assert found.verdict.cure, said
    if fault.side:
        assert found.verdict.evidence.startswith(f"the {fault.side} hands"), said


def _cause(found: Explanation) -> tuple[str, str] | None:
    return (found.verdict.cause, found.verdict.kind) if found.verdict else None


@pytest.fixture(scope="module")
def black_hole() -> Explanation:
    """https://github.com/Start9Labs/start-technologies/issues/3261: a large ClientHello is lost."""
    run.need("curl")
    with Lab() as lab:
        lab.link.update(mtu=900, icmp="off")
        client = run.curl(1, URL, "--max-time", "2.5", "-d", "x" * 1700)
        return explain_command(client, run.answers("".join(run.RESPONSE)), lab=lab)


def test_an_mtu_black_hole_is_named(black_hole: Explanation) -> None:
    verdict = black_hole.verdict
    assert verdict is not None
    assert verdict.cause == "mtu-black-hole", black_hole.report()
    assert verdict.kind == "fault"


def test_a_connection_that_is_refused_is_named() -> None:
    found = explain_command(run.curl(1, "http://server:81/"))
    assert found.verdict is not None
    assert found.verdict.cause == "not-connected"
    assert "refused (RST)" in found.sentence
    assert any("curl failed (exit 7)" in note for note in found.recorded.notes)
