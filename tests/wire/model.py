"""The link of wire.c as a reference model: what leaves when, given what arrived when.

Written for clarity and not in the manner of the C program, so that the two can disagree: it keeps
no queue, but counts the frames whose transmission has yet to begin.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

MASK = 2**64 - 1

LOSS, DUPLICATE, REORDER, JITTER = range(4)


@dataclass(frozen=True, slots=True)
class Settings:
    """The keys of the wire's `set` command, with its defaults."""

    delay_ns: int = 0
    rate_bps: int = 0
    framing_bytes: int = 24
    queue_packets: int = 1000
    queue_bytes: int = 0
    jitter_ns: int = 0
    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    reorder_ns: int = 1_000_000
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Arrival:
    """A frame that came: when, its bytes without FCS, and whether chance may touch it."""

    time_ns: int
    length: int
    is_ip: bool = True


@dataclass(slots=True)
class Outcome:
    """What becomes of a frame: its departures (two if duplicated), or why it was dropped."""

    queue_packets: int
    queue_bytes: int
    dropped: str | None = None
    departures_ns: list[int] = field(default_factory=list)


def chance(seed: int, direction: str, effect: int, number: int) -> float:
    """Uniform in [0, 1): element of the splitmix64 stream that belongs to this frame and effect."""
    element = 8 * number + {"ab": 0, "ba": 4}[direction] + effect + 1
    x = (seed + element * 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    x ^= x >> 31
    return (x >> 11) * 2.0**-53


@dataclass(frozen=True, slots=True)
class _Transmission:
    length: int
    start_ns: int
    finish_ns: int


@dataclass(slots=True)
class _Link:
    """One direction: what it has sent so far."""

    settings: Settings
    direction: str
    transmissions: list[_Transmission] = field(default_factory=list)
    last_departure_ns: int = 0
    last_held_ns: int = 0

    def happens(self, effect: int, probability: float, frame: int) -> bool:
        if frame == 0:
            return False
        return chance(self.settings.seed, self.direction, effect, frame) < probability

    def waiting(self, time_ns: int) -> tuple[int, int]:
        """Frames and bytes in the queue: those whose transmission is yet to begin."""
        lengths = [t.length for t in self.transmissions if t.start_ns > time_ns]
        return len(lengths), sum(lengths)

    def idle_at_ns(self) -> int:
        return self.transmissions[-1].finish_ns if self.transmissions else 0

    def has_place(self, arrival: Arrival) -> bool:
        if self.idle_at_ns() <= arrival.time_ns:
            return True
        packets, length = self.waiting(arrival.time_ns)
        limits = self.settings
        if limits.queue_packets and packets >= limits.queue_packets:
            return False
        return not limits.queue_bytes or length + arrival.length <= limits.queue_bytes

    def send(self, arrival: Arrival, held: bool, frame: int) -> list[int]:
        """When the frame will leave; nothing if the queue has no place for it."""
        if not self.has_place(arrival):
            return []
        start_ns = max(arrival.time_ns, self.idle_at_ns())
        finish_ns = start_ns + transmission_ns(self.settings, arrival.length)
        self.transmissions.append(_Transmission(arrival.length, start_ns, finish_ns))
        delay_ns = self.settings.delay_ns
        if self.settings.jitter_ns and frame:
            draw = 2 * chance(self.settings.seed, self.direction, JITTER, frame) - 1
            # llrint() and round() both round halves to even.
            delay_ns += round(draw * self.settings.jitter_ns)
        departure_ns = finish_ns + max(delay_ns, 0)
        if held:
            departure_ns += self.settings.reorder_ns
            self.last_held_ns = max(departure_ns, self.last_held_ns)
            return [self.last_held_ns]
        self.last_departure_ns = max(departure_ns, self.last_departure_ns)
        return [self.last_departure_ns]


def forward(settings: Settings, direction: str, arrivals: Iterable[Arrival]) -> list[Outcome]:
    """What the link does with the arrivals, in the order of their times."""
    link = _Link(settings, direction)
    outcomes = []
    number = 0
    for arrival in arrivals:
        number += arrival.is_ip
        frame = number if arrival.is_ip else 0
        outcome = Outcome(*link.waiting(arrival.time_ns))
        outcomes.append(outcome)
        if link.happens(LOSS, settings.loss, frame):
            outcome.dropped = "loss"
            continue
        held = link.happens(REORDER, settings.reorder, frame)
        outcome.departures_ns = link.send(arrival, held, frame)
        if not outcome.departures_ns:
            outcome.dropped = "queue"
        elif link.happens(DUPLICATE, settings.duplicate, frame):
            outcome.departures_ns += link.send(arrival, False, frame)
    return outcomes


def transmission_ns(settings: Settings, length: int) -> int:
    """How long the transmitter takes for a frame, to the nearest nanosecond."""
    if settings.rate_bps == 0:
        return 0
    if settings.framing_bytes:
        length = max(length, 60) + settings.framing_bytes
    return (8_000_000_000 * length + settings.rate_bps // 2) // settings.rate_bps
