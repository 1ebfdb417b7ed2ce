"""Test waits without an answer, two causes at once, and threads that share a connection."""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from tests.support.explain import programs as run
from tests.support.explain.cases import Command, Fault, Healthy, check, once
from tests.support.paths import DATA

from tcplab import Lab
from tcplab.explain import explain_command

pytestmark = pytest.mark.needs_lab


class Case(NamedTuple):
    """A run of tests/data/waits.toml, which says what each value means."""

    server: str
    client: str
    cause: str = ""
    kind: str = ""
    fix: str = ""
    link: Mapping[str, Any] = MappingProxyType({})
    change: Sequence[str] = ("", "")
    least_ms: float = 0.0

    def commands(self, old: str = "", new: str = "") -> tuple[Command, Command]:
        server, client = LISTEN + self.server.replace(old, new), self.client.replace(old, new)
        return lambda _folder: run.python(server), lambda _folder: run.python(client)


LISTEN = """
import socket, sys, threading, time
l = socket.socket(); l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
"""
ACCEPT = "l.bind(('', 8080)); l.listen(); c, _ = l.accept()\n"
CONNECT = "import socket, threading, time; s = socket.create_connection(('server', 8080))\n"

TABLES = tomllib.loads((DATA / "waits.toml").read_text())
CASES = {name: Case(**table) for name, table in TABLES["waits"].items()}
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
        *case.commands(*case.change), without=case.cause, **case.link
    )
    for name, case in CASES.items()
    if any(case.change) or not case.cause
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
    # The server's small answers wait for ACKs, but the client does not wait for these answers.
    nagle = [finding.share for finding in explanation.findings if "nagle" in finding.cause]
    assert sum(nagle) < 0.2, explanation.report()


@pytest.mark.parametrize("icmp", ["off", "on"])
def test_mtu_black_hole_for_the_answer_is_named(icmp: str) -> None:
    """Full segments from the server vanish unless ICMP lets path MTU discovery work."""
    server = run.python(LISTEN + ACCEPT + "c.recv(9); c.sendall(bytes(20_000)); time.sleep(9)")
    client = run.python(CONNECT + "s.sendall(b'ask'); n = 20_000\nwhile n: n -= len(s.recv(n))")
    with Lab() as lab:
        lab.link.update(mtu=900, icmp=icmp)
        explanation = explain_command(client, server, lab=lab, timeout_s=2.5)
    assert explanation.verdict is not None
    assert (explanation.verdict.cause == "mtu-black-hole") == (icmp == "off"), explanation.report()
    assert explanation.waited_ms > 2000 or icmp == "on"


@pytest.mark.parametrize("second", TABLES["second_causes"])
def test_a_second_cause_has_its_own_fix(second: str) -> None:
    case = TABLES["second_causes"][second]
    commands = run.python(case["client"]), run.python(LISTEN + case["server"])
    explanation = run.explain(*commands, **case.get("link", {}))
    report = explanation.report()
    named = [finding for finding in explanation.findings if finding.kind != "none"]
    assert [finding.cause for finding in named] == [case["first"], second], report
    assert report.count("  fix   ") == 2, report
    [also] = [
        line for line in report.splitlines() if line.endswith(named[1].title) and "Also" in line
    ]
    assert also.startswith(f"Also, {100 * named[1].run_share:.0f} % of the run, ")
