"""The segments of a capture in a few numbers: sizes, headers, retransmissions, round-trip times."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from tcplab.segments.table import (
    ACK,
    SYN,
    TCP,
    Array,
    Connection,
    Int64Array,
    SegmentArray,
    stable_order,
    starts_of,
)

if TYPE_CHECKING:
    from tcplab.tables import Table

__all__ = ["ConnectionSummary", "DirectionSummary", "Rtt", "SizeBin", "Summary", "summary"]


@dataclasses.dataclass(frozen=True, slots=True)
class SizeBin:
    """How many segments carry from low to high bytes of data, both included."""

    low_bytes: int
    high_bytes: int
    segments: int


@dataclasses.dataclass(frozen=True, slots=True)
class Rtt:
    """Times from data to its acknowledgement, both as seen where the capture was made.

    At the sender's end that is the round-trip time and the receiver's delay of the ACK; at the
    receiver's end the latter alone. Data that was sent twice does not count (Karn's algorithm,
    RFC 6298, section 3).
    """

    samples: int
    min_ms: float
    median_ms: float
    max_ms: float


@dataclasses.dataclass(frozen=True, slots=True)
class DirectionSummary:
    """One direction of a connection.

    Attributes:
        segments: rows of the array.
        payload_bytes: data, retransmissions included.
        header_bytes: all headers from the link's on; a super-segment's are counted as often as
            its segments will have them on the wire.
        pure_acks, retransmissions, out_of_order, zero_windows: how many of the segments are such.
        super_segments: how many stand for several segments on the wire.
        mss_bytes: what this end announced in its SYN, None when that was not seen.
        ack_rtt: of the data in this direction; None when nothing was acknowledged.
    """

    segments: int
    payload_bytes: int
    header_bytes: int
    pure_acks: int
    retransmissions: int
    out_of_order: int
    zero_windows: int
    super_segments: int
    mss_bytes: int | None
    ack_rtt: Rtt | None


@dataclasses.dataclass(frozen=True, slots=True)
class ConnectionSummary:
    """A connection: its ends, when it was seen, and its two directions.

    Attributes:
        number: as in the array's column `connection`.
        ends: who talks to whom.
        start_s: its first segment, after the capture's first.
        duration_s: from its first segment to its last.
        handshake_rtt_ms: from the client's SYN to its ACK of the SYN-ACK, the same wherever on the
            path it was captured; None when not seen.
        client_to_server, server_to_client: the two directions.
    """

    number: int
    ends: Connection
    start_s: float
    duration_s: float
    handshake_rtt_ms: float | None
    client_to_server: DirectionSummary
    server_to_client: DirectionSummary


@dataclasses.dataclass(frozen=True, slots=True)
class Summary:
    """A capture's segments in a few numbers.

    Attributes:
        segments: rows of the array.
        duration_s: from the first to the last.
        payload_bytes, header_bytes: as in DirectionSummary, of all.
        header_share: header_bytes of payload and headers together, 0 to 1; 0 without segments.
        retransmissions: segments that are such.
        sizes: histogram of the segments' data; bins from a power of two to the next.
        common_sizes: data bytes -> how many segments carry just so many, the eight most frequent.
        connections: in order of appearance.
    """

    segments: int
    duration_s: float
    payload_bytes: int
    header_bytes: int
    header_share: float
    retransmissions: int
    sizes: tuple[SizeBin, ...]
    common_sizes: dict[int, int]
    connections: tuple[ConnectionSummary, ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return dataclasses.asdict(self)

    def tables(self) -> tuple[Table, Table]:
        """A table of the connections' directions, and one of the segment sizes."""
        return _direction_table(self), _size_table(self)

    def __str__(self) -> str:
        return (
            f"{self.segments} segments in {self.duration_s:.6f} s: {self.payload_bytes} bytes of"
            f" data, {100 * self.header_share:.1f} % headers,"
            f" {self.retransmissions} retransmissions\n\n"
            + "\n\n".join(str(table) for table in self.tables())
        )


def summary(segments: SegmentArray) -> Summary:
    """Sums up the segments of a capture, or a selection of them."""
    headers = _header_bytes(segments)
    payload = segments["payload_bytes"]
    total, overhead = int(payload.sum(dtype=np.int64)), int(headers.sum())
    times = segments["time_ns"]
    return Summary(
        segments=len(segments),
        duration_s=int(times.max() - times.min()) / 1e9 if len(segments) else 0.0,
        payload_bytes=total,
        header_bytes=overhead,
        header_share=overhead / (total + overhead) if len(segments) else 0.0,
        retransmissions=int(segments["is_retransmission"].sum()),
        sizes=_size_bins(payload),
        common_sizes=_common_sizes(payload),
        connections=_connections(segments, headers),
    )


def _header_bytes(rows: Array) -> Int64Array:
    each = rows["wire_bytes"].astype(np.int64) - rows["payload_bytes"]
    # A UDP fragment's header tells of more data than the packet holds.
    result: Int64Array = np.maximum(each, 0) * np.maximum(rows["gso_count"], 1)
    return result


# ---- sizes ----


def _size_bins(payload: Array) -> tuple[SizeBin, ...]:
    """0 bytes, 1, 2 to 3, 4 to 7, and so on; empty bins at the ends are left out."""
    if not len(payload):
        return ()
    # frexp(n) is m x 2^e with 1/2 <= m < 1: e is 0 for 0, 1 for 1, 2 for 2 and 3, ...
    exponents = np.frexp(payload.astype(np.float64))[1]
    counts = np.bincount(exponents)
    return tuple(
        SizeBin(1 << (e - 1) if e else 0, (1 << e) - 1, int(counts[e]))
        for e in range(int(exponents.min()), len(counts))
    )


def _common_sizes(payload: Array) -> dict[int, int]:
    sizes, counts = np.unique(payload, return_counts=True)
    most = np.argsort(-counts, kind="stable")[:8]
    return {int(sizes[i]): int(counts[i]) for i in most}


# ---- connections ----


def _connections(rows: SegmentArray, headers: Int64Array) -> tuple[ConnectionSummary, ...]:
    if not len(rows):
        return ()
    streams = 2 * (int(rows["connection"].max()) + 1)
    stream = rows["connection"].astype(np.int64) * 2 + rows["direction"]

    def total(values: Array) -> list[int]:
        # Exact: a float64 holds whole numbers up to 2^53, and 9 x 10^15 bytes take a while.
        sums: list[int] = np.bincount(stream, values, streams).astype(np.int64).tolist()
        return sums

    columns = {
        "segments": np.bincount(stream, minlength=streams).tolist(),
        "payload_bytes": total(rows["payload_bytes"]),
        "header_bytes": total(headers),
        "pure_acks": total(rows["is_pure_ack"]),
        "retransmissions": total(rows["is_retransmission"]),
        "out_of_order": total(rows["is_out_of_order"]),
        "zero_windows": total(rows["is_zero_window"]),
        "super_segments": total(rows["gso_count"] > 1),
        "mss_bytes": _announced_mss(rows, stream, streams),
        "ack_rtt": _ack_rtts(rows, stream, streams),
    }
    directions = [
        DirectionSummary(**{name: column[i] for name, column in columns.items()})
        for i in range(streams)
    ]
    first, last = _time_range(rows, stream // 2, streams // 2)
    handshakes = _handshakes(rows, streams // 2)
    zero = int(rows["time_ns"].min())
    unknown = Connection("?", ("?", 0), ("?", 0))
    return tuple(
        ConnectionSummary(
            number=i,
            ends=rows.connections[i] if i < len(rows.connections) else unknown,
            start_s=(first[i] - zero) / 1e9,
            duration_s=(last[i] - first[i]) / 1e9,
            handshake_rtt_ms=handshakes.get(i),
            client_to_server=directions[2 * i],
            server_to_client=directions[2 * i + 1],
        )
        for i in np.unique(rows["connection"]).tolist()
    )


def _announced_mss(rows: Array, stream: Int64Array, streams: int) -> list[int | None]:
    mss = np.zeros(streams, np.int64)
    told = np.flatnonzero(rows["mss"])[::-1]  # the first SYN has the last word
    mss[stream[told]] = rows["mss"][told]
    return [value or None for value in mss.tolist()]


def _time_range(rows: Array, group: Int64Array, groups: int) -> tuple[list[int], list[int]]:
    first = np.full(groups, np.iinfo(np.int64).max)
    last = np.full(groups, np.iinfo(np.int64).min)
    np.minimum.at(first, group, rows["time_ns"])
    np.maximum.at(last, group, rows["time_ns"])
    return first.tolist(), last.tolist()


def _handshakes(rows: Array, connections: int) -> dict[int, float]:
    """Connection -> ms from the (last) SYN to the ACK that ends the handshake."""
    kind = rows["flags"] & (SYN | ACK)
    tcp = rows["protocol"] == TCP
    from_client = tcp & (rows["direction"] == 0)
    never = len(rows)
    syn_ack = np.full(connections, never)
    at = np.flatnonzero(tcp & (kind == SYN | ACK))[::-1]
    syn_ack[rows["connection"][at]] = at
    before = np.arange(never) < syn_ack[rows["connection"]]
    syn = np.full(connections, -1)
    at = np.flatnonzero(from_client & (kind == SYN) & before)
    syn[rows["connection"][at]] = at
    ack = np.full(connections, never)
    at = np.flatnonzero(from_client & (kind == ACK) & ~before)[::-1]
    ack[rows["connection"][at]] = at
    complete = np.flatnonzero((syn >= 0) & (syn_ack < never) & (ack < never))
    took = rows["time_ns"][ack[complete]] - rows["time_ns"][syn[complete]]
    return {int(i): ns / 1e6 for i, ns in zip(complete, took.tolist(), strict=True) if ns >= 0}


# ---- round-trip times ----


def _ack_rtts(rows: Array, stream: Int64Array, streams: int) -> list[Rtt | None]:
    """Of each stream's data, by the ACKs that end just where a data segment does."""
    tcp = np.flatnonzero(rows["protocol"] == TCP)
    order = tcp[stable_order(stream[tcp])]
    rows, stream = rows[order], stream[order]
    end = rows["seq"] + rows["payload_bytes"]
    key = _Keys(streams)
    fresh = (rows["payload_bytes"] > 0) & ~rows["is_retransmission"] & ~rows["is_out_of_order"]
    data = np.flatnonzero(fresh)
    ends = key(stream[data], end[data])  # ascending: what is not new was left out
    clean = ~_sent_again(rows, stream, ends, key)

    # An ACK that acknowledges something new; the first that does, if several say the same.
    acks = np.flatnonzero(rows["flags"] & ACK)
    acked = key(stream[acks] ^ 1, rows["ack"][acks])
    by_key = np.argsort(acked, kind="stable")
    acks, acked = acks[by_key], acked[by_key]
    new = starts_of(acked)
    acks, acked = acks[new], acked[new]

    at = np.searchsorted(ends, acked)
    match = at < len(ends)
    match[match] = (ends[at[match]] == acked[match]) & clean[at[match]]
    sent, answered = data[at[match]], acks[match]
    took = rows["time_ns"][answered] - rows["time_ns"][sent]
    return _spreads(stream[sent[took >= 0]], took[took >= 0], streams)


class _Keys:
    """Stream and sequence number as one integer, ordered by the stream first."""

    def __init__(self, streams: int) -> None:
        self.bits = 62 - streams.bit_length()

    def __call__(self, stream: Int64Array, number: Array) -> Int64Array:
        limit = (1 << (self.bits - 1)) - 1  # beyond any sane number
        result: Int64Array = (stream << self.bits) + np.clip(number, -limit, limit)
        return result


def _sent_again(rows: Array, stream: Int64Array, ends: Int64Array, key: _Keys) -> Array:
    """Which of the data segments (by their end's key) was touched by a retransmission."""
    again = np.flatnonzero(rows["is_retransmission"])
    seq = rows["seq"][again]
    low = np.searchsorted(ends, key(stream[again], seq), side="right")
    high = np.searchsorted(
        ends, key(stream[again], seq + rows["payload_bytes"][again]), side="right"
    )
    depth = np.zeros(len(ends) + 1, np.int64)
    np.add.at(depth, low, 1)
    np.add.at(depth, np.maximum(high, low), -1)
    return np.cumsum(depth)[:-1] > 0


def _spreads(stream: Int64Array, took_ns: Int64Array, streams: int) -> list[Rtt | None]:
    result: list[Rtt | None] = [None] * streams
    order = stable_order(stream)
    stream, took_ns = stream[order], took_ns[order]
    starts = np.flatnonzero(starts_of(stream))
    for part in np.split(took_ns / 1e6, starts[1:]) if len(starts) else []:
        number = int(stream[starts[0]])
        starts = starts[1:]
        result[number] = Rtt(
            len(part), float(part.min()), float(np.median(part)), float(part.max())
        )
    return result


# ---- tables ----


def _direction_table(total: Summary) -> Table:
    from tcplab.tables import Column, Table

    rows = []
    for connection in total.connections:
        ends = connection.ends
        for arrow, part in (
            (str(ends), connection.client_to_server),
            ("  and back", connection.server_to_client),
        ):
            if part.segments:
                rows.append(
                    {
                        **dataclasses.asdict(part),
                        "number": connection.number,
                        "arrow": arrow,
                        "rtt": part.ack_rtt.median_ms if part.ack_rtt else None,
                        "handshake": connection.handshake_rtt_ms,
                    }
                )
    return Table(
        [
            Column("number", "#", "d"),
            Column("arrow", "connection"),
            Column("segments", "segments", "d"),
            Column("payload_bytes", "data (bytes)", "d"),
            Column("header_bytes", "headers (bytes)", "d"),
            Column("pure_acks", "pure ACKs", "d"),
            Column("retransmissions", "retransmissions", "d"),
            Column("mss_bytes", "MSS (bytes)", "d"),
            Column("handshake", "handshake (ms)", ".3f"),
            Column("rtt", "data to ACK, median (ms)", ".3f"),
        ],
        rows,
        "Connections",
    )


def _size_table(total: Summary) -> Table:
    from tcplab.tables import Column, Table

    rows = [
        {
            "size": str(each.low_bytes)
            if each.low_bytes == each.high_bytes
            else f"{each.low_bytes} to {each.high_bytes}",
            "segments": each.segments,
            "share": 100 * each.segments / total.segments,
            "exactly": ", ".join(
                f"{size}: {count}"
                for size, count in sorted(total.common_sizes.items())
                if each.low_bytes <= size <= each.high_bytes
            ),
        }
        for each in total.sizes
        if each.segments
    ]
    return Table(
        [
            Column("size", "data (bytes)"),
            Column("segments", "segments", "d"),
            Column("share", "share (%)", ".1f"),
            Column("exactly", "most frequent sizes"),
        ],
        rows,
        "Segment sizes",
    )
