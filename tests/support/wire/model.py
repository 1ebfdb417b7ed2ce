"""The link of wire.c as a reference model: what leaves when, given what arrived when.

Written for clarity and not in the manner of the C program, so that the two can disagree: it keeps
no queue, but counts the frames whose transmission has yet to begin.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

MASK = 2**64 - 1
#: Preamble, FCS and gap.
FRAMING_BYTES = 24


@dataclass(frozen=True, slots=True)
class Settings:
    """The keys of the wire's `set` command, with its defaults, and two rules of its script.

    Attributes:
        duplicate_every: one in this many frames comes twice; 0: none does.
        hold_every: one in this many frames is held for hold_ns.
    """

    delay_ns: int = 0
    rate_bps: int = 0
    queue_packets: int = 1000
    loss: float = 0.0
    hold_ns: int = 1_000_000
    seed: int = 0
    duplicate_every: int = 0
    hold_every: int = 0


@dataclass(frozen=True, slots=True)
class Arrival:
    """A frame that came: when, its bytes without FCS, and whether chance may touch it."""

    time_ns: int
    length: int
    is_ip: bool = True


@dataclass(slots=True)
class Outcome:
    """The fate of a frame: its departures (two if duplicated), or why it was dropped."""

    queue_packets: int
    queue_bytes: int
    dropped: str | None = None
    departures_ns: list[int] = field(default_factory=list)


def chance(seed: int, direction: str, number: int, purpose: int = 1) -> float:
    """Uniform in [0, 1): element of the splitmix64 stream that belongs to this frame."""
    element = 8 * number + {"ab": 0, "ba": 4}[direction] + purpose
    return (mix((seed + element * 0x9E3779B97F4A7C15) & MASK) >> 11) * 2.0**-53


def mix(x: int) -> int:
    """The last step of splitmix64."""
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


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

    def is_lost(self, number: int) -> bool:
        return chance(self.settings.seed, self.direction, number) < self.settings.loss

    def waiting(self, time_ns: int) -> tuple[int, int]:
        """Frames and bytes in the queue: those whose transmission is yet to begin."""
        lengths = [t.length for t in self.transmissions if t.start_ns > time_ns]
        return len(lengths), sum(lengths)

    def idle_at_ns(self) -> int:
        return self.transmissions[-1].finish_ns if self.transmissions else 0

    def has_place(self, arrival: Arrival) -> bool:
        if self.idle_at_ns() <= arrival.time_ns:
            return True
        packets, _ = self.waiting(arrival.time_ns)
        return not self.settings.queue_packets or packets < self.settings.queue_packets

    def send(self, arrival: Arrival, held: bool) -> list[int]:
        """When the frame will leave; nothing if the queue has no place for it."""
        if not self.has_place(arrival):
            return []
        start_ns = max(arrival.time_ns, self.idle_at_ns())
        finish_ns = start_ns + transmission_ns(self.settings.rate_bps, arrival.length)
        self.transmissions.append(_Transmission(arrival.length, start_ns, finish_ns))
        departure_ns = finish_ns + self.settings.delay_ns
        if held:
            departure_ns += self.settings.hold_ns
            self.last_held_ns = max(departure_ns, self.last_held_ns)
            return [self.last_held_ns]
        self.last_departure_ns = max(departure_ns, self.last_departure_ns)
        return [self.last_departure_ns]


def strikes(every: int, count: int) -> bool:
    """Whether a rule that is to strike one in `every` frames strikes this one."""
    return every > 0 and count % every == 0


def forward(settings: Settings, direction: str, arrivals: Iterable[Arrival]) -> list[Outcome]:
    """The fates of the arrivals, in the order of their times."""
    link = _Link(settings, direction)
    outcomes = []
    number = 0
    for count, arrival in enumerate(arrivals, 1):
        number += arrival.is_ip
        outcome = Outcome(*link.waiting(arrival.time_ns))
        outcomes.append(outcome)
        if arrival.is_ip and link.is_lost(number):
            outcome.dropped = "loss"
            continue
        held = strikes(settings.hold_every, count)
        outcome.departures_ns = link.send(arrival, held)
        if not outcome.departures_ns:
            outcome.dropped = "queue"
        elif strikes(settings.duplicate_every, count):
            outcome.departures_ns += link.send(arrival, False)
    return outcomes


def transmission_ns(rate_bps: int, length: int) -> int:
    """The time that a frame takes to transmit, to the nearest nanosecond."""
    if rate_bps == 0:
        return 0
    length = max(length, 60) + FRAMING_BYTES
    return (8_000_000_000 * length + rate_bps // 2) // rate_bps
