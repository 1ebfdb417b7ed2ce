"""Autocorking, which joins writes by itself, and a cork that leaks.

Sources: net/ipv4/tcp.c of Linux 6.18 (tcp_should_autocork); commit f54b311142a9 ("tcp: auto
corking").
"""

from __future__ import annotations

import socket
import statistics
from contextlib import ExitStack
from typing import Annotated, TypeAlias

from tcplab.experiments import Between, Result, Variant, column, computed, experiment, provenance
from tcplab.experiments.cork.scripts import SETTLE_MS, Played, play
from tcplab.experiments.exchange import segments_of
from tcplab.experiments.interface_settings import put_token_bucket
from tcplab.experiments.quantities import plus
from tcplab.experiments.sockets import MSS_BYTES
from tcplab.lab import Lab
from tcplab.programs.counters import tcp_counters
from tcplab.tables import run_lengths

# ---- autocorking ---------------------------------------------------------------------------------


class Autocorks(Variant, heading="tcp_autocorking"):
    """One run of small writes with TCP_NODELAY behind a slow interface."""

    autocorking: bool  #: net.ipv4.tcp_autocorking

    @property
    def label(self) -> str:
        return "on" if self.autocorking else "off"

    writes: int = column("writes", "d", is_setting=True)

    segments = computed(lambda each: len(each.sizes), "data segments", "d")
    mean_bytes = computed(lambda each: statistics.fmean(each.sizes), "bytes/segment", ".0f")

    #: by how much the counter TcpExtTCPAutoCorking of the host grew
    counted: int = column("TCPAutoCorking grew by", "d")
    sizes: tuple[int, ...] = column(show=run_lengths)  #: payload bytes of the data segments
    played: Played  #: calls and segments


Autocorking: TypeAlias = Result[Autocorks]


@experiment("autocorking")
def measure_autocorking(
    writes: Annotated[int, Between(1, 500)] = 40,
    write_bytes: Annotated[int, Between(1, 1000, "bytes")] = 100,
) -> Autocorking:
    """Small writes with TCP_NODELAY behind a slow interface, with autocorking on and off.

    Two full segments go before them, through an interface of 1 Mbit/s.
    Autocorking needs a packet of the connection that waits in the sender's own queue. The wire of
    the laboratory has its queue outside the host, so a token bucket (tbf) goes on the interface.

    Args:
        writes: small writes per variant.
        write_bytes: size of each.
    """
    body = f" 0:write={write_bytes}" * writes
    script = f"{1000 * SETTLE_MS}:nodelay=1 0:write={2 * MSS_BYTES}{body} 1000000:quickack=1"
    variants = []
    with Lab() as lab:
        put_token_bucket(lab.client, rate="1mbit", burst=1600, latency="500ms")
        for on in (True, False):
            lab.client.sysctl("net.ipv4.tcp_autocorking", str(int(on)))
            before = tcp_counters(lab.client)
            (played,) = play(lab, [script])
            counted = (tcp_counters(lab.client) - before)["TCPAutoCorking"]
            variants.append(Autocorks(on, writes, counted, tuple(played.sizes[2:]), played))
        return Autocorking(variants, provenance(lab, interface_mbit=1, write_bytes=write_bytes))


# ---- a cork that leaks ---------------------------------------------------------------------------


class Corked(Variant):
    """Corked writes of one thread, and the segments of its first socket."""

    name: str = column("one thread writes")  #: to which sockets
    writes: int = column("writes to each", "d", is_setting=True)
    #: payload bytes
    sizes: tuple[int, ...] = column("segments of the first socket (bytes)", show=plus)


Leak: TypeAlias = Result[Corked]


@experiment("cork-leak")
def measure_two_sockets(writes: Annotated[int, Between(1, 100)] = 20) -> Leak:
    """Corked writes of 10 bytes from one thread: to one socket, then alternating between two.

    What a thread writes is copied into one memory fragment that all its sockets share. Writes that
    follow each other on one socket lie side by side in it and count as one fragment; alternating,
    each is a fragment of its own, and a packet buffer holds 17 (CONFIG_MAX_SKB_FRAGS since 6.4).

    Args:
        writes: writes to each socket.
    """
    variants = []
    with Lab() as lab:
        for sockets in (1, 2):
            with lab.client.capture() as capture:
                port = _write_by_turns(lab, sockets, writes)
            sent = segments_of(capture).data("client", retransmissions=False).at_port(port)
            name = "to one socket" if sockets == 1 else "alternating between two sockets"
            variants.append(Corked(name, writes, tuple(sent["payload_bytes"].tolist())))
        return Leak(variants, provenance(lab))


def _write_by_turns(lab: Lab, sockets: int, writes: int) -> int:
    """Write corked from one thread, alternating between sockets, until the server has read all.

    Returns:
        the port of the first socket
    """
    with ExitStack() as stack:
        listener = stack.enter_context(lab.server.socket())
        listener.bind((lab.server.address, 0))
        listener.listen()
        senders = [stack.enter_context(lab.client.socket()) for _ in range(sockets)]
        readers = []
        for sender in senders:
            sender.settimeout(30)
            sender.connect(listener.getsockname())
            sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
            readers.append(stack.enter_context(listener.accept()[0]))
        for _ in range(writes):
            for sender in senders:
                sender.send(b"x" * 10)
        port: int = senders[0].getsockname()[1]
        for sender, reader in zip(senders, readers, strict=True):
            sender.close()  # which pulls the cork
            while reader.recv(4096):
                pass
        return port
