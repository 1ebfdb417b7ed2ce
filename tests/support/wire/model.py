"""Model wire.c with a tail-drop queue: compute when each frame leaves, given the arrivals."""

from collections import deque
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

MASK = 2**64 - 1
#: Preamble, FCS and gap of a frame on the link.
FRAMING_BYTES = 24


@dataclass(frozen=True, slots=True)
class Settings:
    """The keys of the wire's `set` command, with its defaults, and two rules of its script.

    Attributes:
        duplicate_every: one in this many frames is duplicated; 0 for none.
        hold_every: one in this many frames is held for hold_ns; 0 for none.
    """

    delay_ns: int = 0
    rate_bps: int = 0
    queue_packets: int = 1000
    loss: float = 0.0
    hold_ns: int = 1_000_000
    seed: int = 0
    aqm: str = "tail_drop"
    ecn: str = "off"
    target_ns: int = 0
    interval_ns: int = 0
    duplicate_every: int = 0
    hold_every: int = 0

    def keys(self) -> dict[str, Any]:
        """Return the keys of the `set` command, without the rules of the script."""
        values = asdict(self)
        return {name: value for name, value in values.items() if not name.endswith("_every")}


@dataclass(slots=True)
class Packet:
    """A frame that arrived, and its fate: its departures (two if duplicated), or its drop."""

    time_ns: int
    data: bytes
    length: int
    queue_packets: int = 0  # length of the queue when the frame arrived
    queue_bytes: int = 0
    held: bool = False
    dropped: str | None = None
    departures_ns: list[int] = field(default_factory=list)

    @property
    def is_ip(self) -> bool:
        return self.data[12:14] in (b"\x08\x00", b"\x86\xdd")


def chance(seed: int, direction: str, number: int) -> float:
    """Return a number in [0, 1) from the element of the splitmix64 stream for this frame."""
    element = 8 * number + {"ab": 0, "ba": 4}[direction] + 1
    return (mix((seed + element * 0x9E3779B97F4A7C15) & MASK) >> 11) * 2.0**-53


def mix(x: int) -> int:
    """Apply the last step of splitmix64."""
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def transmission_ns(rate_bps: int, length: int) -> int:
    """Return the time that a frame takes to transmit, to the nearest nanosecond."""
    if rate_bps == 0:
        return 0
    length = max(length, 60) + FRAMING_BYTES
    return (8_000_000_000 * length + rate_bps // 2) // rate_bps


def forward(settings: Settings, direction: str, packets: Iterable[Packet]) -> None:
    """Record the departures or the drop of each packet, in the order of arrival."""
    queue: deque[Packet] = deque()
    sending: Packet | None = None
    free_ns = ip_number = 0

    def send_until(now: int) -> None:
        nonlocal sending, free_ns
        while sending is not None and free_ns <= now:
            hold_ns = settings.hold_ns if sending.held else 0
            sending.departures_ns.append(free_ns + settings.delay_ns + hold_ns)
            sending = queue.popleft() if queue else None
            if sending is not None:
                free_ns += transmission_ns(settings.rate_bps, sending.length)

    def enque(packet: Packet) -> None:
        nonlocal sending, free_ns
        if sending is None:
            sending = packet
            free_ns = packet.time_ns + transmission_ns(settings.rate_bps, packet.length)
        elif 0 < settings.queue_packets <= len(queue):
            packet.dropped = "queue"
        else:
            queue.append(packet)

    for number, packet in enumerate(packets, 1):
        send_until(packet.time_ns)
        packet.queue_packets = len(queue)
        packet.queue_bytes = sum(waiting.length for waiting in queue)
        ip_number += packet.is_ip
        if packet.is_ip and chance(settings.seed, direction, ip_number) < settings.loss:
            packet.dropped = "loss"
            continue
        packet.held = strikes(settings.hold_every, number)
        enque(packet)
        if strikes(settings.duplicate_every, number) and packet.dropped is None:
            send_until(packet.time_ns)
            enque(replace(packet, held=False))  # the copy shares the list of departures
    send_until(1 << 62)


def strikes(every: int, count: int) -> bool:
    """Return whether a rule for one frame in `every` applies to frame number `count`."""
    return every > 0 and count % every == 0
