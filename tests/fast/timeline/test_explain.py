"""Test explain() on made-up captures: causes that are hard to provoke, and bad input."""

import re
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.support.timeline.made_up import (
    MS,
    capture,
    data,
    explain_evidence,
    handshake,
    ns,
    row,
    socket_options,
)
from tests.support.timeline.made_up import ack as ack_row

from tcplab.figures.timeline_figure.view import View
from tcplab.programs import Event
from tcplab.segments import FIN
from tcplab.timeline import Hold, Reason, Timeline
from tcplab.timeline.timeline import waiting

MSS = 1448


def log(*events: tuple[float, str, int]) -> list[Event]:
    return [Event(ns(time_ms), name, size) for time_ms, name, size in events]


def stalled(count: int = 1) -> tuple[list[Event], list[dict[str, Any]]]:
    """Return messages of two small writes; the second waits 40 ms for the ACK of the first."""
    events, rows = [], handshake()
    for i in range(count):
        start, seq = 50.0 * i, 104 * i
        events += log((start, "write", 4), (start + 0.01, "write", 100), (start + 41, "reply", 2))
        rows += [
            data(start + 0.005, seq, 4),
            ack_row(start + 40, seq + 4),
            data(start + 40.01, seq + 4, 100),
            ack_row(start + 40.9, seq + 104, payload_bytes=2),
        ]
    return events, rows


def explained(events: list[Event], rows: list[dict[str, Any]], **more: Any) -> Timeline:
    return explain_evidence(events, capture(rows), more.pop("options", socket_options()), **more)


# ---- the whole, from the sender's side alone -----------------------------------------------------


def test_the_second_small_write_waits_for_the_first_ones_ack() -> None:
    timeline = explained(*stalled())
    first, second = timeline.segments
    assert (first.reason, first.holds) == (Reason.SENT_AT_ONCE, ())
    assert second.reason is Reason.RELEASED_BY_ACK
    [hold] = second.holds
    assert (hold.start_ns, hold.end_ns) == (ns(0.01), ns(40.01))
    assert hold.waiting_bytes == 100
    assert hold.evidence == "4 bytes unacknowledged, 100 < MSS 1448"
    assert second.released_by is not None
    ack = timeline.acks[second.released_by]
    assert ack.reason is Reason.ACK_DELAYED_BY_PEER
    assert ack.delay_ms == pytest.approx(40 - 0.005 - 0.1)
    first_words, second_words = timeline.sentences()
    assert first_words == "4 bytes of write 1 sent at once: nothing was unacknowledged"
    assert second_words == (
        "100 bytes of write 2 held 40.0 ms by Nagle: 4 bytes unacknowledged, 100 < MSS 1448;"
        " released by the peer's delayed ACK (39.9 ms late)"
    )
    assert timeline.mss_bytes == MSS
    assert timeline.missing == []
    assert timeline.connection == "port 40000 -> port 5001"


def test_rows_have_the_numbers() -> None:
    timeline = explained(*stalled())
    rows = timeline.rows()
    assert [row["bytes"] for row in rows] == [4, 100]
    assert [row["held_by"] for row in rows] == [None, "held-by-nagle"]
    assert rows[1]["waited_ms"] == pytest.approx(40.0)
    drawn = View.of(timeline, 1, 1).table().text()
    for text in (drawn, "\n".join(waiting(timeline))):
        assert "held by Nagle" in text
        assert not re.search(r"held-by|released-by|sent-at", text)


def test_nodelay_in_the_options_changes_the_verdict() -> None:
    # With TCP_NODELAY set, nothing in the same record explains the wait.
    timeline = explained(*stalled(), options=socket_options(nodelay=True))
    tail = timeline.segments[1]
    assert Reason.HELD_BY_NAGLE not in {hold.reason for hold in tail.holds}
    assert Reason.UNKNOWN in {hold.reason for hold in tail.holds}


def test_ack_behind_other_data_needs_evidence_to_be_called_delayed() -> None:
    events = log((0, "write", MSS), (0.02, "write", MSS), (60, "reply", 2))
    rows = [
        *handshake(),
        data(0.01, 0, MSS),
        data(0.03, MSS, MSS),
        ack_row(50, 2 * MSS),
    ]
    assert explained(events, rows).acks[-1].reason is Reason.ACK_DELAYED_BY_PEER
    rows[-1:] = [ack_row(0.2, MSS), ack_row(50, 2 * MSS)]
    last = explained(events, rows).acks[-1]
    assert last.reason is Reason.UNKNOWN
    assert "a capture at the peer" in last.missing
    read = log((0.1, "read", 2 * MSS))
    assert explained(events, rows, peer_log=read).acks[-1].reason is Reason.ACK_DELAYED_BY_PEER


def test_an_option_logged_after_the_call_and_before_it_is_the_same() -> None:
    for logged in (0.029, 0.031):
        events = log((0, "cork", 0), (0.01, "write", 4), (0.02, "write", 6), (logged, "uncork", 0))
        timeline = explained(events, [*handshake(), data(0.03, 0, 10), ack_row(1, 10)])
        [segment] = timeline.segments
        assert segment.reason is Reason.UNCORKED
        assert [hold.reason for hold in segment.holds] == [Reason.CORKED]
        assert segment.writes == (1, 2)
        events = log((0, "write", 4), (0.01, "write", 6), (logged, "nodelay", 0))
        rows = [*handshake(), data(0.005, 0, 4), data(0.03, 4, 6), ack_row(1, 10)]
        second = explained(events, rows).segments[1]
        assert second.reason is Reason.NODELAY_SET
        assert [hold.reason for hold in second.holds] == [Reason.HELD_BY_NAGLE]


def test_a_segment_that_nothing_explains_is_unknown() -> None:
    # Nagle must hold these 6 bytes, and the record contains nothing that would release them.
    events = log((0, "write", 4), (0.1, "write", 6), (0.2, "read", 1), (90, "read", 1))
    rows = [*handshake(rtt_ms=20), data(0.01, 0, 4), data(30, 4, 6), ack_row(60, 10)]
    segment = explained(events, rows).segments[1]
    assert segment.reason is Reason.UNKNOWN
    assert "neither a call nor an ACK" in segment.missing


def test_data_behind_the_fin_of_a_closed_socket_does_not_wait() -> None:
    events = log((0, "write", 4), (0.1, "write", 6))
    rows = [*handshake(), data(0.01, 0, 4), data(0.2, 4, 6), ack_row(40, 10)]
    rows[-2]["flags"] |= FIN
    segment = explained(events, rows).segments[1]
    assert segment.reason is Reason.SHUTDOWN


def test_an_application_that_writes_nothing_for_a_while_is_idle() -> None:
    idle, silent = Reason.APPLICATION_IDLE, "everything written had been sent"
    awaited = silent + "; the application waited for "
    for pause_ms, calls, expected in (
        (0.9, (), []),
        (60, (), [(idle, silent)]),
        (60, ((50, "reply", 2),), [(idle, awaited + "2 bytes from the peer")]),
        (60, ((50, "acknowledged", 4),), [(idle, awaited + "the ACK of 4 bytes")]),
    ):
        events = log((0, "write", 100), *calls, (pause_ms, "write", 100))
        sent = [data(0.01, 0, 100), ack_row(0.2, 100), data(pause_ms + 0.01, 100, 100)]
        holds = explained(events, [*handshake(), *sent]).holds
        assert [(hold.reason, hold.evidence) for hold in holds] == expected


def test_data_held_at_the_end_are_reported() -> None:
    events = log((0, "write", 4), (0.01, "write", 100))
    timeline = explained(events, [*handshake(), data(0.005, 0, 4), row(30, True, seq=4)])
    [hold] = timeline.holds
    assert not hold.ended
    assert (hold.reason, hold.waiting_bytes) == (Reason.HELD_BY_NAGLE, 100)
    assert timeline.sentences()[-1].startswith("at the end 100 bytes still held 30.0 ms by Nagle")


def test_a_gap_in_the_capture_is_named() -> None:
    events = log((0, "write", 4), (1, "write", 6), (2, "write", 8))
    rows = [*handshake(), data(0.01, 0, 4), ack_row(0.2, 4), data(2.01, 10, 8), ack_row(3, 18)]
    timeline = explained(events, rows)
    assert [segment.payload_bytes for segment in timeline.segments] == [4, 8]
    assert any("6 bytes from offset 4" in note for note in timeline.missing)


def test_the_mss_is_bound_to_half_the_largest_window() -> None:
    # On loopback, the window at first limits segments to 32741 of the MSS's 65483 bytes
    # (tcp_bound_to_half_wnd).
    events = log((0, "write", 32_741), (0.02, "write", 100))
    rows = [
        *handshake(mss=65_495),
        data(0.01, 0, 32_741),
        data(0.03, 32_741, 100),
        ack_row(1, 32_841),
    ]
    for packet in rows[:3]:
        packet["window"] = 65_483
    timeline = explained(events, rows)
    assert timeline.mss_bytes == 32_741
    assert [segment.reason for segment in timeline.segments] == [
        Reason.FULL_SIZED,
        Reason.SENT_AT_ONCE,
    ]


def test_without_syns_the_mss_comes_from_the_socket_options() -> None:
    events, rows = stalled()
    known = explained(events, rows[3:])
    assert known.mss_bytes == MSS
    assert known.segments[1].reason is Reason.RELEASED_BY_ACK
    unknown = explain_evidence(events, capture(rows[3:]))
    assert unknown.mss_bytes is None
    assert {segment.reason for segment in unknown.segments} == {Reason.UNKNOWN}
    assert "the MSS" in unknown.segments[0].missing
    assert any("start of the connection" in note for note in unknown.missing)


def test_server_can_be_the_sender() -> None:
    events = log((1, "write", 2))
    rows = [*handshake(), data(0.01, 0, 4), row(1.01, False, ack=4, payload_bytes=2)]
    timeline = explain_evidence(events, capture(rows), sender="server")
    assert [segment.payload_bytes for segment in timeline.segments] == [2]
    swapped = socket_options(local="10.0.0.2 port 5001", peer="10.0.0.1 port 40000")
    assert explain_evidence(events, capture(rows), swapped).segments == timeline.segments


def test_tcp_info_samples_explain_held_full_segments() -> None:
    events = log((0, "write", 4 * MSS), (0.5, "read", 1), (50, "read", 1))
    rows = [
        *handshake(rtt_ms=20),
        data(0.01, 0, MSS),
        data(0.02, MSS, MSS),
        ack_row(20, 2 * MSS),
        data(20.01, 2 * MSS, MSS),
        data(20.02, 3 * MSS, MSS),
        ack_row(41, 4 * MSS),
    ]
    blind = explained(events, rows)
    assert Reason.UNKNOWN in blind.waited_ms()
    assert any("TCP_INFO" in hold.missing for hold in blind.holds)
    sample = {"time_ns": ns(10), "unacked": 2, "snd_cwnd": 2, "notsent_bytes": 2 * MSS}
    sampled = explained(events, rows, samples=[sample])
    assert Reason.CWND_LIMITED in sampled.waited_ms()
    assert Reason.UNKNOWN not in sampled.waited_ms()


def test_a_write_that_has_not_returned_waits_for_the_send_buffer() -> None:
    events = log((0, "write", 4 * MSS), (21, "wrote", 4 * MSS))
    sent = [data(at, seq * MSS, MSS) for seq, at in enumerate((0.01, 0.02, 20.01, 20.02))]
    rows = [*handshake(), *sent[:2], ack_row(20, 2 * MSS), *sent[2:]]
    third = explained(events, rows, options=socket_options(sndbuf_bytes=4608)).segments[2]
    assert [hold.reason for hold in third.holds] == [Reason.SNDBUF_LIMITED]
    assert "blocked in its write: the send buffer of 4608 bytes" in third.holds[0].evidence
    offered = log((0, "write", 6 * MSS), (21, "wrote", 4 * MSS))
    assert explained(offered, rows).writes[0].bytes == 4 * MSS


def test_the_congestion_window_grows_if_it_is_used_and_shrinks_when_idle() -> None:
    for count, pause_ms, allowed in ((2, 18, 10), (10, 18, 20), (10, 900, 10)):
        events = log((0, "write", 2 * MSS), (9, "write", count * MSS), (pause_ms, "write", 99_000))
        rows, sent = handshake(), 0
        for event, segments in zip(events, (2, count, allowed), strict=True):
            left_ms = (event.time_ns - ns(0)) / MS + 0.01
            rows += [data(left_ms, (sent + i) * MSS, MSS) for i in range(segments)]
            sent += segments
            rows.append(ack_row(left_ms + 5, sent * MSS))
        held = explained(events, rows).holds[-1]
        assert held.evidence.startswith(f"{allowed} of the {allowed} segments that the congestion")


def test_cubic_may_have_left_slow_start_at_16_segments() -> None:
    events = log((0, "write", 10 * MSS), (9, "write", 21 * MSS), (60, "wrote", 21 * MSS))
    rows = [data(0.01 if i < 10 else 9.01, i * MSS, MSS) for i in range(26)]
    rows = [*rows[:10], ack_row(5, 10 * MSS), *rows[10:], data(40, 26 * MSS, MSS)]
    options = socket_options(congestion="cubic", sndbuf_bytes=4608)
    [hold] = explained(events, [*handshake(), *rows], options=options).segments[-1].holds
    assert hold.reason is Reason.UNKNOWN  # In slow start, only the send buffer could be the cause.


def test_an_ack_captured_just_before_a_write_may_free_it_later() -> None:
    for written_ms, call, left_ms, reason in (
        (40.005, "write", 40.05, Reason.HELD_BY_NAGLE),
        (40.05, "write", 40.1, Reason.UNKNOWN),
        (40.005, "write", 42, Reason.UNKNOWN),
        (40.005, "reply", 40.05, Reason.UNKNOWN),
    ):
        events = log((0, "write", 4), (written_ms, "write", 6), (written_ms + 0.015, call, 6))
        rows = [data(0.01, 0, 4), ack_row(40, 4, payload_bytes=6), data(left_ms, 4, 6)]
        [hold] = explained(events, [*handshake(), *rows]).segments[-1].holds
        assert hold.reason is reason


def test_the_persist_timer_sends_as_much_as_the_window_takes() -> None:
    rows = [data(0.01, 0, MSS), ack_row(1, MSS, window=1000), data(252, MSS, 1000)]
    events = log((0, "write", MSS), (2, "write", MSS))
    last = explained(events, [*handshake(), *rows]).segments[-1]
    assert last.reason is Reason.WINDOW_LIMITED
    assert last.evidence.startswith("after 250 ms the persist timer sent")


# ---- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "complaint"),
    [
        (lambda events, _rows: explain_evidence(events, capture([])), "no readable TCP segment"),
        (lambda _events, rows: explained([], rows), "log is empty"),
        (lambda events, rows: explained(events[:1], rows), "4 bytes written, and 104 were sent"),
        (
            lambda events, rows: explained(later(events, 30), rows),
            r"byte 3 was sent 30\.0 ms before it was written",
        ),
        (
            lambda events, rows: explained(later(events, 10**6), rows),
            "does not belong to the capture: it is from",
        ),
        (
            lambda *made: explained(*made, peer_segments=capture([row(0, True, src_port=1)])),
            "peer_segments do not belong",
        ),
        (
            lambda _events, rows: explain_evidence(None, capture(rows), sender="both"),
            "sender='both' must be 'client' or 'server'",
        ),
    ],
)
def test_bad_evidence_is_named_in_one_line(
    made: Callable[[list[Event], list[dict[str, Any]]], object], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint) as caught:
        made(*stalled())
    assert "\n" not in str(caught.value)


def later(events: list[Event], by_ms: int) -> list[Event]:
    return [event._replace(time_ns=event.time_ns + by_ms * MS) for event in events]


@pytest.mark.parametrize("where", ["log", "segments", "peer_log"])
def test_clock_that_steps_back_is_refused(where: str) -> None:
    events, rows = stalled()
    peer_log = log((20, "read", 4), (30, "read", 100))
    if where == "log":
        events[1:] = later(events[1:], -5)
    elif where == "peer_log":
        peer_log[1] = peer_log[1]._replace(time_ns=ns(10))
    else:
        for packet in rows[4:]:
            packet["time_ns"] -= 45 * MS
    with pytest.raises(ValueError, match=f"the clock stepped back by .* ms in {where}, before"):
        explained(events, rows, peer_log=peer_log)


def test_captures_on_two_clocks_are_refused() -> None:
    events, rows = stalled()
    peer = [dict(packet, time_ns=packet["time_ns"] - 5 * MS) for packet in rows]
    with pytest.raises(ValueError, match=r"not on one clock: packet \d+ arrives 5\.0 ms before"):
        explained(events, rows, peer_segments=capture(peer))


def test_several_connections_need_a_choice() -> None:
    events, rows = stalled()
    other = [dict(packet, connection=1, src_port=packet["src_port"] + 1) for packet in rows]
    with pytest.raises(ValueError, match=r"holds 2 connections; choose one with .*: 0, 1"):
        explain_evidence(events, capture([*rows, *other]))
    assert len(explain_evidence(events, capture([*rows, *other]), connection=1).segments) == 2
    with pytest.raises(ValueError, match="connection 7 is not in the capture"):
        explain_evidence(events, capture(rows), connection=7)
    assert len(explained(events, [*rows, *other]).segments) == 2  # The options name the ports.
    with pytest.raises(ValueError, match="no connection between ports 1 and 5001"):
        explained(events, rows, options=socket_options(local="10.0.0.1 port 1"))


# ---- what log and capture show together ----------------------------------------------------------


def test_a_capture_that_ends_before_the_log_is_not_taken_for_a_wait() -> None:
    events, rows = stalled()
    # The capture stops before the ACK, so it is unknown how long the second write waited.
    cut = explained(events, rows[:4])
    assert cut.missing == ["packets: the capture ends 41.0 ms before the log"]
    assert [segment.payload_bytes for segment in cut.segments] == [4]
    assert cut.holds == []


def test_reads_on_other_connections_do_not_shorten_a_capture() -> None:
    events, rows = stalled()
    events[-1] = Event(ns(60), "read", 2)
    rows = [
        dict(packet, payload_bytes=0 if packet["direction"] else packet["payload_bytes"])
        for packet in rows
    ]
    assert explained(events, rows).missing == []


def test_loss_probe_is_recognised_after_a_peer_retransmission() -> None:
    """Our lost segment also carried the ACK of the peer's answer, so both ends retransmit."""
    events = log((0, "write", 50), (0.01, "write", 60), (230, "reply", 2))
    rows = [
        *handshake(2),
        data(0.005, 0, 50),
        ack_row(210, 0, payload_bytes=2, is_retransmission=True),
        data(212, 50, 60),
        ack_row(216, 0, sack_blocks=1),
        data(216.01, 0, 50, is_retransmission=True),
        ack_row(220, 110, payload_bytes=2, seq=2),
    ]
    probe = explained(events, rows).segments[1]
    assert probe.reason is Reason.TAIL_LOSS_PROBE
    assert [hold.reason for hold in probe.holds] == [Reason.HELD_BY_NAGLE]
    assert "nothing new was ACKed for 212.0 ms" in probe.evidence


def deferred(**sample: int) -> Timeline:
    """Return a timeline whose sixth segment fits the window but leaves only after an ACK."""
    window = 6 * MSS
    events = log((0, "write", 12 * MSS))
    rows = [
        *handshake(),
        *(data(0.01, MSS * i, MSS) for i in range(5)),
        ack_row(20, 0, window=window),
        data(50.02, 5 * MSS, MSS),
        ack_row(50, 5 * MSS, window=window),
    ]
    rows[2]["window"] = rows[1]["window"] = 5 * MSS
    rows.sort(key=lambda packet: int(packet["time_ns"]))
    usual = {"time_ns": ns(30), "unacked": 5, "snd_cwnd": 10, "snd_wnd_bytes": window}
    samples = [usual | {"notsent_bytes": 7 * MSS} | sample]
    return explained(events, rows, samples=samples)


def test_burst_without_a_third_of_the_window_free_is_deferred() -> None:
    last = deferred().segments[-1]
    assert [hold.reason for hold in last.holds] == [Reason.WINDOW_LIMITED] * 2
    assert "has room for 1448 more, less than a third" in last.holds[-1].evidence
    assert last.reason is Reason.RELEASED_BY_ACK
    # A deferral is assumed only if TCP_INFO, sampled during the wait, shows more data and room for
    # it.
    for sample in ({"time_ns": ns(60)}, {"notsent_bytes": MSS}, {"snd_wnd_bytes": 2 * MSS}):
        last = deferred(**sample).segments[-1]
        assert last.holds[-1].reason is Reason.UNKNOWN


# ---- size ----------------------------------------------------------------------------------------


def test_time_grows_linearly_with_the_number_of_segments() -> None:
    took = []
    for count in (200, 4000):
        events, rows = stalled(count)
        segments = capture(rows)
        start = time.process_time()
        timeline = explain_evidence(events, segments, socket_options(), peer_segments=segments)
        timeline.sentences()
        took.append(time.process_time() - start)
        assert len(timeline.segments) == 2 * count
    assert took[1] < 100 * took[0]  # there are 20 times as many exchanges


def test_holds_that_follow_each_other_for_one_reason_are_merged() -> None:
    timeline = explained(log((0, "write", 4)), [*handshake(), data(1, 0, 4)])
    nagle, cork = Reason.HELD_BY_NAGLE, Reason.CORKED
    holds = [
        Hold(0, 10, nagle, "a"),
        Hold(0, 30, nagle, "elsewhere", where="wire"),
        Hold(10, 20, nagle, "b", waiting_bytes=5),
        Hold(20, 30, cork, "c"),
        Hold(31, 40, nagle, "after a gap"),
    ]
    merged = replace(timeline, holds=holds).merged_holds()
    spans = [(hold.start_ns, hold.end_ns) for hold in merged]
    assert spans == [(0, 20), (0, 30), (20, 30), (31, 40)]
    assert (merged[0].evidence, merged[0].waiting_bytes) == ("b", 5)
