"""Number the connections of a capture, and decide which end is the client."""

from __future__ import annotations

import ipaddress

import numpy as np

from tcplab.segments.table import (
    ACK,
    SYN,
    TCP,
    Array,
    BoolArray,
    Connection,
    Int64Array,
    SegmentArray,
    stable_order,
    starts_of,
)


class EndpointTable:
    """Number the pairs of endpoints in the order in which they are entered.

    Side 0 of a pair is the end with the lower address or, if the addresses are equal, the lower
    port. So packets of both directions have the same key.
    """

    def __init__(self) -> None:
        self.numbers: dict[bytes, int] = {}  # keys combine IP version, protocol and both ends

    def enter(self, rows: Array, version: int, u32: Array, at: Int64Array) -> None:
        """Set each row's `connection` to its pair's number, and `direction` to the sender's side.

        Args:
            rows: packets of one IP version and one protocol, with their ports
            version: IP version of the rows' packets
            u32: array whose element i is the 32-bit integer at byte i of the file
            at: offsets in the file at which each row's IP header begins
        """
        if not len(rows):
            return
        size = 4 if version == 4 else 16
        at = at + (12 if version == 4 else 8)
        words = [u32[at + 4 * i].astype(np.uint64) for i in range(2 * size // 4)]
        half = len(words) // 2
        source = [*words[:half], rows["src_port"].astype(np.uint64)]
        target = [*words[half:], rows["dst_port"].astype(np.uint64)]
        swapped = _greater(source, target)
        low = [np.where(swapped, t, s) for s, t in zip(source, target, strict=True)]
        high = [np.where(swapped, s, t) for s, t in zip(source, target, strict=True)]
        keys = np.empty((len(rows), half + 1), np.uint64)
        for i in range(half):
            keys[:, i] = low[i] << np.uint64(32) | high[i]
        keys[:, half] = low[half] << np.uint64(32) | high[half]
        # Packets of a connection often follow each other, so only the first packet of each run is
        # looked up.
        first = np.ones(len(keys), np.bool_)
        first[1:] = (keys[1:] != keys[:-1]).any(axis=1)
        kind = bytes((version, int(rows["protocol"][0])))
        numbers = [
            self.numbers.setdefault(kind + key.tobytes(), len(self.numbers)) for key in keys[first]
        ]
        rows["connection"] = np.array(numbers)[np.cumsum(first) - 1]
        rows["direction"] = swapped

    def endpoints(self) -> list[tuple[tuple[str, int], tuple[str, int]]]:
        """Return the address and port of both sides of each pair, in the order of the numbers."""
        return [(_end(key[2:], 32), _end(key[2:], 0)) for key in self.numbers]


def _end(key: bytes, shift: int) -> tuple[str, int]:
    halves = [int(word) >> shift & 0xFFFFFFFF for word in np.frombuffer(key, np.uint64)]
    packed = b"".join(half.to_bytes(4, "big") for half in halves[:-1])
    return str(ipaddress.ip_address(packed)), halves[-1]


def _greater(a: list[Array], b: list[Array]) -> BoolArray:
    """Return a > b elementwise, for numbers of several words, the most significant word first."""
    result = a[-1] > b[-1]
    for x, y in zip(a[-2::-1], b[-2::-1], strict=True):
        result = (x > y) | ((x == y) & result)
    return result


def _first_where(mask: BoolArray, starts: Int64Array) -> Int64Array:
    """Return for each group the index of its first true element, or len(mask).

    A group begins at each index in `starts`.
    """
    places = np.where(mask, np.arange(len(mask)), len(mask))
    result: Int64Array = np.minimum.reduceat(places, starts)
    return result


def number_connections(rows: SegmentArray, table: EndpointTable) -> tuple[Connection, ...]:
    """Replace pairs by connections and sides by directions in the rows; return the connections."""
    if not len(rows):
        return ()
    order = stable_order(rows["connection"])
    pair = rows["connection"][order]
    side = rows["direction"][order]
    tcp = rows["protocol"][order] == TCP
    flags = rows["flags"][order]
    is_syn = tcp & (flags & (SYN | ACK) == SYN)
    new = starts_of(pair)
    new |= _reuses(rows, order, pair, side, is_syn, new)
    starts = np.flatnonzero(new)
    connection = np.cumsum(new) - 1

    # Decide which side is the client, by the rules in the package's docstring.
    count = len(rows)
    syn = _first_where(is_syn, starts)
    syn_ack = _first_where(tcp & (flags & (SYN | ACK) == (SYN | ACK)), starts)
    low_port, high_port = _ports_by_side(rows, order[starts], side[starts])
    by_port = np.where(low_port > high_port, 0, 1)
    by_port = np.where((low_port == high_port) | ~tcp[starts], side[starts], by_port)
    safe = np.append(side, 0)
    client = np.select(
        [syn < count, syn_ack < count], [safe[syn], 1 - safe[syn_ack]], by_port
    ).astype(np.uint8)

    # Connections are numbered in the order in which they appear in the file.
    rank = np.empty(len(starts), np.int64)
    appearance = np.argsort(order[starts], kind="stable")
    rank[appearance] = np.arange(len(starts))
    rows["connection"][order] = rank[connection]
    rows["direction"][order] = side ^ client[connection]
    endpoints = table.endpoints()
    connections = []
    for i, start in zip(appearance, starts[appearance], strict=True):
        ends = endpoints[pair[start]]
        protocol = "tcp" if tcp[start] else "udp"
        connections.append(Connection(protocol, ends[client[i]], ends[1 - client[i]]))
    return tuple(connections)


def _ports_by_side(rows: Array, first: Int64Array, side: Array) -> tuple[Array, Array]:
    src, dst = rows["src_port"][first], rows["dst_port"][first]
    return np.where(side == 0, src, dst), np.where(side == 0, dst, src)


def _reuses(
    rows: Array, order: Int64Array, pair: Array, side: Array, is_syn: BoolArray, new: BoolArray
) -> BoolArray:
    """Mark each SYN that starts a new connection on the ports of an earlier connection."""
    reuses = np.zeros(len(order), np.bool_)
    at = np.flatnonzero(is_syn & ~new)
    if not len(at):
        return reuses
    seq = rows["seq"][order]
    # A SYN with the sequence number of the previous SYN from the same side is a retransmission.
    syns = np.flatnonzero(is_syn)
    stream = pair[syns].astype(np.int64) * 2 + side[syns]
    by_stream = np.argsort(stream, kind="stable")
    is_resent = np.zeros(len(syns), np.bool_)
    has_before = ~starts_of(stream[by_stream])
    same = np.zeros(len(syns), np.bool_)
    same[1:] = seq[syns[by_stream]][1:] == seq[syns[by_stream]][:-1]
    is_resent[by_stream] = has_before & same
    before_exists = np.zeros(len(syns), np.bool_)
    before_exists[by_stream] = has_before
    # If this side sent no SYN before, the previous packet may be the other side's SYN (a
    # simultaneous open) or a SYN-ACK that was captured before this SYN. Neither is a reuse.
    previous = order[at - 1]
    crossing = (side[at - 1] != side[at]) & (
        is_syn[at - 1]
        | ((rows["flags"][previous] & ACK != 0) & (rows["ack"][previous] == (seq[at] + 1) % 2**32))
    )
    is_at = np.searchsorted(syns, at)
    reuses[at] = np.where(before_exists[is_at], ~is_resent[is_at], ~crossing)
    return reuses
