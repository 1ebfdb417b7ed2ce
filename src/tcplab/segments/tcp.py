"""Fill the columns that depend on other segments, such as relative numbers and scaled windows."""

import bisect
from typing import Final

import numpy as np

from tcplab.segments.table import ACK, FIN, RST, SYN, TCP, Array, Int64Array, SegmentArray


def analyse(rows: SegmentArray) -> None:
    """Fill the columns that depend on other segments of the same TCP connection."""
    plain = np.asarray(rows)
    flags, is_empty = plain["flags"], plain["payload_bytes"] == 0
    quiet = (plain["protocol"] == TCP) & (flags & (SYN | FIN | RST) == 0)
    plain["is_pure_ack"] = quiet & is_empty & (flags & ACK != 0)
    plain["is_zero_window"] = quiet & (plain["window"] == 0)
    plain["gso_count"] = is_empty
    order = np.argsort(plain["connection"], kind="stable")
    starts = np.flatnonzero(np.diff(plain["connection"][order])) + 1
    for places in np.split(order, starts):
        if plain["protocol"][places[0]] == TCP:
            one = plain.take(places)  # copies whole rows, and an index field by field
            _relative_numbers(one)
            _windows(one)
            _super_segments(one)
            mark_retransmissions(one)
            plain[places] = one


def _relative_numbers(one: Array) -> None:
    """Make `seq` and `ack` relative to the initial sequence numbers, without wrapping."""
    has_ack = one["flags"] & ACK != 0
    sides = [np.flatnonzero(one["direction"] == side) for side in (0, 1)]
    bases = [_initial_number(one, sides[side], sides[1 - side]) for side in (0, 1)]
    for side in 0, 1:
        mine = sides[side]
        one["seq"][mine] = _unwrapped(one["seq"][mine], bases[side])
        mine = mine[has_ack[mine]]
        one["ack"][mine] = _unwrapped(one["ack"][mine], bases[1 - side])
    one["ack"][~has_ack] = 0


def _initial_number(one: Array, mine: Int64Array, others: Int64Array) -> int:
    """Return the initial sequence number of one side, whose rows are at `mine`.

    The SYN and the SYN-ACK hold these numbers, but need not come first. For example, a server may
    have refused an earlier SYN with a RST. If SYNs or SYN-ACKs differ, the acknowledged one counts.
    Without a SYN, the first byte that is sent or acknowledged counts as number 1.
    """
    flags, seq = one["flags"], one["seq"]
    acks = others[flags[others] & ACK != 0]
    syns = mine[flags[mine] & SYN != 0]
    if len(syns):
        answers = one["ack"][acks[flags[acks] & RST == 0]]
        known = syns[np.isin((seq[syns] + 1) % 2**32, answers)]
        return int(seq[known[0] if len(known) else syns[0]])
    if len(acks) and (not len(mine) or acks[0] < mine[0]):
        return int(one["ack"][acks[0]]) - 1
    return int(seq[mine[0]]) - 1 if len(mine) else 0


def _unwrapped(numbers: Int64Array, base: int) -> Int64Array:
    """Return 32-bit sequence numbers relative to `base`."""
    steps = np.diff(numbers, prepend=base).astype(np.int32)
    return np.cumsum(steps, dtype=np.int64)


def _windows(one: Array) -> None:
    """Scale `window` if the sender's SYN was captured and no SYN lacks the option (RFC 7323)."""
    is_syn = one["flags"] & SYN != 0
    refused = (one["wscale"][is_syn] < 0).any()
    for side in 0, 1:
        mine = one["direction"] == side
        option = one["wscale"][mine & is_syn][:1]
        if not refused and not len(option):
            continue  # the windows stay unscaled and the shifts -1
        shift = 0 if refused else int(option[0])
        shifts = np.where(is_syn, 0, shift)[mine]  # the window of a SYN is never scaled
        one["window_shift"][mine] = shifts
        one["window"][mine] <<= shifts.astype(np.uint32)


def _super_segments(one: Array) -> None:
    """Compute `gso_count` from the smaller MSS of the two SYNs (RFC 9293, section 3.7.1)."""
    options = one["mss"][one["mss"] > 0]
    if len(options):
        # Timestamps are the only option that every data segment carries.
        room = int(options.min()) - 12 * one["has_timestamps"].astype(np.int64)
        payload = one["payload_bytes"].astype(np.int64)
        count = np.minimum(-(-payload // np.maximum(room, 1)), 0xFFFF)
        one["gso_count"] = np.where(payload > 0, count, one["gso_count"])


# ---- retransmissions ----


def mark_retransmissions(one: Array) -> None:
    """Fill is_retransmission and is_out_of_order.

    Bytes that the receiver has acknowledged were sent before, whether captured or not. Any other
    segment below the highest number seen is judged by the segments captured before it, in the same
    direction at the same interface.
    """
    flags, seq = one["flags"], one["seq"]
    size = one["payload_bytes"].astype(np.int64)
    ends = seq + size + (flags & SYN != 0) + (flags & FIN != 0)
    # A RST without data has no place in the stream, nor has a SYN that is not at its beginning.
    outside = ((flags & RST != 0) & (size == 0)) | ((flags & SYN != 0) & (seq != 0))
    needless = _needless(one) & ~outside
    ways = one["direction"].astype(np.int64) << 16 | one["interface"]
    stamps = np.where(one["has_timestamps"], one["ts_val"].astype(np.int64), -1)
    patience_ns = _reordering_ns(one)
    one["is_retransmission"] = needless
    for way in np.unique(ways):
        places = np.flatnonzero((ways == way) & ~outside)
        tops = np.maximum.accumulate(np.concatenate((seq[places[:1]], ends[places])))[:-1]
        # Data sent before the capture began is a gap of unknown age.
        gaps: list[_Gap] = [(-(1 << 62), int(seq[places[0]]), None)] if len(places) else []
        odd = (seq[places] != tops) & ((seq[places] > tops) | (seq[places] < ends[places]))
        for place, top in zip(places[odd].tolist(), tops[odd].tolist(), strict=True):
            start, end = int(seq[place]), int(ends[place])
            when = int(one["time_ns"][place]), int(stamps[place])
            if start < top:
                again = _was_sent(gaps, start, min(end, top), when, patience_ns)
                name = "is_retransmission" if again or needless[place] else "is_out_of_order"
                one[name][place] = True
            elif not flags[place] & RST:
                gaps.append((top, start, when))


def _needless(one: Array) -> Array:
    """Return which segments have data that the other end had already acknowledged.

    An ACK that may answer the segment itself does not count. A recorder of two interfaces may
    capture the ACK first, so the order in the file proves nothing. An echoed timestamp proves the
    order, because it is from the sender's clock. Otherwise, the ACK must be _RECORDING_ORDER_NS
    older.
    """
    result = np.zeros(len(one), np.bool_)
    ends = one["seq"] + one["payload_bytes"]
    for side in 0, 1:
        is_ack = (one["direction"] != side) & (one["flags"] & ACK != 0)
        latest = np.maximum.accumulate(np.where(is_ack, np.arange(len(one)), -1))
        mine = np.flatnonzero((one["direction"] == side) & (one["payload_bytes"] > 0))
        mine = mine[latest[mine] >= 0]
        mine = mine[ends[mine] <= one["ack"][latest[mine]]]
        sent, answer = one[mine], one[latest[mine]]
        later = (sent["ts_val"] - answer["ts_ecr"]).astype(np.int32) > 0
        older = sent["time_ns"] - answer["time_ns"] >= _RECORDING_ORDER_NS
        has_stamps = sent["has_timestamps"] & answer["has_timestamps"]
        result[mine] = np.where(has_stamps, later, older)
    return result


#: Packets that a recorder captures at two interfaces may be out of order by this much.
_RECORDING_ORDER_NS: Final = 1_000_000

#: How long a segment can be delayed by reordering if no handshake shows the RTT. Wireshark uses the
#: same value.
_REORDERING_NS: Final = 3_000_000

_When = tuple[int, int]  # time_ns, and TSval or -1
#: Sequence numbers that have not passed yet, and the time of the segment that showed the gap.
_Gap = tuple[int, int, "_When | None"]


def _was_sent(gaps: list[_Gap], start: int, stop: int, when: _When, patience_ns: int) -> bool:
    """Return whether a segment below the highest number was resent, and fill its gap."""
    at = bisect.bisect_right(gaps, start, key=lambda gap: gap[0]) - 1
    _low, high, opened = gaps[at] if at >= 0 else (0, 0, None)
    first = last = max(at, 0)
    rest: list[_Gap] = []
    while last < len(gaps) and gaps[last][0] < stop:
        low, end, since = gaps[last]
        pieces = ((low, min(end, start), since), (max(low, stop), end, since))
        rest += [piece for piece in pieces if piece[0] < piece[1]]
        last += 1
    gaps[first:last] = rest
    if at < 0 or stop > high:
        return True  # part of it passed before
    if opened is None:
        return False
    (opened_ns, opened_stamp), (time_ns, stamp) = opened, when
    if -1 not in (stamp, opened_stamp) and stamp != opened_stamp:
        # TSval is the sender's clock, so it shows whether the segment was sent before or after
        # the one that opened the gap.
        return (stamp - opened_stamp) % 2**32 < 1 << 31
    return time_ns - opened_ns >= patience_ns


def _reordering_ns(one: Array) -> int:
    """Return how late reordering can make a segment. A retransmission takes at least an RTT.

    So the limit is the RTT of the handshake, which is the same wherever on the path it is captured.
    If no handshake shows the RTT, the limit is _REORDERING_NS.
    """
    kind = one["flags"] & (SYN | ACK)
    answers = np.flatnonzero((one["direction"] == 1) & (kind == SYN | ACK))[:1]
    if not len(answers):
        return _REORDERING_NS
    here = (one["direction"] == 0) & (one["interface"] == one["interface"][answers[0]])
    times_ns, place = one["time_ns"], np.arange(len(one))
    syns = times_ns[here & (kind == SYN) & (place < answers[0])]
    acks = times_ns[here & (kind != SYN) & (place > answers[0])]
    if not len(syns) or not len(acks) or acks[0] <= syns[-1]:
        return _REORDERING_NS
    return int(acks[0]) - int(syns[-1])
