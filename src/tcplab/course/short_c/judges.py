"""Define the peer of each lesson's program, and what a changed program must do."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from tcplab.course.short_c.ran import Ran
from tcplab.experiments.short_transfer import flights
from tcplab.lab import Lab
from tcplab.segments import SegmentArray


@dataclass(frozen=True, slots=True)
class Case:
    """The peer of a lesson's program, and the check of a changed program."""

    peer: Sequence[str]  #: the course's program at the other end; {0} is the first argument
    arguments: Sequence[str]  #: arguments of the program in a check
    complaint: Callable[[Ran], str]  #: returns in one sentence what is wrong with a run, or ""
    success: str
    listens: bool = False  #: True if the lesson's program is the server and the peer connects to it
    link: Mapping[str, Any] = field(default_factory=dict)  #: parameters of the Lab in a check
    prepare: Callable[[Lab], object] = lambda _lab: None  #: called with the lab before the run
    beside: str = ""  #: arguments of the original, if it runs on a second client meanwhile, or ""
    file_mb: int = 0  #: size of the file that the program is given in a check, or 0
    counts_calls: bool = False  #: True if a check counts the client's system calls
    stdin: str = ""  #: standard input of the program in a check; see run()


def _one_segment_each(ran: Ran) -> str:
    expected = 10 * b"fifteen pieces of two bytes..."
    if ran.stream != expected:
        return f"The {len(ran.stream)} bytes sent are not the {len(expected)} of the original"
    if set(ran.sizes) != {30}:
        first = ", ".join(map(str, ran.sizes[:6]))
        return f"10 messages left in {len(ran.sizes)} segments ({first}, … bytes), not in 10"
    return ""


def _asked_twice(ran: Ran) -> str:
    if (opened := len(ran.segments.connections)) != 1:
        return f"The client opened {opened} connections, not one"
    if ran.stream != 2 * b"hello":
        return f"The client sent {ran.stream.decode(errors='replace')!r}, not 'hello' twice"
    if ran.sizes != [5, 5]:
        return "Both questions left in one segment; ask again after the first answer"
    return ""


#: Sizes of the segments of a frame in the lesson "cork".
_FRAME: Final = [1448, 1448, 324]


def _frames_at_once(ran: Ran) -> str:
    header, body, trailer = bytes(200), b"samples".ljust(3000, b"\0"), bytes(20)
    good, blank = header + body + trailer, bytes(sum(_FRAME))
    expected = good + blank + good + blank + good
    if ran.stream != expected:
        return f"The {len(ran.stream)} bytes sent are not the {len(expected)} of the original"
    if ran.sizes != 5 * _FRAME:
        first = ", ".join(map(str, ran.sizes[:6]))
        return f"5 frames left in {len(ran.sizes)} segments ({first}, … bytes), not in 15"
    if late := len(ran.bursts) - 5:
        return f"The end of {late} of 5 frames left only after the ACK of its beginning"
    return ""


def _without_waiting(ran: Ran) -> str:
    expected = 60 * b"record".ljust(60, b"\0")
    if ran.stream != expected:
        return f"The {len(ran.stream)} bytes sent are not the {len(expected)} of the original"
    if (waits := len(ran.bursts) - 1) > 10:
        return f"The client heard from the server {waits} times before it had sent everything"
    return ""


def _window_fills_the_path(ran: Ran) -> str:
    sent = ran.segments.sent_by("server")
    syn_acks, acks = sent[sent.is_syn], sent[~sent.is_syn]
    if not len(syn_acks) or int(acks["ack"].max(initial=0)) <= len(ran.stream):
        return "The receiver did not take all bytes of the sender"
    scale = int(syn_acks["wscale"][0])
    # By default, Linux takes back no window that it has offered, so the window shrinks only as data
    # arrives. Only the second half counts.
    window = int(acks["window"][len(acks) // 2 :].max())
    if window < _PATH_BYTES:
        return (
            f"The SYN-ACK has the scale {scale}, and the largest window in the second half of the"
            f" transfer was {window:,} bytes; the path holds {_PATH_BYTES:,}"
        )
    return ""


#: Payload in flight that fills a 50 Mbit/s link with a 40 ms RTT.
_PATH_BYTES: Final = 235_000


def _answers_soon(ran: Ran) -> str:
    records = ran.stream[::_RECORD_BYTES]
    if len(ran.stream) != 1600 * _RECORD_BYTES or set(ran.stream) - {*b".!"}:
        return f"The {len(ran.stream)} bytes sent are not 1600 records of {_RECORD_BYTES} bytes"
    asked = _left_at_each_question(ran.segments)
    answers = [number * _RECORD_BYTES for number, first in enumerate(records) if first == ord("!")]
    older = [answer - left for answer, left in zip(answers, asked, strict=False)]
    if not 1 <= len(answers) <= len(asked) or min(older) < 0:
        return f"{len(answers)} records begin with '!', for {len(asked)} questions"
    if max(older) > _OLDER_BYTES:
        return (
            f"Up to {max(older):,} bytes of older records left between a question and its answer,"
            f" and at most {_OLDER_BYTES:,} should"
        )
    if (most := max(ran.in_flight)) < _IN_FLIGHT_BYTES:
        return (
            f"The answers come soon, but no more than {most:,} bytes were in flight, and the path"
            " holds 62,500"
        )
    return ""


def _left_at_each_question(rows: SegmentArray) -> list[int]:
    """Return how many of the client's bytes had left when each question of the server arrived."""
    ends = np.where(rows.from_client & rows.carries_data, rows["seq"] + rows["payload_bytes"], 1)
    left = np.maximum.accumulate(ends) - 1
    return list(left[rows.from_server & rows.carries_data].tolist())


_RECORD_BYTES: Final = 1448
#: A TCP_NOTSENT_LOWAT of 16 KiB plus one packet buffer of the kernel, because the kernel checks the
#: limit only when a buffer is full.
_OLDER_BYTES: Final = 80_000
#: A 10 Mbit/s link with a 50 ms RTT holds more than this, and an SO_SNDBUF of 16 KiB allows less.
_IN_FLIGHT_BYTES: Final = 45_000


def _one_connection(ran: Ran) -> str:
    if (opened := len(ran.segments.connections)) != 1:
        return f"The client opened {opened} connections for 5 uploads, not one"
    if ran.stream != bytes(5 * 43_440):
        return f"The {len(ran.stream):,} bytes sent are not the 217,200 of the original"
    parts = flights(ran.segments, CASES["slow-start"].link["rtt_ms"])
    if len(parts) >= 10:  # a new connection takes two flights for each upload
        return f"The uploads left in {len(parts)} flights, as if each began with a new window"
    return ""


def _lose_message_8(lab: Lab) -> None:
    lab.link.script("client->server", "drop data nth=8")


def _repaired_without_a_probe(ran: Ran) -> str:
    messages = b"".join(1000 * letter.encode() for letter in "abcdefgh")
    if not ran.stream.startswith(messages):
        return f"The {len(ran.stream):,} bytes sent do not begin with the 8 messages"
    if ran.sizes[:8] != [1000] * 8:
        first = ", ".join(map(str, ran.sizes[:8]))
        return f"The 8 messages left in segments of {first} bytes, not in 8 of 1000"
    if "receipt" not in ran.output:
        return "The client ended without the receipt"
    data = ran.segments.data("client")
    again = data[data["is_retransmission"]]["time_ns"][0]
    server = ran.segments.sent_by("server")
    if not (server["sack_blocks"][server["time_ns"] < again] > 0).any():
        return "Message 8 was lost and came back by a probe, because no ACK reported a gap before"
    return ""


def _a_short_queue(ran: Ran) -> str:
    if ran.stream != bytes(2_000_000):
        return f"The {len(ran.stream):,} bytes sent are not the 2,000,000 of the original"
    if (usual := statistics.median(ran.in_flight)) > 50_000:
        return f"Half of the segments left with {usual:,.0f} bytes or more in flight, not 50,000"
    # A busy machine causes a few idle moments by waking the program too late.
    if (idle := sum(flight <= 1448 for flight in ran.in_flight)) > 20:
        return f"{idle} times the program sent only when nothing was in flight: the line was idle"
    return ""


def _more_than_half(ran: Ran) -> str:
    assert ran.beside is not None
    both = [trace.segments.data("client", retransmissions=False) for trace in (ran, ran.beside)]
    if not all(rows.size for rows in both):
        return "One of the two programs sent no data"
    first_ns = max(rows["time_ns"].min() for rows in both)
    last_ns = min(rows["time_ns"].max() for rows in both)
    mine, other = (
        int(
            rows["payload_bytes"][
                (first_ns <= rows["time_ns"]) & (rows["time_ns"] <= last_ns)
            ].sum()
        )
        for rows in both
    )
    share = 100 * mine / max(mine + other, 1)
    if share < 60:
        return f"While both programs sent, yours got {share:.0f} % of the bytes, not 60 %"
    return ""


def _not_delivered(ran: Ran, whose: str, source: str) -> str:
    if len(ran.stream) < len(ran.file):
        return f"{len(ran.stream):,d} of {whose} {len(ran.file):,d} bytes arrived"
    if ran.stream != ran.file:
        return f"The {len(ran.stream):,d} bytes that arrived are not those of {source}"
    return ""


def _whole_file_in_few_calls(ran: Ran) -> str:
    if missing := _not_delivered(ran, "the file's", "the file"):
        return missing
    if ran.calls >= len(ran.file) // 4096:
        return f"All bytes arrived, but in {ran.calls:,d} calls: at least one for each 4096 bytes"
    return ""


def _without_entering_the_program(ran: Ran) -> str:
    if missing := _not_delivered(ran, "the", "the input"):
        return missing
    if ran.entered_bytes < 0:
        return "All bytes arrived, but /proc/PID/io does not count here what the program read"
    if ran.entered_bytes > len(ran.file) // 10:
        return f"All bytes arrived, but {ran.entered_bytes:,d} bytes were copied into the program"
    return ""


def _fills_a_tunnel(ran: Ran) -> str:
    sent, longest = len(ran.stream), max(ran.sizes, default=0) + 52
    if sent != 100_000:
        return f"{sent} bytes were sent, not the 100000 of the original"
    if longest > 1420:
        return f"The longest packet has {longest} bytes, and the tunnel takes 1420"
    if longest < 1420:
        return f"No packet is longer than {longest} bytes, and the tunnel takes 1420"
    return ""


def _narrow(lab: Lab) -> None:
    """Make the path to the server drop packets above 1200 bytes, without any ICMP message."""
    lab.link.update("client->server", mtu=1200, icmp="off")


def _all_acknowledged(ran: Ran) -> str:
    if (sent := len(ran.stream)) != 2100:
        return f"{sent} bytes were sent, not the 2100 of the original"
    acknowledged = int(max(ran.segments.acks("server")["ack"], default=1)) - 1
    if acknowledged < sent:
        return f"{sent} bytes were sent over the narrow path, and {acknowledged} acknowledged"
    return ""


def _in_few_packets(ran: Ran) -> str:
    data = ran.segments.data("client")
    sent = int(data["payload_bytes"].sum())
    if sent != 900 * 1440:
        return f"{sent} bytes were sent, not the {900 * 1440} of the original"
    if (data["payload_bytes"] > data["wire_bytes"]).any():
        return "A datagram is too long for the path, so IP has cut it into fragments"
    if len(data) > 45:
        return f"The blocks made {len(data)} trips through the kernel, not at most 45"
    return ""


CASES: Final[Mapping[str, Case]] = {
    "the-lab": Case(
        ("writepattern_peer", "--reply-every=5", "--reply-bytes=5", "--port=0"),
        (),
        _asked_twice,
        "One connection, and two questions in a segment each",
    ),
    "small-writes": Case(
        ("tcp_nodelay_server", "0", "10"),
        ("send",),
        _one_segment_each,
        "10 messages left in 10 segments of 30 bytes",
    ),
    "cork": Case(
        ("tcp_nodelay_server", "--writes=1", f"--write-bytes={sum(_FRAME)}", "0", "5"),
        ("broken",),
        _frames_at_once,
        "5 frames left in 3 segments each, and no end of a frame waited",
        link={"rtt_ms": 100},  # an ACK then takes much longer than the calls of a frame
    ),
    "records-and-quotes": Case(
        ("writepattern_peer", "--quickack=off", "--port=0"),
        ("waiting",),
        _without_waiting,
        "60 records left, and almost none of them waited for the server",
        link={"rtt_ms": 20},
    ),
    "buffers": Case(
        ("tcpsource", "-b", "auto", "-s", "65536", "-c", "40"),
        ("16384", "262144"),
        _window_fills_the_path,
        f"The windows on the wire grew beyond the {_PATH_BYTES:,} bytes that the path holds",
        listens=True,
        link={"rtt_ms": 40, "rate_mbit": 50},
    ),
    "send-buffer": Case(
        ("tcp_nodelay_server", "-w", "1", "-s", "579200", "0", "4"),
        (),
        _answers_soon,
        f"At most {_OLDER_BYTES:,} bytes of older records left before each answer, and the path"
        " was full",
        link={"rtt_ms": 50, "rate_mbit": 10, "aqm": "codel"},
    ),
    "slow-start": Case(
        ("writepattern_peer", "--reply-every={0}", "--reply-bytes=2", "--port=0"),
        ("43440",),
        _one_connection,
        "5 uploads went over one connection",
        link={"rtt_ms": 40, "rate_mbit": 50, "congestion": "reno"},
    ),
    "loss": Case(
        ("writepattern_peer", "--reply-every=8000", "--reply-bytes=2", "--port=0"),
        (),
        _repaired_without_a_probe,
        "message 8 was lost, and the server reported the gap before a probe was needed",
        link={"rtt_ms": 40, "rate_mbit": 50},
        prepare=_lose_message_8,
    ),
    "queues": Case(
        ("tcpsink", "-b", "auto", "-p", "0"),
        ("2000",),
        _a_short_queue,
        "2,000,000 bytes kept the line busy, mostly with at most 50,000 of them in flight",
        link={"rtt_ms": 20, "rate_mbit": 10, "congestion": "reno"},
    ),
    "sharing": Case(
        ("writepattern_peer", "--port=0"),
        ("reno", "3"),  # every kernel allows reno to every user
        _more_than_half,
        "While both programs sent, yours got at least 60 % of the bytes",
        link={"clients": [20, 20], "rate_mbit": 10, "queue_packets": 100, "aqm": "fq_codel"},
        beside="reno 3",
    ),
    "pipes": Case(
        ("sendfile_server", "-p", "0"),
        (),
        _without_entering_the_program,
        "All bytes arrived, and none of them was copied into the program",
        file_mb=4,
        stdin="cat FILE",
    ),
    "sendfile": Case(
        ("sendfile_server", "-p", "0"),
        ("timer",),
        _whole_file_in_few_calls,
        "Every byte of the file arrived, in fewer calls than one for each 4096 bytes",
        link={"rate_mbit": 50},
        file_mb=4,
        counts_calls=True,
    ),
    "segments": Case(
        ("tcpsink", "-p", "0", "-b", "auto"),
        ("100000",),
        _fills_a_tunnel,
        "The longest packets have 1420 bytes, as many as the tunnel takes",
    ),
    "path-mtu": Case(
        ("tcpsink", "-p", "0", "-b", "auto"),
        ("100", "2000"),
        _all_acknowledged,
        "All 2100 bytes were acknowledged over the narrow path",
        prepare=_narrow,
    ),
    "tcp-vs-udp": Case(
        ("udpsink", "-p", "0"),
        ("udp",),
        _in_few_packets,
        "The blocks made at most 45 trips through the kernel",
        link={"offload": True},
    ),
}
