"""Connections: their rows, and which of their ends is the client."""

from __future__ import annotations

import ipaddress

import numpy as np
import numpy.typing as npt

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

__all__ = ["EndpointTable", "number_connections"]


class EndpointTable:
    """Numbers the pairs of endpoints, in order of appearance.

    Of the two ends of a pair that which compares lower is its side 0: the packets of both
    directions have the same key.
    """

    def __init__(self) -> None:
        self.numbers: dict[bytes, int] = {}
        self.ends: list[tuple[int, int, bytes]] = []  # version, protocol, key

    def enter(self, rows: Array, version: int, u32: Array, at: Int64Array) -> None:
        """Set `connection` to the number of the row's pair, `direction` to its sender's side.

        Args:
            rows: of one protocol.
            version: of IP.
            u32: the file as integers: [i] is that at byte i.
            at: where in the file the row's IP header begins.
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
        first = _first_alike(keys)
        pairs = np.flatnonzero(first == np.arange(len(first)))
        protocol = int(rows["protocol"][0])
        number = np.empty(len(rows), np.int64)
        for i in pairs.tolist():
            key = bytes((version, protocol)) + keys[i].tobytes()
            number[i] = self.numbers.setdefault(key, len(self.numbers))
            if number[i] == len(self.ends):
                self.ends.append((version, protocol, key[2:]))
        rows["connection"] = number[first]
        rows["direction"] = swapped

    def endpoints(self, number: int) -> tuple[tuple[str, int], tuple[str, int]]:
        """Address and port of side 0 and of side 1."""
        _version, _protocol, key = self.ends[number]
        words = np.frombuffer(key, np.uint64)
        ends = []
        for shift in (32, 0):
            halves = [int(word) >> shift & 0xFFFFFFFF for word in words]
            packed = b"".join(half.to_bytes(4, "big") for half in halves[:-1])
            ends.append((str(ipaddress.ip_address(packed)), halves[-1]))
        return ends[0], ends[1]


def _greater(a: list[Array], b: list[Array]) -> BoolArray:
    """a > b, element by element; the first item of the lists is the most significant."""
    result = a[-1] > b[-1]
    for x, y in zip(a[-2::-1], b[-2::-1], strict=True):
        result = (x > y) | ((x == y) & result)
    return result


def _first_alike(keys: Array) -> Int64Array:
    """For each row of keys (uint64, n x k) the index of the first row that is equal to it.

    A hash table that numpy fills: rows that another key drove out of their place try again, with
    another hash function.
    """
    random = np.random.default_rng()  # so that nobody can make a file whose keys all collide
    # Packets of a connection come in trains: only the first of each has to be looked up.
    head = np.ones(len(keys), np.bool_)
    head[1:] = (keys[1:] != keys[:-1]).any(axis=1)
    todo = np.flatnonzero(head)
    first = np.empty(len(keys), np.int64)
    while len(todo):
        bits = max(10, min(20, len(todo).bit_length() + 1))
        factors: npt.NDArray[np.uint64] = (
            random.integers(1 << 63, size=(keys.shape[1],), dtype=np.uint64) * 2 + 1
        )
        mixed = keys[todo] * factors
        mixed ^= mixed >> np.uint64(32)
        place = (mixed.sum(axis=1, dtype=np.uint64) * factors[0]) >> np.uint64(64 - bits)
        table = np.empty(1 << bits, np.int64)
        table[place[::-1]] = todo[::-1]  # the first of those that want a place gets it
        holder = table[place]
        alike = (keys[holder] == keys[todo]).all(axis=1)
        first[todo[alike]] = holder[alike]
        todo = todo[~alike]
    alike_to: Int64Array = first[np.flatnonzero(head)[np.cumsum(head) - 1]]
    return alike_to


def _first_where(mask: BoolArray, starts: Int64Array) -> Int64Array:
    """For each group (beginning at starts) the first index where mask is true, else len(mask)."""
    places = np.where(mask, np.arange(len(mask)), len(mask))
    result: Int64Array = np.minimum.reduceat(places, starts)
    return result


def number_connections(rows: SegmentArray, table: EndpointTable) -> tuple[Connection, ...]:
    """Turns pairs of endpoints into connections, and sides into directions."""
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

    # The client's side.
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

    # Connections are numbered as they appear in the file.
    rank = np.empty(len(starts), np.int64)
    appearance = np.argsort(order[starts], kind="stable")
    rank[appearance] = np.arange(len(starts))
    rows["connection"][order] = rank[connection]
    rows["direction"][order] = side ^ client[connection]
    return tuple(
        _connection(table, int(pair[starts[i]]), int(client[i]), bool(tcp[starts[i]]))
        for i in appearance
    )


def _connection(table: EndpointTable, pair: int, client: int, tcp: bool) -> Connection:
    ends = table.endpoints(pair)
    return Connection("tcp" if tcp else "udp", ends[client], ends[1 - client])


def _ports_by_side(rows: Array, first: Int64Array, side: Array) -> tuple[Array, Array]:
    src, dst = rows["src_port"][first], rows["dst_port"][first]
    return np.where(side == 0, src, dst), np.where(side == 0, dst, src)


def _reuses(
    rows: Array, order: Int64Array, pair: Array, side: Array, is_syn: BoolArray, new: BoolArray
) -> BoolArray:
    """SYNs that begin another connection between the same ports: not sent again, not crossing."""
    reuses = np.zeros(len(order), np.bool_)
    at = np.flatnonzero(is_syn & ~new)
    if not len(at):
        return reuses
    seq = rows["seq"][order]
    # The SYN that the same side sent before.
    syns = np.flatnonzero(is_syn)
    stream = pair[syns].astype(np.int64) * 2 + side[syns]
    by_stream = np.argsort(stream, kind="stable")
    again = np.zeros(len(syns), np.bool_)
    has_before = ~starts_of(stream[by_stream])
    same = np.zeros(len(syns), np.bool_)
    same[1:] = seq[syns[by_stream]][1:] == seq[syns[by_stream]][:-1]
    again[by_stream] = has_before & same
    before_exists = np.zeros(len(syns), np.bool_)
    before_exists[by_stream] = has_before
    # Without one, just before: the other's SYN (simultaneous open) or SYN-ACK (which overtook).
    previous = order[at - 1]
    crossing = (side[at - 1] != side[at]) & (
        is_syn[at - 1]
        | ((rows["flags"][previous] & ACK != 0) & (rows["ack"][previous] == (seq[at] + 1) % 2**32))
    )
    is_at = np.searchsorted(syns, at)
    reuses[at] = np.where(before_exists[is_at], ~again[is_at], ~crossing)
    return reuses
