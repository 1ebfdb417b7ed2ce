"""`tcplab segments`: print the segments of a capture file, for people or for other programs."""

from __future__ import annotations

import json as json_format
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final, TextIO

from tcplab.checks.parameters import Spelled
from tcplab.cli.loading import loading

if TYPE_CHECKING:
    from tcplab.segments import SegmentArray

_HEADINGS: Final = ("packet", "time (s)", "way", "bytes", "seq", "ack", "window", "flags", "notes")
_LINE: Final = "{:>8} {:>14} {:>3} {:>6} {:>12} {:>12} {:>9}  {:<11} {}"


def segments(
    file: Annotated[str, Spelled(str, "FILE")],
    *,
    connection: Annotated[int | None, Spelled(int, "N")] = None,
    json: bool = False,
) -> int:
    """List the TCP and UDP segments of a capture file (pcap or pcapng), one per line.

    Args:
        file: the capture to read.
        connection: show only connection N; the first is 0.
        json: print all columns as JSON, one object per segment.

    Example: tcplab segments capture.pcapng --connection 0
    """
    with loading():
        from tcplab.segments import from_file

    rows = from_file(file)
    if connection is not None:
        rows = _only(rows, connection, file)
    if json:
        print(json_format.dumps(list(_plain(rows)), indent=1))
    else:
        _write_lines(rows, sys.stdout)
    return 0


def _only(rows: SegmentArray, number: int, file: str) -> SegmentArray:
    many = len(rows.connections)
    if not 0 <= number < many:
        known = f"0 to {many - 1}" if many > 1 else "only 0" if many else "none"
        raise ValueError(f"--connection {number} is not in {file}; it has {known}")
    return rows.of(number)


def _plain(rows: SegmentArray) -> Iterator[dict[str, Any]]:
    """Yield each row as a dict of Python values."""
    for values in rows:
        yield dict(zip(rows.dtype.names or (), values.tolist(), strict=True))


def _write_lines(rows: SegmentArray, out: TextIO) -> None:
    """Write one line per segment with the time since the first; name each connection once."""
    from tcplab.segments.left_out import in_words

    out.write(_LINE.format(*_HEADINGS) + "\n")
    start = int(rows["time_ns"].min()) if len(rows) else 0
    seen: set[int] = set()
    for row in _plain(rows):
        number = row["connection"]
        if number not in seen:
            seen.add(number)
            out.write(f"connection {number}: {rows.connections[number]}\n")
        out.write(_line(row, start, number if len(rows.connections) > 1 else None))
    if rows.left_out:
        out.write(in_words(rows.left_out) + "\n")


def _line(row: dict[str, Any], start_ns: int, number: int | None) -> str:
    from tcplab.segments import flag_names
    from tcplab.segments.table import TCP

    tcp = row["protocol"] == TCP
    notes = _notes(row)
    if number is not None:
        notes.insert(0, f"connection {number}")
    line = _LINE.format(
        row["packet"],
        f"{(row['time_ns'] - start_ns) / 1e9:.6f}",
        "<-" if row["direction"] else "->",
        row["payload_bytes"],
        row["seq"] if tcp else "",
        row["ack"] if tcp else "",
        row["window"] if tcp else "",
        flag_names(row["flags"]) if tcp else "UDP",
        ", ".join(notes),
    )
    return line.rstrip() + "\n"


def _notes(row: dict[str, Any]) -> list[str]:
    notes = []
    if row["mss"]:
        notes.append(f"MSS {row['mss']}")
    if row["wscale"] >= 0:
        notes.append(f"window scale {row['wscale']}")
    if row["gso_count"] > 1:
        notes.append(f"{row['gso_count']} segments in one")
    if row["sack_blocks"]:
        notes.append(f"{row['sack_blocks']} SACK block{'s' * (row['sack_blocks'] > 1)}")
    judged = {
        "is_retransmission": "sent again",
        "is_out_of_order": "out of order",
        "is_zero_window": "window closed",
    }
    return notes + [note for name, note in judged.items() if row[name]]
