"""Test what a socket's calls reveal about the bytes that each of them moved."""

from dataclasses import fields
from typing import Any

from tcplab.programs.calls import SocketCall, SocketCalls


def call(name: str, pid: int, written: int) -> SocketCall:
    numbers: dict[str, Any] = {field.name: 0 for field in fields(SocketCall)}
    asked = 100 if name == "write" else 0
    return SocketCall(
        **numbers | {"name": name, "pid": pid, "asked_bytes": asked, "written": written}
    )


def test_fin_is_no_byte_though_another_thread_calls_before_it_counts() -> None:
    """One thread writes and shuts down, while the other reads."""
    end = ("10.0.0.1", 8080)
    calls = [
        call("write", 1, 0),
        call("read", 2, 0),
        call("shutdown", 1, 100),
        call("read", 2, 100),
        call("read", 2, 101),
    ]
    for count in (4, 5):
        socket = SocketCalls(1, 1, end, end, False, False, 0, 0, 0, "cubic", 0, calls[:count])
        assert socket.unseen_bytes() == 0
        written = [event for event in socket.events(lambda _offset: None, 100, 0) if event.bytes]
        assert [(event.name, event.bytes) for event in written] == [("write", 100)]
