"""Whatever the evidence, explain() returns a timeline or reports in one line why it cannot."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.timeline.made_up import capture, explain_evidence, handshake, ns, row

from tcplab.programs import Event
from tcplab.timeline import Reason, Timeline

times = st.floats(-1, 500, allow_nan=False)
offsets = st.integers(-1, 6000)

packets = st.builds(
    lambda time_ms, outgoing, seq, ack, size, flags, window: row(
        time_ms,
        outgoing,
        seq=seq,
        ack=ack,
        payload_bytes=size,
        flags=flags,
        window=window,
        gso_count=max(1, size // 1448),
    ),
    times,
    st.booleans(),
    offsets,
    offsets,
    st.sampled_from([0, 0, 1, 10, 536, 1448, 2896]),
    st.sampled_from([16, 24, 17, 2, 18, 4]),
    st.sampled_from([0, 1, 500, 65_160]),
)
events = st.builds(
    lambda time_ms, name, size: Event(ns(time_ms), name, size),
    times,
    st.sampled_from(["write", "more", "wrote", "cork", "uncork", "nodelay", "reply", "unheard"]),
    st.integers(0, 4000),
)
samples = st.builds(
    lambda time_ms, unacked, cwnd, unsent: {
        "time_ns": ns(time_ms),
        "unacked": unacked,
        "snd_cwnd": cwnd,
        "notsent_bytes": unsent,
    },
    times,
    st.integers(0, 20),
    st.integers(1, 20),
    st.integers(0, 3000),
)


@settings(max_examples=300, database=None)
@given(
    st.lists(packets, max_size=25),
    st.none() | st.lists(events, max_size=15),
    st.none() | st.lists(packets, min_size=1, max_size=10),
    st.lists(samples, max_size=3),
    st.booleans(),
    st.sampled_from([None, 5.0]),
    st.sampled_from([None, True, False]),
)
def test_any_evidence_gives_a_timeline_or_a_one_line_error(
    rows: list[dict[str, Any]],
    log: list[Event] | None,
    peer: list[dict[str, Any]] | None,
    samples: list[dict[str, int]],
    greeted: bool,
    rate_mbit: float | None,
    nodelay: bool | None,
) -> None:
    rows = sorted(rows, key=lambda packet: packet["time_ns"])
    if greeted:
        rows = [*handshake(1.0), *rows]
    if log is not None:
        log = sorted(log)
    complaint = ""
    try:
        timeline = explain_evidence(
            log,
            capture(rows),
            peer_segments=None if peer is None else capture(sorted(peer, key=_time)),
            samples=samples,
            rate_mbit=rate_mbit,
            nodelay=nodelay,
        )
    except ValueError as error:
        complaint = str(error)
    else:
        check(timeline)
    assert "\n" not in complaint


def _time(values: dict[str, Any]) -> int:
    return int(values["time_ns"])


def check(timeline: Timeline) -> None:
    """Assert the properties that every timeline must have."""
    sentences = timeline.sentences()
    assert len(sentences) >= len(timeline.segments)
    assert len(timeline.rows()) == len(timeline.segments)
    for segment in timeline.segments:
        assert segment.evidence or segment.missing
        assert (segment.reason is Reason.UNKNOWN) == bool(segment.missing)
    for hold in timeline.holds:
        assert hold.end_ns >= hold.start_ns
        assert hold.evidence or hold.missing
        assert hold.reason is not Reason.UNKNOWN or hold.missing
    assert all(total >= 0 for total in timeline.waited_ms().values())
    for message in range(1, timeline.messages + 1):
        start, end = timeline.message_spans_ns()[message]
        assert start <= end
        assert len(timeline.only([message]).segments) <= len(timeline.segments)
