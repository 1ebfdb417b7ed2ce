"""Send a learner's packets to a real kernel, and read the kernel's answers.

Learners build a packet with scapy and hand in `bytes(packet).hex()`. Only the packet's traffic
class and TCP segment are used, because addresses and ports are those of the lab. In a connection,
the server's sequence numbers count from its SYN, which has number 0.
"""

from __future__ import annotations

import secrets
import socket
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from tcplab.errors import LabError, ParameterError
from tcplab.lab import Lab

SYN, RST, ACK, ECE = 0x02, 0x04, 0x10, 0x40
_CLOSED_PORT: Final = 9000
_MOST_BYTES: Final = 1500
_TCP: Final = struct.Struct(">HHIIBBHHH")
#: How long to wait for an answer. A kernel answers at once, but the machine may be busy.
PATIENCE_S: Final = 2.0
#: After this time without a packet, the server is taken to have finished.
QUIET_S: Final = 0.3


@dataclass(frozen=True, slots=True)
class OwnPacket:
    """A learner's packet, without addresses, ports and checksums."""

    seq: int = 0
    ack: int = 0
    flags: int = ACK
    window: int = 8192
    options: bytes = b""
    data: bytes = b""
    tos: int = 0

    @classmethod
    def read(cls, answer: object, name: str) -> OwnPacket:
        """Parse the hex text of an IPv4 packet with a TCP segment, or raise ParameterError."""
        if answer is None:
            raise ParameterError(f"{name} has no answer yet.")
        try:
            packet = bytes.fromhex(answer) if isinstance(answer, str) else b""
        except ValueError:
            packet = b""
        header = 4 * (packet[0] & 15) if packet else 0
        if not (
            20 <= header <= len(packet) - _TCP.size
            and len(packet) <= _MOST_BYTES
            and packet[0] >> 4 == 4
            and packet[9] == socket.IPPROTO_TCP
        ):
            raise ParameterError(
                f"{name} must be bytes(packet).hex() of a packet such as IP(…) / TCP(…)"
            )
        _, _, seq, ack, offset, flags, window, _, _ = _TCP.unpack_from(packet, header)
        data = header + 4 * (offset >> 4)
        if not header + _TCP.size <= data <= len(packet):
            raise ParameterError(f"{name}: the TCP header says that it is longer than the packet.")
        options = packet[header + _TCP.size : data]
        return cls(seq, ack, flags, window, options, packet[data:], packet[1])


class Heard(NamedTuple):
    """A segment that the server has sent."""

    seq: int  #: number of the first byte; in a connection, the server's SYN is number 0
    ack: int
    flags: int
    data_bytes: int

    @property
    def sent_bytes(self) -> int:
        """In a connection, the number of bytes that the server has sent by this segment's end."""
        return self.seq + self.data_bytes - 1


Enough = Callable[[Sequence[Heard]], bool]


class Talk:
    """Our end of an exchange, which sends raw packets to a server and receives its segments."""

    def __init__(self, lab: Lab, scapy: Any, port: int) -> None:
        self._server, self._scapy = lab.server.address, scapy
        self._ports = 20_000 + secrets.randbelow(10_000), port
        self.first = 0  #: the server's initial sequence number, or 0 without a connection

    def send(self, packet: OwnPacket) -> None:
        """Send a packet, after filling in addresses, ports and checksums.

        If the ACK flag is set, the server's initial sequence number is added to the ACK number.
        """
        from scapy.layers.inet import IP, in4_chksum

        ack = (packet.ack + self.first) % 2**32 if packet.flags & ACK else packet.ack
        offset = (_TCP.size + len(packet.options)) << 2
        fields = [*self._ports, packet.seq, ack, offset, packet.flags, packet.window, 0, 0]
        ip = IP(src=self._scapy.address, dst=self._server, tos=packet.tos, proto=socket.IPPROTO_TCP)
        rest = packet.options + packet.data
        fields[7] = in4_chksum(socket.IPPROTO_TCP, ip, _TCP.pack(*fields) + rest)
        self._scapy.send(ip / (_TCP.pack(*fields) + rest))

    def hear(self, enough: Enough | None = None, within_s: float = PATIENCE_S) -> list[Heard]:
        """Return the segments that arrive within `within_s`, or until `enough` is true of them.

        By default, one segment is enough.
        """
        from scapy.layers.inet import TCP

        heard: list[Heard] = []

        def note(packet: Any) -> bool:
            if TCP in packet and (packet[TCP].dport, packet[TCP].sport) == self._ports:
                tcp = packet[TCP]
                seq, size = (int(tcp.seq) - self.first) % 2**32, len(tcp.payload)
                heard.append(Heard(seq, int(tcp.ack), int(tcp.flags), size))
            return bool(heard) and (enough is None or enough(heard))

        self._scapy.sniff(timeout=within_s, stop_filter=note, store=False)
        return heard


@contextmanager
def talk(lab: Lab, port: int = _CLOSED_PORT) -> Iterator[Talk]:
    """Yield an exchange with a port of the server, by default with a closed port."""
    with lab.client.scapy_socket() as scapy:
        yield Talk(lab, scapy, port)


@contextmanager
def connected(lab: Lab, syn: OwnPacket) -> Iterator[tuple[Talk, socket.socket]]:
    """Open a connection with this SYN; yield our end of it and the server's socket.

    Raise ParameterError if no SYN-ACK arrives, or LabError if accept() times out.
    """
    with ExitStack() as stack:
        listener = stack.enter_context(lab.server.socket())
        listener.bind((lab.server.address, 0))
        listener.listen()
        listener.settimeout(5 * PATIENCE_S)
        ours = stack.enter_context(talk(lab, listener.getsockname()[1]))
        ours.send(syn)
        answers = ours.hear()
        if not answers or answers[0].flags & (SYN | ACK) != SYN | ACK:
            raise ParameterError("The server does not answer with a SYN-ACK. What is a SYN?")
        ours.first = answers[0].seq
        ours.send(OwnPacket(seq=syn.seq + 1, ack=1))
        try:
            server, _ = listener.accept()
        except TimeoutError:
            raise LabError("the server did not accept the connection") from None
        with server:
            yield ours, server
