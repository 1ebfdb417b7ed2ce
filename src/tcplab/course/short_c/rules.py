"""Check single facts about a run of a lesson's program.

A rule takes a run and parameters. It returns in one sentence, without the full stop, how the run
differs from the fact, or "". Rules compare bytes, sizes, order and the record of calls. The few
that look at times compare idle gaps or wide ratios within the run.
"""

import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from tcplab.course.short_c.ran import Ran
from tcplab.experiments.short_transfer import flights
from tcplab.programs.calls import HANDS_OVER, SocketCall
from tcplab.segments import TCP, SegmentArray

#: The C library is read into a program that starts, and its helper reads some files, too.
_STARTING_BYTES: Final = 30_000
_GOOD: Final = bytes(200) + b"samples".ljust(3000, b"\0") + bytes(20)
_BLANK: Final = bytes(len(_GOOD))
#: The bytes that each run must send.
_STREAMS: Final[Mapping[str, Callable[[Ran], bytes]]] = {
    "the-lab": lambda _: 2 * b"hello",
    "small-writes": lambda _: 10 * b"fifteen pieces of two bytes...",
    "cork": lambda _: _GOOD + _BLANK + _GOOD + _BLANK + _GOOD,
    "records-and-quotes": lambda _: 60 * b"record".ljust(60, b"\0"),
    "buffers": lambda ran: ran.stream.ljust(40 * 65536),
    "send-buffer": lambda _: 1600 * 1448 * b".",
    "slow-start": lambda ran: bytes(5 * int(ran.arguments[0])),
    "loss": lambda _: b"".join(1000 * bytes([letter]) for letter in b"abcdefgh"),
    "queues": lambda ran: bytes(1000 * int(ran.arguments[0])),
    "pipes": lambda ran: ran.file,
    "sendfile": lambda ran: ran.file,
    "segments": lambda ran: bytes(int(ran.arguments[0])),
    "path-mtu": lambda ran: bytes(sum(map(int, ran.arguments))),
}


# ---- connections and bytes ----


def one_connection(ran: Ran) -> str:
    """Check that the client opened one connection, and sent nothing outside of it."""
    opened = len(ran.segments.connections)
    return "" if opened == 1 else f"The client opened {opened} connections, not one"


def sends(ran: Ran, slug: str, marks: str = "", more: bool = False) -> str:
    """Check that the server acknowledged the bytes that are due, and if `more`, any after them.

    A character of `marks` may stand for a point.
    """
    due, sent = _STREAMS[slug](ran), ran.stream
    got = sent[: len(due)] if more else sent
    if got.translate(bytes(46 if chr(code) in marks else code for code in range(256))) == due:
        acked, size = ran.acknowledged, len(sent)
        return "" if acked >= size else f"The server acknowledged {acked:,} of {size:,} bytes"
    pairs = enumerate(zip(sent, due, strict=False))
    at = next((at for at, (a, b) in pairs if a != b), None)
    where = "" if at is None or marks else f", and differ at byte {at:,}"
    return f"The {len(sent):,} bytes sent are not the {len(due):,} that are due{where}"


def answers_questions(ran: Ran, size: int) -> str:
    """Check that a record with '!' follows each question that comes before the last record."""
    answers, questions = _answers(ran, size), ran.left_at_each_reply
    if not len(questions) - 1 <= len(answers) <= len(questions):
        return f"{len(answers)} records begin with '!', for {len(questions)} questions"
    if any(answer < left for answer, left in zip(answers, questions, strict=False)):
        return "A record that had left before a question begins with '!'"
    return ""


def few_older_bytes(ran: Ran, size: int, most: int) -> str:
    """Check how many bytes of older records leave between a question and its answer."""
    pairs = zip(_answers(ran, size), ran.left_at_each_reply, strict=False)
    older = max((answer - left for answer, left in pairs), default=0)
    where = "of older records left between a question and its answer"
    return "" if older <= most else f"Up to {older:,} bytes {where}, and at most {most:,} should"


def datagrams_of(ran: Ran, size: int, count: int) -> str:
    """Check the datagrams that the receiver gets. A busy receiver may miss some of them."""
    if (sent := sum(ran.sizes)) != size * count:
        return f"{sent:,} bytes were sent, not {size * count:,}"
    if other := {len(datagram) for datagram in ran.datagrams} - {size}:
        return f"The receiver got datagrams of {min(other):,} bytes, not only of {size:,}"
    if any(map(any, ran.datagrams)):
        return "The receiver got other bytes than those of the blocks"
    return "" if ran.datagrams else "The receiver got no datagram"


# ---- segments ----


def leaves_in(ran: Ran, sizes: Sequence[int], unit: str, count: int) -> str:
    """Check that each of the first units, such as messages, leaves in segments of these sizes."""
    total, due = np.cumsum(ran.sizes).tolist(), [*sizes] * count
    left = ran.sizes[: sum(end <= sum(due) for end in total)]
    first = ", ".join(map(str, left[:6]))
    message = f"The {count} {unit}s left in {len(left)} segments ({first}, … bytes)"
    return "" if left == due else f"{message}, not in {len(due)}"


def ends_without_an_ack(ran: Ran, segments: int) -> str:
    """Check that no ACK arrives between the first and last of each unit's segments."""
    rows = ran.segments.data("client", retransmissions=False)
    heard = ran.segments[ran.segments.from_server]["time_ns"].searchsorted(rows["time_ns"])
    units = [heard[at : at + segments] for at in range(0, len(heard), segments)]
    late = sum(bool(unit[0] != unit[-1]) for unit in units)
    return f"The end of {late} of {len(units)} frames left only after an ACK" if late else ""


def fills_packets(ran: Ran, size: int) -> str:
    """Check that the longest IP packets have this length, and that at least half are so long."""
    lengths = (ran.segments.data("client")["wire_bytes"] - 14).tolist()  # 14: Ethernet
    longest, full = max(lengths, default=0), lengths.count(size)
    if longest != size:
        word = "The longest packet has" if longest > size else "No packet is longer than"
        return f"{word} {longest} bytes, and the tunnel takes {size}"
    return "" if 2 * full >= len(lengths) else f"Only {full} of {len(lengths)} packets are so long"


def in_few_packets(ran: Ran, most: int) -> str:
    """Check that all data leaves by UDP in at most `most` packets, and none in fragments."""
    data = ran.segments.data("client")
    if (data["protocol"] == TCP).any():
        return "Some blocks were sent by TCP"
    if (data["payload_bytes"] > data["wire_bytes"]).any():
        return "A datagram is too long for the path, so IP has cut it into fragments"
    many = f"The blocks made {len(data)} trips through the kernel, not at most {most}"
    return many if len(data) > most else ""


def reports_the_gap(ran: Ran) -> str:
    """Check that an ACK reports the gap before the client sends the lost message again."""
    data, server = ran.segments.data("client"), ran.segments.sent_by("server")
    again = data["time_ns"][data["is_retransmission"]]
    before = server["time_ns"] < again.min(initial=0 if not len(again) else 2**62)
    if (server["sack_blocks"][before] > 0).any():
        return ""
    return "Message 8 was lost and came back by a probe, because no ACK reported a gap before"


# ---- answers and waits ----


def reads_in_turn(ran: Ran, message_bytes: int, reply_bytes: int) -> str:
    """Check that each reply is read before any byte of the next message is handed to TCP."""
    size = message_bytes or int(ran.arguments[0])
    calls = _handing_over(ran)
    for call in calls:
        before = (call.written + max(call.asked_bytes, 1) - 1) // size
        if call.read < (due := before * reply_bytes):
            had = f"the program had read {call.read} of the {due} bytes of answers"
            return f"When a part of message {before + 1} was handed to the kernel, {had}"
    return "" if calls else "The check saw no call that hands bytes to TCP"


def reads_all(ran: Ran) -> str:
    """Check that the client closed its end after it had read all that the server sent."""
    mine = ran.segments[ran.segments.from_client]
    sent = int(ran.segments.data("server", retransmissions=False)["payload_bytes"].sum())
    last = [socket.calls[-1] for socket in ran.sockets if socket.calls]
    # A read that is the last call may have taken the rest.
    if mine.is_rst.any() or any(call.name != "read" and call.read < sent for call in last):
        return "An answer had not been read when the connection was closed"
    return "" if mine.is_fin.any() else "The connection was still open when the program had ended"


def prints(ran: Ran, word: str) -> str:
    """Check that the program printed a word."""
    return "" if word in ran.output else f"The client ended without the {word}"


def prompt(ran: Ran, held_ms: float, usual_ms: float) -> str:
    """Check that no message is held, once the answer before it has arrived."""
    gaps = ran.gaps_ms
    if late := sum(gap > held_ms for gap in gaps):
        return f"{late} of {len(gaps) + 1} messages left more than 150 ms after the answer before"
    if gaps and (usual := statistics.median(gaps)) > usual_ms:
        return f"Half of the messages left {usual:.0f} ms or more after the answer before"
    return ""


def sets_no_option(ran: Ran) -> str:
    """Check that no option of TCP decides when segments leave."""
    names = {"nodelay": "TCP_NODELAY", "cork": "TCP_CORK"}
    options = {name for socket in ran.sockets for _ns, name, _value in socket.options}
    used = [title for name, title in names.items() if name in options]
    return f"{' and '.join(used)} was set, and the task is to do without" if used else ""


def hands_over_without_a_pause(ran: Ran, rtt_ms: float) -> str:
    """Check that the program waits for no ACK before it has handed everything over."""
    pauses_ms = [(b.time_ns - a.time_ns) / 1e6 for a, b in pairwise(_handing_over(ran))]
    waits = sum(pause_ms > 0.6 * rtt_ms for pause_ms in pauses_ms)
    times = "Once" if waits == 1 else f"{waits} times"
    return f"{times} the program paused before it had sent everything" if waits else ""


def prints_an_honest_rate(ran: Ran, count: int) -> str:
    """Check that the printed rate of `count` records covers the time until the last ACK."""
    number = re.search(r"\d+(\.\d+)?", ran.output)
    acks = ran.segments[ran.segments.from_server & (ran.segments["ack"] > sum(ran.sizes))]
    took_s = (int(acks["time_ns"][0]) - ran.first_ns) / 1e9
    if not number:
        return "The program printed no rate"
    if ran.ended_ns < int(acks["time_ns"][0]):
        return "The program had ended before the last ACK arrived"
    printed, true = float(number[0]), count / took_s
    passed = f"{1e3 * took_s:.0f} ms passed until the last ACK, so there were {true:,.0f}"
    message = f"The line says {printed:,.0f} records per second, but {passed}"
    return "" if 0.6 * true <= printed <= 1.05 * true + 1 else message


# ---- windows, queues and lines ----


def window_fills(ran: Ran, path_bytes: int) -> str:
    """Check that most windows of the receiver in the second half exceed `path_bytes`."""
    sent = ran.segments.sent_by("server")
    syn_acks, acks = sent[sent.is_syn], sent[~sent.is_syn]
    usual = float(np.median(acks["window"][len(acks) // 2 :])) if len(acks) else 0.0
    scale = int(syn_acks["wscale"].max(initial=-1))
    message = f"The SYN-ACK has the scale {scale}, and half of the later windows had {usual:,.0f}"
    return "" if usual >= path_bytes else f"{message} bytes or fewer; the path holds {path_bytes:,}"


def keeps_flowing(ran: Ran, most_ms: float) -> str:
    """Check that no pause between segments with data is longer."""
    pause_ms = int(np.diff(ran.segments.data("client")["time_ns"].astype(np.int64)).max()) / 1e6
    return f"The data stood still for {pause_ms:.0f} ms" if pause_ms > most_ms else ""


def keeps_the_line_busy(ran: Ran, rate_mbit: float, percent: float) -> str:
    """Check that the data keeps the line busy for at least this share of its time."""
    bits = 8 * int(ran.segments.data("client")["wire_bytes"].astype(np.int64).sum())
    busy = 100 * bits / 1e3 / rate_mbit / max(ran.span_ms, 1e-3)
    return "" if busy >= percent else f"The line was busy for only {busy:.0f} % of the time"


def mostly_in_flight(ran: Ran, percent: float, least: int = 0, most: int = 10**9) -> str:
    """Check the bytes in flight just after each of this share of the segments left."""
    flight = np.array(ran.in_flight or [0])
    good = 100 * float(np.mean((flight >= least) & (flight <= most)))
    limit = f"at least {least:,}" if least else f"at most {most:,}"
    message = f"Only {good:.0f} % of the segments left with {limit} bytes in flight"
    return "" if good >= percent else message


def keeps_its_window(ran: Ran, rtt_ms: float, most: int) -> str:
    """Check that the data leaves in fewer flights than with a new window per message."""
    count = len(flights(ran.segments, rtt_ms))
    message = f"The uploads left in {count} flights, as if each began with a new window"
    return "" if count <= most else message


def not_slower(ran: Ran, times: float) -> str:
    """Check that the run takes at most `times` as long as the original's."""
    assert ran.original is not None
    mine_ms, its_ms = ran.span_ms, ran.original.span_ms
    message = f"Your program took {mine_ms:,.0f} ms, and the original {its_ms:,.0f} ms"
    return "" if mine_ms <= times * its_ms else message


def both_send(ran: Ran, seconds: float) -> str:
    """Check that the program and the original send for most of this time."""
    assert ran.rival is not None
    for trace, whose in ((ran, "Your program"), (ran.rival, "The other program")):
        times = _tcp(trace).data("client")["time_ns"]
        took_s = (int(times[-1]) - int(times[0])) / 1e9 if len(times) else 0
        if took_s < 0.75 * seconds:
            return f"{whose} sent for {took_s:.1f} of {seconds:g} seconds"
    return ""


def has_a_share(ran: Ran, percent: float) -> str:
    """Check the share of the bytes that the server acknowledged while both programs sent."""
    assert ran.rival is not None
    both = [_tcp(ran), _tcp(ran.rival)]
    data = [rows.data("client")["time_ns"] for rows in both]
    start, end = max(times[0] for times in data), min(times[-1] for times in data)
    mine, other = (
        sum(_acked(rows.of(n), end) - _acked(rows.of(n), start) for n in set(rows["connection"]))
        for rows in both
    )
    share = 100 * mine / max(mine + other, 1)
    message = f"While both programs sent, yours got {share:.0f} % of the bytes"
    return "" if share >= percent else f"{message}, not {percent:g} %"


# ---- calls ----


def copies_nothing(ran: Ran) -> str:
    """Check that no process of the program reads the pipe's bytes into its memory."""
    if ran.entered_bytes < 0:
        return "/proc/PID/io does not count here what the program read"
    message = f"All bytes arrived, but {ran.entered_bytes:,} bytes were copied into the program"
    return "" if ran.entered_bytes <= _STARTING_BYTES else message


def in_few_calls(ran: Ran, bytes_per_call: int) -> str:
    """Check that the program makes fewer calls than one for each `bytes_per_call` of its file."""
    message = f"All {len(ran.file):,} bytes arrived, but in {ran.calls:,} calls"
    many = ran.calls >= len(ran.file) // bytes_per_call
    return f"{message}, at least one for each {bytes_per_call} bytes" if many else ""


def stops_at_the_end(ran: Ran) -> str:
    """Check that the program does not go on once it has handed over its whole file."""
    useless = sum(call.written >= len(ran.file) for call in _handing_over(ran))
    return f"After the end of the file, {useless} calls sent nothing" if useless > 3 else ""


# ---- what several rules need ----


def _answers(ran: Ran, size: int) -> list[int]:
    """Return the offsets of the records that begin with '!'."""
    return [n * size for n, first in enumerate(ran.stream[::size]) if first == ord("!")]


def _handing_over(ran: Ran) -> list[SocketCall]:
    """Return the calls that hand bytes to TCP, in order."""
    calls = [call for socket in ran.sockets for call in socket.calls if call.name in HANDS_OVER]
    return sorted(calls, key=lambda call: call.time_ns)


def _tcp(ran: Ran) -> SegmentArray:
    rows: SegmentArray = ran.segments[ran.segments["protocol"] == TCP]
    return rows


def _acked(rows: SegmentArray, time_ns: int) -> int:
    return int(rows["ack"][rows.from_server & (rows["time_ns"] <= time_ns)].max(initial=1))
