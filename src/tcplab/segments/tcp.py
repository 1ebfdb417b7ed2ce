"""Columns that depend on earlier segments: relative numbers, scaled windows, retransmissions."""

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

# A "stream" is one direction of a connection, number 2 x connection + direction. What depends on
# earlier segments is computed for all streams at once, with the rows sorted by stream.
#
# A capture at several interfaces may hold a packet several times, as it passed each. So what was
# seen before is asked of each interface by itself: a "watch" is a stream at an interface.


def analyse(rows: SegmentArray, tcp: Int64Array) -> None:
    """Fill the columns that depend on more than the segment itself."""
    if not len(tcp):
        return
    stream = rows["connection"][tcp].astype(np.int64) * 2 + rows["direction"][tcp]
    by_stream = stable_order(stream)
    order = tcp[by_stream]  # rows, sorted by stream
    stream = stream[by_stream]
    new = starts_of(stream)
    streams = 2 * len(rows.connections)
    _relative_numbers(rows, order, stream, new, streams)
    _windows(rows, order, stream, streams)
    _super_segments(rows, order, stream, streams)

    interface = rows["interface"][order].astype(np.int64)
    sides = int(interface.max()) + 1
    if interface.min() + 1 == sides:  # one, as nearly always
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
    """32-bit sequence numbers, relative to the first of their group, without the jumps at 2^32."""
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
    """`seq` and `ack` relative to the initial sequence numbers.

    These are in the SYN and in the SYN-ACK, which need not come first: a server that refused the
    first SYN sent a RST before. Of several SYN-ACKs that differ, the one that was acknowledged
    counts. Without a SYN the first byte that is seen or acknowledged counts as number 1.
    """
    seq, ack = rows["seq"][order], rows["ack"][order]
    flags = rows["flags"][order]
    never = len(rows)
    first_row = np.full(streams, never)
    base = np.zeros(streams, np.int64)
    starts = np.flatnonzero(new)
    first_row[stream[starts]] = order[starts]
    base[stream[starts]] = seq[starts] - (flags[starts] & SYN == 0)
    # The other direction may have acknowledged before this one was seen.
    acks = np.flatnonzero(flags & ACK)
    new_ack = starts_of(stream[acks])
    first_ack = acks[new_ack]
    other = stream[first_ack] ^ 1
    earlier = order[first_ack] < first_row[other]
    base[other[earlier]] = ack[first_ack[earlier]] - 1
    for each, initial in _initial_numbers(stream, seq, ack, flags):
        base[each] = initial

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
    """The initial sequence numbers of the streams that do not begin with their only one."""
    syns = np.flatnonzero(flags & SYN)
    begin = np.searchsorted(stream, stream[syns])
    usual = (seq[syns] == seq[begin]) & (flags[begin] & SYN != 0)
    for each in np.unique(stream[syns[~usual]]).tolist():
        mine = syns[slice(*np.searchsorted(syns, np.searchsorted(stream, [each, each + 1])))]
        other = slice(*np.searchsorted(stream, [each ^ 1, (each ^ 1) + 1]))
        answers = ack[other][flags[other] & (ACK | RST) == ACK]
        known = np.isin((seq[mine] + 1) % 2**32, answers)
        yield each, int(seq[mine[known] if known.any() else mine][0])


def _windows(rows: Array, order: Int64Array, stream: Int64Array, streams: int) -> None:
    """Scales `window`: only if every SYN that was seen has the option (RFC 7323, section 2.2)."""
    is_syn = rows["flags"][order] & SYN != 0
    syns = np.flatnonzero(is_syn)[::-1]  # backwards, so that the first SYN has the last word
    if not len(syns):
        return  # nothing is known: the windows stay as they are, their shift -1
    option = rows["wscale"][order[syns]]
    shift = np.full(streams, -1, np.int64)
    shift[stream[syns]] = option
    refused = stream[syns[option < 0]] // 2
    for direction in 0, 1:
        shift[2 * refused + direction] = 0
    shifts = shift[stream]
    shifts[is_syn & (shifts >= 0)] = 0  # a SYN's own window is never scaled
    rows["window_shift"][order] = shifts
    rows["window"][order] = rows["window"][order] << np.maximum(shifts, 0).astype(np.uint32)


def _super_segments(rows: Array, order: Int64Array, stream: Int64Array, streams: int) -> None:
    """`gso_count`: by the smaller MSS of the SYNs, less the options (RFC 9293, section 3.7.1)."""
    mss = np.full(streams // 2, np.iinfo(np.int64).max)
    told = np.flatnonzero(rows["mss"][order])
    if not len(told):
        return  # nobody told an MSS
    np.minimum.at(mss, stream[told] // 2, rows["mss"][order[told]].astype(np.int64))
    mss = mss[stream // 2]
    payload = rows["payload_bytes"][order].astype(np.int64)
    known = np.flatnonzero((payload > 0) & (mss < 1 << 16))
    # The one option that rides on every data segment.
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
    """is_retransmission and is_out_of_order.

    What the receiver has acknowledged was sent before, whether or not that was captured. Of the
    rest the segments below the highest number seen are judged by what passed there before.
    """
    flags = rows["flags"][order]
    # A RST has no place in the stream, and neither has a SYN with another number than that counts.
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
    before[new] = seq[new]  # nothing was seen yet: neither a gap nor below
    below = (end > seq) & (seq < before)
    gap = (seq > before) & (flags & RST == 0)
    rows["is_retransmission"][order[needless]] = True
    if not below.any():
        return
    # Only watches with such segments, and of these only the segments that matter.
    affected = np.zeros(int(watch[-1]) + 1, np.bool_)
    affected[watch[below]] = True
    events = np.flatnonzero((below | gap | new) & affected[watch])
    at = order[events]
    found = _judge(
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
    for place, again in found:
        rows["is_retransmission" if again else "is_out_of_order"][order[place]] = True


def _python_rows(*columns: Array) -> Iterator[tuple[Any, ...]]:
    """Row by row as Python's own numbers, but not all of them at once: those take much room."""
    for start in range(0, len(columns[0]), _CHUNK):
        yield from zip(*(each[start : start + _CHUNK].tolist() for each in columns), strict=True)


def _judge(
    events: Iterable[tuple[Any, ...]], patience_ns: Callable[[int], int]
) -> Iterator[tuple[int, bool]]:
    """The place of each segment below the highest number of its watch, and whether it came again.

    Args:
        events: place, watch, whether it is below, whether it is needless, its first number and the
            one after its last, the highest number before it, its time, whether it has a timestamp,
            and that; by watch, and in order.
        patience_ns: of a watch, for how long a segment can be overtaken.
    """
    history = _History(0, 0)
    owner = -1
    for place, watch, is_below, needless, first, last, highest, time_ns, has_stamp, stamp in events:
        if watch != owner:
            owner = watch
            history = _History(first, patience_ns(watch))
        when = (time_ns, stamp if has_stamp else None)
        if is_below:
            again = history.is_retransmission(first, min(last, highest), when)
            yield place, again or needless
        else:
            history.gap(highest, first, when)


def _needless(rows: Array, tcp: Int64Array) -> BoolArray:
    """True for rows with nothing but data that the other end has acknowledged: it had a copy.

    But not where the ACK may be the answer to this very copy. A recorder of two sides may see the
    answer first, and then the order in the file is no evidence; the sender's clock, echoed, is.
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
        told = (latest >= first) & (direction != side) & (payload > 0)
        told &= end <= ack[latest]
        data, answer = rows[order[told]], rows[order[latest[told]]]
        echoed = data["has_timestamps"] & answer["has_timestamps"]
        older = np.where(
            echoed,
            (data["ts_val"] - answer["ts_ecr"]).astype(np.int32) > 0,
            # Times far apart differ by more than an int64.
            data["time_ns"].astype(np.float64) - answer["time_ns"] >= _RECORDING_ORDER_NS,
        )
        result[order[told]] = older
    return result


#: The most that two sides of one recorder may be out of step.
_RECORDING_ORDER_NS: Final = 1_000_000

#: For how long a segment can be overtaken when no handshake tells the RTT: Wireshark's choice.
_REORDERING_NS: Final = 3_000_000

_CHUNK: Final = 4096  # segments

_When = tuple[int, "int | None"]  # time_ns, TSval


class _History:
    """The part of a stream that has passed: all up to a highest number, but for the gaps."""

    def __init__(self, first: int, reordering_ns: int) -> None:
        # What was sent before the capture began is a gap, and nobody knows since when.
        self.gaps: list[tuple[int, int, _When | None]] = [(-(1 << 62), first, None)]
        self.reordering_ns = reordering_ns

    def gap(self, start: int, stop: int, when: _When) -> None:
        """The segment of that time left a gap before it."""
        if start < stop:
            self.gaps.append((start, stop, when))

    def is_retransmission(self, start: int, stop: int, when: _When) -> bool:
        """Judge a segment below the highest number, and fill the gap that it fits into."""
        at = max(bisect.bisect_right(self.gaps, start, key=lambda gap: gap[0]) - 1, 0)
        low, high, opened = self.gaps[at]
        fits = low <= start and stop <= high
        self._fill(at, start, stop)
        if not fits:
            return True  # some of it has passed before
        if opened is None:
            return False
        (opened_ns, opened_stamp), (time_ns, stamp) = opened, when
        if stamp is not None and opened_stamp is not None and stamp != opened_stamp:
            # Sent after the one that passed it, or before: TSval is the sender's clock.
            return (stamp - opened_stamp) % 2**32 < 1 << 31
        return time_ns - opened_ns >= self.reordering_ns

    def _fill(self, at: int, start: int, stop: int) -> None:
        """Take start to stop out of the gaps, the first of which that it can touch is at."""
        last = at
        rest: list[tuple[int, int, _When | None]] = []
        while last < len(self.gaps) and self.gaps[last][0] < stop:
            low, high, when = self.gaps[last]
            pieces = ((low, min(high, start), when), (max(low, stop), high, when))
            rest += [piece for piece in pieces if piece[0] < piece[1]]
            last += 1
        self.gaps[at:last] = rest or ([] if at else [(-(1 << 62), -(1 << 62), None)])


def _reordering_ns(rows: Array, order: Int64Array, stream: Int64Array, connection: int) -> int:
    """For how long a segment can be overtaken: a retransmission takes a round-trip time at least.

    That of the handshake is the same wherever on the path it is captured: from SYN to ACK.
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
    """The largest value so far of each stream."""
    result = np.empty_like(values)
    for start, stop in itertools.pairwise(np.append(np.flatnonzero(new), len(values)).tolist()):
        np.maximum.accumulate(values[start:stop], out=result[start:stop])
    return result
