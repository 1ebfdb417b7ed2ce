"""Compare TCP_MAXSEG, the kernel's answer about a connection's MSS, with the segments sent.

tcp(7) calls it "the maximum segment size for outgoing TCP packets". The answer may be too low
before the window has grown, and too high before the path is known.
"""

import socket
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Final, Literal, get_args

from tcplab.capture import Capture
from tcplab.experiments import Result, Variant, column, derived, experiment, provenance
from tcplab.experiments.mode import LabLoopback
from tcplab.experiments.sockets import read_all, sending
from tcplab.lab import Lab, Network

_JUMBO_MTU: Final = 9000
_DATA_BYTES: Final = 2_000_000


class MaxSegVariant(Variant, heading="variant"):
    """TCP_MAXSEG on one connection, and the sizes of the segments that were sent."""

    name: str
    #: value set with setsockopt() before connect(), or None if it was not set
    set_bytes: int | None = column("set to", "d")
    before_bytes: int = column("before connect()", "d")
    connected_bytes: int = column("after connect()", "d")  #: value right after connect()
    end_bytes: int = column("at the end", "d")  #: value once all data has arrived
    syn_bytes: int = column("MSS in own SYN", "d")  #: the MSS option in the client's SYN
    peer_syn_bytes: int = column("MSS in peer's SYN", "d")
    sent_bytes: int = column("largest sent", "d")  #: largest payload of a segment at the client
    arrived_bytes: int = column("largest arrived", "d")  #: largest payload at the server

    @derived("value after connect()")
    def verdict(self) -> str:
        if self.connected_bytes == self.arrived_bytes:
            return "true"
        return "too high" if self.connected_bytes > self.arrived_bytes else "too low"


Name = Literal["Ethernet", "request 1000", "localhost", "jumbo card over Ethernet"]


@experiment(
    "maxseg",
    figure=("sent_bytes", "arrived_bytes"),
    finding="From the jumbo card, segments of {sent_bytes[jumbo card over Ethernet]} "
    "bytes leave; {arrived_bytes[jumbo card over Ethernet]} bytes arrive",
)
def measure(
    variants: Annotated[Sequence[Name], "special paths, or an MSS that the client requests"] = (
        get_args(Name)
    ),
) -> Result[MaxSegVariant]:
    """Compare TCP_MAXSEG before and after connect() with the segments of a capture."""
    with Lab() as ethernet, Lab(mtu=_JUMBO_MTU) as jumbo:
        jumbo.link.update("client->server", mtu=1500)
        runs: Mapping[Name, Callable[[str], MaxSegVariant]] = {
            "Ethernet": partial(_run, ethernet),
            "request 1000": partial(_run, ethernet, request=1000),
            "localhost": partial(_run, LabLoopback(ethernet)),
            "jumbo card over Ethernet": partial(_run, jumbo),
        }
        measured = [runs[name](name) for name in variants]
        drops = (ethernet.capture_drops or 0) + (jumbo.capture_drops or 0)
        return Result(measured, provenance(ethernet, capture_drops=drops))


def _run(network: Network, name: str, *, request: int | None = None) -> MaxSegVariant:
    with network.client.capture() as near, network.server.capture() as far:
        before, connected, end = _ask_maxseg(network, request)
    with near, far:
        sent, syn = _largest_and_syn(near, "client")
        arrived, _ = _largest_and_syn(far, "client")
        _, peer_syn = _largest_and_syn(far, "server")
    return MaxSegVariant(name, request, before, connected, end, syn, peer_syn, sent, arrived)


def _ask_maxseg(network: Network, request: int | None) -> tuple[int, int, int]:
    """Return the client's TCP_MAXSEG before connect(), right after it, and after the data."""
    with network.server.socket() as listener, network.client.socket() as sender:
        for end in (listener, sender):
            end.settimeout(30)
        if request is not None:
            sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, request)
        listener.bind((network.server.address, 0))
        listener.listen(1)
        before = sender.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)
        sender.connect(listener.getsockname())
        connected = sender.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)
        receiver, _address = listener.accept()
        with receiver:
            receiver.settimeout(30)
            with sending(sender, _DATA_BYTES):
                read_all(receiver)
            return before, connected, sender.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)


def _largest_and_syn(capture: Capture, sender: str) -> tuple[int, int]:
    sent = capture.segments.sent_by(sender)
    return int(sent["payload_bytes"].max()), int(sent["mss"].max())
