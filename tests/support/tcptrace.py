"""tcptrace's counts of a capture, for comparison with our own."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, get_args

import numpy as np
from tests.support.commands import completed

from tcplab.segments import PSH, SegmentArray, Sender

#: Our counts of one direction's segments, by tcptrace's column without the direction.
COUNTS: Final[dict[str, Callable[[SegmentArray], int]]] = {
    "total_packets": len,
    "resets_sent": lambda rows: int(rows.is_rst.sum()),
    "ack_pkts_sent": lambda rows: int(rows.has_ack.sum()),
    "pure_acks_sent": lambda rows: len(rows.acks()),
    "sack_pkts_sent": lambda rows: int((rows["sack_blocks"] > 0).sum()),
    "max_sack_blks/ack": lambda rows: int(rows["sack_blocks"].max()),
    "unique_bytes_sent": lambda rows: _unique_bytes(rows),
    "actual_data_pkts": lambda rows: len(rows.data()),
    "actual_data_bytes": lambda rows: int(rows["payload_bytes"].sum()),
    "rexmt_data_pkts": lambda rows: int(rows.data()["is_retransmission"].sum()),
    "outoforder_pkts": lambda rows: int(rows["is_out_of_order"].sum()),
    "pushed_data_pkts": lambda rows: int((rows.data()["flags"] & PSH != 0).sum()),
    "mss_requested": lambda rows: int(rows["mss"].max()),
    "max_segm_size": lambda rows: int(rows["payload_bytes"].max()),
    "min_segm_size": lambda rows: _smallest(rows),
    "max_win_adv": lambda rows: _largest_window(rows),
    "zero_win_adv": lambda rows: int(rows["is_zero_window"].sum()),
}


def _unique_bytes(rows: SegmentArray) -> int:
    covered, count = 0, 0
    spans = sorted((int(r["seq"]), int(r["seq"]) + int(r["payload_bytes"])) for r in rows.data())
    for start, end in spans:
        count += max(end - max(start, covered), 0)
        covered = max(covered, end)
    return count


def _largest_window(rows: SegmentArray) -> int:
    """Return the largest window; a SYN's window counts only if there is no other segment."""
    later = rows[~(rows.is_rst | rows.is_syn)]
    return int((later if len(later) else rows[~rows.is_rst])["window"].max(initial=0))


def _smallest(rows: SegmentArray) -> int:
    sizes = rows.data()["payload_bytes"]
    return int(sizes.min()) if len(sizes) else 0


def _sharing_a_bucket(rows: SegmentArray) -> int:
    """Count connections whose bucket already has a connection (tcptrace.h: HASH_TABLE_SIZE).

    tcptrace adds the two ports in 16 bits.
    """
    _numbers, first = np.unique(rows["connection"], return_index=True)
    sums = (rows["src_port"][first].astype(int) + rows["dst_port"][first]) % 2**16 % 4099
    return len(sums) - len(np.unique(sums))


def connections(path: Path) -> list[dict[str, str]]:
    """Return a row of tcptrace's columns for each connection, in order of appearance."""
    argv = ["tcptrace", "-l", "-n", "--csv", str(path)]
    done = completed(argv)
    lines = [line for line in done.stdout.splitlines() if line and not line.startswith("#")]
    start = next((i for i, line in enumerate(lines) if line.startswith("conn_#")), len(lines))
    rows = list(csv.DictReader(lines[start:], skipinitialspace=True))
    return [{k.strip(): v.strip() for k, v in row.items() if k and v is not None} for row in rows]


def differences(rows: SegmentArray, path: Path) -> dict[tuple[int, str, str], tuple[Any, Any]]:
    """Map (connection, sender, column) to our count and tcptrace's where the two differ."""
    tcp: SegmentArray = rows[rows["protocol"] == 6]
    numbers = list(dict.fromkeys(tcp["connection"].tolist()))
    theirs = connections(path)
    if len(numbers) != len(theirs):
        return {(-1, "", "connections"): (len(numbers), len(theirs))}
    differing: dict[tuple[int, str, str], tuple[Any, Any]] = {}
    for number, row in zip(numbers, theirs, strict=True):
        mine = tcp.of(number)
        a_is_client = int(row["port_a"]) == rows.connections[number].client[1]
        for sender in get_args(Sender):
            segments = mine.sent_by(sender)
            way = "a2b" if (sender == "client") == a_is_client else "b2a"
            for column, count in COUNTS.items():
                ours = count(segments) if len(segments) else 0
                if ours != int(row[f"{column}_{way}"]):
                    differing[number, sender, column] = ours, int(row[f"{column}_{way}"])
            flags = f"{int(segments.is_syn.sum())}/{int(segments.is_fin.sum())}"
            if flags != row[f"SYN/FIN_pkts_sent_{way}"]:
                differing[number, sender, "SYN/FIN"] = flags, row[f"SYN/FIN_pkts_sent_{way}"]
    return differing


#: Reasons why we differ, each with a function that tests whether it applies to a difference.
REASONS: Final[dict[str, Callable[[str, tuple[Any, Any], SegmentArray], bool]]] = {
    "a file with several interfaces, or in Linux's second cooked format, because tcptrace's "
    "libpcap cannot read either": lambda column, counts, _rows: (
        column == "connections" and counts[1] == 0
    ),
    "reused ports, because we count each handshake with new sequence numbers as a connection": (
        lambda column, counts, _rows: column == "connections" and counts[0] > counts[1] > 0
    ),
    "a window scale in the only SYN of the capture, which we accept, as Wireshark does": (
        lambda column, _counts, rows: (
            column == "max_win_adv" and len(set(rows[rows.is_syn]["direction"].tolist())) == 1
        )
    ),
    "data that fills a gap, which tcptrace calls out of order whether it was sent again or "
    "overtaken": (
        lambda column, _counts, rows: (
            column in ("rexmt_data_pkts", "outoforder_pkts")
            and bool((rows["is_retransmission"] | rows["is_out_of_order"]).any())
        )
    ),
    "a SYN that crossed the peer's SYN and is sent again with the ACK, which tcptrace counts as "
    "data": (
        lambda column, counts, _rows: column == "rexmt_data_pkts" and counts[0] < counts[1] <= 1
    ),
    "an MSS of 32,768 bytes or more, which tcptrace reads as a signed number": (
        lambda column, counts, _rows: (
            column == "mss_requested" and counts[1] == (counts[0] - 2**16) % 2**32
        )
    ),
    "two connections whose ports fall into the same bucket of tcptrace's table, because it may "
    "count their directions as separate connections": (
        lambda column, counts, rows: (
            column == "connections" and 0 < counts[1] - counts[0] <= _sharing_a_bucket(rows)
        )
    ),
    "more than 255 resets, because tcptrace counts them in 8 bits": (
        lambda column, counts, _rows: column == "resets_sent" and counts[1] == counts[0] % 2**8
    ),
}


def unexplained(rows: SegmentArray, path: Path) -> dict[tuple[int, str, str], tuple[Any, Any]]:
    """Return the differences for which no reason holds."""
    return {
        where: counts
        for where, counts in differences(rows, path).items()
        if not reasons_of(where, counts, rows)
    }


def reasons_of(
    where: tuple[int, str, str], counts: tuple[Any, Any], rows: SegmentArray
) -> list[str]:
    """Return the reasons that hold for a difference."""
    number, _sender, column = where
    mine = rows if number < 0 else rows.of(number)
    return [why for why, holds in REASONS.items() if holds(column, counts, mine)]
