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
    """Return the names of the TCP flags that are set, such as "SYN ACK" for 18."""
    return " ".join(name for bit, name in enumerate(_FLAGS) if flags >> bit & 1)


def write_csv(segments: SegmentArray, out: TextIO) -> None:
    """Write a heading and one line per segment. Booleans are 0 and 1, and flags are names."""
    writer = csv.writer(out)
    writer.writerow(segments.dtype.names or ())
    for row in plain_rows(segments):
        numbers = {name: int(value) for name, value in row.items()}
        writer.writerow((numbers | {"flags": flag_names(row["flags"])}).values())


def write_json(segments: SegmentArray, out: TextIO) -> None:
    """Write an object with "connections", "left_out" (packet counts by kind) and "segments"."""
    ends = [dataclasses.asdict(connection) for connection in segments.connections]
    out.write('{"connections": ' + json.dumps(ends))
    out.write(', "left_out": ' + json.dumps(dict(segments.left_out)) + ', "segments": [')
    separator = "\n"
    for row in plain_rows(segments):
        out.write(separator + json.dumps(row | {"flags": flag_names(row["flags"])}))
        separator = ",\n"
    out.write("]}\n")


def plain_rows(segments: SegmentArray) -> Iterator[dict[str, Any]]:
    """Yield each row as a dict of Python values."""
    names = segments.dtype.names or ()
    plain = np.asarray(segments)
    for start in range(0, len(plain), 4096):
        for row in plain[start : start + 4096].tolist():
            yield dict(zip(names, row, strict=True))
