"""tshark's reading of a capture, column by column, for comparison with our own."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tests.support.commands import completed

from tcplab.segments import FIN, SYN, SegmentArray

#: tshark's field for each of our columns
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
#: columns of fields that are only present or absent
_FLAGS = {"sack_permitted", "is_retransmission", "is_out_of_order", "is_zero_window"}
_ABSENT = {"wscale": -1}


def dissect(path: Path) -> dict[str, npt.NDArray[np.int64]]:
    """Map each of our columns to the values of tshark, one per TCP packet."""
    argv = ["tshark", "-n", "-r", str(path), "-Y", "tcp && !icmp", "-T", "fields"]
    argv += ["-o", "tcp.relative_sequence_numbers:TRUE", "-E", "separator=,", "-E", "occurrence=f"]
    for field in (*FIELDS.values(), "frame.time_epoch"):
        argv += ["-e", field]
    done = completed(argv)
    lines = [line.split(",") for line in done.stdout.splitlines()]
    columns = list(zip(*lines, strict=True)) or [()] * (len(FIELDS) + 1)
    table = {
        name: np.array([_value(name, text) for text in column], np.int64)
        for name, column in zip(FIELDS, columns, strict=False)
    }
    table["packet"] -= 1  # tshark counts frames from 1
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
    """Map each column in which we and tshark differ to the indices of the differing TCP rows."""
    ours = rows[rows["protocol"] == 6]
    assert list(ours["packet"]) == list(theirs["packet"])
    result = {}
    for name, values in theirs.items():
        mine = ours[name].astype(np.int64)
        if name == "connection":  # our numbers also count UDP conversations
            mine = np.unique(mine, return_inverse=True)[1]
        if name in ("seq", "ack"):  # our numbers do not wrap
            mine = mine % 2**32
        if len(where := np.flatnonzero(mine != values)):
            result[name] = where.tolist()
    return result


# ---- the reasons of differences ----


def unexplained(rows: SegmentArray, path: Path) -> dict[str, Any]:
    """Return the differences from tshark that none of our reasons explains."""
    return without_reason(rows, differences(rows, dissect(path)))


def without_reason(rows: SegmentArray, differences: dict[str, list[int]]) -> dict[str, Any]:
    remaining = dict(differences)
    tcp = rows[rows["protocol"] == 6]
    judged = set(remaining.pop("is_retransmission", [])) | set(remaining.pop("is_out_of_order", []))
    left: dict[str, Any] = {name: where[:5] for name, where in remaining.items()}
    if strange := [i for i in sorted(judged) if not explanation(tcp, i)]:
        left["judgement"] = [(int(tcp["packet"][i]) + 1, strange) for i in strange[:5]]
    return left


#: For each reason why our judgement is right, tshark's judgement in that case.
REASONS = {
    "a segment's bytes were sent before": "out of order, less than a round trip after the newest"
    " data; or a keep-alive, of one byte",
    "has a later TCP timestamp than the segment that left the gap": "out of order",
    "fills a gap that was open for a long time": "out of order, by the time since the newest data",
    "has an earlier TCP timestamp than the segment that overtook it": "sent again",
    "comes too soon for the receiver to have requested it": "a fast retransmission,"
    " after duplicate ACKs of earlier gaps",
}


def explanation(rows: SegmentArray, i: int) -> str | None:
    """Return why our judgement of segment i is right and tshark's is wrong, or None if unknown."""
    row = rows[i]
    same = (rows["connection"] == row["connection"]) & (rows["direction"] == row["direction"])
    earlier = rows[:i][same[:i]]
    seq, end = int(row["seq"]), end_of(row)
    opener = next((segment for segment in earlier if int(segment["seq"]) >= end), None)
    handshake_ns = int(rows["time_ns"][2]) - int(rows["time_ns"][0])
    if row["is_retransmission"]:
        if any(int(segment["seq"]) < end and seq < end_of(segment) for segment in earlier):
            return "a segment's bytes were sent before"
        if opener is None:
            return None
        if row["has_timestamps"] and 0 < _ticks_since(row, opener) < 2**31:
            return "has a later TCP timestamp than the segment that left the gap"
        if int(row["time_ns"]) - int(opener["time_ns"]) >= min(3_000_000, handshake_ns):
            return "fills a gap that was open for a long time"
    if row["is_out_of_order"]:
        if opener is None:
            return None
        if row["has_timestamps"] and _ticks_since(opener, row) < 2**31:
            return "has an earlier TCP timestamp than the segment that overtook it"
        if int(row["time_ns"]) - int(opener["time_ns"]) < handshake_ns:
            return "comes too soon for the receiver to have requested it"
    return None


def _ticks_since(row: Any, other: Any) -> int:
    """Return the ticks of the sender's timestamp clock from segment `other` to segment `row`."""
    return (int(row["ts_val"]) - int(other["ts_val"])) % 2**32


def end_of(row: Any) -> int:
    flags = int(row["flags"])
    return int(row["seq"]) + int(row["payload_bytes"]) + bool(flags & SYN) + bool(flags & FIN)
