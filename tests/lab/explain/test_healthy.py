"""Programs and configurations without a fault: none must be called one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.support.explain import programs as run

from tcplab.explain import Explanation

pytestmark = [
    pytest.mark.needs_lab,
    pytest.mark.timeout(600),  # the first program in Go compiles its library
]

URL = "http://server:8080/"


class Healthy(NamedTuple):
    """A server, a client, and the wire between them."""

    server: Callable[[Path], Sequence[str]]
    client: Callable[[Path], Sequence[str]]
    rtt_ms: float = 0.0
    rate_mbit: float | None = None


def words(text: str) -> Callable[[Path], Sequence[str]]:
    """A command line whose program is needed."""
    return lambda _folder: run.words(text)


def shell(text: str, *needed: str) -> Callable[[Path], Sequence[str]]:
    """A line for the shell."""

    def given(_folder: Path) -> Sequence[str]:
        run.need(*needed)
        return ["sh", "-c", text]

    return given


def lighttpd(folder: Path) -> Sequence[str]:
    run.need("lighttpd")
    (folder / "small").write_bytes(b"x" * 200)
    conf = f'server.document-root = "{folder}"\nserver.port = 8080\n'
    (folder / "lighttpd.conf").write_text(conf)
    return ["/usr/sbin/lighttpd", "-D", "-f", str(folder / "lighttpd.conf")]


def node_server(folder: Path) -> Sequence[str]:
    run.need("node")
    code = 'require("http").createServer((q, r) => r.end("hello")).listen(8080, "0.0.0.0")'
    (folder / "server.js").write_text(code)
    return ["node", str(folder / "server.js")]


def file_server(folder: Path) -> Sequence[str]:
    (folder / "big").write_bytes(b"x" * 300_000)
    return [*run.python("import http.server as h; h.test(h.SimpleHTTPRequestHandler, port=8080)")]


HEALTHY = {
    "http.server, buffered": Healthy(
        lambda _: run.http_server(wbufsize=-1), lambda _: run.curl(6, URL)
    ),
    "http.server, HTTP/1.0": Healthy(
        lambda _: run.http_server(protocol="HTTP/1.0"), lambda _: run.curl(3, URL)
    ),
    "http.server, buffered, far away": Healthy(
        lambda _: run.http_server(wbufsize=-1), lambda _: run.curl(3, URL), rtt_ms=20
    ),
    "nginx as it comes": Healthy(run.nginx, lambda _: run.curl(10, URL + "small")),
    "nginx with all three directives": Healthy(
        lambda folder: run.nginx(folder, "sendfile on; tcp_nopush on; tcp_nodelay on;"),
        lambda _: run.curl(10, URL + "small"),
    ),
    "nginx, tcp_nopush mends tcp_nodelay off": Healthy(
        lambda folder: run.nginx(folder, "sendfile on; tcp_nopush on; tcp_nodelay off;"),
        lambda _: run.curl(10, URL + "small"),
    ),
    "nginx, a larger file": Healthy(run.nginx, lambda _: run.curl(2, URL + "big")),
    "nginx, a larger file, far away": Healthy(
        lambda folder: run.nginx(folder, "sendfile on; tcp_nopush on;"),
        lambda _: run.curl(2, URL + "big"),
        rtt_ms=20,
    ),
    "lighttpd": Healthy(lighttpd, lambda _: run.curl(6, URL + "small")),
    "wget": Healthy(run.nginx, words(f"wget -q -O /dev/null {URL}big")),
    "node's http": Healthy(node_server, lambda _: run.curl(6, URL)),
    "node with setNoDelay": Healthy(
        lambda _: run.memcached(), lambda folder: run.node_client(folder, nodelay=True)
    ),
    "go": Healthy(run.go_server, lambda _: run.curl(6, URL)),
    "go, many small writes into a buffer": Healthy(
        lambda _: run.sink(), lambda folder: run.go_upload(folder, "buffered"), rtt_ms=20
    ),
    "rust, two writes and TCP_NODELAY": Healthy(
        lambda _: run.memcached(), lambda folder: run.rust_client(folder, "nodelay")
    ),
    "memcached, one write": Healthy(
        lambda _: run.memcached(),
        lambda _: run.sends(["".join(run.MEMCACHED_WRITES)], "STORED\r\n", 11211),
    ),
    "memcached, two writes and TCP_NODELAY": Healthy(
        lambda _: run.memcached(),
        lambda _: run.sends(
            run.MEMCACHED_WRITES, "STORED\r\n", 11211, "s.setsockopt(socket.IPPROTO_TCP, 1, 1)"
        ),
    ),
    "redis, one command": Healthy(lambda _: run.redis(), words("redis-cli -h server ping")),
    "redis, pipelined": Healthy(
        lambda _: run.redis(),
        words("redis-benchmark -h server -n 200 -c 1 -P 50 -t get -q"),
        rtt_ms=20,
    ),
    "redis, ten clients": Healthy(
        lambda _: run.redis(), words("redis-benchmark -h server -n 300 -c 10 -t get -q")
    ),
    "mosquitto, QoS 0": Healthy(run.mosquitto, lambda _: run.publishes(10)),
    "mosquitto with set_tcp_nodelay": Healthy(
        lambda folder: run.mosquitto(folder, "set_tcp_nodelay true"),
        lambda _: run.publishes(10, "-q 1", "--nodelay"),
    ),
    "iperf3 over 50 Mbit/s": Healthy(
        words("iperf3 -s"), words("iperf3 -c server -n 2M"), rtt_ms=20, rate_mbit=50
    ),
    "iperf3 -R over 50 Mbit/s": Healthy(
        words("iperf3 -s"), words("iperf3 -c server -n 2M -R"), rtt_ms=20, rate_mbit=50
    ),
    "an upload with autotuning": Healthy(
        lambda _: run.sink(), lambda _: run.uploads(2_000_000), rtt_ms=20, rate_mbit=100
    ),
    "netcat": Healthy(
        words("nc.openbsd -l 8080"),
        shell("head -c 1000000 /dev/zero | nc.openbsd -N server 8080", "nc.openbsd"),
    ),
    "socat": Healthy(
        words("socat -u TCP-LISTEN:8080 OPEN:/dev/null"),
        shell("head -c 1000000 /dev/zero | socat -u - TCP:server:8080", "socat"),
    ),
    "a slow server": Healthy(
        lambda _: run.answers("".join(run.RESPONSE), delay_s=0.05), lambda _: run.curl(4, URL)
    ),
    "a slow client": Healthy(
        run.nginx,
        shell(f"curl -s {URL}small --next -s {URL}small; sleep 0.2; curl -s {URL}small", "curl"),
    ),
    "a cork that is pulled": Healthy(
        lambda _: run.answers("".join(run.RESPONSE)),
        lambda _: run.sends(["hello"], "hello", 8080, "s.setsockopt(socket.IPPROTO_TCP, 3, 0)"),
    ),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_no_fault_is_found_where_there_is_none(name: str, tmp_path: Path) -> None:
    case = HEALTHY[name]
    server, client = case.server(tmp_path), case.client(tmp_path)
    found = run.told(client, server, _is_healthy, rtt_ms=case.rtt_ms, rate_mbit=case.rate_mbit)
    assert _is_healthy(found), found.report()
    assert all(map(run.tells_of_a_late_wire, found.recorded.notes)), found.report()


def _is_healthy(found: Explanation) -> bool:
    """Something always limits; that is no fault."""
    return found.verdict is not None and found.verdict.kind != "fault"


def test_there_are_enough_of_them() -> None:
    assert len(HEALTHY) >= 20
