"""Verdicts on made-up conversations: limits and waits that are easy to claim falsely."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.timeline.explained import explain_evidence
from tests.support.timeline.made_up import ack, capture, data, handshake, ns

from tcplab.explain.joining import Conversation
from tcplab.explain.verdict import findings
from tcplab.programs import Event
from tcplab.segments import SegmentArray

CLIENT, SERVER = ("10.0.0.1", 40_000), ("10.0.0.2", 5001)


def conversation(rows: SegmentArray, log: list[Event] | None = None, **more: Any) -> Conversation:
    """Return a conversation of which the client's data and calls are known."""
    timelines = {"client": explain_evidence(log, rows, connection=0, sender="client")}
    if (rows[rows["direction"] == 1]["payload_bytes"] > 0).any():
        timelines["server"] = explain_evidence(None, rows, connection=0, sender="server")
    return Conversation(CLIENT, SERVER, rows, len(rows), timelines, **more)


def requests(every_ms: float, *, count: int = 40, rtt_ms: float = 20) -> Conversation:
    """Return requests at this interval, each answered after a round trip."""
    events, rows = [], handshake(rtt_ms)
    for number in range(count):
        begin = number * every_ms
        events += [Event(ns(begin), "write", 80), Event(ns(begin + rtt_ms + 0.1), "read", 10)]
        rows += [
            data(begin + 0.01, 80 * number, 80),
            ack(begin + rtt_ms, 80 * (number + 1), seq=10 * number, payload_bytes=10),
        ]
    events.sort(key=lambda event: event.time_ns)
    rows.sort(key=lambda row: int(row["time_ns"]))
    return conversation(capture(rows), events)


@pytest.mark.parametrize(
    ("every_ms", "cause"),
    [(20.5, "round-trips"), (5, "in-flight"), (15, "in-flight")],
    ids=["in turn", "pipelined", "two at once"],
)
def test_only_requests_in_turn_cost_a_round_trip_each(every_ms: float, cause: str) -> None:
    verdict = findings([requests(every_ms)])[0]
    assert (verdict.cause, verdict.kind == "limit") == (cause, cause == "round-trips")


@pytest.mark.parametrize(
    ("count", "cause"), [(1, "new-connections"), (2, "handshake")], ids=["one each", "two each"]
)
def test_connections_that_are_used_again_are_no_limit(count: int, cause: str) -> None:
    several = [requests(20.5, count=count) for _ in range(10)]
    assert cause in {finding.cause for finding in findings(several)}
