"""A capture as tshark reads it, column by column, for comparison with our own reading."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

#: our column -> tshark's field
FIELDS = {
    "packet": "frame.number",
    "wire_bytes": "frame.len",
    "ip_id": "ip.id",
    "connection": "tcp.stream",
    "src_port": "tcp.srcport",
    "dst_port": "tcp.dstport",
    "seq": "tcp.seq",
    "ack": "tcp.ack",
    "payload_bytes": "tcp.len",
    "flags": "tcp.flags",
    "window": "tcp.window_size",
    "sack_blocks": "tcp.options.sack.count",
    "sack_permitted": "tcp.options.sack_perm",
    "mss": "tcp.options.mss_val",
    "wscale": "tcp.options.wscale.shift",
    "ts_val": "tcp.options.timestamp.tsval",
    "ts_ecr": "tcp.options.timestamp.tsecr",
    "is_retransmission": "tcp.analysis.retransmission",
    "is_out_of_order": "tcp.analysis.out_of_order",
    "is_zero_window": "tcp.analysis.zero_window",
}
#: present or absent
_FLAGS = {"sack_permitted", "is_retransmission", "is_out_of_order", "is_zero_window"}
_ABSENT = {"wscale": -1}

needs_tshark = pytest.mark.skipif(
    shutil.which("tshark") is None,
    reason="tshark is not installed: nothing to compare with (apt install tshark)",
)


def dissect(path: Path) -> dict[str, npt.NDArray[np.int64]]:
    """Column name -> one value a TCP packet, as tshark sees it. No name resolution, no TRANSUM."""
    argv = ["tshark", "-n", "-r", str(path), "-Y", "tcp && !icmp", "-T", "fields"]
    argv += ["-o", "tcp.relative_sequence_numbers:TRUE", "-E", "separator=,", "-E", "occurrence=f"]
    for field in (*FIELDS.values(), "frame.time_epoch"):
        argv += ["-e", field]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    lines = [line.split(",") for line in done.stdout.splitlines()]
    columns = list(zip(*lines, strict=True)) or [()] * (len(FIELDS) + 1)
    table = {
        name: np.array([_value(name, text) for text in column], np.int64)
        for name, column in zip(FIELDS, columns, strict=False)
    }
    table["packet"] -= 1  # frames are counted from 1
    table["time_ns"] = np.array([_nanoseconds(text) for text in columns[-1]], np.int64)
    return table


def _value(name: str, text: str) -> int:
    if name in _FLAGS:
        return int(text != "")
    return int(text, 0) if text else _ABSENT.get(name, 0)


def _nanoseconds(text: str) -> int:
    seconds, _, fraction = text.partition(".")
    return int(seconds) * 10**9 + int(fraction.ljust(9, "0")[:9])


def differences(rows: Any, theirs: dict[str, npt.NDArray[np.int64]]) -> dict[str, list[int]]:
    """Column -> indices of the TCP rows where we and tshark differ."""
    ours = rows[rows["protocol"] == 6]
    assert list(ours["packet"]) == list(theirs["packet"])
    result = {}
    for name, values in theirs.items():
        mine = ours[name].astype(np.int64)
        if name in ("seq", "ack"):  # ours do not wrap
            mine = mine % 2**32
        if len(where := np.flatnonzero(mine != values)):
            result[name] = where.tolist()
    return result
