"""Records: ten thousand small records to a server, by how they are handed to TCP.

Case 1 of Microsoft's article "Design issues: sending small data segments over TCP with Winsock".
Its client set SO_SNDBUF to 0, so that each send() was complete only when its record had been
acknowledged, and its server had nothing to send back: each ACK waited for a timer of 200 ms, and
5 records went through in a second. Here the same design and the article's advice stand side by
side, before a receiver that acknowledges as Linux likes and before one that delays every ACK it
may, as the article's did.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Literal, get_args

from tcplab.experiments import provenance
from tcplab.experiments.declaration import experiment
from tcplab.experiments.exchange import record_exchange, total_drops
from tcplab.experiments.mode import at_network
from tcplab.experiments.progress import Rounds
from tcplab.lab import Loopback, Network
from tcplab.models import Peer, message_cost
from tcplab.programs import RecordsResult
from tcplab.programs import records as run_program
from tcplab.tables import Column
from tcplab.timeline import Exchange, Timeline

__all__ = ["TEXT", "WAYS", "Receiver", "Records", "Variant", "Way", "measure", "model_per_s"]

Way = Literal["default", "nodelay", "unbuffered", "unbuffered+nodelay", "batch"]
Receiver = Literal["linux", "delaying"]

WAYS: Final[tuple[Way, ...]] = get_args(Way)

#: The article's own figures: records a second with each way, where it gives one; the timer; what
#: 10 000 records amount to ("about 976 K") and take ("more than half an hour").
TEXT: Final[Mapping[str, float]] = {
    "unbuffered_records_per_s": 5,
    "ack_timer_ms": 200,
    "records": 10_000,
    "kib": 976,
    "minutes": 30,
    "batch": 80,
    "padded_bytes": 100,
}

_RECORD_BYTES: Final = 60  # the mean of 20 to 100


@dataclass(frozen=True, slots=True)
class Variant:
    """One way of sending, before one receiver.

    Attributes:
        way: how the records were handed to TCP.
        receiver: "linux" acknowledges as its kernel likes, "delaying" as late as it may.
        data_segments: that the source sent; in the Lab counted on the wire, on plain loopback by
            the source's kernel.
        exchange: log and segments only of unbuffered ways, which are few records.
    """

    way: Way
    receiver: Receiver
    data_segments: int
    exchange: Exchange[RecordsResult]

    @property
    def result(self) -> RecordsResult:
        """The programs' report."""
        return self.exchange.result

    @property
    def name(self) -> str:
        """The way, and the batch's size if it is one."""
        return f"batch {self.result.batch}" if self.way == "batch" else self.way

    @property
    def segments_per_record(self) -> float:
        """Data segments over records: 1 when each record left by itself."""
        return self.data_segments / self.result.records

    def send_ms(self) -> list[float]:
        """Of each send in order, from its start to its acknowledgement, in ms; unbuffered only."""
        log = self.exchange.log or ()
        pairs = zip(log[::2], log[1::2], strict=True)
        return [(acked.time_ns - sent.time_ns) / 1e6 for sent, acked in pairs]

    def timeline(self) -> Timeline:
        """Writes, segments and ACKs on one clock, with the reason for each wait.

        Raises:
            ValueError: this way is not recorded segment by segment, or ran on plain loopback.
        """
        if self.exchange.segments is None:
            raise ValueError(
                f"the segments of {self.name!r} were only counted; those of unbuffered ways are"
                " kept, when measured in a Lab"
            )
        return self.exchange.timeline()

    def row(self) -> dict[str, Any]:
        """The variant as one row of plain data."""
        told = self.way == "unbuffered" and self.receiver == "delaying"
        return {
            "variant": self.name,
            "receiver": self.receiver,
            "records": self.result.records,
            "records_per_s": self.result.records_per_s,
            "text_records_per_s": TEXT["unbuffered_records_per_s"] if told else None,
            "model_records_per_s": model_per_s(self.way, self.receiver),
            "bytes": self.result.bytes,
            "sends": self.result.sends,
            "median_send_us": self.result.send_us.median,
            "longest_send_us": self.result.send_us.max,
            "data_segments": self.data_segments,
            "segments_per_record": self.segments_per_record,
            "bytes_per_segment": self.result.bytes / self.data_segments,
            "one_record_reads": self.result.one_record_reads,
            "split_records": self.result.split_records,
            "reads": self.result.reads,
            "congestion": self.result.options.congestion,
        }


@dataclass(frozen=True, slots=True)
class Records:
    """The ways of sending, each before both receivers."""

    experiment: ClassVar[str] = "records"
    columns: ClassVar[Sequence[Column]] = (
        Column("variant", "way"),
        Column("receiver", "receiver"),
        Column("records_per_s", "records/s", ",.0f"),
        Column("text_records_per_s", "MSDN's", "g"),
        Column("longest_send_us", "longest send (µs)", ",.0f"),
        Column("records", "records", ",d"),
        Column("sends", "sends", ",d"),
        Column("bytes", "bytes", ",d"),
        Column("segments_per_record", "segments/record", ".3g"),
    )

    variants: Sequence[Variant]
    provenance: Mapping[str, Any]

    def get(self, way: Way, receiver: Receiver = "linux") -> Variant:
        """The variant of a way before a receiver.

        Raises:
            KeyError: it was not measured.
        """
        for variant in self.variants:
            if (variant.way, variant.receiver) == (way, receiver):
                return variant
        raise KeyError(f"{way} before the {receiver} receiver")

    def rows(self) -> list[dict[str, Any]]:
        """One row a variant."""
        return [variant.row() for variant in self.variants]


def model_per_s(way: Way, receiver: Receiver | Literal["windows"]) -> float | None:
    """What theory says of a way that waits for each ACK; None where nothing but the CPU limits.

    "windows" is the article's receiver: an ACK at once for every second segment, else after its
    timer of 200 ms (`tcplab.models.ClassicReceiver`).
    """
    if receiver == "linux" or not way.startswith("unbuffered"):
        return None
    peer = Peer(acks="classic") if receiver == "windows" else Peer(quickack="off")
    option = "no_delay" if way.endswith("nodelay") else "default"
    cost = message_cost([_RECORD_BYTES], option, reply_bytes=0, peer=peer)
    return 1000 / cost.ms_per_message


@experiment("records", on_loopback=lambda rtt_ms, segments, **_: rtt_ms == 0 and not segments)
def measure(
    count: int = 10_000,
    unbuffered_count: int = 100,
    batch: int = 80,
    rtt_ms: float = 0.0,
    ways: Sequence[Way] = WAYS,
    receivers: Sequence[Receiver] = ("linux", "delaying"),
    segments: bool = False,
    network: Network | None = None,
) -> Records:
    """Sends the records in every way, before every receiver.

    Args:
        count: records of the ways that may be buffered, 1 to 10^7.
        unbuffered_count: records of the ways that wait for each ACK, 2 to 10 000: those are slow.
        batch: records in a send of the way "batch", 1 to 1000.
        rtt_ms: round-trip time of the laboratory that is made when no network is given.
        ways: which, in this order.
        receivers: "linux" acknowledges as its kernel likes, "delaying" as late as it may.
        segments: the recorded segments are wanted (for a timeline): where plain loopback could
            record none, show the shipped recording. In a Lab they are recorded always.
        network: where to run; a Lab of its own unless given. On Loopback nothing is recorded.

    Raises:
        ValueError: a number is out of range, or no such way or receiver.
        LabError: no laboratory can be made here, or a program failed.
    """
    _check(count, unbuffered_count, batch, ways, receivers)
    if segments and isinstance(network, Loopback):
        raise ValueError("segments=True: plain loopback records none; give a Lab, or no place")
    with at_network(network, rtt_ms=rtt_ms) as network:
        cases = [(way, receiver) for receiver in receivers for way in ways]
        measured: list[Variant] = []
        with Rounds(len(cases), "records") as rounds:
            for number in rounds:
                way, receiver = cases[number]
                few = way.startswith("unbuffered")
                measured.append(
                    _measure_one(network, way, receiver, unbuffered_count if few else count, batch)
                )
        options = measured[0].result.options
        return Records(
            measured,
            provenance(
                network,
                count=count,
                unbuffered_count=unbuffered_count,
                batch=batch,
                pinned_to_cpu=options.cpu,
                congestion=options.congestion,
                capture_drops=total_drops(each.exchange for each in measured),
                runs=rounds.done,
                interrupted=rounds.interrupted,
            ),
        )


def _check(
    count: int, unbuffered_count: int, batch: int, ways: Sequence[str], receivers: Sequence[str]
) -> None:
    limits = {
        "count": (count, 1, 10_000_000),
        "unbuffered_count": (unbuffered_count, 2, 10_000),
        "batch": (batch, 1, 1000),
    }
    for name, (value, least, most) in limits.items():
        if not least <= value <= most:
            raise ValueError(f"{name}={value} must be from {least} to {most}")
    for name, chosen, known in (
        ("ways", ways, get_args(Way)),
        ("receivers", receivers, get_args(Receiver)),
    ):
        if not chosen:
            raise ValueError(f"{name} is empty; give some of {', '.join(known)}")
        for each in chosen:
            if each not in known:
                raise ValueError(f"{name}: {each!r} is not one of {', '.join(known)}")


def _measure_one(network: Network, way: Way, receiver: Receiver, count: int, batch: int) -> Variant:
    unbuffered = way.startswith("unbuffered")
    quiet: dict[str, Any] = {} if unbuffered else {"log": None}
    exchange = record_exchange(
        network,
        run_program,
        count=count,
        unbuffered=unbuffered,
        nodelay=way.endswith("nodelay"),
        batch=batch if way == "batch" else None,
        quickack="off" if receiver == "delaying" else "on",
        **quiet,
    )
    seen = exchange.segments
    counted = len(seen.data("client")) if seen is not None else None
    if not unbuffered:
        exchange = replace(exchange, segments=None, peer_segments=None)
    return Variant(way, receiver, counted or exchange.result.tcp_info["data_segs_out"], exchange)
