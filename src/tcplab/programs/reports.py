"""Reports of the C programs: frozen dataclasses made from their JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self, get_type_hints

__all__ = ["Percentiles", "Report", "SocketOptions", "TcpInfo", "Usage"]

#: The kernel's view of a connection: the fields of ``struct tcp_info`` (linux/tcp.h) under the
#: kernel's names, with the unit added: ``rtt_us``, ``busy_time_us``, ``snd_mss_bytes``, ...
TcpInfo = Mapping[str, Any]


class Report:
    """A dataclass made from the JSON object whose members bear its fields' names."""

    __slots__ = ()

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The record in a program's report; what the program left out keeps its default."""
        kinds = get_type_hints(cls)
        values: dict[str, Any] = {}
        for field in fields(cls):  # type: ignore[arg-type]
            kind = kinds[field.name]
            if field.name == "usage":  # its numbers stand among the others
                values[field.name] = Usage.from_json(data)
            elif field.name in data:
                value = data[field.name]
                nested = isinstance(kind, type) and issubclass(kind, Report)
                values[field.name] = kind.from_json(value) if nested else value
        return cls(**values)


@dataclass(frozen=True, slots=True)
class Usage(Report):
    """What a program used while it moved data (getrusage(2)): times in s, the others counts."""

    wall_s: float
    user_s: float
    system_s: float
    voluntary_switches: int
    involuntary_switches: int
    minor_faults: int
    major_faults: int

    @property
    def cpu_s(self) -> float:
        """User and system time together."""
        return self.user_s + self.system_s


@dataclass(frozen=True, slots=True)
class Percentiles(Report):
    """Nearest-rank percentiles of the single measurements, in microseconds."""

    min: float
    median: float
    p99: float
    max: float


@dataclass(frozen=True, slots=True)
class SocketOptions(Report):
    """What the kernel granted, read back from the socket (socket(7), tcp(7)).

    Attributes:
        congestion: congestion control in force; None for UDP.
        mss_bytes: TCP_MAXSEG, which on loopback may still grow; None for UDP.
        nodelay: TCP_NODELAY; None for UDP.
        sndbuf_bytes: SO_SNDBUF as the kernel doubled it.
        rcvbuf_bytes: SO_RCVBUF as the kernel doubled it.
        local: "ADDRESS port PORT" of this end.
        peer: the same of the other end.
        cpu: the CPU the program was pinned to, or None.
        deadline_s: how long it would have waited without progress.
    """

    sndbuf_bytes: int
    rcvbuf_bytes: int
    local: str
    peer: str
    cpu: int | None
    deadline_s: float
    congestion: str | None = None
    mss_bytes: int | None = None
    nodelay: bool | None = None

    @property
    def local_port(self) -> int:
        """The port of this end."""
        return int(self.local.rpartition(" ")[2])

    @property
    def peer_port(self) -> int:
        """The port of the other end."""
        return int(self.peer.rpartition(" ")[2])
