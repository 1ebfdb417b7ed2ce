"""Measure the cost of lost segments, which depends on which segments are lost."""

import socket
import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal, TypeAlias, get_args

from tcplab.experiments import Between, Result, Variant, column, experiment
from tcplab.experiments.exchange import Exchanged, both_ends
from tcplab.experiments.parameters import RateMbit, RttMs
from tcplab.experiments.progress import case_by_case
from tcplab.experiments.short_transfer import until_acknowledged_ms
from tcplab.experiments.sockets import MSS_BYTES, connection, send_and_wait
from tcplab.lab import Lab
from tcplab.programs import Event
from tcplab.programs.counters import tcp_counters
from tcplab.timeline import Exchange
from tcplab.timeline.sockets import read_options, read_tcp_info, sampling

#: 10 + 20 + 40 segments, which are three complete flights of slow start.
SEGMENTS: Final = 70

Lost: TypeAlias = Literal[
    "none", "one of the first flight", "one of many", "the last", "the last ten", "the last twice"
]
#: Numbers of the data segments that the link drops in each case, counted as they leave.
_RULES: Final[Mapping[Lost, str | None]] = {
    "none": None,
    "one of the first flight": "5",
    "one of many": "41",
    "the last": f"{SEGMENTS}",
    "the last ten": f"{SEGMENTS - 9}-{SEGMENTS}",
    # The segment after the last one is the loss probe.
    "the last twice": f"{SEGMENTS}-{SEGMENTS + 1}",
}


class Loss(Exchanged, Variant):
    """A transfer that lost certain segments, and its recovery."""

    lost: Lost = column("lost")
    took_ms: float = column("took (ms)", ".0f")  #: time from the first segment to the ACK of all 70
    sent_again: int = column("retransmissions", "d")
    sack_acks: int = column("ACKs with SACK", "d")  #: ACKs with SACK blocks (RFC 2018)
    recoveries: int = column("SACK recoveries", "d")  #: counter TCPSackRecovery
    probes: int = column("tail loss probes", "d")  #: counter TCPLossProbes (RFC 8985)
    timeouts: int = column("timeouts", "d")  #: counter TCPTimeouts
    cwnd_after: int = column("cwnd after transfer", "d")  #: window once all 70 are acknowledged
    cwnd_later: int = column("cwnd after more data", "d")  #: window after the further segments
    exchange: Exchange[None]


@experiment(
    "lost-segment",
    figure=("took_ms", "sent_again", "probes", "timeouts"),
    finding="A transfer that loses {most} takes {ratio} times as long as one that loses {least}",
)
def measure(
    losses: Annotated[Sequence[Lost], "segments to drop"] = get_args(Lost),
    rtt_ms: Annotated[RttMs, Between(10, 1000, "ms")] = 40.0,
    rate_mbit: Annotated[RateMbit, Between(10, 1000, "Mbit/s")] = 50.0,
    congestion: Annotated[str, "congestion control of the sender"] = "reno",
    more_segments: Annotated[int, Between(0, 40), "segments to send after the 70"] = 0,
) -> Result[Loss]:
    """Send 70 segments of which the link drops some, and measure the time and the recovery."""
    with Lab(rtt_ms=rtt_ms, rate_mbit=rate_mbit, congestion=congestion) as lab:

        def run(lost: Lost) -> Loss:
            lab.link.script("client->server", "clear")
            if rule := _RULES[lost]:
                lab.link.script("client->server", f"drop data nth={rule}")
            return _lossy(lab, lost, rate_mbit, more_segments)

        return case_by_case(lab, losses, run, segments=SEGMENTS)


def _lossy(lab: Lab, lost: Lost, rate_mbit: float, more_segments: int) -> Loss:
    before = tcp_counters(lab.client)
    exchange, cwnd_later = _one_write(lab, rate_mbit, more_segments)
    growth = tcp_counters(lab.client) - before
    segments = exchange.captured
    return Loss(
        lost=lost,
        took_ms=until_acknowledged_ms(segments, SEGMENTS * MSS_BYTES),
        sent_again=len(segments.data("client")) - SEGMENTS - more_segments,
        sack_acks=int((segments.sent_by("server")["sack_blocks"] > 0).sum()),
        recoveries=growth["TCPSackRecovery"],
        probes=growth["TCPLossProbes"],
        timeouts=growth["TCPTimeouts"],
        cwnd_after=exchange.samples[-1]["snd_cwnd"],
        cwnd_later=cwnd_later,
        exchange=exchange,
    )


def _one_write(lab: Lab, rate_mbit: float, more_segments: int) -> tuple[Exchange[None], int]:
    """Send all 70 segments in one write, then `more_segments`; return the exchange and final cwnd.

    The connection stays open, because a FIN after the data would reveal the gap.
    """
    log: list[Event] = []

    def send(segments: int) -> None:
        size = segments * MSS_BYTES
        log.append(Event(time.time_ns(), "write", size))
        send_and_wait(lab, sender, receiver, size)

    with both_ends(lab) as recorded, connection(lab) as (sender, receiver):
        # The kernel's own send buffer starts too small for all the data at once.
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
