"""The driver of the kernel tests makes exactly the requested calls."""

import time

from tests.support.nonempty import each

from tcplab.lab import Loopback
from tcplab.programs import writepattern_peer
from tcplab.programs.pair import Running
from tcplab.programs.patterns import write_patterns


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


def test_a_connection_may_outlast_the_deadline_of_the_peer() -> None:
    command = ["writepattern_peer", "--deadline=0.2", "--json", "--port=0"]
    with Loopback() as network, Running(network.server, command) as peer:
        assert peer.port()
        time.sleep(0.6)
        assert not peer.failure()
