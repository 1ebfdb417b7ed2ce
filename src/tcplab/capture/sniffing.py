"""Pass packets to scapy live, and count the packets that scapy was too slow for."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tcplab.capture.packet_socket import (
    NOTHING,
    attach,
    has_waiting,
    open_packet_socket,
    receive,
    statistics,
)
from tcplab.capture.packets import load_layers, packet_list
from tcplab.lab import Host
from tcplab.segments.pcap import CaptureLossWarning

if TYPE_CHECKING:
    from scapy.packet import Packet
    from scapy.plist import PacketList


@dataclass
class Sniffed:
    """The packets passed to scapy live. They are complete when the with statement ends."""

    packets: PacketList  #: packets that were kept
    received: int = 0  #: number of packets that passed the filter, as counted by the socket
    drops: int = 0  #: how many of these were lost because scapy was too slow


@contextmanager
def sniff(host: Host, *, lfilter: Callable[[Packet], object] | None = None) -> Iterator[Sniffed]:
    """Pass the packets on a host's interface to scapy while a with statement runs::

        with lab.client.sniff() as live:
            ...
        print(live.packets.summary(), live.drops)

    The socket listens when the body begins. Scapy keeps up with about 2,000 packets per second.
    Packets that it was too slow for are counted (``.drops``) and reported by a CaptureLossWarning.
    Use ``host.capture()`` to record all packets. On Loopback, the socket needs CAP_NET_RAW. An
    exception in lfilter is raised at the end. Like that of scapy's sniff(), lfilter is a function
    of a packet, which is kept if the function returns something true.
    """
    opened, link_type = open_packet_socket(host)
    errors: list[Exception] = []
    with opened:
        sniffer = _start({_source(opened, link_type): host.interface}, _guarded(lfilter, errors))
        sniffed = Sniffed(packet_list(()))
        try:
            yield sniffed
        finally:
            attach(opened, NOTHING)
            _drain(sniffer, opened)
            sniffed.packets = packet_list(sniffer.results or ())
            sniffed.received, sniffed.drops = statistics(opened)
    if errors:
        raise errors[0]
    if sniffed.drops:
        warnings.warn(
            f"scapy was too slow for {sniffed.drops} of {sniffed.received} packets: they are"
            " missing; host.capture() records without loss",
            CaptureLossWarning,
            stacklevel=3,
        )


def _start(sources: dict[Any, str], lfilter: Any) -> Any:
    """Start a scapy AsyncSniffer, and return it once its thread is listening."""
    from scapy.sendrecv import AsyncSniffer

    listening = threading.Event()
    sniffer = AsyncSniffer(opened_socket=sources, started_callback=listening.set, lfilter=lfilter)
    sniffer.start()
    # The kernel has queued packets for this socket since bind(), but start() returns before the
    # thread is ready for the first packet.
    listening.wait(timeout=10)
    return sniffer


def _source(opened: socket.socket, link_type: int) -> Any:
    load_layers()  # scapy's layers must be imported before the first packet arrives
    from scapy.supersocket import SuperSocket

    class Source(SuperSocket):
        def __init__(self) -> None:
            self.ins = self.outs = opened

        def recv(self, *_: Any, **__: Any) -> Packet:
            return receive(opened, link_type)

    return Source()


def _guarded(function: Callable[[Packet], object] | None, errors: list[Exception]) -> Any:
    """Wrap a function to keep its first error; scapy would print it and close the socket."""
    if function is None:
        return None

    def call(packet: Packet) -> object:
        if errors:
            return None
        try:
            return function(packet)
        except Exception as error:
            errors.append(error)
            return None

    return call


def _drain(sniffer: Any, opened: socket.socket) -> None:
    """Stop scapy's thread once it has taken every packet that the socket holds."""
    from scapy.error import Scapy_Exception

    while sniffer.thread.is_alive() and has_waiting(opened):
        time.sleep(0.001)
    with contextlib.suppress(Scapy_Exception):  # "not running", if scapy's thread has ended
        sniffer.stop()
    sniffer.join()
