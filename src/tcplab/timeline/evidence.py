"""Collect the evidence for a timeline from the recordings, and check that they match."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tcplab.models.buffers import MAX_WINDOW_SCALE
from tcplab.programs import Event, SocketOptions
from tcplab.programs.reports import TcpInfo
from tcplab.segments import FIN, TCP, SegmentArray
from tcplab.segments.left_out import in_words
from tcplab.timeline.clocks import on_one_clock, straightened
from tcplab.timeline.copies import without_copies

#: Events in a log with which the application hands bytes to TCP.
WRITES: Final = ("write", "more")

#: Other names that programs log for reads and writes, in a client's log and in a server's.
_NAMES: Final = (
    {"request": "write", "quote": "read"},
    {"request": "read", "quote": "write", "reply": "write"},
)

#: Tolerance when times on the same clock are compared, because log lines and packets get their
#: timestamps a moment after the event.
CLOCK_NOISE_NS: Final = 1_000_000

#: If the handshake is shorter, processing times hide at which end the capture was made.
HANDSHAKE_NS: Final = 2_000_000
_FAR: Final = 5

#: The value of tcpi_snd_ssthresh while slow start has not ended (TCP_INFINITE_SSTHRESH).
_NO_THRESHOLD: Final = 0x7FFFFFFF

#: Bytes that the TCP timestamps option takes from each segment's payload.
_TIMESTAMPS_BYTES: Final = 12


@dataclass(slots=True)
class Packet:
    """A row of a SegmentArray as plain numbers, with offsets from the first byte of data."""

    index: int
    offset: int
    end: int
    ack: int
    gso_count: int
    has_ack: bool
    window: int  # the largest possible window if the scale is unknown
    packet: int
    time_ns: int
    payload_bytes: int
    flags: int
    wire_bytes: int
    sack_blocks: int
    is_retransmission: bool
    ip_id: int

    @property
    def fin(self) -> bool:
        return bool(self.flags & FIN)


class Evidence:
    """Everything that an Exchange shows of one connection, from the point of view of one sender.

    Raises ValueError if the connection cannot be determined, or if the recordings do not match.
    """

    def __init__(self, exchange: Any, connection: int | None, sender: str | None) -> None:
        self.exchange = exchange
        segments, options = exchange.captured, exchange.options
        tcp = of_tcp(segments)
        # `copies` counts packets recorded twice, whose second copies are left out.
        rows, self.copies = without_copies(tcp.of(_choose(tcp, options, connection)))
        is_logged = exchange.log is not None or exchange.peer_log is not None
        rows, self.notes = (rows, []) if is_logged else straightened(rows)
        _check_clock("segments", rows)
        direction = self.direction = _direction(rows, options, sender)
        self.connection = _name(rows, segments, direction)
        #: Segments that left the sender and that reached it, as captured there, in order of time
        self.out, self.into = _packets(rows, direction), _packets(rows, 1 - direction)
        #: Segments that left the peer and that reached it, or None without a capture at the peer
        self.peer_out: list[Packet] | None = None
        self.peer_into: list[Packet] | None = None
        if (peer_rows := _peer_rows(exchange.peer_segments, rows)) is not None:
            if not is_logged:
                peer_rows, note = on_one_clock(rows, peer_rows, direction)
                self.notes += [note] * bool(note)
            self.peer_out = _packets(peer_rows, 1 - direction)
            self.peer_into = _packets(peer_rows, direction)
        #: True if the handshake shows that the capture was made nearer to the peer
        self.at_peer = _is_at_peer(rows, direction)
        self._take_log()
        self._take_options(rows)

    def _take_log(self) -> None:
        exchange, peer_into = self.exchange, self.peer_into or ()
        names = _NAMES[self.direction]
        log: Sequence[Event] | None = exchange.log and [
            event._replace(name=names.get(event.name, event.name)) for event in exchange.log
        ]
        for name, moments in (("log", exchange.log), ("peer_log", exchange.peer_log)):
            if moments is not None and not moments:
                raise ValueError(f"{name} is empty: did the program end before it wrote its log?")
            _check_clock(name, moments or ())
        _check_clock("peer_segments", peer_into)
        _check_one_clock(self.out, peer_into)
        if log is not None:
            _check_belongs(log, self.out, self.into, at_peer=self.at_peer)
        last_ns = max(packets[-1].time_ns for packets in (self.out, self.into) if packets)
        #: How much earlier than the log the capture ends, or None
        self.cut_ns: int | None = None
        if log and _lacks_reads(log, self.into) and log[-1].time_ns - last_ns > CLOCK_NOISE_NS:
            self.cut_ns = log[-1].time_ns - last_ns
            # The capture does not show what happened to writes after its end.
            log = [event for event in log if event.time_ns <= last_ns]
        self.log = log  #: The sender's events, or None if there is no log
        self.end_ns = max(last_ns, log[-1].time_ns) if log else last_ns  #: End of the recording

    def _take_options(self, rows: SegmentArray) -> None:
        exchange, options = self.exchange, self.exchange.options
        syns = rows[rows.is_syn]
        self.saw_syn = bool(len(syns))  #: True if the capture includes the connection's start
        #: Largest payload of a segment, or None if unknown
        self.mss_bytes = _mss(syns, options, exchange.tcp_info)
        #: TCP_NODELAY at the start, or None if unknown
        self.nodelay = exchange.nodelay
        if options is not None and exchange.nodelay is None:
            self.nodelay = options.nodelay
        #: Samples of TCP_INFO with time_ns, in order
        self.samples = sorted(exchange.samples, key=lambda sample: int(sample["time_ns"]))
        #: True if the scale of the windows is known
        self.knows_windows = bool((rows["window_shift"] >= 0).all())
        #: The shortest time from a segment to the first ACK of its last byte, or None if unknown
        self.rtt_ns = _smallest_rtt(rows, self.direction)
        #: True if TCP_INFO, or the use of reno, shows that only a loss could end slow start
        self.stayed_in_slow_start = (exchange.tcp_info or {}).get(
            "snd_ssthresh"
        ) == _NO_THRESHOLD or (options is not None and options.congestion == "reno")


def _is_at_peer(rows: SegmentArray, direction: int) -> bool:
    """Return whether the capture was made near the peer, by the gaps in the handshake.

    Near the client, the gap after the SYN is the RTT, and the gap after the SYN-ACK is almost 0.
    """
    syns = rows[rows.is_syn]
    if len(syns) != 2 or syns["direction"].tolist() != [0, 1]:
        return False
    later: SegmentArray = rows[(rows["packet"] > syns["packet"][1]) & rows.from_client]
    if not len(later):
        return False
    gaps = np.diff([*syns["time_ns"], later["time_ns"][0]]).tolist()
    mine, other = gaps if direction == 0 else reversed(gaps)
    return bool(other > HANDSHAKE_NS and mine < other / _FAR)


# ---- which connection, and which side of it ------------------------------------------------------


def of_tcp(segments: SegmentArray) -> SegmentArray:
    """Return the TCP segments of a capture, or raise ValueError if there are none."""
    tcp: SegmentArray = segments[segments["protocol"] == TCP]
    if not len(tcp):
        others = {"UDP": len(segments)} if len(segments) else {}
        packets = in_words({**others, **segments.left_out})
        raise ValueError(f"nothing to explain: the capture has no readable TCP segment; {packets}")
    return tcp


def _choose(tcp: SegmentArray, options: SocketOptions | None, wanted: int | None) -> int:
    numbers = np.unique(tcp["connection"]).tolist()
    if wanted is not None:
        if wanted not in numbers:
            shown = ", ".join(map(str, numbers[:8]))
            raise ValueError(f"connection {wanted} is not in the capture; it has {shown}")
        return wanted
    if options is not None:
        same = tcp.at_port(options.local_port).at_port(options.peer_port)
        numbers = np.unique(same["connection"]).tolist()
        if not numbers:
            raise ValueError(
                f"the log does not belong to the capture: no connection between ports"
                f" {options.local_port} and {options.peer_port} in it"
            )
        return int(numbers[-1])
    if len(numbers) > 1:
        with_data = np.unique(tcp.data()["connection"]).tolist()
        if len(with_data) != 1:
            raise ValueError(
                f"the capture holds {len(numbers)} connections; choose one with connection (on the"
                f" command line --connection): {', '.join(map(str, numbers[:8]))}"
            )
        numbers = with_data
    return int(numbers[0])


def _direction(rows: SegmentArray, options: SocketOptions | None, sender: str | None) -> int:
    if sender is not None:
        if sender not in ("client", "server"):
            raise ValueError(f"sender={sender!r} must be 'client' or 'server'")
        return 0 if sender == "client" else 1
    if options is None:
        return 0
    from_local = rows[rows["src_port"] == options.local_port]
    return int(from_local["direction"][0]) if len(from_local) else 0


def _packets(rows: SegmentArray, direction: int) -> list[Packet]:
    indices = np.flatnonzero(rows["direction"] == direction)
    chosen_rows = rows.rows_at(indices)
    # Relative sequence numbers count the SYN as 0, so the first byte of data has number 1.
    start = np.maximum(chosen_rows["seq"] - 1, 0)
    offsets = start, start + chosen_rows["payload_bytes"], chosen_rows["ack"] - 1
    computed = indices, *offsets, np.maximum(chosen_rows["gso_count"], 1), chosen_rows.has_ack
    # Without the SYNs the scale is unknown. With the largest one, only a window of 0 is closed.
    unscaled = np.where(chosen_rows["window_shift"] < 0, MAX_WINDOW_SCALE, 0)
    window = chosen_rows["window"].astype(np.int64) << unscaled
    copied = "packet time_ns payload_bytes flags wire_bytes sack_blocks is_retransmission ip_id"
    columns = [
        column.tolist()
        for column in (*computed, window, *(chosen_rows[name] for name in copied.split()))
    ]
    return list(map(Packet, *columns))


def _peer_rows(segments: SegmentArray | None, ours: SegmentArray) -> SegmentArray | None:
    if segments is None:
        return None
    ports = int(ours["src_port"][0]), int(ours["dst_port"][0])
    same: SegmentArray = segments[segments["protocol"] == TCP].at_port(ports[0]).at_port(ports[1])
    if not len(same):
        raise ValueError(
            "peer_segments do not belong to the capture: the connection between ports"
            f" {' and '.join(map(str, sorted(ports)))} is not in them"
        )
    return without_copies(same.of(int(same["connection"][-1])))[0]


def _name(rows: SegmentArray, segments: SegmentArray, direction: int) -> str:
    from_sender = rows[rows["direction"] == direction]
    row = (from_sender if len(from_sender) else rows)[0]
    number = int(row["connection"])
    if number < len(segments.connections):
        known = segments.connections[number]
        ends = (known.client, known.server) if direction == 0 else (known.server, known.client)
        return " -> ".join(f"{address}:{port}" for address, port in ends)
    return f"port {row['src_port']} -> port {row['dst_port']}"


# ---- numbers from SYNs and options ---------------------------------------------------------------


def _mss(syns: SegmentArray, options: SocketOptions | None, tcp_info: TcpInfo | None) -> int | None:
    offered = [int(mss) for mss in syns["mss"] if mss]
    both = len({int(direction) for direction in syns["direction"]}) == 2
    if both and offered:
        timestamps = bool(syns["has_timestamps"].all())
        return min(offered) - (_TIMESTAMPS_BYTES if timestamps else 0)
    if tcp_info is not None and "snd_mss_bytes" in tcp_info:
        return int(tcp_info["snd_mss_bytes"])
    return options.mss_bytes if options else None


def _smallest_rtt(rows: SegmentArray, direction: int) -> int | None:
    """Return the shortest time from a segment to the first ACK of its last byte, or None.

    A retransmission clears all that waits, because the next ACK may answer either copy (Karn's
    algorithm).
    """
    rows = rows.rows_at(np.argsort(rows["time_ns"], kind="stable"))
    mine, again = rows["direction"] == direction, np.asarray(rows["is_retransmission"])
    sent = np.flatnonzero(mine & ~again & (rows.carries_data | rows.is_syn))
    acks = np.flatnonzero(~mine & rows.has_ack)
    if not len(sent) or not len(acks):
        return None
    ends = np.maximum.accumulate(np.maximum(rows["seq"] - 1, 0)[sent] + rows["payload_bytes"][sent])
    acked = np.searchsorted(ends, rows["ack"][acks] - 1, "right")
    last = np.minimum(acked, np.searchsorted(sent, acks)) - 1
    before = np.concatenate(([-1], np.maximum.accumulate(last)[:-1]))
    cleared = np.maximum.accumulate(np.where(mine & again, np.arange(len(rows)), -1))[acks]
    is_first = (last > before) & (sent[last] > cleared)
    rtts = rows["time_ns"][acks] - rows["time_ns"][sent[last]]
    return int(rtts[is_first].min()) if is_first.any() else None


def _lacks_reads(log: Sequence[Event], into: Sequence[Packet]) -> bool:
    """Return whether the application read bytes that no captured packet carried."""
    replies, reads = (
        sum(event.bytes for event in log if event.name == name) for name in ("reply", "read")
    )
    received = max((packet.end for packet in into), default=0)
    # A reply arrives on this connection, but the application may also read from another connection.
    return replies > received or replies + reads > received > 0


# ---- do the recordings belong together -----------------------------------------------------------


def _check_clock(name: str, moments: Any) -> None:
    """Raise ValueError if times step back in the order of occurrence."""
    is_rows = isinstance(moments, SegmentArray)
    times = np.array(moments["time_ns"] if is_rows else [one.time_ns for one in moments], np.int64)
    back_ns = times[:-1] - times[1:]
    for at in np.flatnonzero(back_ns > CLOCK_NOISE_NS)[:1].tolist():
        moment = moments[at + 1]
        if isinstance(moment, Event):
            what = f"its '{moment.name}' at {moment.time_ns}"
        else:
            what = f"packet {moment['packet'] if is_rows else moment.packet}"
        raise ValueError(
            f"the clock stepped back by {back_ns[at] / 1e6:.1f} ms in {name}, before {what}:"
            " record it again"
        )


def _check_one_clock(out: Sequence[Packet], peer_into: Sequence[Packet]) -> None:
    if not peer_into:
        return
    sent = {(p.offset, p.payload_bytes, p.flags): p.time_ns for p in reversed(out)}
    for packet in peer_into:
        left = sent.get((packet.offset, packet.payload_bytes, packet.flags))
        if left is not None and packet.time_ns < left - CLOCK_NOISE_NS:
            raise ValueError(
                "segments and peer_segments are not on one clock: packet"
                f" {packet.packet} arrives {(left - packet.time_ns) / 1e6:.1f} ms before it left"
            )


def _check_belongs(
    log: Sequence[Event], out: Sequence[Packet], into: Sequence[Packet], *, at_peer: bool
) -> None:
    """Raise ValueError unless the log can be the sender's log of the captured run."""
    if at_peer:
        raise ValueError(
            "the capture was made at the receiver (the handshake took the server no time),"
            " and the log is the sender's: give a capture made at the sender, and this one"
            " as the peer's"
        )
    writes = [event for event in log if event.name in WRITES]
    written = sum(event.bytes for event in writes)
    data = [packet for packet in out if packet.payload_bytes]
    carried = max((packet.end for packet in data), default=0)
    advice = "give the sender's log of this very run"
    if carried > written:
        raise ValueError(
            f"the log does not belong to the capture: it has {written} bytes written, and"
            f" {carried} were sent; {advice}"
        )
    packets = [*out, *into]
    first, last = min(p.time_ns for p in packets), max(p.time_ns for p in packets)
    if log[-1].time_ns < first - CLOCK_NOISE_NS or log[0].time_ns > last + CLOCK_NOISE_NS:
        raise ValueError(
            f"the log does not belong to the capture: it is from {log[0].time_ns} to"
            f" {log[-1].time_ns}, the capture from {first} to {last}; {advice}"
        )
    _check_causes(writes, data, advice)


def _check_causes(writes: Sequence[Event], data: Sequence[Packet], advice: str) -> None:
    end, i = 0, -1
    for packet in data:
        while end < packet.end and i + 1 < len(writes):
            i += 1
            end += writes[i].bytes
        if packet.time_ns < writes[i].time_ns - CLOCK_NOISE_NS:
            early_ms = (writes[i].time_ns - packet.time_ns) / 1e6
            raise ValueError(
                f"the log does not belong to the capture, or the clock stepped: byte"
                f" {packet.end - 1} was sent {early_ms:.1f} ms before it was written; {advice}"
            )
