"""Leave out packets that were captured several times."""

import statistics
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import numpy as np

from tcplab.segments import SegmentArray
from tcplab.segments.tcp import mark_retransmissions

#: Two copies of a packet on the same interface are at most this far apart.
COPY_NS: Final = 1_000_000
#: Two copies of a packet on different interfaces may be this far apart, because the packet can wait
#: in between.
ROUTED_NS: Final = 1_000_000_000
#: If this share of all packets is there again, all of them are copies.
_MOST: Final = 0.8
_KEYS: Final = ("direction", "ip_id", "seq", "payload_bytes", "ack", "flags", "ts_val")
_ODD: Final = np.uint64(0x9E3779B97F4A7C15)


def without_copies(rows: SegmentArray) -> tuple[SegmentArray, int]:
    """Return the rows of a connection with each packet once, and the number of copies.

    A mirrored port shows a packet twice within a millisecond, a router or merged captures some time
    apart. Copies share their IP identification, and retransmissions do not. Without one, copies are
    known by another interface and the TCP timestamp, or because nearly every packet is there again.
    Of copies that are far apart, the client's are kept.
    """
    rows = _without_constant_ids(rows)
    groups = _same(rows)
    if not groups:
        return rows, 0
    times, interfaces = rows["time_ns"].tolist(), rows["interface"].tolist()
    all_within = [
        within_ns
        for within_ns in (COPY_NS, ROUTED_NS)
        if sum(times[group[-1]] - times[group[0]] <= within_ns for group in groups)
        >= _MOST * (len(rows) - sum(len(group) - 1 for group in groups))
    ]
    keep = np.ones(len(rows), np.bool_)
    distances = []
    for group in groups:
        ip_id, stamp = int(rows["ip_id"][group[0]]), int(rows["ts_val"][group[0]])
        first = group[0]
        for place in group[1:]:
            elsewhere = interfaces[place] != interfaces[first]
            known = ip_id != 0 or (elsewhere and stamp != 0)
            limit_ns = (ROUTED_NS if elsewhere else COPY_NS) if known else -1
            if times[place] - times[first] <= max([limit_ns, *all_within]):
                keep[place] = False
                distances.append(times[place] - times[first])
            else:
                first = place
    count = int(len(rows) - keep.sum())
    if not count:
        return rows, 0
    if all_within and statistics.median(distances) > COPY_NS:
        for group in groups:
            if rows["direction"][group[0]] == 1:  # they reach the client last
                keep[group[:-1]], keep[group[-1]] = False, True
    return _remarked(rows[keep]), count


def _without_constant_ids(rows: SegmentArray) -> SegmentArray:
    """Return the rows, with IP ID 0 if a sender gives all its data the same one."""
    for side in 0, 1:
        mine = rows["direction"] == side
        data = mine & (rows["payload_bytes"] > 0)
        if len(np.unique(rows["ip_id"][data])) == 1 < len(np.unique(rows["seq"][data])):
            rows = rows.copy()
            rows["ip_id"][mine] = 0
    return rows


def _same(rows: SegmentArray) -> list[Sequence[int]]:
    """Return the places of rows that are equal in all columns that copies share."""
    sums = np.zeros(len(rows), np.uint64)
    for name in _KEYS:
        sums = (sums ^ rows[name].astype(np.uint64)) * _ODD
        sums ^= sums >> np.uint64(29)
    _values, inverse, counts = np.unique(sums, return_inverse=True, return_counts=True)
    groups: dict[int, list[int]] = defaultdict(list)
    for place in np.flatnonzero(counts[inverse] > 1).tolist():
        groups[int(inverse[place])].append(place)
    return list(groups.values())


def _remarked(rows: SegmentArray) -> SegmentArray:
    """Mark retransmissions again, for which the copies had counted."""
    plain = np.array(rows)
    plain["is_retransmission"] = plain["is_out_of_order"] = False
    mark_retransmissions(plain)
    fresh: SegmentArray = plain.view(SegmentArray)
    fresh.connections, fresh.left_out = rows.connections, rows.left_out
    return fresh
