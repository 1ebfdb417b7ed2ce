"""Summarize the segments of a capture by connections, sizes, headers and retransmissions.

`capinfos` and `tshark -z conv,tcp` report more. This summary counts the headers of every segment
that a super-segment becomes on the wire, and the retransmissions that the array marks.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Final

import numpy as np

from tcplab.segments.left_out import in_words as left_out_in_words
from tcplab.segments.table import Array, Connection, Int64Array, SegmentArray
from tcplab.tables import Column, Table

_COMMON_SIZES: Final = 8


@dataclasses.dataclass(frozen=True, slots=True)
class SizeBin:
    """The number of segments that carry low_bytes to high_bytes of data, both included."""

    low_bytes: int
    high_bytes: int
    segments: int


@dataclasses.dataclass(frozen=True, slots=True)
class DirectionSummary:
    """One direction of a connection. Fields whose names do not end in _bytes count segments."""

    segments: int
    #: Data bytes, including retransmissions.
    payload_bytes: int
    #: Bytes of all headers, including the link's. A super-segment has one set per wire segment.
    header_bytes: int
    pure_acks: int
    retransmissions: int
    out_of_order: int
    zero_windows: int
    #: Segments that are sent as several segments on the wire.
    super_segments: int


@dataclasses.dataclass(frozen=True, slots=True)
class ConnectionSummary:
    """A connection and its two directions."""

    #: The connection's number in the array's column `connection`.
    number: int
    ends: Connection
    #: Time from the first of all segments in the summary to the connection's first.
    start_s: float
    #: Time from the connection's first segment to its last.
    duration_s: float
    client_to_server: DirectionSummary
    server_to_client: DirectionSummary


@dataclasses.dataclass(frozen=True, slots=True)
class Summary:
    """A summary of a capture's segments, with counts as in DirectionSummary."""

    segments: int
    #: Time from the first segment to the last.
    duration_s: float
    payload_bytes: int
    header_bytes: int
    #: Share of headers in all bytes, from 0 to 1; 0 if there are no segments.
    header_share: float
    retransmissions: int
    #: Histogram of the data per segment, with bins from one power of two to the next.
    sizes: tuple[SizeBin, ...]
    #: Number of segments with each of the eight most frequent data sizes.
    common_sizes: dict[int, int]
    #: The connections in order of appearance.
    connections: tuple[ConnectionSummary, ...]
    #: Number of packets in the capture that produced no segment, by kind.
    left_out: dict[str, int]

    def as_dict(self) -> dict[str, Any]:
        """Return the summary as plain data for JSON."""
        return dataclasses.asdict(self)

    def tables(self) -> tuple[Table, Table]:
        """Return a table of the connections, by direction, and a table of segment sizes."""
        return _direction_table(self), _size_table(self)

    def __str__(self) -> str:
        return (
            f"{self.segments} segments in {self.duration_s:.6f} s: {self.payload_bytes} bytes of"
            f" data, {100 * self.header_share:.1f} % headers,"
            f" {self.retransmissions} retransmissions\n\n"
            + "\n\n".join(str(table) for table in self.tables())
            + (f"\n\n{left_out_in_words(self.left_out)}" if self.left_out else "")
        )


def summary(segments: SegmentArray) -> Summary:
    """Summarize the segments of a capture, or of a selection."""
    connections = _connections(segments)
    directions = [
        part
        for connection in connections
        for part in (connection.client_to_server, connection.server_to_client)
    ]
    payload = sum(direction.payload_bytes for direction in directions)
    headers = sum(direction.header_bytes for direction in directions)
    times = segments["time_ns"]
    return Summary(
        segments=len(segments),
        duration_s=(int(times.max()) - int(times.min())) / 1e9 if len(segments) else 0.0,
        payload_bytes=payload,
        header_bytes=headers,
        header_share=headers / (payload + headers) if len(segments) else 0.0,
        retransmissions=sum(direction.retransmissions for direction in directions),
        sizes=_size_bins(segments["payload_bytes"]),
        common_sizes=_common_sizes(segments["payload_bytes"]),
        connections=connections,
        left_out=dict(segments.left_out),
    )


def _size_bins(payload: Array) -> tuple[SizeBin, ...]:
    """Count sizes in bins of 0, 1, 2 to 3, 4 to 7 bytes and so on, without empty outer bins."""
    if not len(payload):
        return ()
    # frexp(n) is m × 2^e with 1/2 <= m < 1, so e is 0 for n = 0, 1 for 1, 2 for 2 and 3, and so on.
    exponents = np.frexp(payload.astype(np.float64))[1]
    counts = np.bincount(exponents)
    return tuple(
        SizeBin(1 << (e - 1) if e else 0, (1 << e) - 1, int(counts[e]))
        for e in range(int(exponents.min()), len(counts))
    )


def _common_sizes(payload: Array) -> dict[int, int]:
    sizes, counts = np.unique(payload, return_counts=True)
    most = np.argsort(-counts, kind="stable")[:_COMMON_SIZES]
    return {int(sizes[i]): int(counts[i]) for i in most}


def _connections(rows: SegmentArray) -> tuple[ConnectionSummary, ...]:
    if not len(rows):
        return ()
    numbers, index = np.unique(rows["connection"], return_inverse=True)
    first = np.full(len(numbers), np.iinfo(np.int64).max)
    last = np.full(len(numbers), np.iinfo(np.int64).min)
    np.minimum.at(first, index, rows["time_ns"])
    np.maximum.at(last, index, rows["time_ns"])
    directions = _directions(rows, 2 * index + rows["direction"], 2 * len(numbers))
    # Python integers are needed, because an int64 may be too small for the difference of two times.
    start_ns = int(first.min())
    return tuple(
        ConnectionSummary(
            number=number,
            ends=rows.connections[number],
            start_s=(int(first[i]) - start_ns) / 1e9,
            duration_s=(int(last[i]) - int(first[i])) / 1e9,
            client_to_server=directions[2 * i],
            server_to_client=directions[2 * i + 1],
        )
        for i, number in enumerate(numbers.tolist())
    )


def _directions(rows: SegmentArray, stream: Int64Array, streams: int) -> list[DirectionSummary]:
    header_bytes = rows["wire_bytes"].astype(np.int64) - rows["payload_bytes"]
    columns = {
        "segments": np.ones(len(rows)),
        "payload_bytes": rows["payload_bytes"],
        # A UDP fragment's header announces more data than the packet holds.
        "header_bytes": np.maximum(header_bytes, 0) * np.maximum(rows["gso_count"], 1),
        "pure_acks": rows["is_pure_ack"],
        "retransmissions": rows["is_retransmission"],
        "out_of_order": rows["is_out_of_order"],
        "zero_windows": rows["is_zero_window"],
        "super_segments": rows["gso_count"] > 1,
    }
    # The sums are exact, because a float64 holds whole numbers up to 2^53.
    sums = {
        name: np.bincount(stream, column, streams).astype(np.int64).tolist()
        for name, column in columns.items()
    }
    return [
        DirectionSummary(**{name: column[i] for name, column in sums.items()})
        for i in range(streams)
    ]


def _direction_table(total: Summary) -> Table:
    rows = [
        {**dataclasses.asdict(part), "number": connection.number, "ends": ends}
        for connection in total.connections
        for ends, part in (
            (str(connection.ends), connection.client_to_server),
            ("  and back", connection.server_to_client),
        )
        if part.segments
    ]
    columns = [
        Column("number", "#", "d"),
        Column("ends", "connection"),
        Column("segments", "segments", "d"),
        Column("payload_bytes", "data (bytes)", "d"),
        Column("header_bytes", "headers (bytes)", "d"),
        Column("pure_acks", "pure ACKs", "d"),
        Column("retransmissions", "retransmissions", "d"),
    ]
    return Table(columns, rows, "Connections")


def _size_table(total: Summary) -> Table:
    rows = []
    for size_bin in total.sizes:
        low, high = size_bin.low_bytes, size_bin.high_bytes
        common = [item for item in sorted(total.common_sizes.items()) if low <= item[0] <= high]
        if size_bin.segments:
            rows.append(
                {
                    "size": str(low) if low == high else f"{low} to {high}",
                    "segments": size_bin.segments,
                    "share": 100 * size_bin.segments / total.segments,
                    "common": ", ".join(f"{size}: {count}" for size, count in common),
                }
            )
    columns = [
        Column("size", "data (bytes)"),
        Column("segments", "segments", "d"),
        Column("share", "share (%)", ".1f"),
        Column("common", "most frequent sizes"),
    ]
    return Table(columns, rows, "Segment sizes")
