"""A rate that follows a trace of opportunities to send."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.wire.bench import Bench, WireError
from tests.support.wire.frames import numbered
from tests.support.wire.recording import Packet

MS = 1_000_000


def leavings(times_ms: list[int], start_ns: int, arrivals: list[Packet]) -> list[int]:
    """When the packets leave, one opportunity after the other, in the manner of mahimahi."""
    waiting = [[packet.time_ns, packet.length - 14] for packet in arrivals]
    left: list[int] = []
    opportunity = 0
    while waiting:
        turn, index = divmod(opportunity, len(times_ms))
        now = start_ns + (turn * times_ms[-1] + times_ms[index]) * MS
        opportunity += 1
        room = 1500
        while waiting and room and waiting[0][0] <= now:
            used = min(room, waiting[0][1])
            room -= used
            waiting[0][1] -= used
            if not waiting[0][1]:
                left.append(now)
                waiting.pop(0)
    return left


@pytest.mark.parametrize(
    ("times_ms", "lengths"),
    [
        ([1, 2, 5, 5, 5, 9, 20], [1514, 1514, 100, 100, 700, 1514] * 10),
        ([3], [1514] * 12),
        ([0, 0, 0, 7], [300] * 40),
        # Opportunities that pass while nothing waits are lost, whole rounds of them too.
        ([1, 2], [1514]),
    ],
)
def test_packets_leave_at_the_opportunities(
    bench: Bench, tmp_path: Path, times_ms: list[int], lengths: list[int]
) -> None:
    trace = tmp_path / "a trace"
    trace.write_text("".join(f"{time}\n" for time in times_ms))
    bench.command(f"trace ab {trace}")

    def send() -> int:
        for number, length in enumerate(lengths):
            bench.ends[0].send(numbered(length, number))
        return len(lengths)

    recorded = bench.record(tmp_path / "link.pcapng", send)
    arrivals = [packet for packet in recorded if packet.inbound]
    due = [packet.value("due_ns") for packet in recorded if not packet.inbound]
    assert len(due) == len(lengths)
    # When the wire read the trace isn't told: one beginning of a round explains all departures.
    rounds = {due[0] - (time + 50 * times_ms[-1]) * MS for time in times_ms}
    assert any(leavings(times_ms, start_ns, arrivals) == due for start_ns in rounds)
    bench.command("trace ab off")
    bench.ends[0].send(numbered(60, 0))
    bench.drain(1)


@pytest.mark.parametrize("text", ["", "0\n", "2\n1\n", "1\nx\n", "1.5\n", "-1\n", "4294967296\n"])
def test_a_trace_that_is_none(bench: Bench, tmp_path: Path, text: str) -> None:
    trace = tmp_path / "trace"
    trace.write_text(text)
    with pytest.raises(WireError, match=r"trace: .* wants whole milliseconds"):
        bench.command(f"trace ab {trace}")
    bench.ends[0].send(numbered(60, 1))
    assert bench.ends[1].receive(1) == [numbered(60, 1)]
