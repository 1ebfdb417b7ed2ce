"""Make a few writes in a row, and see which segments leave and when the last byte arrives.

Nagle's rule (RFC 896), with Minshall's change as in Linux's tcp_output.c, decides which segments
wait. A segment smaller than the MSS is held while an earlier small segment is unacknowledged.
"""

import re
import socket
import statistics
import time
from collections.abc import Sequence
from typing import Annotated, Final, TypeAlias

from tcplab.errors import ParameterError
from tcplab.experiments import Result, Spelled, experiment
from tcplab.experiments.exchange import payload_sizes, segments_of, sizes_by_message
from tcplab.experiments.progress import case_by_case
from tcplab.experiments.quantities import Variant, column, computed, plus
from tcplab.experiments.sockets import MSS_BYTES, connection, read_all
from tcplab.lab import Lab

DEFAULT_PATTERNS: Final = (
    (100,),
    (4, 100),
    (MSS_BYTES, 100),
    (2 * MSS_BYTES, 100),
    (MSS_BYTES + 1, 100),
)
#: Number of messages after which a Linux receiver has left quick-ACK mode and delays its ACKs.
_WARM_UP: Final = 3
_MESSAGES: Final = 5


class Pattern(Variant, heading="writes (bytes)"):
    """A pattern of writes that is repeated over one connection."""

    writes: tuple[int, ...]
    segments: tuple[int, ...] = column("segments (bytes)", show=plus)  #: sizes in the last message
    #: time from the first write to the arrival of the last byte, for each message
    arrivals_ms: tuple[float, ...]

    @property
    def label(self) -> str:
        first = self.writes[0]
        if len(self.writes) > 2 and set(self.writes) == {first}:
            return f"{len(self.writes)} × {first}"
        return plus(self.writes)

    arrival_ms = computed(
        lambda case: statistics.median(case.arrivals_ms), "last byte arrives after (ms)", ".2f"
    )


def _parse_pattern(word: str) -> tuple[int, ...]:
    if not re.fullmatch(r"\d+(\+\d+)*", word):
        raise ParameterError(f"pattern {word!r}: give bytes joined by +, such as 4+100")
    return tuple(map(int, word.split("+")))


Patterns: TypeAlias = Annotated[
    Sequence[
        Annotated[
            Sequence[int], Spelled(_parse_pattern, "4+100", lambda sizes: "+".join(map(str, sizes)))
        ]
    ],
    "sizes of the writes of a message, joined by +, at most 65536 bytes in all",
]


@experiment(
    "write-patterns",
    figure=("arrival_ms",),
    finding="Writes of {most} take {ratio} times as long as {least}",
)
def measure(
    patterns: Patterns = DEFAULT_PATTERNS,
    nodelay: Annotated[bool, "set TCP_NODELAY on the sender"] = False,
) -> Result[Pattern]:
    """Make a few writes in a row, and show which segments leave and when the last byte arrives.

    A reply of two bytes follows each message.
    """
    for pattern in patterns:
        if not pattern or min(pattern) < 1 or sum(pattern) > 65_536:
            raise ParameterError(
                f"pattern {tuple(pattern)} must be writes of at least 1 byte each and at"
                " most 65536 bytes in all"
            )
    with Lab() as lab:
        details = {"messages": _MESSAGES, "nodelay": nodelay}
        cases = map(tuple, patterns)
        return case_by_case(lab, cases, lambda case: _measure_one(lab, case, nodelay), **details)


def _measure_one(lab: Lab, writes: tuple[int, ...], nodelay: bool) -> Pattern:
    with lab.client.capture() as capture, connection(lab) as (client, server):
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, nodelay)
        times = [_send_message(client, server, writes) for _ in range(_WARM_UP + _MESSAGES)]
    sizes = payload_sizes(segments_of(capture))
    *_earlier, segments = sizes_by_message(sizes, sum(writes), _WARM_UP + _MESSAGES)
    return Pattern(writes, segments, tuple(times[_WARM_UP:]))


def _send_message(client: socket.socket, server: socket.socket, writes: Sequence[int]) -> float:
    """Send a message, and await a reply of two bytes; return the ms until the last byte arrived."""
    start = time.perf_counter()
    for size in writes:
        client.sendall(bytes(size))
    read_all(server, sum(writes))
    arrival_ms = (time.perf_counter() - start) * 1e3
    server.sendall(b"ok")
    client.recv(2)
    return arrival_ms
