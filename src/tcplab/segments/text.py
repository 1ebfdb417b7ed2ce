"""Write segments as CSV and JSON for other programs."""

from __future__ import annotations

import csv
import dataclasses
import json
from collections.abc import Iterator
from typing import Any, TextIO

import numpy as np

from tcplab.segments.table import SegmentArray

_FLAGS = ("FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR", "AE")


def flag_names(flags: int) -> str:
    """Name TCP flags: 18 is "SYN ACK", 0 is ""."""
    return " ".join(name for bit, name in enumerate(_FLAGS) if flags >> bit & 1)


def write_csv(segments: SegmentArray, out: TextIO) -> None:
    """Write a header and a line per segment, with booleans as 0 and 1 and flags as names."""
    writer = csv.writer(out)
    writer.writerow(segments.dtype.names or ())
    for row in plain_rows(segments):
        numbers = {name: int(value) for name, value in row.items()}
        writer.writerow((numbers | {"flags": flag_names(row["flags"])}).values())


def write_json(segments: SegmentArray, out: TextIO) -> None:
    """Write an object with "connections", "left_out" (packets by kind) and "segments"."""
    ends = [dataclasses.asdict(connection) for connection in segments.connections]
    out.write('{"connections": ' + json.dumps(ends))
    out.write(', "left_out": ' + json.dumps(dict(segments.left_out)) + ', "segments": [')
    separator = "\n"
    for row in plain_rows(segments):
        out.write(separator + json.dumps(row | {"flags": flag_names(row["flags"])}))
        separator = ",\n"
    out.write("]}\n")


def plain_rows(segments: SegmentArray) -> Iterator[dict[str, Any]]:
    """Yield rows as dicts of Python values, in chunks."""
    names = segments.dtype.names or ()
    plain = np.asarray(segments)
    for start in range(0, len(plain), 4096):
        for row in plain[start : start + 4096].tolist():
            yield dict(zip(names, row, strict=True))
