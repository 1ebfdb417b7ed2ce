"""Measure autocorking, which joins writes automatically, and a cork that lets data out too early.

Sources: tcp_should_autocork() in net/ipv4/tcp.c of Linux 6.18; commit f54b311142a9.
"""

from __future__ import annotations

from tcplab.experiments import Result, Variant, column, computed, experiment, provenance
from tcplab.experiments.cork.scenarios import Scenario
from tcplab.experiments.cork.scripts import SETTLE_MS, play
from tcplab.experiments.interface_settings import put_token_bucket
from tcplab.experiments.quantities import on_off
from tcplab.experiments.sockets import MSS_BYTES
from tcplab.lab import Lab
from tcplab.programs.counters import tcp_counters
from tcplab.tables import run_lengths

_WRITES, _WRITE_BYTES = 40, 100


class Autocorks(Variant, heading="tcp_autocorking"):
    """Small writes with TCP_NODELAY to a slow interface, with autocorking on or off."""

    autocorking: bool  #: value of net.ipv4.tcp_autocorking
    writes: int = column("writes", "d", is_setting=True)
    segments = computed(lambda case: len(case.sizes), "data segments", "d")
    counted: int = column("TCPAutoCorking (increase)", "d")  #: growth of the host's counter
    sizes: tuple[int, ...] = column("sizes (bytes)", show=run_lengths)

    @property
    def label(self) -> str:
        return on_off(self.autocorking)


@experiment("autocorking")
def measure_autocorking() -> Result[Autocorks]:
    """Make small writes with TCP_NODELAY to a slow interface, with autocorking on and off.

    Autocorking only happens while a packet of the connection is in the sender's own queue. The
    laboratory's link queues packets outside the host, so the interface gets a 1 Mbit/s token bucket
    (tbf). Two full segments are sent first.
    """
    body = f" 0:write={_WRITE_BYTES}" * _WRITES
    script = f"{1000 * SETTLE_MS}:nodelay=1 0:write={2 * MSS_BYTES}{body} 1000000:quickack=1"
    variants = []
    with Lab() as lab:
        put_token_bucket(lab.client, rate="1mbit", burst=1600, latency="500ms")
        for on in (True, False):
            lab.client.sysctl("net.ipv4.tcp_autocorking", str(int(on)))
            before = tcp_counters(lab.client)
            sizes = Scenario("", *play(lab, [script])).sizes
            counted = (tcp_counters(lab.client) - before)["TCPAutoCorking"]
            variants.append(Autocorks(on, _WRITES, counted, tuple(sizes[2:])))
        return Result(variants, provenance(lab, interface_mbit=1))
