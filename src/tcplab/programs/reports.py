"""Convert the C programs' JSON reports to frozen dataclasses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self, get_type_hints

#: The kernel's view of a connection: the fields of ``struct tcp_info`` (linux/tcp.h) with the unit
#: appended to the kernel's names, such as ``rtt_us``, ``busy_time_us`` and ``snd_mss_bytes``.
TcpInfo = Mapping[str, Any]


class Report:
    """A dataclass made from a JSON object whose members have its fields' names."""

    __slots__ = ()

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the dataclass for a program's report. A missing member keeps its default."""
        kinds = get_type_hints(cls)
        values: dict[str, Any] = {}
        for field in fields(cls):  # type: ignore[arg-type]
            kind = kinds[field.name]
            if field.name in data:
                value = data[field.name]
                nested = isinstance(kind, type) and issubclass(kind, Report)
                values[field.name] = kind.from_json(value) if nested else value
        return cls(**values)


@dataclass(frozen=True, slots=True)
class Usage(Report):
    """Resources used while data moved (getrusage(2)), as times in s and counts."""

    wall_s: float
    user_s: float
    system_s: float
    voluntary_switches: int
    involuntary_switches: int
    minor_faults: int
    major_faults: int

    @property
    def cpu_s(self) -> float:
        return self.user_s + self.system_s


@dataclass(frozen=True, slots=True)
class Percentiles(Report):
    """Nearest-rank percentiles of the individual measurements, in microseconds."""

    min: float
    median: float
    p99: float
    max: float


@dataclass(frozen=True, slots=True)
class SocketOptions(Report):
    """Options granted by the kernel, read back from the socket (socket(7), tcp(7))."""

    sndbuf_bytes: int  #: SO_SNDBUF as the kernel doubled it
    rcvbuf_bytes: int  #: SO_RCVBUF as the kernel doubled it
    local: str  #: "ADDRESS port PORT" of this end
    peer: str  #: The same for the other end
    cpu: int | None  #: CPU the program was pinned to, or None
    deadline_s: float  #: Time for which it would have waited without progress
    congestion: str | None = None  #: Congestion control in effect, or None for UDP
    mss_bytes: int | None = None  #: TCP_MAXSEG, which on loopback may still grow, or None for UDP
    nodelay: bool | None = None  #: TCP_NODELAY, or None for UDP

    @property
    def local_port(self) -> int:
        return int(self.local.rpartition(" ")[2])

    @property
    def peer_port(self) -> int:
        return int(self.peer.rpartition(" ")[2])
