"""Create the laboratories for the rows of the TCP-versus-UDP tables, and run rounds in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, Final

from tcplab.experiments.interface_settings import put_token_bucket, set_mtu, set_offloads
from tcplab.experiments.lab_loopback import LabLoopback
from tcplab.experiments.tcp_vs_udp.result import Key, Protocol, Run
from tcplab.lab import Host, Lab, Network
from tcplab.models import Encapsulation, mss_bytes
from tcplab.programs import TcpBulkResult, UdpBulkResult, tcp_bulk, udp_bulk

WIRE_MBIT: Final = 10
#: MTU of the loopback interface for each of the two names of the client's own machine.
LO_MTU: Final[Mapping[str, int]] = {"bsd": 1500, "localhost": 16384}
#: Length of the router's queue, which drains in 60 ms at 10 Mbit/s and exceeds TCP's window.
ROUTER_QUEUE_PACKETS: Final = 50
#: Length of the card's queue. As with a real card (txqueuelen), it holds more than a default send
#: buffer, so that nothing is lost.
_CARD_QUEUE: Final = "1200ms"


class Networks:
    """The laboratories of the rows, which `stack` closes. The provenance is that of `any`."""

    def __init__(
        self, stack: ExitStack, keys: Sequence[Key], offload: bool, tcp_buffers_bytes: int | None
    ) -> None:
        self._tcp_buffers: Any = {
            "sndbuf_bytes": tcp_buffers_bytes,
            "rcvbuf_bytes": tcp_buffers_bytes,
        }
        self._networks: dict[Key, Network] = {}
        labs: list[Lab] = []

        def lab(**wire: Any) -> Lab:
            labs.append(stack.enter_context(Lab(**wire)))
            return labs[-1]

        servers = {server for server, _protocol, _bytes in keys}
        if not servers.isdisjoint(LO_MTU):
            localhost = LabLoopback(lab())
            set_offloads(localhost.client, tso=offload, gso=offload, gro=offload)
            self._networks |= {key: localhost for key in keys if key[0] in LO_MTU}
        if "router" in servers:
            slow = lab(rate_mbit=WIRE_MBIT, queue_packets=ROUTER_QUEUE_PACKETS)
            self._networks |= {key: slow for key in keys if key[0] == "router"}
        self._side_by_side = [key for key in keys if key[0] == "sparc"]
        for key in self._side_by_side:
            _server, protocol, size = key
            self._networks[key] = card = lab(rate_mbit=WIRE_MBIT)
            payload_bytes = mss_bytes(1500) if protocol == "tcp" else size
            _slow_card(card.client, WIRE_MBIT, payload_bytes, protocol)
        self.any = labs[0]
        self._threads = stack.enter_context(ThreadPoolExecutor(len(self._side_by_side) or 1))

    def round(self, counts: Mapping[Key, int]) -> dict[Key, Run]:
        """Run each row in `counts` once, with its number of blocks, and return the runs.

        The "sparc" rows run last and at the same time, because each waits for its own link.
        """
        alone = [key for key in counts if key not in self._side_by_side]
        finished = {key: self._run(key, counts[key]) for key in alone}
        together = [key for key in counts if key in self._side_by_side]
        runs = self._threads.map(lambda key: self._run(key, counts[key]), together)
        return finished | dict(zip(together, runs, strict=True))

    def _run(self, key: Key, count: int) -> Run:
        server, protocol, write_bytes = key
        network = self._networks[key]
        if server in LO_MTU:
            set_mtu(network.client, LO_MTU[server])
        if protocol == "tcp":
            return _run_of(
                tcp_bulk(network, write_bytes=write_bytes, count=count, **self._tcp_buffers)
            )
        return _run_of(udp_bulk(network, datagram_bytes=write_bytes, count=count))


def _run_of(done: TcpBulkResult | UdpBulkResult) -> Run:
    used = done.source.usage
    counts: tuple[int | None, int | None, int, int | None]
    if isinstance(done, TcpBulkResult):
        info = done.source.tcp_info
        counts = None, None, int(info["data_segs_out"]), int(info["total_retrans"])
    else:
        counts = done.sink.lost, done.sink.drops, done.source.datagrams, None
    rates = done.source.mb_per_s, done.sink.mb_per_s
    return Run(used.wall_s, used.user_s, used.system_s, *rates, *counts)


def _slow_card(host: Host, rate_mbit: int, payload_bytes: int, protocol: Protocol) -> None:
    """Limit the rate of the host's own interface, so that unsent data fills the send buffer.

    The token bucket counts only the bytes that the kernel sees, so its rate is lowered to leave
    time for the preamble, FCS and gap that a card adds.
    """
    around = Encapsulation(protocol), Encapsulation(protocol, link="frame")
    on_the_wire, known = (encapsulation.wire_bytes(payload_bytes) for encapsulation in around)
    rate_bit = round(rate_mbit * 1e6 * known / on_the_wire)

    put_token_bucket(host, rate=f"{rate_bit}bit", burst=3000, latency=_CARD_QUEUE)
