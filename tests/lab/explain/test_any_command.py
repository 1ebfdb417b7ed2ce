"""Test `tcplab explain -- COMMAND`: its options, its output, saved files and refusals."""

import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.commands import completed
from tests.support.explain import programs as run
from tests.support.lifetime import until
from tests.support.needs import IPV6, NET_RAW
from tests.support.ordinary_user import Run

from tcplab import cli
from tcplab.cli.explain import with_command
from tcplab.explain import Explanation, answer, explain_command, explained
from tcplab.explain.here import record_here, right_to_capture
from tcplab.lab import has_net_raw
from tcplab.lab.link import Link
from tcplab.models import Reason
from tcplab.segments import from_file

needs_lab = pytest.mark.needs_lab


@pytest.fixture(scope="module")
def slow() -> Explanation:
    """Explain ten requests to http.server; all but the first wait for a delayed ACK."""
    client = run.sends(["GET / HTTP/1.1\r\n\r\n"], "x" * 200, 8080)
    return explain_command(client, run.http_server())


# ---- the command line ----------------------------------------------------------------------------


def test_the_command_follows_two_dashes() -> None:
    assert with_command(["explain", "--", "a", "--", "-b"]) == (["explain"], ["a", "--", "-b"])
    assert with_command(["explain", "--json", "--", "a"]) == (["explain", "--json"], ["a"])
    assert with_command(["run", "cork", "--", "a"]) == (["run", "cork", "--", "a"], [])


CHANGES_USER = "sh -c 'echo setgroups: Operation not permitted >&2'"


@needs_lab
@pytest.mark.parametrize(
    ("arguments", "message", "status"),
    [
        (["--", "/no/such"], "no command '/no/such'", 2),
        (["--here", "--", "/no/such"], "no command '/no/such'", 2),
        (["--server", "/no/such", "--", "true"], "no command '/no/such'", 2),
        (["--server", "true", "--", "true"], "the server true ended without listening", 1),
        (["--server", CHANGES_USER, "--", "true"], "a laboratory has one user: tell the server", 1),
    ],
)
def test_a_command_that_does_not_start_is_reported_in_one_line(
    arguments: list[str], message: str, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["explain", *arguments]) == status
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@needs_lab
@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("socket.create_server(('127.0.0.1', 8081))", "127.0.0.1 port 8081 only"),
        ("socket.socket(type=2); s.bind(('', 8081))", "did not listen on a TCP port within 1 s"),
    ],
    ids=["localhost", "UDP"],
)
def test_a_server_that_the_client_cannot_reach_is_reported(
    code: str, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tcplab.explain.recording.LISTEN_S", 1.0)
    server = f'{sys.executable} -S -c "import socket, time; s = {code}; time.sleep(9)"'
    assert cli.main(["explain", "--server", server, "--", "true"]) == 1
    assert message in capsys.readouterr().err


@needs_lab
def test_server_and_port_are_filled_in(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code = "import socket; s = socket.create_server(('', 0)); c, _ = s.accept();"
    code += "c.recv(9); c.send(b'.')"
    server = f'{sys.executable} -S -c "{code}"'
    client = "import socket; s = socket.create_connection(('{server}', {port})); s.send(b'1');"
    client += "print(s.recv(9))"
    arguments = ["explain", "--json", "--output", "--pcapng", str(tmp_path / "a.pcapng")]
    status = cli.main([*arguments, "--server", server, "--", *run.python(client)])
    printed = capsys.readouterr()
    assert status == 0, printed.err
    report = json.loads(printed.out)
    assert report["connections"][0]["messages"] == 1
    assert report["connections"][0]["segments"]["client"][0]["bytes"] == 1
    assert printed.err == "b'.'\n"
    assert len(from_file(tmp_path / "a.pcapng"))


# ---- the answer ----------------------------------------------------------------------------------


@needs_lab
def test_the_report_names_cause_and_fix(slow: Explanation) -> None:
    verdict, report = slow.verdict, slow.report()
    assert verdict is not None
    assert slow.sentence.endswith("of the time of 10 messages: Nagle × delayed ACK")
    assert verdict.share > 0.8
    ledger = slow.ledger
    assert ledger is not None
    assert sum(entry.ms for entry in ledger.entries) == pytest.approx(ledger.run_ms)
    start_ns, end_ns = slow.recorded.span_ns
    assert 0.5 < 1e6 * ledger.run_ms / (end_ns - start_ns) <= 1
    assert ledger.ms("work") > 0
    assert 0 < verdict.run_share < verdict.share
    assert "the server hands a message to TCP in 2 writes" in report
    assert "hand each message over in one write" in report
    assert "the recorder stopped it for" in report
    assert 0 < slow.overhead < 0.5
    total = sum(one.share for one in slow.findings)
    assert total == pytest.approx(1, abs=1e-6)


@needs_lab
def test_an_unrecorded_server_is_explained_by_the_segments(slow: Explanation) -> None:
    """With --here, on the machine's own network, only the client is recorded."""
    recorded = slow.recorded
    alone = answer.explained(
        type(recorded)(recorded.client, None, recorded.near, None, recorded.span_ns)
    )
    assert alone.verdict is not None
    assert alone.verdict.cause == "nagle-delayed-ack"
    assert "by the segments alone, because the server's program is not recorded" in alone.report()


@needs_lab
def test_without_packets_only_the_kernels_counts_are_reported(slow: Explanation) -> None:
    recorded = slow.recorded
    alone = answer.explained(type(recorded)(recorded.client, None, None, None, recorded.span_ns))
    assert alone.verdict is None or alone.verdict.kind == "none"
    assert "without packets, the reason for a wait is unknown" in alone.report()
    assert "10 writes" in alone.report()
    with pytest.raises(ValueError, match="nothing was captured"):
        alone.save_pcapng("never")


def held_by_nagle(explanation: Explanation) -> int:
    """Count the waits for Nagle's algorithm. On a busy machine, an ACK may come before a write."""
    timelines = [line for one in explanation.conversations for line in one.timelines.values()]
    reasons = [hold.reason for timeline in timelines for hold in timeline.holds]
    assert Reason.HELD_BY_NAGLE in reasons
    return reasons.count(Reason.HELD_BY_NAGLE)


@needs_lab
def test_each_reason_is_a_comment_of_its_packet(slow: Explanation, tmp_path: Path) -> None:
    path = slow.save_pcapng(tmp_path / "commented.pcapng")
    assert slow.recorded.near is not None
    plain, rows = slow.recorded.near.segments, from_file(path)
    assert rows.tolist() == plain.tolist()
    assert path.read_bytes().count(b"by Nagle") == held_by_nagle(slow)


@needs_lab
def test_wireshark_shows_the_comments(slow: Explanation, tmp_path: Path, tool: object) -> None:
    tshark = tool("tshark")  # type: ignore[operator]
    path = slow.save_pcapng(tmp_path / "commented.pcapng")
    shown = completed(
        [tshark, "-r", str(path), "-T", "fields", "-e", "frame.comment"], check=True
    ).stdout
    lines = [line for line in shown.split("\n") if line]
    assert slow.recorded.near is not None
    assert len(lines) == len(slow.recorded.near.segments.data())
    assert sum("by Nagle" in line for line in lines) == held_by_nagle(slow)


@needs_lab
def test_a_command_that_does_not_end_is_explained_as_far_as_it_came() -> None:
    client = run.python(
        "import socket, time; s = socket.create_connection(('server', 8080)); s.send(b'1');"
        " s.recv(9); time.sleep(99)"
    )
    explanation = explain_command(client, run.answers("ok"), timeout_s=0.7)
    assert "was ended after 0.7 s (--timeout-s)" in explanation.report()
    assert explanation.verdict is not None


@needs_lab
def test_a_killed_explain_leaves_nothing(tmp_path: Path) -> None:
    arguments = ["explain", "--", *run.python("import time; time.sleep(600)")]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-m", "tcplab", *arguments], env=environment) as owner:
        until(lambda: list(tmp_path.glob("*/client.out")))  # the client has begun
        owner.kill()
    until(lambda: not list(tmp_path.iterdir()))


@pytest.mark.parametrize(("late_ms", "missed", "count"), [(9e9, 0, 1), (0, 1, 1), (1e-9, 0, 0)])
@needs_lab
def test_a_late_wire_is_reported_if_it_matters(
    late_ms: float, missed: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = {"wire_late_max_ms": late_ms, "wire_late_p99_ms": 0, "wire_packets": 1}
    late = {"wire_late": "the wire was late", "wire_missed": missed} | numbers
    monkeypatch.setattr(Link, "lateness", lambda _: late)
    explanation = explain_command(run.sends(["x"], "ok", 8080), run.answers("ok"))
    assert explanation.recorded.notes == ["the wire was late"] * count


@needs_lab
def test_a_connection_over_ipv6_is_explained() -> None:
    if not socket.has_ipv6 or not Path("/proc/net/if_inet6").exists():
        pytest.skip(IPV6)
    server = run.answers(*run.RESPONSE)
    server[4] = server[4].replace('("", 8080)', '("::", 8080), family=socket.AF_INET6')
    client = run.sends(["GET / HTTP/1.1\r\n\r\n"], "hello", 8080)
    client[4] = client[4].replace('"server"', '"server6"')
    explanation = explain_command(client, server)
    assert all(map(run.tells_of_a_late_wire, explanation.recorded.notes)), explanation.report()
    assert [conversation.server for conversation in explanation.conversations] == [
        ("fd00::2", 8080)
    ]
    assert explanation.conversations[0].sockets.keys() == {"client", "server"}
    assert explanation.verdict is not None
    assert explanation.verdict.cause == "nagle-delayed-ack", explanation.report()
    assert explanation.verdict.evidence.startswith("the server hands a message to TCP in 2 writes")


# ---- on this machine -----------------------------------------------------------------------------


@contextmanager
def answering() -> Iterator[int]:
    """Yield the port of a server in this process, which is not recorded."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(20)

        def serve() -> None:
            with listener.accept()[0] as client:
                while client.recv(100):
                    client.sendall(b"ok")

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


CLIENT = "import socket; s = socket.create_connection(('127.0.0.1', {})); s.send(b'1'); s.recv(9)"


def test_with_here_an_ordinary_user_sees_calls_and_how_to_record_packets(
    as_ordinary_user: Run,
) -> None:
    with answering() as port:
        done = as_ordinary_user(
            ["tcplab", "explain", "--here", "--", *run.python(CLIENT.format(port))]
        )
    assert done.returncode == 0, done.stderr
    assert f"connection to 127.0.0.1 port {port}: 1 writes, 1 bytes sent, 2 read" in done.stdout
    assert f"to allow capturing: {right_to_capture()}" in " ".join(done.stdout.split())


@contextmanager
def chattering() -> Iterator[None]:
    """Run another program that keeps connecting and is refused."""
    code = """
        import socket, time
        while True:
            time.sleep(0.001)
            with socket.socket() as s: s.connect_ex(("127.0.0.1", 1))
    """
    with subprocess.Popen(run.python(code)) as other:
        yield
        other.kill()


def test_with_here_a_full_accept_queue_is_not_taken_for_a_lossy_path() -> None:
    if not has_net_raw():
        pytest.skip(NET_RAW)
    server = """
        import socket, time
        l = socket.socket(); l.bind(("127.0.0.1", 0)); l.listen(1)
        print(l.getsockname()[1], flush=True)
        while True: c, _ = l.accept(); time.sleep(0.03); c.recv(9); c.sendall(b"k"); c.close()
    """
    client = """
        import socket, sys, threading
        def ask():
            s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
            s.sendall(b"ask"); s.recv(1)
        for t in [threading.Thread(target=ask) for _ in range(12)]: t.start()
    """
    with subprocess.Popen(run.python(server), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            port = int(process.stdout.readline())
            explanation = explained(record_here(run.python(client, port), "lo"))
        finally:
            process.kill()
    assert explanation.verdict is not None, explanation.report()
    assert explanation.verdict.cause == "accept-queue", explanation.report()
    assert "backlog of listen()" in explanation.verdict.fix


def test_with_here_packets_are_recorded_if_allowed(capsys: pytest.CaptureFixture[str]) -> None:
    if not has_net_raw():
        pytest.skip(NET_RAW)
    with answering() as port, chattering():
        command = run.python(CLIENT.format(port))
        assert cli.main(["explain", "--here", "--interface", "lo", "--", *command]) == 0
    out = capsys.readouterr().out
    assert f"1 connection to 127.0.0.1 port {port}: 1 message, 1 bytes sent, 2 received" in out
    assert re.search(r"\d+ other connections, which no recorded call made, are left out", out)
