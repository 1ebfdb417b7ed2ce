"""Send so little data that the path never fills, and count the segments per flight."""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Annotated, Any, Final, Literal

import numpy as np

from tcplab.experiments import Between, Result, experiment, provenance
from tcplab.experiments.exchange import Exchanged, both_ends
from tcplab.experiments.parameters import RateMbit, RttMs
from tcplab.experiments.progress import case_by_case
from tcplab.experiments.quantities import Variant, column, computed, derived, plus
from tcplab.experiments.sockets import MSS_BYTES
from tcplab.lab import PINNED_SYSCTLS, Lab
from tcplab.models import serialisation_ms, slow_start_flights, transfer_ms
from tcplab.models.links import transfer_flights
from tcplab.programs import Event, tcp_bulk
from tcplab.segments import SegmentArray
from tcplab.timeline import Exchange

_SIZES: Final = (1_448, 14_480, 43_440, 144_800, 724_000, 7_240_000)
#: On a busy link, a pause of the sender may be a wait for ACKs if it exceeds this share of the RTT.
_PAUSE_RTT: Final = 0.25
_RMEM: Final = "net.ipv4.tcp_rmem"
_OPEN: Final = "4096 6291456 6291456"  #: its default is its limit


class Flight(Variant):
    """The segments that leave one after another, until the sender waits for ACKs."""

    number: int = column("round trip", "d")  #: number of the flight, from 1
    start_ms: float = column("start (ms)", ".1f")  #: time since the SYN
    segments: int = column("segments", "d")

    @derived("model (segments)", "d")
    def model_segments(self) -> int:
        """10, then doubled until all data is sent."""
        expected = slow_start_flights(sum(flight.segments for flight in self.within.variants))
        return expected[self.number - 1] if self.number <= len(expected) else 0

    bytes: int = column("data (bytes)", ",d")


class ShortTransfer(Exchanged, Result[Flight]):
    """The flights of one transfer. The key of a flight is its number."""

    exchange: Exchange[None]


@experiment("short-transfer", figure=lambda figures, result: figures.in_flight(result.timeline()))
def measure(
    data_bytes: Annotated[int, Between(1, 10_000_000, "bytes"), "data of one write"] = 72_400,
    rtt_ms: Annotated[RttMs, Between(1, 1000, "ms")] = 40.0,
    rate_mbit: Annotated[RateMbit, Between(1, 1000, "Mbit/s")] = 50.0,
    network: Lab | None = None,
) -> ShortTransfer:
    """Send so little data that the path never fills, and count the segments per flight."""
    with nullcontext(network) if network else Lab(**path(rtt_ms, rate_mbit)) as lab:
        exchange = one_write(lab, data_bytes, rate_mbit)
        parts = flights(exchange.captured, rtt_ms, rate_mbit)
        return ShortTransfer(parts, provenance(lab, data_bytes=data_bytes), exchange)


def path(rtt_ms: float, rate_mbit: float) -> dict[str, Any]:
    """Return the parameters of a Lab in which only the congestion window limits a transfer.

    The congestion control is reno, because cubic's HyStart ends slow start when a machine delays an
    ACK. No queue overflows. The receive window is open from the start, because autotuning may be
    slower than slow start.
    """
    return {
        "rtt_ms": rtt_ms,
        "rate_mbit": rate_mbit,
        "queue_packets": 5000,
        "congestion": "reno",
        "sysctls": {_RMEM: _OPEN},
    }


def one_write(lab: Lab, data_bytes: int, rate_mbit: float) -> Exchange[None]:
    """Record one write to a peer that reads at once, with up to 20 TCP_INFO samples per RTT."""
    with both_ends(lab) as recorded:
        sent = tcp_bulk(
            lab,
            write_bytes=data_bytes,
            count=1,
            sndbuf_bytes=None,
            rcvbuf_bytes=None,
            interval_ms=max(1.0, lab.rtt_ms / 20),
        )
    start_ns = int(recorded["segments"].data("client")["time_ns"][0])
    return Exchange(
        None,
        # tcpsource keeps no log, and this write is its only call.
        log=[Event(start_ns - 1000, "write", data_bytes)],
        tcp_info=sent.source.tcp_info,
        samples=[
            {**sample, "time_ns": start_ns + round(1e9 * sample["sample_s"])}
            for sample in sent.samples
        ],
        rate_mbit=rate_mbit,
        nodelay=False,
        **recorded,
    )


def flights(segments: SegmentArray, rtt_ms: float, rate_mbit: float = 1000.0) -> list[Flight]:
    """Split the client's new data segments into flights, which end where it waited for an ACK.

    A flight ends when its first segment has been acknowledged, unless the link is still busy with
    the flight. If the link was busy, a pause of a quarter of the RTT ends the flight later.
    """
    segment_ns = serialisation_ms(MSS_BYTES, rate_mbit) * 1e6
    data = segments.data("client", retransmissions=False)
    times = data["time_ns"].astype(np.int64)
    replies = segments.sent_by("server")
    acks = np.append(0, replies["ack"])[np.searchsorted(replies["time_ns"], data["time_ns"])]
    has_paused = np.diff(times, prepend=times[:1]) > _PAUSE_RTT * rtt_ms * 1e6
    starts = [0]
    for after in range(1, len(data)):
        start = starts[-1]
        is_passed = times[after] - times[start] > (after - start) * segment_ns
        is_first_after_ack = acks[after - 1] <= data["seq"][start] < acks[after]
        is_pause_after_ack = has_paused[after] and data["seq"][start] < acks[after]
        if is_passed and (is_first_after_ack or is_pause_after_ack):
            starts.append(after)
    parts = np.split(data, starts[1:])
    return [
        Flight(
            number=number,
            start_ms=(int(part["time_ns"][0]) - segments.first_time_ns) / 1e6,
            segments=len(part),
            bytes=int(part["payload_bytes"].sum()),
        )
        for number, part in enumerate(parts, 1)
    ]


# ---- the receive window --------------------------------------------------------------------------

Window = Literal["open", "default"]


class Windowed(Variant, key=("window", "run")):
    """A transfer over a new connection, from its first segment to the ACK of its last."""

    window: Window = column("receive window at first")
    run: int = column("run", "d")
    largest_bytes: int = column("largest (bytes)", ",d")  #: the largest window that was offered
    segments: tuple[int, ...] = column("segments per round trip", show=plus)
    took_ms: float = column("took (ms)", ".0f")


@experiment("receive-windows", figure=("largest_bytes", "took_ms"))
def measure_windows(
    data_bytes: Annotated[int, Between(1, 10_000_000, "bytes"), "data of one write"] = 724_000,
    rtt_ms: Annotated[RttMs, Between(1, 1000, "ms")] = 100.0,
    rate_mbit: Annotated[RateMbit, Between(1, 1000, "Mbit/s")] = 1000.0,
    runs: Annotated[int, Between(1, 20), "runs with the default window"] = 3,
) -> Result[Windowed]:
    """Compare slow start with an open receive window and with the kernel's default window.

    The default begins with 64 KB. Autotuning enlarges it, and may be slower than slow start.
    """
    cases: list[tuple[Window, int]] = [("open", 1), *(("default", run + 1) for run in range(runs))]
    with Lab(**path(rtt_ms, rate_mbit)) as lab:

        def run(case: tuple[Window, int]) -> Windowed:
            window, _run = case
            lab.server.sysctl(_RMEM, _OPEN if window == "open" else PINNED_SYSCTLS[_RMEM])
            segments = one_write(lab, data_bytes, rate_mbit).captured
            return Windowed(
                *case,
                int(segments.acks("server")["window"].max()),
                tuple(flight.segments for flight in flights(segments, rtt_ms, rate_mbit)),
                until_acknowledged_ms(segments),
            )

        return case_by_case(lab, cases, run, data_bytes=data_bytes)


# ---- transfers of several sizes ------------------------------------------------------------------


class Sized(Variant):
    """A transfer of one size, from its first segment to the ACK of its last."""

    data_bytes: int = column("data (bytes)", ",d")
    round_trips: int = column("round trips", "d")
    model_round_trips = computed(lambda case: transfer_flights(*case._path), "model", "d")
    took_ms: float = column("took (ms)", ".0f")
    #: time for slow start, for the rest at the link's rate, and for the last ACK to return
    model_ms = computed(lambda case: transfer_ms(*case._path) + case._path[1] / 2, "model", ".0f")
    mbit: float = column("Mbit/s", ".1f")
    model_mbit = computed(lambda case: 8e-3 * case.data_bytes / case.model_ms, "model", ".1f")

    @property
    def _path(self) -> tuple[int, float, float]:
        return self.data_bytes, 2 * self.link["delay_ms"], self.link["rate_mbit"]


@experiment(
    "transfer-sizes",
    figure=lambda figures, result: figures.draw_curves(
        result, "data_bytes", "mbit", "model_mbit", log="x"
    ),
    finding="A transfer of {mbit.most} bytes is {mbit.ratio} times as fast as one of "
    "{mbit.least} bytes",
)
def measure_sizes(
    sizes: Annotated[Sequence[int], Between(1, 10_000_000, "bytes"), "data of each"] = _SIZES,
    rtt_ms: Annotated[RttMs, Between(1, 1000, "ms")] = 40.0,
    rate_mbit: Annotated[RateMbit, Between(1, 1000, "Mbit/s")] = 50.0,
) -> Result[Sized]:
    """Count the round trips of transfers of several sizes, each over a new connection."""
    with Lab(**path(rtt_ms, rate_mbit)) as lab:

        def run(size: int) -> Sized:
            segments = one_write(lab, size, rate_mbit).captured
            took_ms = until_acknowledged_ms(segments)
            round_trips = len(flights(segments, rtt_ms, rate_mbit))
            return Sized(size, round_trips, took_ms, 8e-3 * size / took_ms)

        return case_by_case(lab, sizes, run)


def until_acknowledged_ms(segments: SegmentArray, data_bytes: int | None = None) -> float:
    """Return the ms from the first data to the ACK of `data_bytes` bytes, or of all if None."""
    data = segments.data("client")
    last_byte = int((data["seq"] + data["payload_bytes"]).max())
    if data_bytes is not None:
        last_byte = int(data["seq"].min()) + data_bytes
    acks = segments.sent_by("server")
    final = acks[acks.has_ack & (acks["ack"] >= last_byte)]
    return (int(final["time_ns"][0]) - int(data["time_ns"][0])) / 1e6
