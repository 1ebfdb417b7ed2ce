"""Verdicts on made-up conversations: limits and waits that are easy to claim falsely."""

from typing import Any

import pytest
from tests.support.timeline.made_up import ack, capture, data, explain_evidence, handshake, ns, row

from tcplab.explain.answer import Explanation
from tcplab.explain.joining import Conversation, _explained, _given_up_ns, _is_spare
from tcplab.explain.kinds import _reset
from tcplab.explain.ledger import Entry, RunLedger
from tcplab.explain.recording import CommandExchange
from tcplab.explain.verdict import Finding, judged
from tcplab.programs import Event, SocketCalls
from tcplab.programs.calls import CallLog, SocketCall
from tcplab.segments import ACK, FIN, RST, SegmentArray


def findings(conversations: list[Conversation]) -> list[Finding]:
    return judged(conversations)[0]


CLIENT, SERVER = ("10.0.0.1", 40_000), ("10.0.0.2", 5001)


def conversation(rows: SegmentArray, log: list[Event] | None = None, **more: Any) -> Conversation:
    """Return a conversation of which the client's data and calls are known."""
    timelines = {"client": explain_evidence(log, rows, connection=0, sender="client")}
    if (rows[rows["direction"] == 1]["payload_bytes"] > 0).any():
        timelines["server"] = explain_evidence(None, rows, connection=0, sender="server")
    return Conversation(CLIENT, SERVER, rows, len(rows), timelines, **more)


def socket(*calls: tuple[float, str], **counts: int) -> SocketCalls:
    """Return a socket with these calls, at which the kernel's counts were the same."""
    usual: dict[str, Any] = dict.fromkeys(SocketCall.__slots__, 0) | counts
    made = [SocketCall(**usual | {"time_ns": ns(at), "name": name}) for at, name in calls]
    return SocketCalls(
        1, 1, CLIENT, SERVER, False, False, 46_080, 131_072, 1448, "reno", ns(0), made
    )


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
    ("count", "in_syn", "cause"),
    [(1, 0, "new-connections"), (2, 0, "handshake"), (1, 80, "in-flight")],
    ids=["one each", "two each", "Fast Open"],
)
def test_only_handshakes_for_one_request_each_are_a_limit(
    count: int, in_syn: int, cause: str
) -> None:
    several = [requests(20.5, count=count) for _ in range(10)]
    for one in several:
        one.rows["payload_bytes"][0] = in_syn
    known = {"new-connections", "handshake", "in-flight"}
    causes = {finding.cause for finding in findings(several) if finding.ms} & known
    assert causes == {cause, "in-flight"}


@pytest.mark.parametrize(
    ("calls", "until_ms"),
    [
        ([(0, "write"), (2000, "close")], 2000),
        ([(2000, "close")], 2000),
        ([(0, "write")], 2500),
        ([(0, "write"), (900, "write"), (1000, "close")], None),
        ([(0, "write"), (900, "write"), (901, "read"), (1000, "close")], 1000),
    ],
    ids=["a request", "a banner", "until the end", "a stream", "a stream with an answer"],
)
def test_a_client_that_polls_waits_for_a_silent_server(
    calls: list[tuple[float, str]], until_ms: float | None
) -> None:
    expected = None if until_ms is None else ns(until_ms)
    assert _given_up_ns(socket(*calls), ns(2500), is_silent=True) == expected
    if all(name != "read" for _time, name in calls):
        assert _given_up_ns(socket(*calls), ns(2500), is_silent=False) is None


def test_a_client_that_ends_without_a_call_waits_until_its_fin() -> None:
    asking = CallLog([socket((0, "write"), (1, "read"))])
    recorded = CommandExchange(asking, None, None, None, (ns(0), ns(2500)))
    for is_client, until_ms in ((True, 900), (False, 2500)):
        fin = row(900, is_client, flags=ACK | FIN)
        rows = capture([*handshake(), data(0, 0, 3), ack(1, 3, payload_bytes=2), fin])
        explained = _explained(recorded, (CLIENT, SERVER), rows, None, 0)
        assert explained.given_up_ns == ns(until_ms)


def test_the_time_until_a_banner_that_never_comes_is_the_servers() -> None:
    rows = capture(handshake())
    waiting = Conversation(CLIENT, SERVER, rows, len(rows), given_up_ns=ns(2000))
    [longest] = [finding for finding in findings([waiting]) if finding.share > 0.9]
    assert (longest.cause, round(longest.ms)) == ("server", 2000)


def lossy(count: int = 60, rtt_ms: float = 40) -> Conversation:
    """Return an upload in which each segment waits for an ACK, and the fifth is sent again."""
    rows, time_ms, events = handshake(rtt_ms), 0.0, [Event(ns(0), "write", 1448 * count)]
    for number in range(count):
        rows.append(data(time_ms + 0.01, 1448 * number, 1448))
        if number == 5:
            time_ms += 240
            rows.append(data(time_ms, 1448 * number, 1448, is_retransmission=True))
        time_ms += rtt_ms
        rows.append(ack(time_ms, 1448 * (number + 1)))
    return conversation(capture(rows), events)


def test_no_connection_with_losses_is_kept_open() -> None:
    [limit] = [one for one in findings([lossy()]) if one.cause == "congestion-window"]
    assert limit.kind == "limit"
    assert "drops packets" in limit.fix
    assert "keep connections open" not in limit.fix


@pytest.mark.parametrize(("is_fixed", "limited_ms"), [(True, 2000), (True, 200), (False, 2000)])
def test_the_kernel_knows_when_a_fixed_buffer_was_the_limit(
    is_fixed: bool, limited_ms: int
) -> None:
    upload = lossy()
    upload.sockets["client"] = socket(
        (0, "write"), (2600, "close"), rwnd_limited_us=1000 * limited_ms
    )
    upload.sockets["server"] = socket((0, "read"), (2590, "read"))
    if is_fixed:
        upload.sockets["server"].options.append((ns(0), "rcvbuf", 32_768))
    verdict = findings([upload])[0]
    assert verdict.cause == ("fixed-receive-buffer" if is_fixed else "congestion-window")
    assert round(verdict.ms, -2) == limited_ms or not is_fixed


@pytest.mark.parametrize(("unread", "taken"), [(0, 1 << 20), (1000, 0), (1000, 1 << 20)])
def test_sender_waits_for_a_reader_that_leaves_data_unread(unread: int, taken: int) -> None:
    upload = lossy()
    upload.sockets["server"] = socket((0, "read"), (1300, "read"), (2600, "read"), unread=unread)
    reads = [Event(ns(at), "read", taken) for at in (0, 1300, 2600)]
    upload.logs = {**upload.logs, "server": reads}
    [verdict] = [finding for finding in findings([upload]) if finding.share > 0.5]
    # A program that polls finds data at each read, although it leaves none.
    assert verdict.cause == ("congestion-window" if taken else "receive-window")
    assert ("let the server read sooner" in verdict.fix) is not bool(taken)


def test_a_fast_repair_beside_a_tail_loss_is_told_apart_on_a_long_path() -> None:
    rows = handshake(300) + [data(i, 1448 * i, 1448) for i in range(5)]
    rows += [ack(300 + i, 1448, sack_blocks=1) for i in range(3)]
    rows += [data(303, 1448, 1448, is_retransmission=True), ack(603, 5 * 1448)]
    rows += [data(604, 5 * 1448, 99), data(1150, 5 * 1448, 99, is_retransmission=True)]
    rows.append(ack(1450, 5 * 1448 + 99))
    events = [Event(ns(0), "write", 5 * 1448), Event(ns(604), "write", 99)]
    upload = conversation(capture(rows), events)
    [found] = [one for one in findings([upload]) if one.cause == "loss"]
    assert "1 retransmission by the timer, after 546 ms" in found.evidence
    assert "1 retransmission that a duplicate ACK or a probe caused, after 302 ms" in found.evidence


@pytest.mark.parametrize("think_ms", [1, 140], ids=["Nagle alone", "a server that also works"])
def test_writes_of_a_message_belong_together_however_slow_the_machine(think_ms: int) -> None:
    rows, events = handshake(20), [Event(ns(0), "delay", 0)]  # TCP_NODELAY is off
    for number in range(10):
        at, sent, held = 300 * number, 14 * number, (60, 20)[number % 2]
        rows += [data(at, sent, 4), ack(at + held, sent + 4), data(at + held + 0.1, sent + 4, 10)]
        rows.append(ack(at + held + think_ms, sent + 14, payload_bytes=1))
        named = ((0, "write", 4), (10, "write", 10), (held + think_ms + 0.1, "read", 1))
        events += [Event(ns(at + later), name, size) for later, name, size in named]
    [verdict, *_] = findings([conversation(capture(rows), events)])
    assert verdict.evidence.startswith("the client hands a message to TCP in 2 writes (4, 10 ")
    assert verdict.fix.startswith("hand each message over in one write")


def test_a_partial_ack_reports_the_next_gap() -> None:
    rows = handshake(300) + [data(i, 1448 * i, 1448) for i in range(6)]
    rows += [ack(300 + i, 0, sack_blocks=1) for i in range(3)]
    rows += [data(303, 0, 1448, is_retransmission=True), ack(603, 2 * 1448)]
    rows += [data(604, 2 * 1448, 1448, is_retransmission=True), ack(904, 6 * 1448)]
    upload = conversation(capture(rows), [Event(ns(0), "write", 6 * 1448)])
    [found] = [one for one in findings([upload]) if one.cause == "loss"]
    assert "2 retransmissions that a duplicate ACK" in found.evidence


@pytest.mark.parametrize(("first", "is_smaller"), [(10, True), (20, False)])
def test_slow_start_after_a_pause_has_a_smaller_flight(first: int, is_smaller: bool) -> None:
    rows, events = handshake(100), []
    for begin, sent, count in ((0, 0, 10), (1300, 30, first)):
        rows += [data(begin + i / 100, 1448 * (sent + i), 1448) for i in range(count)]
        rows.append(ack(begin + 100, 1448 * (sent + count)))
        later = range(count, 30)
        rows += [data(begin + 100 + i / 100, 1448 * (sent + i), 1448) for i in later]
        rows.append(ack(begin + 201, 1448 * (sent + 30), seq=sent // 30, payload_bytes=1))
        events += [Event(ns(begin), "write", 30 * 1448), Event(ns(begin + 201.1), "read", 1)]
    causes = {one.cause for one in findings([conversation(capture(rows), events)])}
    assert ("slow-start-after-idle" in causes) is is_smaller


def test_the_first_fast_open_without_a_cookie_waits_for_the_handshake() -> None:
    rows = [*handshake(100), data(-99.9, 0, 100), ack(0.1, 100, payload_bytes=50)]
    asked = conversation(capture(rows), [Event(ns(-200), "write", 100), Event(ns(0.2), "read", 50)])
    [first, *_] = findings([asked])
    assert (first.cause, round(first.ms)) == ("handshake", 100)
    assert "window is closed" not in " ".join(asked.timelines["client"].sentences())


@pytest.mark.parametrize(
    ("other_ms", "is_spare"),
    [(1900, True), (100, False), (None, False)],
    ids=["busy on another connection", "another one is done", "alone"],
)
def test_a_client_that_works_on_another_connection_does_not_wait(
    other_ms: float | None, is_spare: bool
) -> None:
    rows = capture([*handshake(), data(0, 0, 3), ack(1, 3)])
    silent = Conversation(CLIENT, SERVER, rows, len(rows), given_up_ns=ns(2000))
    silent.sockets["client"] = socket((0, "write"), (2000, "close"))
    busy_ns = [] if other_ms is None else [ns(other_ms)]
    assert _is_spare(silent, busy_ns) is is_spare
    silent.sockets["client"] = socket((0, "write"), (1, "read"), (2000, "close"))
    assert not _is_spare(silent, busy_ns)


def test_a_connection_without_data_is_spare_if_another_one_has_some() -> None:
    rows = capture(handshake())
    unused = Conversation(CLIENT, SERVER, rows, len(rows), given_up_ns=ns(2000))
    unused.sockets["client"] = socket((2000, "close"))
    assert _is_spare(unused, [ns(100)])
    assert not _is_spare(unused, [])


@pytest.mark.parametrize(
    ("asked_ms", "answer_ms", "fin_ms", "ended_ms", "tls", "kind"),
    [
        (350, 100, 400, 401, False, "keep-alive-race"),
        (399, 100, 500, 400, False, None),
        (350, 100, 400, 401, True, None),
        (350, 400, 400.2, 401, False, "reset-unread"),
        (350, 100, 0, 600, False, "reset-unread"),
    ],
    ids=["a request crosses the FIN", "a farewell", "TLS's farewell", "a refused upload", "no FIN"],
)
def test_what_a_reset_cost_is_told_by_the_last_data(
    asked_ms: float, answer_ms: float, fin_ms: float, ended_ms: float, tls: bool, kind: str | None
) -> None:
    fin = ACK | (FIN if fin_ms else 0)
    times = sorted(
        [
            *((ms, data(ms, seq, 16)) for ms, seq in ((0, 0), (asked_ms, 16))),
            (answer_ms, ack(answer_ms, 16, payload_bytes=38)),
            (fin_ms, row(fin_ms, False, seq=39, ack=17, flags=fin, payload_bytes=16 * tls)),
            (ended_ms, row(ended_ms, True, seq=33, ack=39, flags=ACK | FIN)),
            (510, row(510, False, seq=40 + 16 * tls, flags=RST)),
        ],
        key=lambda one: one[0],
    )
    rows = capture([*handshake(100), *(one for _ms, one in times)])
    closed = Conversation(CLIENT, SERVER, rows, len(rows), is_tls=tls)
    closed.sockets["server"] = socket((500, "close"), read=16)
    assert (_reset(closed) or (None,))[0] == kind


@pytest.mark.parametrize(
    ("min_rtt_us", "kind"), [(100_000, "keep-alive-race"), (0, "reset-unread")]
)
def test_a_handshake_that_took_long_is_not_the_round_trip(min_rtt_us: int, kind: str) -> None:
    rows = [*handshake(200), data(0, 0, 16), ack(100, 16, payload_bytes=38), data(350, 16, 16)]
    rows += [row(400, False, seq=39, ack=17, flags=ACK | FIN), row(401, True, flags=ACK | FIN)]
    rows.append(row(510, False, seq=40, flags=RST))  # later than a round trip after the read
    closed = Conversation(CLIENT, SERVER, capture(rows), len(rows))
    calls = (350, "write"), (351, "read"), (401, "close")
    closed.sockets["client"] = socket(*calls, min_rtt_us=min_rtt_us)
    assert (_reset(closed) or ("",))[0] == kind


@pytest.mark.parametrize(("stopped_ns", "is_known"), [(50_000_000, True), (150_000_000, False)])
def test_a_busy_machine_leaves_some_time_unexplained(stopped_ns: int, is_known: bool) -> None:
    """Of 600 ms, the recorder took at least 150: its work, or its own wait for a CPU."""
    parts = {"work": 330.0, "stopped": 150.0, "unexplained": 90.0, "cpu": 30.0}
    entries = [Entry(cause, took_ms, cause) for cause, took_ms in parts.items()]
    ledger = RunLedger(600.0, entries, (), by_calls=True)
    log = CallLog(stopped_ns=stopped_ns)
    recorded = CommandExchange(log, None, None, None, (0, 600_000_000))
    work = Finding("work", "none", 0.0, 0.0, "its own work", "", "")
    told = Explanation(recorded, [requests(20)], 1, [work], (), ledger).sentence
    assert told.startswith("no fault" if is_known else "not explained: 90.0 ms of 600.0 ms")


@pytest.mark.parametrize(("size", "is_harmless"), [(53, True), (85, True), (120, False)])
def test_a_farewell_of_tls_1_2_may_be_longer(size: int, is_harmless: bool) -> None:
    rows = [*handshake(), data(0, 0, 300), ack(1, 300, payload_bytes=2000)]
    rows += [row(400, False, seq=2001, ack=301, flags=ACK | FIN), data(400.2, 300, size, ack=2002)]
    rows.append(row(400.3, False, seq=2002, flags=RST))
    closed = Conversation(CLIENT, SERVER, capture(rows), len(rows), is_tls=True)
    assert (_reset(closed) is None) is is_harmless
