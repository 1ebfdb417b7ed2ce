"""Test what is hard to tell from a capture: copies, keep-alives, jitter, tails, its position."""

from pathlib import Path
from typing import Any

import pytest
from tests.support.nonempty import each
from tests.support.paths import DATA
from tests.support.timeline.made_up import (
    START_NS,
    ack,
    capture,
    data,
    explain_evidence,
    handshake,
    ns,
    row,
)
from tests.support.timeline.statements import false_sentences

from tcplab.programs import Event
from tcplab.timeline import Reason, Timeline
from tcplab.timeline.clocks import straightened
from tcplab.timeline.replay import OVERTAKEN

MSS = 1448


def explained(*rows: dict[str, Any], **more: Any) -> Timeline:
    return explain_evidence(more.pop("log", None), capture([*handshake(2.0), *rows]), **more)


@pytest.mark.parametrize("path", sorted(each(DATA.rglob("*.pcap*"))), ids=lambda path: path.name)
def test_no_sentence_on_a_capture_is_false(path: Path) -> None:
    _count, false = false_sentences(path)
    assert false == []


# ---- data that came before -----------------------------------------------------------------------


def test_packets_recorded_twice_were_not_sent_again() -> None:
    rows = [
        data(1, 0, 100, ip_id=7),
        data(1.02, 0, 100, ip_id=7, is_retransmission=True),
        ack(3, 100, ip_id=9),
        ack(3.01, 100, ip_id=9),
        data(4, 100, 50, ip_id=8),
    ]
    timeline = explained(*rows)
    assert [segment.payload_bytes for segment in timeline.segments] == [100, 50]
    assert len(timeline.acks) == 1 + len(handshake()) - 2
    assert any(note.startswith("2 packets were recorded twice") for note in timeline.missing)


@pytest.mark.parametrize(
    ("later", "ip_id"), [(1.02, 8), (2.5, 7)], ids=["another number", "too late"]
)
def test_data_sent_again_are_no_copies(later: float, ip_id: int) -> None:
    again = data(later, 0, 100, ip_id=ip_id, is_retransmission=True)
    timeline = explained(data(1, 0, 100, ip_id=7), again)
    assert [segment.reason for segment in timeline.segments][1:] == [Reason.RETRANSMISSION]
    assert not any("twice" in note for note in timeline.missing)


def again(time_ms: float, seq: int, size: int = MSS, **values: Any) -> dict[str, Any]:
    return data(time_ms, seq, size, is_retransmission=True, **values)


SENT = [data(1 + i / 10, i * MSS, MSS) for i in range(9)]
BEGUN = [*SENT, ack(3, MSS)]
DUPLICATES = [ack(4 + i / 10, MSS) for i in range(7)]
UPDATES = [ack(4 + i / 10, MSS, window=65_160 + 2000 * (i + 1)) for i in range(7)]
SACK = ack(4, MSS, sack_blocks=1)
COPY = "copied on its way or sent unchanged"
DOUBT = "the ACK had not reached the sender, or the capture was not made at the sender"


@pytest.mark.parametrize(
    ("rows", "is_lost", "evidence"),
    [
        (
            [data(1, 0, 100), ack(3, 100), again(5000, 99, 1), ack(5002, 100)],
            False,
            "a keep-alive (RFC 9293, 3.8.4): its bytes had been acknowledged 4997.0 ms before",
        ),
        (
            [data(1, 0, 100), ack(3, 100), again(205, 0, 100), ack(207, 100)],
            False,
            f"its bytes had been acknowledged 202.0 ms before: {DOUBT}",
        ),
        (
            [data(1, 0, 100, ip_id=7), ack(650, 0), again(700, 0, 100, ip_id=7)],
            False,
            f"by its IP ID (7) the packet that passed 699.0 ms before, {COPY}",
        ),
        (
            [*BEGUN, *DUPLICATES, again(5, MSS)],
            True,
            "reported missing by 7 duplicate ACKs, 3.9 ms after it first left",
        ),
        (
            [*BEGUN, SACK, again(5, MSS)],
            True,
            "reported missing by a duplicate ACK (SACK), 3.9 ms after it first left",
        ),
        ([*BEGUN, *DUPLICATES[:2], again(5, MSS)], True, "no ACK of it for 3.9 ms"),
        ([*BEGUN, *UPDATES, again(205, MSS)], True, "no ACK of it for 203.9 ms"),
        # ACKs before a transmission are no evidence about it.
        ([*BEGUN, *DUPLICATES, again(5, MSS), again(300, MSS)], True, "no ACK of it for 295.0 ms"),
        ([*SENT, again(2, MSS)], True, "0.9 ms after it left, sooner than its ACK could come"),
        (
            [*SENT, ack(25, MSS), again(30, 0, 2 * MSS)],
            True,
            "the ACK of its first 1448 bytes came 5.0 ms before",
        ),
        (
            [*BEGUN, again(30, 8 * MSS, 2 * MSS)],
            True,
            "no ACK of it for 28.2 ms; it also carries 1448 bytes of new data",
        ),
        (
            [*BEGUN, again(30, 8 * MSS, 2 * MSS), again(90, 9 * MSS, MSS)],
            True,
            "no ACK of it for 60.0 ms",
        ),
        (
            [*SENT, SACK | {"time_ns": ns(29)}, again(30, MSS)],
            True,
            "an ACK of data before it came 1.0 ms ago: the next gap",
        ),
    ],
)
def test_data_sent_again_have_the_evidence_of_the_capture(
    rows: list[dict[str, Any]], is_lost: bool, evidence: str
) -> None:
    timeline = explained(*rows)
    last = timeline.segments[-1]
    assert (last.reason, last.evidence) == (Reason.RETRANSMISSION, evidence)
    assert bool(timeline.holds) is is_lost


def test_bytes_that_no_packet_carried_before_were_not_sent_again() -> None:
    overtaken = explained(data(1, MSS, MSS), data(1.01, 0, MSS), ack(3, 2 * MSS)).segments[-1]
    assert overtaken.reason is Reason.UNKNOWN
    assert overtaken.missing == OVERTAKEN
    late = explained(data(1, MSS, MSS), data(9, 0, MSS, is_retransmission=True)).segments[-1]
    assert late.evidence == "later bytes had come 8.0 ms before; no earlier copy is in the capture"
    assert late.holds[0].duration_ms == 8
    soon = explained(data(1, MSS, MSS), data(3, 0, MSS, is_retransmission=True)).segments[-1]
    assert soon.evidence.endswith("in the capture, so it may have been overtaken")
    again = data(9, 0, MSS, is_retransmission=True)
    twice = explained(data(1, MSS, MSS), data(1.01, 0, MSS), again)
    assert twice.segments[-1].evidence == "no ACK of it for 8.0 ms"
    long = data(2, 0, 3 * MSS, is_retransmission=True)
    inside = explained(data(1, MSS, 9), data(1.1, 4 * MSS, 9), long, again | {"seq": 2 * MSS + 1})
    assert inside.segments[-1].evidence == "no ACK of it for 7.0 ms"


def test_a_constant_ip_id_is_no_evidence_of_a_copy() -> None:
    rows = [data(1, 0, 100, ip_id=1), data(1.5, 0, 100, ip_id=1, is_retransmission=True)]
    sent = [len(explained(*rows, data(9, 100, 100, ip_id=last)).segments) for last in (1, 2)]
    assert sent == [3, 2]


@pytest.mark.parametrize(("odd", "steps"), [(0, 0), (350, 1)])
def test_a_timestamp_of_zero_is_no_step_of_the_clock(odd: int, steps: int) -> None:
    stamps = {100: 100, 200: 200, 300: 300, 5000: odd, 5100: odd + 100}
    rows = capture([data(ms, 0, 1, has_timestamps=True, ts_val=ts) for ms, ts in stamps.items()])
    assert len(straightened(rows)[1]) == steps


def test_a_late_packet_is_no_step_of_the_clock() -> None:
    late = [
        row(ms, side, seq=1, has_timestamps=True, ts_val=ts)
        for ms, side, ts in (
            *((ms, side, ms) for ms in (100, 200, 300) for side in (True, False)),
            (2000, True, 2000),
            (4000, False, 400),
            (4001, True, 4001),
        )
    ]
    assert straightened(capture(late))[1] == []


def test_copies_on_another_interface_were_not_sent_again() -> None:
    rows = [
        data(1, 0, 100, ip_id=7, interface=0),
        data(3, 0, 100, ip_id=7, interface=1, is_retransmission=True),
    ]
    assert [segment.payload_bytes for segment in explained(*rows).segments] == [100]


def test_a_copy_that_has_just_left_did_not_arrive() -> None:
    sent = [data(1, 0, MSS), data(2, MSS, MSS), data(11, MSS, MSS, is_retransmission=True)]
    peer = capture([data(11, 0, MSS), data(12, MSS, MSS)])
    segments = explained(*sent, peer_segments=peer).segments
    assert [segment.arrived_ns for segment in segments] == [ns(11), ns(12), None]


def test_only_a_long_wait_on_the_link_is_reported_as_unexplained() -> None:
    for late_ms, reasons in ((4, []), (6, [Reason.UNKNOWN])):
        peer = capture([data(2, 0, MSS), data(3 + late_ms, MSS, MSS)])
        timeline = explained(data(1, 0, MSS), data(2, MSS, MSS), peer_segments=peer)
        assert [hold.reason for hold in timeline.holds] == reasons


def test_a_full_segment_that_had_no_room_was_let_go_by_the_ack() -> None:
    rows = [data(1, 0, MSS), ack(2, MSS, window=1000), ack(90, MSS, window=9000)]
    last = explained(*rows, data(90.1, MSS, MSS)).segments[-1]
    assert last.reason is Reason.RELEASED_BY_ACK
    assert last.evidence == "a window update to 9000 bytes came (a full segment)"


# ---- super-segments ------------------------------------------------------------------------------


def test_a_super_segment_with_a_small_tail_is_not_full() -> None:
    tail = explained(data(1, 0, 2 * MSS + 104, gso_count=3)).segments[0]
    assert tail.evidence == (
        "3000 bytes are 2 full segments and one of 104 bytes behind, which only a log can explain"
    )
    whole = explained(data(1, 0, 2 * MSS, gso_count=2)).segments[0]
    assert whole.evidence.endswith("full segments, only a log can show whether it waited")


def test_sack_blocks_take_their_own_header_from_a_full_segment() -> None:
    size = MSS - 4 - 8
    assert explained(data(1, 0, size, sack_blocks=1)).segments[0].reason is Reason.FULL_SIZED
    assert explained(data(1, 0, size - 1, sack_blocks=1)).segments[0].reason is Reason.UNKNOWN


# ---- late ACKs -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("late_ms", "reason", "missing"),
    [
        (5, Reason.SENT_AT_ONCE, ""),
        (18, Reason.UNKNOWN, "the path's jitter"),
        (40, Reason.ACK_DELAYED_BY_PEER, ""),
        (400, Reason.ACK_DELAYED_BY_PEER, ""),
        (800, Reason.UNKNOWN, "less than 500 ms"),
    ],
)
def test_ack_is_called_delayed_only_within_the_timers_range(
    late_ms: float, reason: Reason, missing: str
) -> None:
    last_ack = explained(data(1, 0, 100), ack(3 + late_ms, 100)).acks[-1]
    assert last_ack.reason is reason
    assert missing in last_ack.missing
    assert bool(missing) == bool(last_ack.missing)


def test_an_ack_of_data_that_the_capture_lacks_is_not_judged() -> None:
    last_ack = explained(data(1, 0, 100), ack(43, 300), data(50, 300, 10)).acks[-1]
    assert last_ack.reason is Reason.UNKNOWN
    assert "not in the capture" in last_ack.missing


# ---- the side of the capture ---------------------------------------------------------------------


def at_the_server(rtt_ms: float) -> list[dict[str, Any]]:
    syn, syn_ack, last = handshake(rtt_ms)
    syn["time_ns"], last["time_ns"] = ns(-rtt_ms - 0.01), ns(0)
    return [syn, syn_ack, last, data(0.1, 0, 100), ack(0.2, 100)]


def test_a_capture_from_the_receivers_side_is_noticed() -> None:
    rows = capture(at_the_server(30))
    log = [Event(START_NS, "write", 100)]
    with pytest.raises(ValueError, match=r"made at the receiver .* the log is the sender's"):
        explain_evidence(log, rows)
    timeline = explain_evidence(None, rows)
    assert any("the capture was made at the peer" in note for note in timeline.missing)


def test_capture_at_the_sender_or_of_a_short_path_is_accepted() -> None:
    log = [Event(START_NS, "write", 100)]
    for rows in each((at_the_server(0.5), [*handshake(30), *at_the_server(30)[3:]])):
        timeline = explain_evidence(log, capture(rows))
        assert not any("side" in note for note in timeline.missing)


def test_capture_at_a_sending_server_is_the_senders_side() -> None:
    rows = [*at_the_server(30)[:3], row(1, False, payload_bytes=50), row(31, True, ack=50)]
    made = explain_evidence([Event(START_NS, "write", 50)], capture(rows), sender="server")
    assert len(made.segments) == 1
