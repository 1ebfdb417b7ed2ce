"""Record a short connection at both hosts."""

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from tcplab.experiments import Between, experiment, provenance
from tcplab.experiments.exchange import Exchanged, both_ends
from tcplab.experiments.parameters import RttMs
from tcplab.experiments.sockets import connection
from tcplab.lab import Lab
from tcplab.segments import FROM_CLIENT, flag_names
from tcplab.tables import Column
from tcplab.timeline import Exchange


@dataclass(frozen=True, slots=True)
class ShortConnection(Exchanged):
    """A short connection, recorded at both hosts."""

    columns: ClassVar[Sequence[Column]] = (
        Column("time_ms", "time (ms)", ".2f"),
        Column("from", "from"),
        Column("variant", "flags"),
        Column("seq", "seq", "d"),
        Column("ack", "ack", "d"),
        Column("payload_bytes", "data (bytes)", "d"),
        Column("frame_bytes", "frame (bytes)", "d"),
    )

    exchange: Exchange[None]
    provenance: Mapping[str, Any]

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per packet on the client's interface, with the time since the first."""
        start_ns = self.segments.first_time_ns
        return [
            {
                "variant": flag_names(int(row["flags"])),
                "time_ms": (int(row["time_ns"]) - start_ns) / 1e6,
                "from": "client" if row["direction"] == FROM_CLIENT else "server",
                "seq": int(row["seq"]),
                "ack": int(row["ack"]),
                "payload_bytes": int(row["payload_bytes"]),
                "frame_bytes": int(row["wire_bytes"]),
            }
            for row in self.segments
        ]


@experiment("connection", figure=lambda figures, result: figures.handshake(result))
def measure(rtt_ms: Annotated[RttMs, Between(0, 1000, "ms")] = 20.0) -> ShortConnection:
    """Record a connection that carries ten bytes, packet by packet."""
    with Lab(rtt_ms=rtt_ms) as lab:
        with both_ends(lab) as recorded, connection(lab, first=b"hello") as (client, server):
            server.sendall(server.recv(100).upper())
            client.recv(100)
            client.shutdown(socket.SHUT_WR)
            server.recv(100)
            server.close()
            client.recv(100)
        return ShortConnection(Exchange(None, nodelay=False, **recorded), provenance(lab))
