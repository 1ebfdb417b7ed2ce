"""Test waits without an answer, two causes at once, and threads that share a connection."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from tests.support.explain import programs as run
from tests.support.explain.cases import Command, Fault, Healthy, check, once

from tcplab import Lab
from tcplab.explain import explain_command

pytestmark = pytest.mark.needs_lab


class Case(NamedTuple):
    """The code of a server and a client, their link, the verdict, and a change that fixes it."""

    server: str
    client: str
    cause: str
    kind: str
    fix: str = ""  #: words of the fix
    link: Mapping[str, Any] = MappingProxyType({})
    change: tuple[str, str] = ("", "")  #: a text of the code, and what replaces it
    least_ms: float = 0.0  #: the wait is longer than this

    def commands(self, change: tuple[str, str] = ("", "")) -> tuple[Command, Command]:
        server, client = LISTEN + self.server.replace(*change), self.client.replace(*change)
        return lambda _folder: run.python(server), lambda _folder: run.python(client)


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
        least_ms=900,
    ),
    "an upload that the server does not read": Case(
        ACCEPT + "time.sleep(99)",
        CONNECT + "s.settimeout(1)\nwhile True: s.sendall(bytes(100_000))",
        "receive-window",
        "limit",
        "let the server read sooner",
        least_ms=900,
    ),
    "a server that speaks first": Case(
        ACCEPT + "time.sleep(0.5); c.sendall(b'220'); c.recv(9); c.sendall(b'250')",
        CONNECT + "s.recv(9); s.sendall(b'EHLO'); s.recv(9)",
        "server",
        "none",
        least_ms=450,
    ),
    "SO_RCVBUF of another connection": Case(
        "l.bind(('', 8080)); l.listen(); a, _ = l.accept(); c, _ = l.accept()\n"
        "a.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)\n" + SLOW_READER,
        "import socket; a = socket.create_connection(('server', 8080))\n" + CONNECT + UPLOAD,
        "receive-window",
        "limit",
        "let the server read sooner",
        {"rtt_ms": 2},
        change=("time.sleep(0.04)", "pass"),
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
        change=("listen(1)", "listen(99)"),
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
        change=("s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16384); ", ""),
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
        change=("time.sleep(1 if i else 0); ", ""),
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
        change=("left = 4", "left = 99"),
    ),
    "a thread that sends while another reads": Case(
        ACCEPT + "while d := c.recv(65536): c.sendall(d[:len(d) // 8 or 1])",
        CONNECT
        + NODELAY("s")
        + "def send():\n    for _ in range(1500): s.sendall(bytes(2000))\n    s.shutdown(1)\n"
        + "t = threading.Thread(target=send); t.start()\nwhile s.recv(4096): pass\nt.join()",
        "",
        "",
        link={"rtt_ms": 5},
    ),
    "a cork that is forgotten on a long path": Case(
        ACCEPT + "for _ in range(8): c.recv(20, socket.MSG_WAITALL); c.sendall(b'k')",
        CONNECT
        + "for _ in range(8):\n"
        + "    s.send(b'head', socket.MSG_MORE); s.send(bytes(16), socket.MSG_MORE); s.recv(1)",
        "forgotten-cork",
        "fault",
        "omit MSG_MORE",
        {"rtt_ms": 150},
        change=("bytes(16), socket.MSG_MORE", "bytes(16)"),
    ),
    "a socket that is handed to another process": Case(
        "import os\n"
        "a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
        "if not os.fork():\n"
        "    c = socket.socket(fileno=socket.recv_fds(b, 1, 1)[1][0])\n"
        "    while c.recv(99): c.sendall(b'h' * 100); c.sendall(b'b' * 1000)\n"
        + ACCEPT
        + "socket.send_fds(a, [b'x'], [c.fileno()]); c.close(); os.wait()",
        CONNECT + "for _ in range(10): s.sendall(b'ask'); s.recv(1100, socket.MSG_WAITALL)",
        "nagle-delayed-ack",
        "fault",
        "hand each message over in one write",
        change=("c.sendall(b'h' * 100); c.sendall(b'b' * 1000)", "c.sendall(bytes(1100))"),
    ),
    "a deadlock of two writers": Case(
        ACCEPT + "while c.recv(100): c.sendall(bytes(5000))",
        CONNECT + "s.settimeout(None)\nfor _ in range(9000): s.sendall(bytes(100))",
        "deadlock",
        "fault",
        "let the client read answers while it writes",
        least_ms=900,
    ),
    "a request without an end": Case(
        ACCEPT + "while c.recv(9): pass\nc.sendall(b'k')",
        CONNECT + "s.settimeout(1.5); s.sendall(b'ask'); s.recv(1)",
        "no-end",
        "fault",
        "shutdown(SHUT_WR)",
        change=("s.sendall(b'ask')", "s.sendall(b'ask'); s.shutdown(1)"),
    ),
    "TCP_DEFER_ACCEPT before a banner": Case(
        "l.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, 1)\n"
        + ACCEPT
        + "c.sendall(b'220'); c.recv(9)",
        CONNECT + "s.recv(9)",
        "defer-accept",
        "fault",
        "do not set TCP_DEFER_ACCEPT",
        change=("l.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, 1)", ""),
    ),
    "SO_MAX_PACING_RATE": Case(
        ACCEPT
        + "c.setsockopt(socket.SOL_SOCKET, 47, 1_000_000); c.recv(9); c.sendall(bytes(10**6))",
        CONNECT + "s.sendall(b'ask'); n = 10**6\nwhile n: n -= len(s.recv(n))",
        "pacing-rate",
        "fault",
        "SO_MAX_PACING_RATE",
        {"rtt_ms": 10},
        change=("c.setsockopt(socket.SOL_SOCKET, 47, 1_000_000); ", ""),
    ),
    "TCP_WINDOW_CLAMP": Case(
        ACCEPT + "c.recv(9); c.sendall(bytes(500_000))",
        # Before connect(), since the window that was once offered is not taken back.
        "import socket; s = socket.socket()\n"
        "s.setsockopt(socket.IPPROTO_TCP, socket.TCP_WINDOW_CLAMP, 16384)\n"
        "s.connect(('server', 8080)); s.sendall(b'ask'); n = 500_000\nwhile n: n -= len(s.recv(n))",
        "window-clamp",
        "fault",
        "do not set TCP_WINDOW_CLAMP",
        {"rtt_ms": 20},
        change=("s.setsockopt(socket.IPPROTO_TCP, socket.TCP_WINDOW_CLAMP, 16384)", ""),
    ),
    "an upload that the server resets": Case(
        "l.bind(('', 8080)); l.listen()\n"
        "c, _ = l.accept(); c.recv(9); c.sendall(b'413'); time.sleep(0.1); c.close()",
        CONNECT + NODELAY("s") + "try:\n    while True: s.sendall(bytes(1000)); time.sleep(0.01)\n"
        "except OSError: pass",
        "reset-unread",
        "fault",
        "drain the connection",
        change=("c.close()", "\nwhile c.recv(10**6): pass"),
    ),
    "reads of one byte": Case(
        ACCEPT + "c.sendall(bytes(30_000)); time.sleep(9)",
        CONNECT + "time.sleep(0.1)\nfor _ in range(29_000): s.recv(1)",
        "small-reads",
        "fault",
        "a buffered reader",
        change=("for _ in range(29_000): s.recv(1)", "s.recv(30_000, socket.MSG_WAITALL)"),
    ),
    "frames that the server pushes": Case(
        ACCEPT + "for _ in range(60): c.sendall(b'head'); c.sendall(bytes(100)); time.sleep(0.03)",
        CONNECT + "while s.recv(104, socket.MSG_WAITALL): pass",
        "nagle",
        "fault",
        "hand each message over in one write",
        {"rtt_ms": 20},
    ),
    "frames in two writes with asyncio": Case(
        "import asyncio\n"
        "async def serve(r, w):\n"
        "    while (h := await r.read(2)):\n"
        "        await r.readexactly(h[-1]); w.write(b'\\x82\\x64'); w.write(bytes(100))\n"
        "async def main(): await (await asyncio.start_server(serve, port=8080)).serve_forever()\n"
        "asyncio.run(main())",
        "import asyncio\n"
        "async def main():\n"
        "    r, w = await asyncio.open_connection('server', 8080)\n"
        "    for _ in range(30):\n"
        "        w.write(b'\\x82\\x10'); w.write(bytes(16)); await r.readexactly(102)\n"
        "    w.close()\n"
        "asyncio.run(main())",
        "",
        "",
    ),
}


FAULTS = {
    name: Fault(
        *("", *case.commands(), case.cause, case.kind),
        fix=case.fix,
        least_ms=case.least_ms,
        **case.link,
    )
    for name, case in CASES.items()
    if case.cause
}
HEALTHY = {
    name + ", fixed" * bool(case.cause): Healthy(
        *case.commands(case.change), without=case.cause, **case.link
    )
    for name, case in CASES.items()
    if case.change != ("", "") or not case.cause
}


#: Long cases that repeat a statement of others. tests/slow/explain tries them.
SLOW = (
    "an upload that the server does not read",
    "a slow reader with SO_RCVBUF",
    "a fixed send buffer on a lossy path, fixed",
    "slow start after a pause, fixed",
    "a window of the protocol above TCP, fixed",
    "a cork that is forgotten on a long path, fixed",
)


@pytest.mark.parametrize("name", [name for name in FAULTS if name not in SLOW])
def test_verdict_names_cause_and_fix(name: str, tmp_path: Path) -> None:
    check(FAULTS[name], tmp_path)


@pytest.mark.parametrize("name", [name for name in HEALTHY if name not in SLOW])
def test_fixed_version_is_judged_without_the_cause(name: str, tmp_path: Path) -> None:
    check(HEALTHY[name], tmp_path)


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


def test_no_byte_is_lost_between_two_threads(tmp_path: Path) -> None:
    explanation = once(HEALTHY["a thread that sends while another reads"], tmp_path)
    [one] = explanation.conversations
    assert one.missing == [], explanation.report()
    assert sum(write.bytes for write in one.timelines["client"].writes) == 3_000_000
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


SECOND_CAUSES: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "new-connections": (
        (
            "l.bind(('', 8080)); l.listen()\n"
            "while True:\n    c, _ = l.accept()\n"
            "    c.recv(9); c.recv(9); c.sendall(b'k'); c.close()"
        ),
        (
            "import socket\nfor _ in range(8):\n"
            "    s = socket.create_connection(('server', 8080))\n"
            "    s.sendall(b'head'); s.sendall(b'body'); s.recv(1); s.close()"
        ),
        "nagle",
        {"rtt_ms": 40},
    ),
    "receive-window": (
        ACCEPT
        + "for _ in range(20): c.recv(8, socket.MSG_WAITALL); c.sendall(b'k')\n"
        + SLOW_READER.replace("0.04", "0.03"),
        CONNECT
        + "for _ in range(20): s.sendall(b'head'); s.sendall(b'body'); s.recv(1)\n"
        + UPLOAD.replace("200", "110"),
        "nagle-delayed-ack",
        {},
    ),
}


@pytest.mark.parametrize("second", SECOND_CAUSES)
def test_a_second_cause_has_its_own_fix(second: str) -> None:
    server, client, first, link = SECOND_CAUSES[second]
    explanation = run.explain(run.python(client), run.python(LISTEN + server), **link)
    report = explanation.report()
    named = [finding for finding in explanation.findings if finding.kind != "none"]
    assert [finding.cause for finding in named] == [first, second], report
    assert report.count("  fix   ") == 2, report
    [also] = [
        line for line in report.splitlines() if line.endswith(named[1].title) and "Also" in line
    ]
    assert also.startswith(f"Also, {100 * named[1].run_share:.0f} % of the run, ")
