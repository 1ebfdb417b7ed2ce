"""Plans of a transfer: a file, and how it is to be sent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tcplab.programs import CacheState, HeaderOptions, SendMethod

_NO_HEADER: Final = HeaderOptions()
_READ_BYTES: Final = 4096  # of the published method A


@dataclass(frozen=True, slots=True)
class Plan:
    """A file to be sent, and how."""

    name: str  #: Of the method
    method: SendMethod  #: How the bytes get to the socket
    file_bytes: int  #: Size of the file
    block_bytes: int | None = None  #: The most that a call takes; None for the method's usual
    header: HeaderOptions = _NO_HEADER  #: Before the file, and the options of the socket
    connections: int = 1  #: Clients that get the file at the same time
    cache: CacheState = "warm"  #: "warm" or "cold"
    special: str = ""  #: What else tells it from other plans of the name: "cold", "4 clients"

    @property
    def file_mb(self) -> float:
        """Size of the file in 10^6 bytes."""
        return self.file_bytes / 1e6

    @property
    def shown(self) -> str:
        """The name with what else is special."""
        return f"{self.name}, {self.special}" if self.special else self.name


def published_plans(file_bytes: int) -> list[Plan]:
    """The published methods A, B and C for a file."""
    return [
        Plan("A: read 4096 + send", "read", file_bytes, _READ_BYTES),
        Plan("B: sendfile", "sendfile", file_bytes),
        Plan("C: cork, sendfile", "sendfile", file_bytes, header=HeaderOptions(cork=True)),
    ]


def read_plans(file_bytes: int, block_bytes: Iterable[int]) -> list[Plan]:
    """Method A with blocks of other sizes than the published 4096 bytes."""
    return [
        Plan(f"read {size} + send", "read", file_bytes, size)
        for size in block_bytes
        if size != _READ_BYTES
    ]
