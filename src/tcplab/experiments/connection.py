"""Watch a short connection with scapy, and record it at both hosts."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

from tcplab.experiments import Between, experiment, provenance
from tcplab.experiments.exchange import Exchanged
from tcplab.experiments.parameters import RttMs
from tcplab.lab import Lab
from tcplab.programs import Event
from tcplab.tables import Column
from tcplab.timeline import Exchange
from tcplab.timeline.sockets import read_tcp_info

if TYPE_CHECKING:
    from scapy.packet import Packet


QUESTION: Final = b"hello"


@dataclass(frozen=True, slots=True)
class Connection(Exchanged):
    """A short connection, recorded by scapy and by the recorders of both hosts."""

    columns: ClassVar[Sequence[Column]] = (
        Column("time_ms", "time (ms)", ".2f"),
        Column("from", "from"),
        Column("variant", "flags"),
        Column("seq", "seq", "d"),
        Column("ack", "ack", "d"),
        Column("payload_bytes", "data (bytes)", "d"),
        Column("frame_bytes", "frame (bytes)", "d"),
    )

    lines: Sequence[str]  #: one line from :func:`describe` per packet at the client
    dissected: str  #: all fields of the first packet, from scapy's ``show()``
    sniffed: int  #: number of packets that scapy received
    sniff_drops: int  #: number of packets that scapy missed
    exchange: Exchange[None]
    provenance: Mapping[str, Any]

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per packet on the client's interface, with the time since the first."""
        from tcplab.segments import FROM_CLIENT, flag_names

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


def converse(lab: Lab) -> tuple[list[Event], dict[str, Any]]:
    """Send a question and read the answer; return the client's log and its TCP_INFO."""
    log: list[Event] = []
    with lab.server.socket() as listener, lab.client.socket() as client:
        listener.bind((lab.server.address, 9000))
        listener.listen()
        client.connect((lab.server.address, 9000))
        log.append(Event(time.time_ns(), "write", len(QUESTION)))
        client.sendall(QUESTION)
        server, _ = listener.accept()
        with server:
            server.sendall(server.recv(100).upper())
            answer = client.recv(100)
            log.append(Event(time.time_ns(), "reply", len(answer)))
            info = read_tcp_info(client)
            client.shutdown(socket.SHUT_WR)
            server.recv(100)
        client.recv(100)
    return log, info


def describe(packet: Packet) -> str:
    """Return the most important fields of a TCP segment on one line."""
    ip, tcp = packet["IP"], packet["TCP"]
    line = f"{ip.src}:{tcp.sport} > {ip.dst}:{tcp.dport}  {tcp.flags!s:2}"
    line += f"  seq {tcp.seq}  ack {tcp.ack}  window {tcp.window}"
    return f"{line}  {len(tcp.payload)} bytes: {bytes(tcp.payload)!r}" if tcp.payload else line


@experiment("connection")
def measure(
    rtt_ms: Annotated[RttMs, Between(0, 1000, "ms")] = 20.0, network: Lab | None = None
) -> Connection:
    """Record a connection that carries ten bytes, packet by packet."""
    with nullcontext(network) if network else Lab(rtt_ms=rtt_ms) as lab:
        lines: list[str] = []
        with (
            lab.client.capture(snaplen=2048) as near,
            lab.server.capture() as far,
            lab.client.sniff(prn=lambda packet: lines.append(describe(packet))) as live,
        ):
            log, info = converse(lab)
            # The ACK of the server's FIN is still in flight at this moment.
            time.sleep((rtt_ms + 20) / 1e3)
        with near, far:
            return Connection(
                lines=lines,
                dissected=str(near.packets()[0].show(dump=True)),
                sniffed=live.received,
                sniff_drops=live.drops,
                exchange=Exchange(
                    None, log, near.segments, None, far.segments, tcp_info=info, nodelay=False
                ),
                provenance=provenance(lab, snaplen=2048),
            )
