"""Measure autocorking, which joins writes automatically, and a cork that lets data out too early.

Sources: tcp_should_autocork() in net/ipv4/tcp.c of Linux 6.18; commit f54b311142a9.
"""

from __future__ import annotations

import socket
import statistics
from contextlib import ExitStack
from typing import Annotated

from tcplab.experiments import Between, Result, Variant, column, computed, experiment, provenance
from tcplab.experiments.cork.scripts import SETTLE_MS, Played, play
from tcplab.experiments.exchange import segments_of
from tcplab.experiments.interface_settings import put_token_bucket
from tcplab.experiments.quantities import on_off, plus
from tcplab.experiments.sockets import MSS_BYTES, read_all
from tcplab.lab import Lab
from tcplab.programs.counters import tcp_counters
from tcplab.tables import run_lengths


class Autocorks(Variant, heading="tcp_autocorking"):
    """Small writes with TCP_NODELAY to a slow interface, with autocorking on or off."""

    autocorking: bool  #: value of net.ipv4.tcp_autocorking

    @property
    def label(self) -> str:
        return on_off(self.autocorking)

    writes: int = column("writes", "d", is_setting=True)
    segments = computed(lambda case: len(case.sizes), "data segments", "d")
    mean_bytes = computed(lambda case: statistics.fmean(case.sizes), "bytes/segment", ".0f")
    counted: int = column("TCPAutoCorking (increase)", "d")  #: growth of the host's counter
    sizes: tuple[int, ...] = column(show=run_lengths)
    played: Played


@experiment("autocorking")
def measure_autocorking(
    writes: Annotated[int, Between(1, 500), "small writes per variant"] = 40,
    write_bytes: Annotated[int, Between(1, 1000, "bytes"), "size of each write"] = 100,
) -> Result[Autocorks]:
    """Make small writes with TCP_NODELAY to a slow interface, with autocorking on and off.

    Autocorking only happens while a packet of the connection is in the sender's own queue. The
    laboratory's link queues packets outside the host, so the interface gets a 1 Mbit/s token bucket
    (tbf). Two full segments are sent first.
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
        return Result(variants, provenance(lab, interface_mbit=1, write_bytes=write_bytes))


class Corked(Variant):
    """Corked writes by one thread, and the segments of the first socket."""

    name: str = column("destination of writes")
    writes: int = column("writes per socket", "d", is_setting=True)
    sizes: tuple[int, ...] = column("first socket's segments (bytes)", show=plus)


@experiment("cork-leak")
def measure_two_sockets(
    writes: Annotated[int, Between(1, 100), "writes to each socket"] = 20,
) -> Result[Corked]:
    """Make corked 10-byte writes from one thread, to one socket and then to two in turn.

    A thread copies the data of all its sockets into the same memory pages. Consecutive writes to
    one socket are adjacent and form one fragment. When two sockets alternate, each write is its own
    fragment, and a packet buffer holds only 17 (CONFIG_MAX_SKB_FRAGS since Linux 6.4).
    """
    variants = []
    with Lab() as lab:
        for sockets in (1, 2):
            with lab.client.capture() as capture:
                port = _write_by_turns(lab, sockets, writes)
            sent = segments_of(capture).data("client", retransmissions=False).at_port(port)
            name = "to one socket" if sockets == 1 else "alternating between two sockets"
            variants.append(Corked(name, writes, tuple(sent["payload_bytes"].tolist())))
        return Result(variants, provenance(lab))


def _write_by_turns(lab: Lab, sockets: int, writes: int) -> int:
    """Write to corked sockets in turn, and read all the data; return the first socket's port."""
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
            sender.close()  # closing the socket removes the cork
            read_all(reader)
        return port
