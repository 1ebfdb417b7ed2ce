"""TCP_MAXSEG: what the kernel says of a connection's MSS, and when that is not what is sent.

tcp(7) calls it "the maximum segment size for outgoing TCP packets". It is set before connect() to
announce a smaller one, and read to learn how much a segment carries; the answer may be too low
before the window has grown, and too high before the path is known.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from tcplab.experiments import provenance
from tcplab.experiments.declaration import experiment
from tcplab.experiments.interfaces import one_host
from tcplab.lab import Host, Lab, Pair
from tcplab.tables import Column

if TYPE_CHECKING:
    from tcplab.capture import Capture
    from tcplab.segments import Sender

__all__ = ["MaxSeg", "MaxSegCase", "ask_maxseg", "measure"]

_JUMBO_MTU: Final = 9000


@dataclass(frozen=True, slots=True)
class MaxSegCase:
    """What TCP_MAXSEG said, and what was sent.

    Attributes:
        name: what was special.
        set_bytes: given to setsockopt(TCP_MAXSEG) before connect(); None for not at all.
        before_bytes: what getsockopt said before connect().
        connected_bytes: right after connect().
        end_bytes: when all data had arrived.
        syn_bytes: the MSS option in the client's SYN.
        peer_syn_bytes: the MSS option in the server's answer.
        sent_bytes: most data in a segment that left the client.
        arrived_bytes: most data in a segment that reached the server.
    """

    name: str
    set_bytes: int | None
    before_bytes: int
    connected_bytes: int
    end_bytes: int
    syn_bytes: int
    peer_syn_bytes: int
    sent_bytes: int
    arrived_bytes: int

    @property
    def verdict(self) -> str:
        """Whether what it said right after connect() is what the path carried."""
        if self.connected_bytes == self.arrived_bytes:
            return "true" if self.set_bytes in (None, self.syn_bytes) else "true, wish ignored"
        return "too high" if self.connected_bytes > self.arrived_bytes else "too low"


@dataclass(frozen=True, slots=True)
class MaxSeg:
    """What TCP_MAXSEG says in all cases."""

    experiment: ClassVar[str] = "maxseg"
    columns: ClassVar[Sequence[Column]] = (
        Column("variant", "case"),
        Column("set_bytes", "set to", "d"),
        Column("before_bytes", "before connect", "d"),
        Column("connected_bytes", "connected", "d"),
        Column("end_bytes", "at the end", "d"),
        Column("syn_bytes", "own SYN", "d"),
        Column("peer_syn_bytes", "peer's SYN", "d"),
        Column("sent_bytes", "largest sent", "d"),
        Column("arrived_bytes", "largest arrived", "d"),
        Column("verdict", "what 'connected' said"),
    )

    cases: Sequence[MaxSegCase]
    provenance: Mapping[str, Any]

    def __getitem__(self, name: str) -> MaxSegCase:
        for each in self.cases:
            if each.name == name:
                return each
        raise KeyError(name)

    def rows(self) -> list[dict[str, Any]]:
        """One row a case."""
        return [
            {
                "variant": each.name,
                "set_bytes": each.set_bytes,
                "before_bytes": each.before_bytes,
                "connected_bytes": each.connected_bytes,
                "end_bytes": each.end_bytes,
                "syn_bytes": each.syn_bytes,
                "peer_syn_bytes": each.peer_syn_bytes,
                "sent_bytes": each.sent_bytes,
                "arrived_bytes": each.arrived_bytes,
                "verdict": each.verdict,
            }
            for each in self.cases
        ]


_MAXSEG_DATA_BYTES: Final = 2_000_000


@experiment("maxseg")
def measure() -> MaxSeg:
    """Asks TCP_MAXSEG before and after connect(), and compares it with what a capture shows.

    Raises:
        LabError: no laboratory can be made here.
    """
    with Lab() as ethernet, Lab(mtu=_JUMBO_MTU) as jumbo:
        jumbo.link.update("client->server", mtu=1500)
        localhost = one_host(ethernet)
        measured = [
            _run_case("an Ethernet", ethernet),
            _run_case("a wish of 1000", ethernet, wish=1000),
            _run_case("the peer's wish of 1000", ethernet, peer_wish=1000),
            _run_case("a wish of 9000", ethernet, wish=9000),
            _run_case("localhost", localhost),
            _run_case("jumbo card, Ethernet in the middle", jumbo),
        ]
        drops = sum(lost for _case, lost in measured)
        origin = provenance(ethernet, congestion=ethernet.congestion, capture_drops=drops)
        return MaxSeg([case for case, _lost in measured], origin)


def _run_case(
    name: str, network: Lab | Pair, *, wish: int | None = None, peer_wish: int | None = None
) -> tuple[MaxSegCase, int]:
    """The case, and how many packets the recorders lost."""
    with network.client.capture() as near, network.server.capture() as far:
        before, connected, end = ask_maxseg(network.client, network.server, wish, peer_wish)
    with near, far:
        sent, syn = _largest_and_syn(near, "client")
        arrived, _ = _largest_and_syn(far, "client")
        _, peer_syn = _largest_and_syn(far, "server")
    case = MaxSegCase(name, wish, before, connected, end, syn, peer_syn, sent, arrived)
    return case, (near.drops or 0) + (far.drops or 0)


def ask_maxseg(
    client: Host, server: Host, wish: int | None = None, peer_wish: int | None = None
) -> tuple[int, int, int]:
    """TCP_MAXSEG of a client: before connect(), right after it, and when data has passed.

    Args:
        client: who connects and sends.
        server: who listens and reads.
        wish: the client sets TCP_MAXSEG to this before connect().
        peer_wish: the server does so before listen().
    """
    with server.socket() as listener, client.socket() as sender:
        for each, value in ((listener, peer_wish), (sender, wish)):
            each.settimeout(30)
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
            if value is not None:
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, value)
        listener.bind((server.address, 0))
        listener.listen(1)
        before = sender.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)
        sender.connect(listener.getsockname())
        connected = sender.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)
        receiver, _address = listener.accept()
        with receiver:
            _send_through(sender, receiver, _MAXSEG_DATA_BYTES)
            return before, connected, sender.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)


def _send_through(sender: socket.socket, receiver: socket.socket, size_bytes: int) -> None:
    """Returns when the receiver has read it all."""
    receiver.settimeout(30)
    writing = threading.Thread(target=sender.sendall, args=(bytes(size_bytes),), daemon=True)
    writing.start()
    while size_bytes:
        size_bytes -= len(receiver.recv(min(size_bytes, 1 << 20)))
    writing.join()


def _largest_and_syn(capture: Capture, sender: Sender) -> tuple[int, int]:
    """The most data in a segment of one end, and the MSS option in its SYN."""
    sent = capture.segments.sent_by(sender)
    return int(sent["payload_bytes"].max()), int(sent["mss"].max())
