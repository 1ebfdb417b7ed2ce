"""Records: ten thousand small records to a server, by how they are handed to TCP.

Case 1 of Microsoft's article "Design issues: sending small data segments over TCP with Winsock".
Its client set SO_SNDBUF to 0, so that each send() was complete only when its record had been
acknowledged, and its server had nothing to send back: each ACK waited for a timer of 200 ms, and
5 records went through in a second. Here the same design and the article's advice stand side by
side, with a receiver that acknowledges as Linux does and with one that delays every ACK it may,
as the article's did.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Annotated, Any, Final, Literal, TypeAlias, get_args

from tcplab.experiments import Between, Result, column, computed, derived, experiment, provenance
from tcplab.experiments.exchange import (
    ExchangeVariant,
    OwnRtt,
    exchange_network,
    exchange_on_loopback,
    record_exchange,
)
from tcplab.experiments.progress import one_by_one
from tcplab.lab import Network
from tcplab.models import Peer, message_cost
from tcplab.programs import RecordsResult
from tcplab.programs import records as run_program
from tcplab.timeline import Timeline

RecordMode = Literal["default", "nodelay", "unbuffered", "unbuffered+nodelay", "batch"]
Receiver = Literal["linux", "delaying"]

MODES: Final[tuple[RecordMode, ...]] = get_args(RecordMode)

#: The article's figures: records per second, where it gives them; the timer; size ("about 976 K")
#: and duration ("more than half an hour") of 10 000 records.
PUBLISHED: Final[Mapping[str, float]] = {
    "unbuffered_records_per_s": 5,
    "ack_timer_ms": 200,
    "records": 10_000,
    "kib": 976,
    "minutes": 30,
    "batch": 80,
    "padded_bytes": 100,
}

_RECORD_BYTES: Final = 60  # the mean of 20 to 100


class RecordsVariant(ExchangeVariant[RecordsResult], key=("mode", "receiver"), heading="sent"):
    """One mode of sending, with one receiver."""

    mode: RecordMode  #: how the records were handed to TCP
    #: "linux" acknowledges as its kernel likes, "delaying" as late as it may
    receiver: Receiver = column("receiver")
    #: that the source sent; in the Lab counted on the wire, on plain loopback by the source's
    #: kernel
    data_segments: int

    @property
    def label(self) -> str:
        """The mode, and the batch's size if it is one."""
        return f"batch {self.result.batch}" if self.mode == "batch" else self.mode

    records_per_s = computed(lambda each: each.result.records_per_s, "records/s", ",.0f")

    @derived("MSDN's", "g")
    def published_records_per_s(self) -> float | None:
        published = self.mode == "unbuffered" and self.receiver == "delaying"
        return PUBLISHED["unbuffered_records_per_s"] if published else None

    @derived()
    def model_records_per_s(self) -> float | None:
        return model_per_s(self.mode, self.receiver)

    median_send_us = computed(lambda each: each.result.send_us.median)
    longest_send_us = computed(lambda each: each.result.send_us.max, "longest send (µs)", ",.0f")
    records = computed(lambda each: each.result.records, "records", ",d")
    sends = computed(lambda each: each.result.sends, "sends", ",d")
    bytes = computed(lambda each: each.result.bytes, "bytes", ",d")

    @derived("segments/record", ".3g")
    def segments_per_record(self) -> float:
        """Data segments over records: 1 when each record left by itself."""
        return self.data_segments / self.result.records

    bytes_per_segment = computed(lambda each: each.result.bytes / each.data_segments)

    def send_ms(self) -> list[float]:
        """Time of each send in order, from its start to its ACK, in ms; unbuffered only."""
        log = self.exchange.log or ()
        pairs = zip(log[::2], log[1::2], strict=True)
        return [(acked.time_ns - sent.time_ns) / 1e6 for sent, acked in pairs]

    def timeline(self) -> Timeline:
        """Writes, segments and ACKs on one clock, with the reason for each wait.

        Raises:
            ValueError: this mode is not recorded segment by segment, or ran on plain loopback.
        """
        if self.exchange.segments is None:
            raise ValueError(
                f"the segments of {self.label!r} were only counted; those of unbuffered modes"
                " are kept, when measured in a Lab"
            )
        return ExchangeVariant.timeline(self)


Records: TypeAlias = Result[RecordsVariant]


@cache
def model_per_s(mode: RecordMode, receiver: Receiver | Literal["windows"]) -> float | None:
    """Records per second by theory, of a mode that waits for each ACK; None where the CPU limits.

    "windows" is the article's receiver: an ACK at once for every second segment, else after its
    timer of 200 ms (`tcplab.models.ClassicReceiver`).
    """
    if receiver == "linux" or not mode.startswith("unbuffered"):
        return None
    peer = Peer(acks="classic") if receiver == "windows" else Peer(quickack="off")
    option = "no_delay" if mode.endswith("nodelay") else "default"
    cost = message_cost([_RECORD_BYTES], option, reply_bytes=0, peer=peer)
    return 1000 / cost.ms_per_message


@experiment("records", on_loopback=exchange_on_loopback)
def measure(
    count: Annotated[int, Between(1, 10_000_000)] = 10_000,
    unbuffered_count: Annotated[int, Between(2, 10_000)] = 100,
    batch: Annotated[int, Between(1, 1000)] = 80,
    rtt_ms: OwnRtt = 0.0,
    variants: Sequence[RecordMode] = MODES,
    receivers: Sequence[Receiver] = ("linux", "delaying"),
    segments: bool = False,
    network: Network | None = None,
) -> Records:
    """10 000 small records: buffered, unbuffered, with TCP_NODELAY, 80 per send (MSDN, case 1).

    Args:
        count: records of the modes that may be buffered.
        unbuffered_count: records of the modes that wait for each ACK and so are slow.
        batch: records per send of the mode "batch".
        rtt_ms: round-trip time of the laboratory that is made when no network is given.
        variants: modes of sending to compare, in this order.
        receivers: linux acknowledges as its kernel decides, delaying as late as it may.
        segments: keep the recorded segments, for a timeline: where loopback could record none, the
            shipped recording is shown. In a Lab they are recorded always.
        network: a Lab of its own unless given; on Loopback nothing is recorded.
    """
    with exchange_network(network, rtt_ms, segments=segments) as network:
        cases = [(mode, receiver) for receiver in receivers for mode in variants]

        def run(case: tuple[RecordMode, Receiver]) -> RecordsVariant:
            records = unbuffered_count if case[0].startswith("unbuffered") else count
            return _measure_one(network, *case, records, batch)

        measured, done = one_by_one("records", cases, run)
        counts = {"count": count, "unbuffered_count": unbuffered_count, "batch": batch}
        cpu = measured[0].result.options.cpu
        return Records(measured, provenance(network, **counts, pinned_to_cpu=cpu, **done))


def _measure_one(
    network: Network, mode: RecordMode, receiver: Receiver, count: int, batch: int
) -> RecordsVariant:
    unbuffered = mode.startswith("unbuffered")
    quiet: dict[str, Any] = {} if unbuffered else {"log": None}
    exchange = record_exchange(
        network,
        run_program,
        count=count,
        unbuffered=unbuffered,
        nodelay=mode.endswith("nodelay"),
        batch=batch if mode == "batch" else None,
        quickack="off" if receiver == "delaying" else "on",
        **quiet,
    )
    seen = exchange.segments
    counted = len(seen.data("client")) if seen is not None else None
    if not unbuffered:
        exchange = replace(exchange, segments=None, peer_segments=None)
    sent = counted or exchange.result.tcp_info["data_segs_out"]
    return RecordsVariant(exchange, mode, receiver, sent)
