"""Run a program and its peer, and record calls and packets at both ends as an exchange."""

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Any, Generic, TypeAlias, TypeVar

from tcplab.capture import Capture
from tcplab.errors import ParameterError
from tcplab.experiments import Between
from tcplab.experiments.mode import mode
from tcplab.experiments.quantities import Variant, plain_fields
from tcplab.lab import Lab, Loopback, Network
from tcplab.lab.scratch import temporary_folder
from tcplab.programs import Event, read_log
from tcplab.segments import SegmentArray
from tcplab.timeline import Exchange, Timeline

OwnRtt: TypeAlias = Annotated[
    float, Between(0, 4000, "ms"), "round-trip time of the laboratory's link"
]
KeepSegments: TypeAlias = Annotated[
    bool, "require the segments, which only a laboratory can record"
]


R = TypeVar("R")


class Exchanged:
    """Base class for objects with the record of one exchange."""

    exchange: Exchange[Any]

    @property
    def segments(self) -> SegmentArray:
        return self.exchange.captured

    @property
    def sizes(self) -> list[int]:
        """The payload sizes of the client's data segments, without retransmissions."""
        return payload_sizes(self.segments)

    def timeline(self) -> Timeline:
        """Return writes, segments and ACKs on one clock, with the reason for each wait."""
        return self.exchange.timeline()


class ExchangeVariant(Exchanged, Variant, Generic[R]):
    """A variant of an experiment that consists of one exchange."""

    exchange: Exchange[R]

    @property
    def result(self) -> R:
        return self.exchange.result

    def row(self) -> dict[str, Any]:
        """Return the variant's row, with the plain data of the programs' report."""
        options = self.exchange.options
        congestion = {"congestion": options and options.congestion}
        return plain_fields(self.result) | congestion | Variant.row(self)


def exchange_on_loopback(*, rtt_ms: float, segments: bool, **_: object) -> bool:
    """Return True if no delay and no segments are needed, so that plain loopback is enough."""
    return rtt_ms == 0 and not segments


def exchange_network(
    given: Network | None, rtt_ms: float, *, segments: bool
) -> AbstractContextManager[Network]:
    """Open a network unless one is given; ParameterError for segments on a given Loopback.

    In loopback mode, :func:`exchange_on_loopback` has made sure that plain loopback is enough.
    """
    if segments and isinstance(given, Loopback):
        raise ParameterError(
            "segments=True: loopback cannot record segments; pass a Lab as"
            " network=, or pass no network"
        )
    if given is not None:
        return nullcontext(given)
    return Loopback() if mode() == "loopback" else Lab(rtt_ms=rtt_ms)


def record_exchange(
    network: Network, program: Callable[..., R], *args: Any, **kwargs: Any
) -> Exchange[R]:
    """Run a pair of programs, capture on both hosts, and read the logs.

    Plain loopback cannot be recorded, so its exchange has no segments. Pass log=None or
    peer_log=None for an exchange without that log.
    """
    with temporary_folder() as folder:
        known = inspect.signature(program).parameters
        logs = {name: Path(folder) / name for name in ("log", "peer_log") if name in known}
        with both_ends(network) as recorded:
            result: Any = program(network, *args, **{**logs, **kwargs})
        for name, path in logs.items():
            recorded[name] = read_log(path) if path.exists() else None
    return Exchange(result, options=result.options, tcp_info=result.tcp_info, **recorded)


@contextmanager
def both_ends(network: Network) -> Iterator[dict[str, Any]]:
    """Capture on both hosts until the with statement ends.

    Yield a dict that is filled at the end, or stays empty on plain loopback. Its keys are names of
    an Exchange's fields.
    """
    recorded: dict[str, Any] = {}
    if not isinstance(network, Lab):
        yield recorded
        return
    with network.client.capture() as near, network.server.capture() as far:
        yield recorded
    with near, far:
        recorded["segments"], recorded["peer_segments"] = near.segments, far.segments
        recorded["drops"] = (near.drops or 0) + (far.drops or 0)


def times_of_messages_ms(log: Iterable[Event], end: str) -> list[float]:
    """Return the ms from the first call of each message to the event `end` that completes it."""
    times: list[float] = []
    start_ns: int | None = None
    for event in log:
        if start_ns is None:
            start_ns = event.time_ns
        if event.name == end:
            times.append((event.time_ns - start_ns) / 1e6)
            start_ns = None
    return times


def sizes_by_message(
    sizes: Iterable[int], message_bytes: int, messages: int
) -> list[tuple[int, ...]]:
    """Return the segments of each message. A segment belongs to the message of its first byte."""
    by_message: list[tuple[int, ...]] = [()] * messages
    sent_bytes = 0
    for size in sizes:
        by_message[sent_bytes // message_bytes] += (size,)
        sent_bytes += size
    return by_message


def payload_sizes(segments: SegmentArray) -> list[int]:
    """Return the payload sizes of the client's data segments, without retransmissions."""
    sizes: list[int] = segments.data("client", retransmissions=False)["payload_bytes"].tolist()
    return sizes


def segments_of(capture: Capture) -> SegmentArray:
    """Return the segments of a capture, and close the capture."""
    with capture:
        return capture.segments
