"""Fill the columns that depend on other segments, such as relative numbers and scaled windows."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import numpy as np

from tcplab.segments.table import (
    ACK,
    FIN,
    RST,
    SYN,
    Array,
    BoolArray,
    Int64Array,
    SegmentArray,
    stable_order,
    starts_of,
)

# A stream is one direction of a connection, numbered 2 × connection + direction. A watch is a
# stream as captured at one interface. Columns that depend on other segments are computed for all
# streams at once, with the rows sorted by stream.


def analyse(rows: SegmentArray, tcp: Int64Array) -> None:
    """Fill the columns that depend on other segments, for the rows at the indices `tcp`."""
    if not len(tcp):
        return
    stream = rows["connection"][tcp].astype(np.int64) * 2 + rows["direction"][tcp]
    by_stream = stable_order(stream)
    order = tcp[by_stream]  # row indices, sorted by stream
    stream = stream[by_stream]
    new = starts_of(stream)
    streams = 2 * len(rows.connections)
    _relative_numbers(rows, order, stream, new, streams)
    _windows(rows, order, stream, streams)
    _super_segments(rows, order, stream, streams)

    interface = rows["interface"][order].astype(np.int64)
    sides = int(interface.max()) + 1
    if interface.min() + 1 == sides:  # there is a single interface, as in almost all captures
        watched, watch = order, stream
    else:
        watch = stream * sides + interface
        by_watch = np.argsort(watch, kind="stable")
        watched, watch = order[by_watch], watch[by_watch]
    needless = _needless(rows, tcp)

    def patience_ns(number: int) -> int:
        step = 2 if watch is stream else 2 * sides
        return _reordering_ns(rows, order, stream, number // step)

    _retransmissions(rows, watched, watch, needless[watched], patience_ns)


def _unwrap(numbers: Int64Array, new: BoolArray) -> Int64Array:
    """Return 32-bit sequence numbers relative to the first of their group, without wrapping."""
    steps = np.zeros(len(numbers), np.int64)
    steps[1:] = (numbers[1:] - numbers[:-1]).astype(np.int32)
    steps[new] = 0
    total = np.cumsum(steps)
    starts = np.flatnonzero(new)
    total -= np.repeat(total[starts], np.diff(np.append(starts, len(total))))
    return total


def _relative_numbers(
    rows: Array, order: Int64Array, stream: Int64Array, new: BoolArray, streams: int
) -> None:
    """Make `seq` and `ack` relative to the initial sequence numbers.

    The SYN and the SYN-ACK hold these numbers, but need not come first. For example, a server may
    have refused an earlier SYN with a RST. If SYNs or SYN-ACKs differ, the acknowledged one counts.
    Without a SYN, the first byte that is sent or acknowledged counts as number 1.
    """
    seq, ack = rows["seq"][order], rows["ack"][order]
    flags = rows["flags"][order]
    never = len(rows)
    first_row = np.full(streams, never)
    base = np.zeros(streams, np.int64)
    starts = np.flatnonzero(new)
    first_row[stream[starts]] = order[starts]
    base[stream[starts]] = seq[starts] - (flags[starts] & SYN == 0)
    # The other direction may have acknowledged data before this direction was captured.
    acks = np.flatnonzero(flags & ACK)
    new_ack = starts_of(stream[acks])
    first_ack = acks[new_ack]
    other = stream[first_ack] ^ 1
    earlier = order[first_ack] < first_row[other]
    base[other[earlier]] = ack[first_ack[earlier]] - 1
    for number, initial in _initial_numbers(stream, seq, ack, flags):
        base[number] = initial

    offset = (seq[starts] - base[stream[starts]]).astype(np.int32)
    relative = _unwrap(seq, new) + np.repeat(offset, np.diff(np.append(starts, len(seq))))
    rows["seq"][order] = relative
    if len(acks) < len(order):
        rows["ack"][order] = 0
    if len(acks):
        starts = np.flatnonzero(new_ack)
        offset = (ack[first_ack] - base[other]).astype(np.int32)
        relative = _unwrap(ack[acks], new_ack)
        relative += np.repeat(offset, np.diff(np.append(starts, len(acks))))
        rows["ack"][order[acks]] = relative


def _initial_numbers(
    stream: Int64Array, seq: Int64Array, ack: Int64Array, flags: Array
) -> Iterator[tuple[int, int]]:
    """Yield each stream whose SYNs differ or do not come first, and its initial number."""
    syns = np.flatnonzero(flags & SYN)
    begin = np.searchsorted(stream, stream[syns])
    usual = (seq[syns] == seq[begin]) & (flags[begin] & SYN != 0)
    for number in np.unique(stream[syns[~usual]]).tolist():
        mine = syns[slice(*np.searchsorted(syns, np.searchsorted(stream, [number, number + 1])))]
        other = slice(*np.searchsorted(stream, [number ^ 1, (number ^ 1) + 1]))
        answers = ack[other][flags[other] & (ACK | RST) == ACK]
        known = np.isin((seq[mine] + 1) % 2**32, answers)
        yield number, int(seq[mine[known] if known.any() else mine][0])


def _windows(rows: Array, order: Int64Array, stream: Int64Array, streams: int) -> None:
    """Scale `window` if the sender's SYN was captured and no SYN lacks the option (RFC 7323)."""
    is_syn = rows["flags"][order] & SYN != 0
    syns = np.flatnonzero(is_syn)[::-1]  # backwards, so that a stream's first SYN is assigned last
    if not len(syns):
        return  # without a SYN, windows stay unscaled and shifts stay -1
    option = rows["wscale"][order[syns]]
    shift = np.full(streams, -1, np.int64)
    shift[stream[syns]] = option
    refused = stream[syns[option < 0]] // 2
    for direction in 0, 1:
        shift[2 * refused + direction] = 0
    shifts = shift[stream]
    shifts[is_syn & (shifts >= 0)] = 0  # the window of a SYN is never scaled
    rows["window_shift"][order] = shifts
    rows["window"][order] = rows["window"][order] << np.maximum(shifts, 0).astype(np.uint32)


def _super_segments(rows: Array, order: Int64Array, stream: Int64Array, streams: int) -> None:
    """Compute `gso_count` from the smaller MSS of the two SYNs (RFC 9293, section 3.7.1)."""
    mss = np.full(streams // 2, np.iinfo(np.int64).max)
    with_mss = np.flatnonzero(rows["mss"][order])
    if not len(with_mss):
        return  # no MSS option was seen
    np.minimum.at(mss, stream[with_mss] // 2, rows["mss"][order[with_mss]].astype(np.int64))
    mss = mss[stream // 2]
    payload = rows["payload_bytes"][order].astype(np.int64)
    known = np.flatnonzero((payload > 0) & (mss < 1 << 16))
    # Timestamps are the only option that every data segment carries.
    room = mss[known] - 12 * rows["has_timestamps"][order[known]]
    count = -(-payload[known] // np.maximum(room, 1))
    rows["gso_count"][order[known]] = np.minimum(count, 0xFFFF)


def _retransmissions(
    rows: Array,
    order: Int64Array,
    watch: Int64Array,
    needless: BoolArray,
    patience_ns: Callable[[int], int],
) -> None:
    """Fill is_retransmission and is_out_of_order.

    Bytes that the receiver has acknowledged were sent before, whether captured or not. Any other
    segment below the highest number seen is judged by the segments captured before it.
    """
    flags = rows["flags"][order]
    # A RST without data has no place in the stream, nor has a SYN that is not at its beginning.
    in_stream = (flags & RST == 0) | (rows["payload_bytes"][order] > 0)
    in_stream &= (flags & SYN == 0) | (rows["seq"][order] == 0)
    if not in_stream.all():
        order, watch, needless = order[in_stream], watch[in_stream], needless[in_stream]
        flags = flags[in_stream]
    if not len(order):
        return
    new = starts_of(watch)
    seq = rows["seq"][order]
    end = seq + rows["payload_bytes"][order] + (flags & SYN != 0) + (flags & FIN != 0)
    top = _running_maximum(end, new)
    before = np.empty_like(top)
    before[1:] = top[:-1]
    before[new] = seq[new]  # no segment came before, so there is no gap and nothing below
    below = (end > seq) & (seq < before)
    gap = (seq > before) & (flags & RST == 0)
    rows["is_retransmission"][order[needless]] = True
    if not below.any():
        return
    # Examine only watches that have segments below the highest number, and in these only the
    # segments that open or fill gaps.
    affected = np.zeros(int(watch[-1]) + 1, np.bool_)
    affected[watch[below]] = True
    events = np.flatnonzero((below | gap | new) & affected[watch])
    at = order[events]
    verdicts = _judge(
        _python_rows(
            events,
            watch[events],
            below[events],
            needless[events],
            seq[events],
            end[events],
            before[events],
            rows["time_ns"][at],
            rows["has_timestamps"][at],
            rows["ts_val"][at],
        ),
        patience_ns,
    )
    for place, is_resent in verdicts:
        rows["is_retransmission" if is_resent else "is_out_of_order"][order[place]] = True


def _python_rows(*columns: Array) -> Iterator[tuple[Any, ...]]:
    """Yield rows of Python numbers, converted in chunks to save memory."""
    for start in range(0, len(columns[0]), _CHUNK):
        yield from zip(
            *(column[start : start + _CHUNK].tolist() for column in columns), strict=True
        )


def _judge(
    events: Iterable[tuple[Any, ...]], patience_ns: Callable[[int], int]
) -> Iterator[tuple[int, bool]]:
    """Yield the place of each segment below its watch's highest number, and whether it was resent.

    Args:
        events: place and watch of each segment, whether it is below that number, whether it is
            needless, its first number, the number after its last, the highest number before it, its
            time, whether it has a timestamp, and the timestamp. Events are sorted by place
        patience_ns: function that returns how long reordering can delay a segment of a watch
    """
    history = _History(0, 0)
    owner = -1
    for place, watch, is_below, needless, first, last, highest, time_ns, has_stamp, stamp in events:
        if watch != owner:
            owner = watch
            history = _History(first, patience_ns(watch))
        when = (time_ns, stamp if has_stamp else None)
        if is_below:
            is_resent = history.is_retransmission(first, min(last, highest), when)
            yield place, is_resent or needless
        else:
            history.gap(highest, first, when)


def _needless(rows: Array, tcp: Int64Array) -> BoolArray:
    """Mark rows with data that the other end had already acknowledged.

    An ACK that may answer the row itself does not count. A recorder of two interfaces may capture
    the ACK first, so the order in the file proves nothing. An echoed timestamp proves the order,
    because it is from the sender's clock. Otherwise, the ACK must be _RECORDING_ORDER_NS older.
    """
    connection = rows["connection"][tcp]
    order = tcp[stable_order(connection)]
    new = starts_of(rows["connection"][order])
    first = np.flatnonzero(new)[np.cumsum(new) - 1]
    direction = rows["direction"][order]
    has_ack = rows["flags"][order] & ACK != 0
    ack, payload = rows["ack"][order], rows["payload_bytes"][order]
    end = rows["seq"][order] + payload
    result = np.zeros(len(rows), np.bool_)
    for side in 0, 1:
        latest = np.where(has_ack & (direction == side), np.arange(len(order)), -1)
        np.maximum.accumulate(latest, out=latest)
        already_acked = (latest >= first) & (direction != side) & (payload > 0)
        already_acked &= end <= ack[latest]
        data, answer = rows[order[already_acked]], rows[order[latest[already_acked]]]
        echoed = data["has_timestamps"] & answer["has_timestamps"]
        older = np.where(
            echoed,
            (data["ts_val"] - answer["ts_ecr"]).astype(np.int32) > 0,
            # The difference between times far apart could overflow an int64.
            data["time_ns"].astype(np.float64) - answer["time_ns"] >= _RECORDING_ORDER_NS,
        )
        result[order[already_acked]] = older
    return result


#: Packets that a recorder captures at two interfaces may be out of order by this much.
_RECORDING_ORDER_NS: Final = 1_000_000

#: How long a segment can be delayed by reordering if no handshake shows the RTT. Wireshark uses the
#: same value.
_REORDERING_NS: Final = 3_000_000

_CHUNK: Final = 4096  # segments

_When = tuple[int, "int | None"]  # time_ns and TSval


class _History:
    """The sequence numbers that have passed in a stream, stored as the gaps between them."""

    def __init__(self, first: int, reordering_ns: int) -> None:
        # Data sent before the capture began is a gap of unknown age.
        self.gaps: list[tuple[int, int, _When | None]] = [(-(1 << 62), first, None)]
        self.reordering_ns = reordering_ns

    def gap(self, start: int, stop: int, when: _When) -> None:
        """Record a gap before the segment that passed at the time `when`."""
        if start < stop:
            self.gaps.append((start, stop, when))

    def is_retransmission(self, start: int, stop: int, when: _When) -> bool:
        """Return whether a segment below the highest number was resent, and fill its gap."""
        at = max(bisect.bisect_right(self.gaps, start, key=lambda gap: gap[0]) - 1, 0)
        low, high, opened = self.gaps[at]
        fits = low <= start and stop <= high
        self._fill(at, start, stop)
        if not fits:
            return True  # part of it passed before
        if opened is None:
            return False
        (opened_ns, opened_stamp), (time_ns, stamp) = opened, when
        if stamp is not None and opened_stamp is not None and stamp != opened_stamp:
            # TSval is the sender's clock, so it shows whether the segment was sent before or after
            # the one that opened the gap.
            return (stamp - opened_stamp) % 2**32 < 1 << 31
        return time_ns - opened_ns >= self.reordering_ns

    def _fill(self, at: int, start: int, stop: int) -> None:
        """Remove the range `start` to `stop` from the gaps. It touches no gap before index `at`."""
        last = at
        rest: list[tuple[int, int, _When | None]] = []
        while last < len(self.gaps) and self.gaps[last][0] < stop:
            low, high, when = self.gaps[last]
            pieces = ((low, min(high, start), when), (max(low, stop), high, when))
            rest += [piece for piece in pieces if piece[0] < piece[1]]
            last += 1
        self.gaps[at:last] = rest or ([] if at else [(-(1 << 62), -(1 << 62), None)])


def _reordering_ns(rows: Array, order: Int64Array, stream: Int64Array, connection: int) -> int:
    """Return how late reordering can make a segment. A retransmission takes at least an RTT.

    So the limit is the RTT of the handshake, which is the same wherever on the path it is captured.
    If no handshake shows the RTT, the limit is _REORDERING_NS.
    """
    at = np.searchsorted(stream, [2 * connection, 2 * connection + 1, 2 * connection + 2])
    client = rows[order[at[0] : min(at[0] + 32, at[1])]]
    server = rows[order[at[1] : min(at[1] + 32, at[2])]]
    syn_ack = server[server["flags"] & (SYN | ACK) == SYN | ACK][:1]
    if not len(syn_ack):
        return _REORDERING_NS
    client = client[client["interface"] == syn_ack["interface"]]
    is_syn = client["flags"] & (SYN | ACK) == SYN
    syn = client["time_ns"][is_syn & (client["packet"] < syn_ack["packet"])]
    ack = client["time_ns"][~is_syn & (client["packet"] > syn_ack["packet"])]
    if not len(syn) or not len(ack) or ack[0] <= syn[-1]:
        return _REORDERING_NS
    return int(ack[0]) - int(syn[-1])


def _running_maximum(values: Int64Array, new: BoolArray) -> Int64Array:
    result = np.empty_like(values)
    for start, stop in itertools.pairwise(np.append(np.flatnonzero(new), len(values)).tolist()):
        np.maximum.accumulate(values[start:stop], out=result[start:stop])
    return result
