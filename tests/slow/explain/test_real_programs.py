"""Test verdicts on faults and healthy configurations of real servers and clients, as installed.

The cases of tests/lab/explain/test_waits.py that repeat a statement are tried, too.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest
from tests.lab.explain import test_waits as waits
from tests.support.explain import programs as run
from tests.support.explain.cases import NAGLE, URL, Fault, Healthy, check
from tests.support.needs import need
from tests.support.nonempty import each

pytestmark = [
    pytest.mark.needs_lab,
    pytest.mark.timeout(600),  # the first Go program compiles the standard library
]

Limit = partial(Fault, kind="limit", rtt_ms=40)


def words(text: str) -> Callable[[Path], Sequence[str]]:
    """Return a function that splits a command line, or skips the test if its program is missing."""
    return lambda _folder: run.words(text)


def slow_client(_folder: Path) -> Sequence[str]:
    need("curl")
    return ["sh", "-c", f"curl -s {URL}small --next -s {URL}small; sleep 0.2; curl -s {URL}small"]


def lighttpd(folder: Path) -> Sequence[str]:
    need("lighttpd")
    (folder / "small").write_bytes(b"x" * 200)
    conf = f'server.document-root = "{folder}"\nserver.port = 8080\n'
    (folder / "lighttpd.conf").write_text(conf)
    return ["/usr/sbin/lighttpd", "-D", "-f", str(folder / "lighttpd.conf")]


def node_server(folder: Path) -> Sequence[str]:
    need("node")
    return ["node", run.written(folder, "server.js")]


FAULTS = {
    "node-without-set-no-delay": Fault(
        "https://github.com/maxtaco/node-framed-msgpack-rpc/pull/1",
        lambda _: run.memcached(),
        lambda folder: run.node_client(folder, nodelay=False),
        NAGLE,
        side="client",
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
        lambda _: run.publishes_in_batches(10),
        NAGLE,
        side="server",
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
    "icinga-redis-without-pipelining": Limit(
        "https://github.com/Icinga/icinga2/issues/5670",
        lambda _: run.redis(),
        lambda _: run.words("redis-benchmark -h server -n 20 -c 1 -t get -q"),
        "round-trips",
    ),
    "go-http2-window-of-64-kib": Limit(
        "https://github.com/golang/go/issues/17985",
        lambda folder: run.go_http2(folder, "65536"),
        lambda folder: run.go_http2(folder, URL),
        "protocol-window",
    ),
    "a goroutine reads while another writes twice": Fault(
        "",
        lambda _: run.answers("k", until="payload"),
        run.go_reader,
        NAGLE,
        side="client",
    ),
    "two writes with io_uring": Fault(
        "",
        lambda _: run.answers("k", until="payload"),
        lambda folder: run.uring(folder, "head", "payload"),
        NAGLE,
    ),
    "reshuffle-https-without-keep-alive": Limit(
        "https://github.com/reshufflehq/reshuffle/pull/313",
        run.node_https,
        lambda folder: run.node_https(folder, "each"),
        "new-connections",
        rtt_ms=20,
    ),
    "ocaml-tls-an-answer-behind-the-session-tickets": Fault(
        "https://github.com/mirleft/ocaml-tls/issues/480",
        lambda folder: run.tls_server(folder, nodelay=False),
        lambda _: run.tls_client(),
        NAGLE,
        side="server",
        fix="set TCP_NODELAY",
    ),
    "nailgun-header-byte-by-byte": Fault(
        "https://github.com/facebookarchive/nailgun/pull/120",
        lambda _: run.answers("k", until="payload"),
        run.java_chunks,
        NAGLE,
        side="client",
    ),
}
HEALTHY = {
    "redis, ten clients": Healthy(
        lambda _: run.redis(), words("redis-benchmark -h server -n 300 -c 10 -t get -q")
    ),
    "a goroutine reads while another writes twice with TCP_NODELAY": Healthy(
        lambda _: run.answers("k", until="payload"), lambda folder: run.go_reader(folder, "nodelay")
    ),
    "one write with io_uring": Healthy(
        lambda _: run.answers("k", until="payload"), lambda folder: run.uring(folder, "payload")
    ),
    "node, https with keep-alive": Healthy(
        run.node_https,
        lambda folder: run.node_https(folder, "keep"),
        rtt_ms=20,
        without="new-connections",
    ),
    "TLS, session tickets with TCP_NODELAY": Healthy(
        lambda folder: run.tls_server(folder, nodelay=True), lambda _: run.tls_client()
    ),
    "go, HTTP/2 with a window of 4 MB": Healthy(
        lambda folder: run.go_http2(folder, "4000000"),
        lambda folder: run.go_http2(folder, URL),
        rtt_ms=40,
    ),
    "nginx as it comes": Healthy(run.nginx, lambda _: run.curl(10, URL + "small")),
    "nginx, tcp_nopush makes up for tcp_nodelay off": Healthy(
        lambda folder: run.nginx(folder, "sendfile on; tcp_nopush on; tcp_nodelay off;"),
        lambda _: run.curl(10, URL + "small"),
    ),
    "nginx, a larger file": Healthy(run.nginx, lambda _: run.curl(2, URL + "big")),
    "nginx, a larger file, on a long path": Healthy(
        lambda folder: run.nginx(folder, "sendfile on; tcp_nopush on;"),
        lambda _: run.curl(2, URL + "big"),
        rtt_ms=20,
    ),
    "lighttpd": Healthy(lighttpd, lambda _: run.curl(6, URL + "small")),
    "node's http": Healthy(node_server, lambda _: run.curl(6, URL)),
    "node with setNoDelay": Healthy(
        lambda _: run.memcached(), lambda folder: run.node_client(folder, nodelay=True)
    ),
    "go, many small writes into a buffer": Healthy(
        lambda _: run.sink(), lambda folder: run.go_upload(folder, "buffered"), rtt_ms=20
    ),
    "redis, pipelined": Healthy(
        lambda _: run.redis(),
        words("redis-benchmark -h server -n 200 -c 1 -P 50 -t get -q"),
        rtt_ms=20,
    ),
    "mosquitto with set_tcp_nodelay": Healthy(
        lambda folder: run.mosquitto(folder, "set_tcp_nodelay true"),
        lambda _: run.publishes_in_batches(10),
    ),
    "iperf3 over 50 Mbit/s": Healthy(
        words("iperf3 -s"), words("iperf3 -c server -n 2M"), rtt_ms=20, rate_mbit=50
    ),
    "iperf3 -R over 50 Mbit/s": Healthy(
        words("iperf3 -s"), words("iperf3 -c server -n 2M -R"), rtt_ms=20, rate_mbit=50
    ),
    "a slow client": Healthy(run.nginx, slow_client),
    "java, header and payload through a buffer": Healthy(
        lambda _: run.answers("k", until="payload"),
        lambda folder: run.java_chunks(folder, "buffered"),
    ),
}


@pytest.mark.parametrize("name", waits.SLOW)
def test_slow_case_gets_its_verdict(name: str, tmp_path: Path) -> None:
    check((waits.FAULTS | waits.HEALTHY)[name], tmp_path)


@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_reported_with_its_cause(name: str, tmp_path: Path) -> None:
    check(FAULTS[name], tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_run_is_not_reported_as_a_fault(name: str, tmp_path: Path) -> None:
    check(HEALTHY[name], tmp_path)


def test_statically_linked_program_is_recorded(tmp_path: Path) -> None:
    """A Go program makes system calls itself, without the C library."""
    explanation = run.explain(run.go_upload(tmp_path), run.sink())
    [one] = explanation.recorded.client.sockets
    writes = [call for call in one.calls if call.name == "write"]
    # A full buffer takes a part of a write or nothing, and Go writes the rest in a further call.
    assert all(call.asked_bytes == 100 - call.written % 100 for call in each(writes))
    assert len(writes) >= 2000
    assert one.nodelay is True, "as Go does unless it is told otherwise"


def test_server_that_moves_to_the_background_is_recorded(tmp_path: Path) -> None:
    need("nginx")
    server = run.nginx(tmp_path)
    conf = tmp_path / "nginx.conf"
    conf.write_text(conf.read_text().replace("daemon off;", "daemon on;"))
    explanation = run.explain(run.curl(3, URL + "small"), server)
    assert explanation.conversations[0].sockets.keys() == {"client", "server"}
