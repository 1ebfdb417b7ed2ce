"""The segments of an exchange, recorded at both of its ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tcplab.lab import Lab, Network

if TYPE_CHECKING:
    from tcplab.segments import SegmentArray

__all__ = ["Ends", "both_ends"]


@dataclass(slots=True)
class Ends:
    """What was recorded; all None on plain loopback, where nothing can be.

    Attributes:
        client: the segments on the client's interface (see tcplab.segments).
        server: the same on the server's.
        drops: packets that the recorders lost.
    """

    client: SegmentArray | None = None
    server: SegmentArray | None = None
    drops: int | None = None


@contextmanager
def both_ends(network: Network) -> Iterator[Ends]:
    """Records on both hosts of a Lab while the with statement lasts; complete after it."""
    ends = Ends()
    if not isinstance(network, Lab):
        yield ends
        return
    with network.client.capture() as near, network.server.capture() as far:
        yield ends
    with near, far:
        ends.client, ends.server = near.segments, far.segments
        ends.drops = (near.drops or 0) + (far.drops or 0)
