"""Test the recorder of calls with many processes and connections, and what it costs."""

from __future__ import annotations

from pathlib import Path

from tests.lab.explain.test_recorder import TALK, recorded, write_sizes
from tests.support.explain.programs import python


def test_hundred_children_with_ten_connections_each_are_told_apart(tmp_path: Path) -> None:
    """There are more connections than the recorder may have open descriptors."""
    text = """
    import os, socket
    listener = socket.create_server(("127.0.0.1", 0), backlog=2000)
    for child in range(100):
        if os.fork() == 0:
            for i in range(10):
                with socket.create_connection(listener.getsockname()) as near:
                    near.send(b"x" * (10 * child + i + 1))
            os._exit(0)
    for _ in range(100):
        os.wait()
    """
    log = recorded(tmp_path / "log", *python(text))
    sent = [one for one in log.sockets if write_sizes(one)]
    assert sorted(map(write_sizes, sent)) == [[i + 1] for i in range(1000)]
    assert len({one.pid for one in sent}) == 100


def test_a_thousand_messages_a_second_cost_a_small_share_of_the_time(tmp_path: Path) -> None:
    text = """
    import time
    due = time.monotonic()
    for _ in range(500):
        near.send(b"x" * 100)
        far.recv(100)
        due += 0.001
        time.sleep(max(due - time.monotonic(), 0))
    """
    log = recorded(tmp_path / "log", *python(TALK + text, "127.0.0.1"))
    [near] = [one for one in log.sockets if write_sizes(one)]
    # The documentation says a tenth, on an idle machine.
    assert log.stopped_ns <= 0.2 * (near.calls[-1].time_ns - near.calls[0].time_ns)
