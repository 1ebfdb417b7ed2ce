"""The driver of the kernel tests makes exactly the requested calls, or says why not."""

from __future__ import annotations

import time

import pytest
from tests.support.commands import completed
from tests.support.nonempty import each

from tcplab.lab import Loopback, program_path
from tcplab.programs import writepattern_peer
from tcplab.programs.patterns import write_patterns


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["writepattern"], 2, "HOST"),
        (["writepattern", "127.0.0.1"], 2, "an argument is missing"),
        (["writepattern", "127.0.0.1", "write=1"], 2, "'write=1' is not DELAY:CALL=VALUE"),
        (["writepattern", "127.0.0.1", "0:jump=1"], 2, "'jump' is not one of write, more"),
        (["writepattern", "127.0.0.1", "0:write=0"], 2, "write: 0 is outside 1 to 1048576"),
        (["writepattern", "127.0.0.1", "0:write=x"], 2, "write: 'x' is not a whole number"),
        (["writepattern", "127.0.0.1", "0:cork=2"], 2, "cork: 2 is outside 0 to 1"),
        (["writepattern", "--stagger", "-1", "127.0.0.1", "0:write=1"], 2, "-1 is outside"),
        (["writepattern", "127.0.0.1", "0:write=1,2"], 2, "write: too many values"),
        (["writepattern", "127.0.0.1", "0:writev=1048576,1"], 2, "1048577 bytes are more than"),
        (["writepattern", "127.0.0.1", "60000001:write=1"], 2, "delay: 60000001 is outside"),
        (["writepattern", "--port", "1", "127.0.0.1", "0:write=1"], 1, "ECONNREFUSED"),
        (["writepattern_peer", "--reply-every", "0"], 2, "0 is outside"),
        (["writepattern_peer", "--quickack", "maybe"], 2, "maybe"),
        (["writepattern_peer", "somewhere"], 2, "somewhere"),
    ],
)
def test_a_mistake_is_one_line(arguments: list[str], status: int, message: str) -> None:
    ran = completed([program_path(arguments[0]), *arguments[1:]])
    assert ran.returncode == status
    assert message in ran.stderr
    assert ran.stderr.count("\n") == 1
    assert ran.stdout == ""


def test_every_call_is_made_and_logged_in_order() -> None:
    schedules = [
        "0:cork=1 1000:write=10 0:writev=20,30 200000:cork=0 0:read=7",
        "",
        "0:sndbuf=9000 0:more=5",
    ]
    before_ns = time.time_ns()
    with Loopback() as network, writepattern_peer(network, reply=(60, 7)) as port:
        first, empty, last = write_patterns(network, port, schedules)
    assert [call["call"] for call in first.calls] == [
        *("cork", "write", "writev", "cork", "read", "shutdown")
    ]
    assert [call.get("bytes") for call in first.calls][1:3] == [10, 50]
    starts = [call["start_ns"] for call in first.calls]
    assert starts == sorted(starts)
    assert starts[3] >= before_ns + 201_000_000  # a call may be late, but never early
    assert all(call["end_ns"] >= call["start_ns"] for call in each(first.calls))
    assert [event.name for event in first.log] == ["cork", "write", "write", "uncork", "read"]
    assert [call["call"] for call in empty.calls] == ["shutdown"]
    assert [call["call"] for call in last.calls] == ["sndbuf", "more", "shutdown"]
    assert [result.schedule for result in (first, empty, last)] == [0, 1, 2]
    assert len({result.port for result in (first, empty, last)}) == 3
