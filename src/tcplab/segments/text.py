"""Segments as text, for other programs: CSV and JSON."""

from __future__ import annotations

import csv
import dataclasses
import json
from collections.abc import Iterator
from typing import Any, TextIO

import numpy as np

from tcplab.segments.table import Array, SegmentArray

_FLAGS = ("FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR", "AE")


def flag_names(flags: int) -> str:
    """TCP flags in words: 18 is "SYN ACK", 0 is ""."""
    return " ".join(name for bit, name in enumerate(_FLAGS) if flags >> bit & 1)


def write_csv(segments: SegmentArray, out: TextIO) -> None:
    """A line of column names, and a line per segment; truths are 0 and 1, flags are in words."""
    writer = csv.writer(out)
    names = segments.dtype.names or ()
    writer.writerow(names)
    flags = names.index("flags")
    for row in _rows(segments):
        writer.writerow(
            [
                flag_names(value) if i == flags else int(value) if value is True else value or 0
                for i, value in enumerate(row)
            ]
        )


def write_json(segments: SegmentArray, out: TextIO) -> None:
    """One object: "connections", a list of their ends, and "segments", a list of objects."""
    names = segments.dtype.names or ()
    ends = [dataclasses.asdict(connection) for connection in segments.connections]
    out.write('{"connections": ' + json.dumps(ends) + ', "segments": [')
    separator = "\n"
    for row in _rows(segments):
        each = dict(zip(names, row, strict=True))
        each["flags"] = flag_names(each["flags"])
        out.write(separator + json.dumps(each))
        separator = ",\n"
    out.write("]}\n")


def _rows(segments: Array) -> Iterator[tuple[Any, ...]]:
    """Python values, not all of them at once."""
    plain = np.asarray(segments)
    for start in range(0, len(plain), 4096):
        yield from plain[start : start + 4096].tolist()
