"""Test captures for learners: recorded in a Lab, and added to the assignment's archive."""

import json
import socket
import threading
import time
from pathlib import Path

import pytest
from tests.support.grading.sets import captures_in
from tests.support.nonempty import each
from tests.support.paths import ROOT

from tcplab import Lab
from tcplab.errors import LabError
from tcplab.grading.archive import Stored, write_archive
from tcplab.grading.assignment import load_module
from tcplab.grading.captures import (
    Facts,
    calls_of,
    data_segments,
    facts_of,
    finish,
    longest_pause,
    pauses_ms,
    record_connection,
)

#: The first three captures of each set except tcp-vs-udp, whose captures are of UDP.
#: tests/slow/grading/test_fairness.py reads all of them.
OF_TCP = each(
    capture
    for path in sorted(ROOT.glob("solutions/*/captures.zip"))
    if path.parent.name != "tcp-vs-udp"
    for capture in captures_in(path.parent)[:3]
)
MSS = 1448


def pause(connection: socket.socket) -> None:
    """Make two writes, and read a byte from the server between them."""
    connection.sendall(b"a" * 100)
    connection.recv(1)
    connection.sendall(b"b" * (2 * MSS + 1))
    finish(connection)


def release(connection: socket.socket) -> None:
    connection.recv(100, socket.MSG_WAITALL)
    time.sleep(0.05)
    connection.sendall(b"!")
    while connection.recv(4096):
        pass


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    """Record a capture, add it to an assignment's archive, and return it."""
    folder = tmp_path_factory.mktemp("captures") / "a-set"
    (folder / "hidden").mkdir(parents=True)
    (folder / "hidden" / "captures.json").write_text(json.dumps({"2.pcapng": "two"}))
    prepared: list[tuple[bool, bool]] = []

    def prepare(listener: socket.socket, connection: socket.socket) -> None:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 60_000)
        prepared.append((listener.getsockname()[1] == 0, connection.fileno() > 0))

    path = folder / "2.pcapng"
    with Lab(rtt_ms=2) as lab:
        record_connection(lab, path, pause, release, prepare=prepare)
    assert prepared == [(True, True)]
    write_archive(folder, {"captures/2.pcapng": path.read_bytes()})
    return Stored(folder, "captures/2.pcapng")


def test_counts_of_a_recorded_connection(made: Stored) -> None:
    facts = facts_of(made)
    assert facts.cause == "two"
    # On a busy machine a segment may be sent twice (a tail loss probe), which adds a row but no new
    # data.
    first_time = facts.data.data(retransmissions=False)
    assert list(first_time["payload_bytes"]) == [100, MSS, MSS, 1]
    assert facts.payload_bytes == sum(facts.data["payload_bytes"]) >= 100 + 2 * MSS + 1
    assert len(facts.rows.data()) > len(facts.data)
    assert len(facts.rows) > len(facts.rows.sent_by("client")) > len(facts.data)
    ends = facts.rows["direction"][facts.rows.is_fin]
    assert set(ends) == {0, 1}
    pauses = pauses_ms(facts.data)
    assert len(pauses) == len(facts.data) - 1
    assert facts.longest_pause_ms == max(pauses) >= 50
    assert facts.first_to_last_ms == pytest.approx(sum(pauses))


def test_usual_mistakes_get_hints(made: Stored) -> None:
    facts = facts_of(made)

    def counted(value: object) -> float | None:
        return data_segments(value, facts, name="x").share

    assert counted(len(facts.data)) == 1
    assert counted(len(facts.rows.data())) == counted(len(facts.rows.sent_by("client"))) == 0.5
    assert counted(len(facts.rows)) == counted(99) == counted("four") == 0

    def paused(value: object) -> float | None:
        return longest_pause(value, facts, name="x").share

    assert paused(facts.longest_pause_ms) == 1
    assert paused(facts.longest_pause_ms / 1e3) == 0.5
    assert paused(3 * facts.first_to_last_ms) == paused(None) == 0


def test_failing_end_is_reported_without_waiting_for_it(tmp_path: Path) -> None:
    def fail(_: socket.socket) -> None:
        raise ConnectionAbortedError("as it was meant")

    with Lab() as lab:
        with pytest.raises(ConnectionAbortedError, match="as it was meant"):
            record_connection(lab, tmp_path / "1.pcapng", fail, release)
        with pytest.raises(ConnectionAbortedError, match="as it was meant"):
            record_connection(lab, tmp_path / "1.pcapng", lambda _: None, fail, port=5002)
        released = threading.Event()
        path, nothing = tmp_path / "1.pcapng", lambda _: None
        with pytest.raises(LabError, match=r"1\.pcapng: the server does not end within 0\.2 s"):
            record_connection(
                lab, path, nothing, lambda _: wait_for(released), port=5003, patience_s=0.2
            )
        released.set()
    assert not (tmp_path / "1.pcapng").exists()


def wait_for(event: threading.Event) -> None:
    event.wait(60)


def test_log_is_read_as_written(tmp_path: Path) -> None:
    log = load_module(ROOT / "solutions" / "messages.py", "tcplab_messages_of_a_test").CaptureLog()
    before_ns = time.time_ns()
    log.note("cork", 1)
    log.note("write", 300)
    log.save(tmp_path / "7.log")
    write_archive(tmp_path, {"captures/7.log": (tmp_path / "7.log").read_bytes()})
    assert calls_of(Stored(tmp_path, "captures/7.pcapng")) == log.calls
    assert [call[1:] for call in log.calls] == [("cork", 1), ("write", 300)]
    assert before_ns <= log.calls[0].time_ns <= log.calls[1].time_ns <= time.time_ns()
    assert (tmp_path / "7.log").read_text().startswith("# CLOCK_REALTIME in ns")


def test_released_captures_can_be_counted() -> None:
    for capture in each(OF_TCP):
        facts: Facts = facts_of(capture)
        assert (
            len(facts.data)
            <= min(len(facts.rows.sent_by("client")), len(facts.rows.data()))
            < len(facts.rows)
        )
        assert 0 < facts.longest_pause_ms <= facts.first_to_last_ms
