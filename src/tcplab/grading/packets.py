"""Send a learner's packets to a real kernel, and read the kernel's answers.

Learners build a packet with scapy and hand in `bytes(packet).hex()`. Only the packet's traffic
class and TCP segment are used, because addresses and ports are those of the lab. In a connection,
the server's sequence numbers count from its SYN, which has number 0.
"""

from __future__ import annotations

import functools
import secrets
import socket
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from tcplab.errors import LabError, ParameterError
from tcplab.grading.checks import Verdict
from tcplab.grading.submission import Submission
from tcplab.lab import Lab

SYN, RST, ACK, ECE = 0x02, 0x04, 0x10, 0x40
_MOST_BYTES: Final = 1500
_TCP: Final = struct.Struct(">HHIIBBHHH")
_UDP_BYTES: Final = 8
_SACK: Final = 5  # kind of the option with the blocks of a selective acknowledgement
#: How long to wait for an answer. A kernel answers at once, but the machine may be busy.
PATIENCE_S: Final = 2.0
#: After this time without a packet, the server is taken to have finished.
_QUIET_S: Final = 0.3
#: A sysctl without which a tail loss probe might send again, or send what the kernel should hold.
NO_PROBES: Final = {"net.ipv4.tcp_early_retrans": "0"}


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
        tos, segment = _contents(answer, name, socket.IPPROTO_TCP, _TCP.size)
        _, _, seq, ack, offset, flags, window, _, _ = _TCP.unpack_from(segment)
        data = 4 * (offset >> 4)
        if not _TCP.size <= data <= len(segment):
            raise ParameterError(f"{name}: the TCP header says that it is longer than the packet.")
        return cls(seq, ack, flags, window, segment[_TCP.size : data], segment[data:], tos)


def read_datagram(answer: object, name: str) -> tuple[int, bytes]:
    """Return the checksum and the data of a UDP datagram in hex, or raise ParameterError."""
    _tos, datagram = _contents(answer, name, socket.IPPROTO_UDP, _UDP_BYTES)
    return int.from_bytes(datagram[6:8]), datagram[_UDP_BYTES:]


def _contents(answer: object, name: str, protocol: int, least_bytes: int) -> tuple[int, bytes]:
    """Return the traffic class of an IPv4 packet in hex, and what follows its header."""
    if answer is None:
        raise ParameterError(f"{name} has no answer yet.")
    packet = b""
    with suppress(ValueError):
        packet = bytes.fromhex(answer.replace(":", "")) if isinstance(answer, str) else b""
    header = 4 * (packet[0] & 15) if packet else 0
    if not (
        20 <= header <= len(packet) - least_bytes
        and len(packet) <= _MOST_BYTES
        and packet[0] >> 4 == 4
        and packet[9] == protocol
    ):
        kind = "TCP" if protocol == socket.IPPROTO_TCP else "UDP"
        raise ParameterError(
            f"{name} must be bytes(packet).hex() of a packet such as IP(…) / {kind}(…)"
        )
    return packet[1], packet[header:]


def with_packet(name: str) -> Callable[[_Check], Callable[[Submission], Verdict]]:
    """Decorate a check that takes the learner's packet. An answer that is no packet gets 0."""

    def decorate(check: _Check) -> Callable[[Submission], Verdict]:
        @functools.wraps(check)
        def checked(submission: Submission) -> Verdict:
            try:
                packet = OwnPacket.read(submission.answers[name], name)
            except ParameterError as error:
                return Verdict(0, str(error))
            return check(submission, packet)

        return checked

    return decorate


#: A SYN whose only option is an MSS of 1460.
SYN_1460: Final = OwnPacket(flags=SYN, options=b"\x02\x04\x05\xb4")


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
_Check = Callable[[Submission, OwnPacket], Verdict]


class Talk:
    """Our end of an exchange, which sends raw packets to a server and receives its segments."""

    def __init__(self, lab: Lab, scapy: Any, port: int) -> None:
        self._server, self._scapy = lab.server.address, scapy
        self._ports = 20_000 + secrets.randbelow(10_000), port
        self.first = 0  #: the server's initial sequence number, or 0 without a connection

    def send(self, packet: OwnPacket) -> None:
        """Send a packet, after filling in addresses, ports and checksums.

        If the ACK flag is set, the server's initial sequence number is added to the ACK number
        and to the blocks of a selective acknowledgement.
        """
        from scapy.layers.inet import IP, in4_chksum

        ack, options = packet.ack, packet.options
        if packet.flags & ACK:
            ack, options = (ack + self.first) % 2**32, _shifted(options, self.first)
        offset = (_TCP.size + len(options)) << 2
        fields = [*self._ports, packet.seq, ack, offset, packet.flags, packet.window, 0, 0]
        ip = IP(src=self._scapy.address, dst=self._server, tos=packet.tos, proto=socket.IPPROTO_TCP)
        rest = options + packet.data
        fields[7] = in4_chksum(socket.IPPROTO_TCP, ip, _TCP.pack(*fields) + rest)
        self._scapy.send(ip / (_TCP.pack(*fields) + rest))

    def hear(self, enough: Enough | None = None, within_s: float = PATIENCE_S) -> list[Heard]:
        """Return the segments within `within_s`, or until `enough` is true (default: of one)."""
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

    def hear_all(self, enough: Enough) -> list[Heard]:
        """Return the segments until `enough` is true of them, and any that arrive shortly after."""
        return [*self.hear(enough), *self.hear(lambda _: False, _QUIET_S)]


def _shifted(options: bytes, first: int) -> bytes:
    """Return TCP options after adding `first` to the edges of their SACK blocks."""
    changed, at = bytearray(options), 0
    while at + 1 < len(changed) and changed[at]:
        size = 1 if changed[at] == 1 else max(2, changed[at + 1])
        if changed[at] == _SACK:
            for edge in range(at + 2, min(at + size, len(changed)) - 3, 4):
                number = int.from_bytes(changed[edge : edge + 4])
                changed[edge : edge + 4] = ((number + first) % 2**32).to_bytes(4)
        at += size
    return bytes(changed)


@contextmanager
def talk(lab: Lab, port: int = 9000) -> Iterator[Talk]:
    """Yield an exchange with a port of the server, by default with a closed port."""
    with lab.client.scapy_socket() as scapy:
        yield Talk(lab, scapy, port)


@contextmanager
def connected(lab: Lab, syn: OwnPacket, window: int = 8192) -> Iterator[tuple[Talk, socket.socket]]:
    """Open a connection with this SYN; yield our end of it and the server's socket.

    The ACK that completes the handshake offers `window`. Raise ParameterError if no SYN-ACK
    arrives, or LabError if accept() times out.
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
        ours.send(OwnPacket(seq=(syn.seq + 1) % 2**32, ack=1, window=window))
        try:
            server, _ = listener.accept()
        except TimeoutError:
            raise LabError("the server did not accept the connection") from None
        with server:
            yield ours, server
