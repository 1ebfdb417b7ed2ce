"""The price of one lost segment: it depends on which one is lost."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal, TypeAlias, get_args

from tcplab.experiments import Between, Result, Variant, column, experiment, provenance
from tcplab.experiments.exchange import both_ends
from tcplab.experiments.progress import one_by_one
from tcplab.experiments.short_transfer import until_acknowledged_ms
from tcplab.experiments.sockets import MSS_BYTES, connection, read_all, sending
from tcplab.lab import Lab
from tcplab.programs import Event
from tcplab.programs.counters import tcp_counters
from tcplab.timeline import Exchange, Timeline
from tcplab.timeline.sockets import read_options, read_tcp_info, sampling

#: 10 + 20 + 40: three flights of slow start, all of them whole.
SEGMENTS: Final = 70

Lost: TypeAlias = Literal[
    "none", "one of the first flight", "one of many", "the last", "the last ten", "the last twice"
]
#: The wire's rule for each: which data segments, counted as they leave, it drops.
_RULES: Final[Mapping[Lost, str | None]] = {
    "none": None,
    "one of the first flight": "5",
    "one of many": "41",
    "the last": f"{SEGMENTS}",
    "the last ten": f"{SEGMENTS - 9}-{SEGMENTS}",
    # What leaves after the last segment is its probe.
    "the last twice": f"{SEGMENTS}-{SEGMENTS + 1}",
}


class Loss(Variant):
    """A transfer that lost these segments."""

    lost: Lost = column("lost")
    took_ms: float = column("took (ms)", ".0f")  #: from the first segment to the last ACK
    sent_again: int = column("sent again", "d")  #: data segments beyond those that were needed
    sack_acks: int = column("ACKs with a gap", "d")  #: SACK, RFC 2018
    #: how often each way out was taken, as TCP's own counters say: a gap that SACK showed
    #: (TCPSackRecovery); a probe of the tail (TCPLossProbes, RFC 8985); a timeout (TCPTimeouts)
    recoveries: int = column("recoveries by SACK", "d")
    probes: int = column("probes of the tail", "d")
    timeouts: int = column("timeouts", "d")
    cwnd_after: int = column("cwnd then", "d")  #: segments, once all is acknowledged
    #: the same, once the segments that are sent then are acknowledged; the same number if none are
    cwnd_later: int = column("cwnd after more", "d")
    exchange: Exchange[None]

    def timeline(self) -> Timeline:
        """Segments, ACKs and the congestion window on one clock."""
        return self.exchange.timeline()


Losses: TypeAlias = Result[Loss]


@experiment("lost-segment")
def measure(
    losses: Sequence[Lost] = get_args(Lost),
    rtt_ms: Annotated[float, Between(10, 1000, "ms")] = 40.0,
    rate_mbit: Annotated[float, Between(10, 1000, "Mbit/s")] = 50.0,
    congestion: str = "reno",
    more_segments: Annotated[int, Between(0, 40)] = 0,
) -> Losses:
    """A transfer of 70 segments of which the wire drops chosen ones: the time and the way out.

    Args:
        losses: which segments to drop.
        rtt_ms: round-trip time of the wire.
        rate_mbit: rate of the wire.
        congestion: congestion control of the sender.
        more_segments: to send over the same connection once all 70 are acknowledged.
    """
    with Lab(rtt_ms=rtt_ms, rate_mbit=rate_mbit, congestion=congestion) as lab:

        def run(lost: Lost) -> Loss:
            lab.link.script("client->server", "clear")
            if rule := _RULES[lost]:
                lab.link.script("client->server", f"drop data nth={rule}")
            return _lossy(lab, lost, rate_mbit, more_segments)

        variants, done = one_by_one("lost-segment", list(losses), run)
        return Losses(variants, provenance(lab, segments=SEGMENTS, **done))


def _lossy(lab: Lab, lost: Lost, rate_mbit: float, more_segments: int) -> Loss:
    before = tcp_counters(lab.client)
    exchange, cwnd_later = _one_write(lab, rate_mbit, more_segments)
    grown = tcp_counters(lab.client) - before
    segments = exchange.captured
    return Loss(
        lost=lost,
        took_ms=until_acknowledged_ms(segments, SEGMENTS * MSS_BYTES),
        sent_again=len(segments.data("client")) - SEGMENTS - more_segments,
        sack_acks=int((segments.sent_by("server")["sack_blocks"] > 0).sum()),
        recoveries=grown["TCPSackRecovery"],
        probes=grown["TCPLossProbes"],
        timeouts=grown["TCPTimeouts"],
        cwnd_after=exchange.samples[-1]["snd_cwnd"],
        cwnd_later=cwnd_later,
        exchange=exchange,
    )


def _one_write(lab: Lab, rate_mbit: float, more_segments: int) -> tuple[Exchange[None], int]:
    """One write on a connection that stays open: a FIN behind the data would show the gap.

    Returns:
        What was recorded, and the congestion window at the very end.
    """
    log: list[Event] = []

    def send(segments: int) -> None:
        size = segments * MSS_BYTES
        log.append(Event(time.time_ns(), "write", size))
        with sending(sender, size, end=False):
            read_all(receiver, size)
        time.sleep(lab.rtt_ms / 1e3)  # the last ACK is on its way

    with both_ends(lab) as recorded, connection(lab) as (sender, receiver):
        # All of it at once: the kernel's own buffer begins small.
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * SEGMENTS * MSS_BYTES)
        with sampling(sender, interval_ms=lab.rtt_ms / 20) as samples:
            send(SEGMENTS)
        if more_segments:
            send(more_segments)
        cwnd_later = read_tcp_info(sender)["snd_cwnd"]
        options = read_options(sender)
    exchange = Exchange(
        None, log=log, options=options, samples=samples, rate_mbit=rate_mbit, **recorded
    )
    return exchange, cwnd_later
