"""Test verdicts on reported faults and healthy programs, rebuilt in a few lines of Python."""

from pathlib import Path

import pytest
from tests.support.explain import programs as run
from tests.support.explain.cases import CORK, NAGLE, Fault, Healthy, check

from tcplab import Lab
from tcplab.explain import explain_command

pytestmark = pytest.mark.needs_lab

FAULTS = {
    "python-http-server": Fault(
        "https://github.com/python/cpython/issues/108736",
        lambda _: run.http_server(),
        lambda _: run.asks(6),
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
    "uwebsockets-cork-left-on": Fault(
        "https://github.com/uNetworking/uWebSockets/issues/639",
        lambda _: run.answers(*run.RESPONSE, prepare="c.setsockopt(socket.IPPROTO_TCP, 3, 1)"),
        lambda _: run.asks(6),
        CORK,
        side="server",
    ),
    "dae-splice-with-more": Fault(
        "https://github.com/daeuniverse/dae/pull/1115",
        lambda _: run.splices(more=True),
        lambda _: run.sends(["ask"], "hello", 8080),
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
    "wstunnel-send-buffer-of-fixed-size": Fault(
        "https://github.com/erebe/wstunnel/issues/80",
        lambda _: run.sink(),
        lambda _: run.uploads(500_000, sndbuf=16384),
        "fixed-send-buffer",
        rtt_ms=40,
    ),
}
HEALTHY = {
    "http.server, buffered": Healthy(lambda _: run.http_server(wbufsize=-1), lambda _: run.asks(6)),
    "an upload with autotuning": Healthy(
        lambda _: run.sink(), lambda _: run.uploads(2_000_000), rtt_ms=20, rate_mbit=100
    ),
    "a slow server": Healthy(
        lambda _: run.answers("".join(run.RESPONSE), delay_s=0.05), lambda _: run.asks(6)
    ),
    "splice without more": Healthy(
        lambda _: run.splices(more=False), lambda _: run.sends(["ask"], "hello", 8080)
    ),
    "a cork that is pulled": Healthy(
        lambda _: run.answers("".join(run.RESPONSE)),
        lambda _: run.sends(["hello"], "hello", 8080, "s.setsockopt(socket.IPPROTO_TCP, 3, 0)"),
    ),
    "requests that do not wait for each other": Healthy(
        lambda _: run.serves_all(),
        lambda _: run.pipelines(100, every_s=0.005),
        rtt_ms=20,
        limit=False,
    ),
    "a pool that is used twice": Healthy(
        lambda _: run.serves_all(),
        lambda _: run.uses_a_pool(10, times=2),
        rtt_ms=20,
        limit=False,
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named_with_its_cause(name: str, tmp_path: Path) -> None:
    check(FAULTS[name], tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_no_fault_is_found_where_there_is_none(name: str, tmp_path: Path) -> None:
    check(HEALTHY[name], tmp_path)


def test_an_mtu_black_hole_is_named() -> None:
    """Lose a large ClientHello, as in github.com/Start9Labs/start-technologies/issues/3261."""
    client, server = run.sends(["x" * 1700], "ok", 8080), run.answers("ok", until="x" * 1700)
    with Lab() as lab:
        lab.link.update(mtu=900, icmp="off")
        explanation = explain_command(client, server, lab=lab, timeout_s=2.5)
    [verdict] = [finding for finding in explanation.findings if finding.kind == "fault"]
    assert verdict.cause == "mtu-black-hole", explanation.report()


def test_a_connection_that_is_refused_is_named() -> None:
    explanation = explain_command(run.asks(1))
    assert explanation.verdict is not None
    assert explanation.verdict.cause == "not-connected"
    assert "refused (RST)" in explanation.sentence
    assert any("failed (exit 1)" in note for note in explanation.recorded.notes)
