"""Number the connections of a capture, and decide which end is the client."""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tcplab.segments.headers import End
from tcplab.segments.table import ACK, SYN, TCP, Connection


@dataclass(slots=True)
class _Pair:
    """Two ends whose packets belong to one connection, or to several, one after the other."""

    number: int  #: The number of the current connection
    previous: tuple[End, Mapping[str, Any]]  #: The last packet and its sender
    syns: dict[End, int] = field(default_factory=dict)  #: Number of the last SYN of each end


@dataclass(slots=True)
class _Opening:
    """Facts in the packets of a connection that show its client."""

    protocol: int
    first: tuple[End, End]  #: Sender and receiver of the first packet
    syn: End | None = None  #: Sender of the first SYN
    syn_ack: End | None = None  #: Receiver of the first SYN-ACK

    def client(self) -> End:
        """Return the client's end, by the rules in the package's docstring."""
        if found := self.syn or self.syn_ack:
            return found
        first, second = self.first
        by_port = self.protocol == TCP and second[1] > first[1]
        return second if by_port else first

    def connection(self) -> Connection:
        client, (first, second) = self.client(), self.first
        server = second if client == first else first
        protocol = "tcp" if self.protocol == TCP else "udp"
        return Connection(protocol, _readable(client), _readable(server))


class Connections:
    """Assign packets to connections in the order in which the connections appear."""

    def __init__(self) -> None:
        self._pairs: dict[tuple[int, frozenset[End]], _Pair] = {}
        self._openings: list[_Opening] = []

    def enter(self, source: End, target: End, columns: dict[str, Any]) -> None:
        """Add `connection`, and `direction` relative to its first packet, to a packet's columns."""
        protocol = columns["protocol"]
        key = protocol, frozenset((source, target))
        pair = self._pairs.get(key)
        opens = columns.get("flags", 0) & (SYN | ACK)
        if pair is None or (opens == SYN and _is_new(pair, source, columns["seq"])):
            if pair is None:
                pair = self._pairs[key] = _Pair(0, (source, columns))
            pair.number = len(self._openings)
            self._openings.append(_Opening(protocol, (source, target)))
        opening = self._openings[pair.number]
        if opens == SYN:
            pair.syns[source] = columns["seq"]
            opening.syn = opening.syn or source
        elif opens == SYN | ACK:
            opening.syn_ack = opening.syn_ack or target
        pair.previous = source, columns
        columns["connection"] = pair.number
        columns["direction"] = int(source != opening.first[0])

    def all(self) -> tuple[Connection, ...]:
        """Return the connections by their numbers."""
        return tuple(opening.connection() for opening in self._openings)

    def server_first(self) -> list[bool]:
        """Return for each connection whether the server sent its first packet."""
        return [opening.client() != opening.first[0] for opening in self._openings]


def _readable(end: End) -> tuple[str, int]:
    return str(ipaddress.ip_address(end[0])), end[1]


def _is_new(pair: _Pair, source: End, seq: int) -> bool:
    """Return whether a SYN starts a new connection on the ends of an earlier one.

    A SYN with the number of the same end's previous SYN is a retransmission. If this end sent no
    SYN before, the previous packet may be the other end's SYN (a simultaneous open), or a SYN-ACK
    that was captured before this SYN.
    """
    if source in pair.syns:
        return pair.syns[source] != seq
    sender, columns = pair.previous
    flags, answers = columns["flags"], columns["ack"] == (seq + 1) % 2**32
    crossing = flags & (SYN | ACK) == SYN or (flags & ACK and answers)
    return sender == source or not crossing
