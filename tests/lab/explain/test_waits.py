"""Test waits without an answer, two causes at once, and threads that share a connection."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from tests.support.explain import programs as run

from tcplab import Lab
from tcplab.explain import Explanation, explain_command

pytestmark = pytest.mark.needs_lab


class Case(NamedTuple):
    """A client, its server and link, and the expected verdict: cause, kind, words of the fix."""

    server: str
    client: str
    cause: str
    kind: str
    fix: str = ""
    link: Mapping[str, Any] = MappingProxyType({})

    def run(self) -> Explanation:
        client, server = run.python(self.client), run.python(LISTEN + self.server)
        return run.explain(client, server, **self.link)


LISTEN = """
import socket, sys, threading, time
l = socket.socket(); l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
"""
ACCEPT = "l.bind(('', 8080)); l.listen(); c, _ = l.accept()\n"
CONNECT = "import socket, threading, time; s = socket.create_connection(('server', 8080))\n"
NODELAY = "{}.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)\n".format
SLOW_READER = "while c.recv(65536): time.sleep(0.04)\nc.sendall(b'done')"
UPLOAD = "for _ in range(200): s.sendall(bytes(14480))\ns.shutdown(1); s.recv(9)"

CASES = {
    "an answer that never comes": Case(
        ACCEPT + "for _ in range(2): c.recv(9); c.sendall(b'k')\nc.recv(9); time.sleep(99)",
        CONNECT + "s.settimeout(1)\nfor _ in range(3): s.sendall(b'ask'); s.recv(1)",
        "server",
        "none",
    ),
    "a first answer that never comes to a client that polls": Case(
        ACCEPT + "c.recv(9); time.sleep(99)",
        CONNECT + "s.settimeout(1); s.sendall(b'ask'); s.recv(1)",
        "server",
        "none",
    ),
    "a banner that never comes": Case(
        ACCEPT + "time.sleep(99)", CONNECT + "s.settimeout(1); s.recv(9)", "server", "none"
    ),
    "an upload that nobody reads": Case(
        ACCEPT + "time.sleep(99)",
        CONNECT + "s.settimeout(1)\nwhile True: s.sendall(bytes(100_000))",
        "receive-window",
        "limit",
        "let the server read sooner",
    ),
    "a server that speaks first": Case(
        ACCEPT + "time.sleep(0.5); c.sendall(b'220'); c.recv(9); c.sendall(b'250')",
        CONNECT + "s.recv(9); s.sendall(b'EHLO'); s.recv(9)",
        "server",
        "none",
    ),
    "SO_RCVBUF of another connection": Case(
        "l.bind(('', 8080)); l.listen(); a, _ = l.accept(); c, _ = l.accept()\n"
        "a.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)\n" + SLOW_READER,
        "import socket; a = socket.create_connection(('server', 8080))\n" + CONNECT + UPLOAD,
        "receive-window",
        "limit",
        "let the server read sooner",
        {"rtt_ms": 2},
    ),
    "a slow reader with SO_RCVBUF": Case(
        "l.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 131072)\n" + ACCEPT + SLOW_READER,
        CONNECT + UPLOAD,
        "receive-window",
        "limit",
        "let the server read sooner",
        {"rtt_ms": 2},
    ),
    "an accept queue that overflows": Case(
        "l.bind(('', 8080)); l.listen(1)\n"
        "while True: c, _ = l.accept(); time.sleep(0.03); c.recv(9); c.sendall(b'k'); c.close()",
        "import socket, threading\n"
        "def ask():\n"
        "    s = socket.create_connection(('server', 8080)); s.sendall(b'ask'); s.recv(1)\n"
        "threads = [threading.Thread(target=ask) for _ in range(12)]\n"
        "for t in threads: t.start()\n"
        "for t in threads: t.join()",
        "accept-queue",
        "fault",
        "backlog of listen()",
    ),
    "a fixed send buffer on a lossy path": Case(
        ACCEPT + "while c.recv(1 << 20): pass\nc.sendall(b'done')",
        "import socket; s = socket.socket()\n"
        "s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16384); s.connect(('server', 8080))\n"
        "for _ in range(60): s.sendall(bytes(14480))\ns.shutdown(1); s.recv(9)",
        "fixed-send-buffer",
        "fault",
        "do not set SO_SNDBUF",
        {"rtt_ms": 40, "loss": 0.005},
    ),
    "slow start after a pause": Case(
        ACCEPT + "while c.recv(9): c.sendall(bytes(300_000))",
        CONNECT
        + "for i in range(4):\n"
        + "    time.sleep(1 if i else 0); s.sendall(b'ask'); n = 300_000\n"
        + "    while n: n -= len(s.recv(n))",
        "slow-start-after-idle",
        "limit",
        "tcp_slow_start_after_idle=0 on the server's host",
        {"rtt_ms": 50, "rate_mbit": 200},
    ),
    "an answer in one write behind another that nobody answers": Case(
        ACCEPT + "for _ in range(6): c.recv(9); c.sendall(b't' * 60); c.sendall(b'k' * 300)",
        CONNECT
        + "for _ in range(6):\n"
        + "    s.sendall(b'ask'); n = 360\n    while n: n -= len(s.recv(n))",
        "nagle-delayed-ack",
        "fault",
        "hand each message over in one write",
    ),
    "a window of the protocol above TCP": Case(
        ACCEPT + NODELAY("c") + "while c.recv(16384, socket.MSG_WAITALL): c.sendall(b'k')",
        CONNECT
        + NODELAY("s")
        + "left = 4\nfor _ in range(60):\n"
        + "    while not left: left = len(s.recv(4))\n    s.sendall(bytes(16384)); left -= 1\n"
        + "s.shutdown(1)\nwhile s.recv(9): pass",
        "protocol-window",
        "limit",
        "raise the server's window in the protocol",
        {"rtt_ms": 40},
    ),
    "blocks that are asked for one by one": Case(
        ACCEPT + "while c.recv(9): c.sendall(bytes(65536))",
        CONNECT + "for _ in range(15): s.sendall(b'ask'); s.recv(65536, socket.MSG_WAITALL)",
        "round-trips",
        "limit",
        "send the next message before the answer arrives",
        {"rtt_ms": 40},
    ),
    "one read that waits for both parts of an answer": Case(
        ACCEPT + "for _ in range(6): c.recv(9); c.sendall(b't' * 60); c.sendall(b'k' * 300)",
        CONNECT + "for _ in range(6): s.sendall(b'ask'); s.recv(360, socket.MSG_WAITALL)",
        "nagle-delayed-ack",
        "fault",
        "hand each message over in one write",
    ),
    "a pool that is opened once": Case(
        "l.bind(('', 8080)); l.listen(99)\n"
        "def serve(c):\n    while c.recv(9): c.sendall(b'k')\n"
        "while True: threading.Thread(target=serve, args=l.accept()[:1], daemon=True).start()",
        "import socket\n"
        "pool = [socket.create_connection(('server', 8080)) for _ in range(8)]\n"
        "for _ in range(4):\n    for s in pool: s.sendall(b'ask'); s.recv(1)",
        "in-flight",
        "none",
        link={"rtt_ms": 10},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_verdict_names_cause_and_fix(name: str) -> None:
    case = CASES[name]
    explanation = case.run()
    assert explanation.verdict is not None, explanation.report()
    if run.late(explanation):
        pytest.skip("the link was late in each attempt, and the report warns about its times")
    assert explanation.verdict.kind == case.kind, explanation.report()
    assert not case.cause or explanation.verdict.cause == case.cause, explanation.report()
    assert case.fix in explanation.verdict.fix, explanation.report()
    unknown = sum(finding.share for finding in explanation.findings if finding.cause == "unknown")
    assert unknown < 0.3, explanation.report()


def test_waiting_for_the_server_is_counted() -> None:
    for name, least_ms in (
        ("an answer that never comes", 900),
        ("a first answer that never comes to a client that polls", 900),
        ("a banner that never comes", 900),
        ("an upload that nobody reads", 900),
        ("a server that speaks first", 450),
        ("one read that waits for both parts of an answer", 150),
    ):
        explanation = CASES[name].run()
        assert explanation.waited_ms > least_ms, explanation.report()


def test_the_answer_of_a_program_that_ends_without_close_is_read() -> None:
    """The program's last call is the read. Its parent process waits longer and is ignored."""
    client = (
        "import os, time\nif os.fork(): os.wait(); time.sleep(0.5); os._exit(0)\n"
        + CONNECT
        + "s.sendall(b'ask'); s.recv(9); os._exit(0)"
    )
    server = LISTEN + ACCEPT + "c.recv(9); c.sendall(b'answer'); c.recv(9)"
    explanation = explain_command(run.python(client), run.python(server))
    [one] = explanation.conversations
    assert [(mark.name, mark.bytes) for mark in one.timelines["client"].marks] == [("read", 6)]


def test_no_byte_is_lost_between_two_threads() -> None:
    """One thread sends while another reads the replies."""
    server = ACCEPT + "while d := c.recv(65536): c.sendall(d[:len(d) // 8 or 1])"
    client = (
        CONNECT
        + "def send():\n    for _ in range(300): s.sendall(bytes(2000))\n    s.shutdown(1)\n"
        + "t = threading.Thread(target=send); t.start()\nwhile s.recv(4096): pass\nt.join()"
    )
    explanation = explain_command(run.python(client), run.python(LISTEN + server), rtt_ms=5)
    [one] = explanation.conversations
    assert one.missing == [], explanation.report()
    assert sum(write.bytes for write in one.timelines["client"].writes) == 600_000
    answered = one.sockets["server"].events(lambda _offset: None, 0, 0)
    read = one.sockets["client"].events(lambda _offset: None, 0, 0)
    sent = sum(event.bytes for event in answered if event.name == "write")
    # The FIN may count as a byte.
    assert sum(event.bytes for event in read if event.name == "read") in (sent, sent + 1)


@pytest.fixture
def lab() -> Iterator[Lab]:
    with Lab() as made:
        yield made


@pytest.mark.parametrize("icmp", ["off", "on"])
def test_mtu_black_hole_for_the_answer_is_named(lab: Lab, icmp: str) -> None:
    """Full segments from the server vanish unless ICMP lets path MTU discovery work."""
    lab.link.update(mtu=900, icmp=icmp)
    server = run.python(LISTEN + ACCEPT + "c.recv(9); c.sendall(bytes(20_000)); time.sleep(9)")
    client = run.python(CONNECT + "s.sendall(b'ask'); n = 20_000\nwhile n: n -= len(s.recv(n))")
    explanation = explain_command(client, server, lab=lab, timeout_s=2.5)
    assert explanation.verdict is not None
    assert (explanation.verdict.cause == "mtu-black-hole") == (icmp == "off"), explanation.report()
    assert explanation.waited_ms > 2000 or icmp == "on"


def test_a_second_cause_has_its_own_fix() -> None:
    """Each request opens a connection and consists of two writes."""
    server = (
        "l.bind(('', 8080)); l.listen()\n"
        "while True:\n    c, _ = l.accept()\n"
        "    c.recv(9); c.recv(9); c.sendall(b'k'); c.close()"
    )
    client = (
        "import socket\nfor _ in range(8):\n"
        "    s = socket.create_connection(('server', 8080))\n"
        "    s.sendall(b'head'); s.sendall(b'body'); s.recv(1); s.close()"
    )
    explanation = run.explain(run.python(client), run.python(LISTEN + server), rtt_ms=40)
    report = explanation.report()
    assert {finding.cause for finding in explanation.findings if finding.kind != "none"} >= {
        "nagle",
        "new-connections",
    }, report
    assert report.count("  fix   ") == 2
    assert "Also, " in report
