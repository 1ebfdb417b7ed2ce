"""Convert the JSON reports of the C programs to frozen dataclasses."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self, get_type_hints

#: The kernel's state of a connection, with the fields of ``struct tcp_info`` (linux/tcp.h). The
#: unit is appended to the kernel's names, as in ``rtt_us``, ``busy_time_us`` and ``snd_mss_bytes``.
TcpInfo = Mapping[str, Any]


class Report:
    """Base of dataclasses that are made from a JSON object with the same names."""

    __slots__ = ()

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the dataclass for a report. Fields that the report lacks keep their defaults."""
        values: dict[str, Any] = {}
        for name, kind in get_type_hints(cls).items():
            if name in data:
                nested = isinstance(kind, type) and issubclass(kind, Report)
                values[name] = kind.from_json(data[name]) if nested else data[name]
        return cls(**values)


@dataclass(frozen=True, slots=True)
class Usage(Report):
    """The resources used while data moved (getrusage(2)), as counts and times in s."""

    wall_s: float
    user_s: float
    system_s: float

    @property
    def cpu_s(self) -> float:
        return self.user_s + self.system_s


@dataclass(frozen=True, slots=True)
class Percentiles(Report):
    """Nearest-rank percentiles of a series of measurements, in microseconds."""

    min: float
    median: float
    p99: float
    max: float


@dataclass(frozen=True, slots=True)
class SocketOptions(Report):
    """Socket options as granted by the kernel, read back from the socket (socket(7), tcp(7))."""

    sndbuf_bytes: int  #: SO_SNDBUF; the kernel doubles a requested size
    rcvbuf_bytes: int  #: SO_RCVBUF; the kernel doubles a requested size
    local: str  #: This end of the connection, as "ADDRESS port PORT"
    peer: str  #: The other end, in the same form
    cpu: int | None  #: CPU to which the program was pinned, or None
    deadline_s: float  #: Time without progress after which the program would have given up
    congestion: str | None = None  #: Congestion control in effect, or None for UDP
    mss_bytes: int | None = None  #: TCP_MAXSEG, which may still grow on loopback, or None for UDP
    nodelay: bool | None = None  #: TCP_NODELAY, or None for UDP

    @property
    def local_port(self) -> int:
        return int(self.local.rpartition(" ")[2])

    @property
    def peer_port(self) -> int:
        return int(self.peer.rpartition(" ")[2])
