"""Send thousands of small records to a server, and pass them to TCP in several ways.

This is case 1 of Microsoft's article "Design issues: sending small data segments over TCP with
Winsock". With SO_SNDBUF 0, each send() returned only when its record was acknowledged. The server
sent no data back, so each ACK waited for a timer of 200 ms, which made 5 records per second.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal, get_args

from tcplab.experiments import Between, Result, column, computed, derived, experiment
from tcplab.experiments.exchange import (
    ExchangeVariant,
    KeepSegments,
    OwnRtt,
    exchange_network,
    exchange_on_loopback,
    record_exchange,
)
from tcplab.experiments.progress import case_by_case
from tcplab.lab import Network
from tcplab.models import Peer, message_cost
from tcplab.programs.messages import RecordsResult
from tcplab.programs.messages import records as run_program
from tcplab.timeline import Exchange

RecordMode = Literal["default", "nodelay", "unbuffered", "unbuffered+nodelay", "batch"]
Receiver = Literal["linux", "delaying"]

_PUBLISHED_PER_S: Final = 5  # rate of unbuffered records
_RECORD_BYTES: Final = 60  # mean of sizes from 20 to 100


class RecordsVariant(ExchangeVariant[RecordsResult], key=("mode", "receiver"), heading="method"):
    """One way of sending records, to one kind of receiver."""

    mode: RecordMode
    receiver: Receiver = column("receiver")

    @property
    def label(self) -> str:
        return f"batch {self.result.batch}" if self.mode == "batch" else self.mode

    records_per_s = computed(lambda case: case.result.records_per_s, "records/s", ",.0f")

    @derived("published", "g")
    def published_records_per_s(self) -> float | None:
        return _PUBLISHED_PER_S if self.key == ("unbuffered", "delaying") else None

    longest_send_us = computed(lambda case: case.result.send_us.max, "longest send (µs)", ",.0f")
    records = computed(lambda case: case.result.records, "records", ",d")
    sends = computed(lambda case: case.result.sends, "sends", ",d")
    bytes = computed(lambda case: case.result.bytes, "bytes", ",d")

    @derived("segments/record", ".3g")
    def segments_per_record(self) -> float:
        """Divide the segments that the kernel counts, except those sent again, by the records."""
        info = self.result.tcp_info
        return float(info["data_segs_out"] - info["total_retrans"]) / self.result.records

    def send_ms(self) -> list[float]:
        """Return the ms from each send to its ACK, in order, or [] for a buffered mode."""
        log = self.exchange.log or ()
        pairs = zip(log[::2], log[1::2], strict=True)
        return [(acked.time_ns - sent.time_ns) / 1e6 for sent, acked in pairs]


def model_per_s(mode: RecordMode, receiver: Receiver) -> float | None:
    """Return the records per second if each waits for its ACK, or None if the CPU is the limit."""
    if receiver == "linux" or not mode.startswith("unbuffered"):
        return None
    option = "no_delay" if mode.endswith("nodelay") else "default"
    cost = message_cost([_RECORD_BYTES], option, reply_bytes=0, peer=Peer(quickack="off"))
    return 1000 / cost.ms_per_message


@experiment(
    "records",
    on_loopback=exchange_on_loopback,
    figure=("records_per_s",),
    finding="In the same time, {most} delivers {ratio} times as many records as {least}",
)
def measure(
    count: Annotated[int, Between(1, 10_000_000), "records of the buffered modes"] = 10_000,
    unbuffered_count: Annotated[int, Between(2, 10_000)] = 100,
    batch: Annotated[int, Between(1, 1000), "records per send of the mode batch"] = 80,
    rtt_ms: OwnRtt = 0.0,
    variants: Annotated[Sequence[RecordMode], "modes to compare"] = get_args(RecordMode),
    receivers: Sequence[Receiver] = ("linux", "delaying"),
    segments: KeepSegments = False,
    network: Network | None = None,
) -> Result[RecordsVariant]:
    """Send small records with and without buffering, with TCP_NODELAY, and in batches.

    Args:
        unbuffered_count: records of the unbuffered modes, which wait for each ACK and so are slow
        receivers: "linux" lets the kernel decide when to acknowledge, and "delaying" delays ACKs as
            long as possible
    """
    with exchange_network(network, rtt_ms, segments=segments) as network:
        cases = [(mode, receiver) for receiver in receivers for mode in variants]

        def run(case: tuple[RecordMode, Receiver]) -> RecordsVariant:
            records = unbuffered_count if case[0].startswith("unbuffered") else count
            return _measure_one(network, *case, records, batch)

        counts = {"count": count, "unbuffered_count": unbuffered_count, "batch": batch}
        return case_by_case(network, cases, run, **counts)


def _measure_one(
    network: Network, mode: RecordMode, receiver: Receiver, count: int, batch: int
) -> RecordsVariant:
    options: dict[str, Any] = {
        "count": count,
        "unbuffered": mode.startswith("unbuffered"),
        "nodelay": mode.endswith("nodelay"),
        "batch": batch if mode == "batch" else None,
        "quickack": "off" if receiver == "delaying" else "on",
    }
    if options["unbuffered"]:
        return RecordsVariant(record_exchange(network, run_program, **options), mode, receiver)
    # The recording of thousands of records would be large.
    result = run_program(network, **options)
    exchange = Exchange(result, options=result.options, tcp_info=result.tcp_info)
    return RecordsVariant(exchange, mode, receiver)
