"""Model wire.c in Python: compute when each frame leaves, given the frames and arrival times.

The queues follow the pseudocode of the RFCs: RFC 8289 section 5 (CoDel), RFC 8290 section 4
(FQ-CoDel), RFC 8033 sections 4 and 5 (PIE). Where Linux differs from an RFC and queue.c follows
Linux, a docstring says so.
"""

from __future__ import annotations

import math
import struct
from collections import deque
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from tests.support.wire.frames import checksum

MASK = 2**64 - 1
#: Preamble, FCS and gap of a frame on the link.
FRAMING_BYTES = 24
MS = 1_000_000
FLOWS = 1024


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
    quantum_bytes: int = 0
    duplicate_every: int = 0
    hold_every: int = 0

    @property
    def target(self) -> int:
        return self.target_ns or (15 * MS if self.aqm == "pie" else 5 * MS)

    @property
    def interval(self) -> int:
        return self.interval_ns or (15 * MS if self.aqm == "pie" else 100 * MS)

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
    marked: bool = False
    dropped: str | None = None
    dropped_ns: int = 0
    departures_ns: list[int] = field(default_factory=list)

    @property
    def is_ip(self) -> bool:
        return self.data[12:14] == b"\x08\x00"

    @property
    def ect(self) -> bool:
        return self.is_ip and bool(self.data[15] & 3)

    def drop(self, reason: str, now: int) -> None:
        self.dropped, self.dropped_ns = reason, now


def chance(seed: int, direction: str, number: int, purpose: int = 1) -> float:
    """Return a number in [0, 1) from the element of the splitmix64 stream for this frame."""
    element = 8 * number + {"ab": 0, "ba": 4}[direction] + purpose
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


# ---- queues ----


@dataclass
class TailDrop:
    """A first-in, first-out queue that drops arriving packets when it is full."""

    settings: Settings
    waiting: deque[Packet] = field(default_factory=deque)
    longest: int = 0

    def length(self) -> int:
        return len(self.waiting)

    def bytes(self) -> int:
        return sum(packet.length for packet in self.waiting)

    def enque(self, packet: Packet, busy: bool, _random: float) -> None:
        if busy and self.settings.queue_packets and self.length() >= self.settings.queue_packets:
            packet.drop("queue", packet.time_ns)
        else:
            self.append(packet)

    def append(self, packet: Packet) -> None:
        self.longest = max(self.longest, packet.length)
        self.waiting.append(packet)

    def deque(self, _now: int) -> Packet | None:
        return self.waiting.popleft() if self.waiting else None


@dataclass
class Codel(TailDrop):
    """CoDel with the names of RFC 8289, and ECN as in Linux, which marks instead of dropping."""

    first_above_time: int = 0
    drop_next: int = 0
    count: int = 0
    lastcount: int = 0
    dropping: bool = False

    def dodequeue(self, now: int) -> tuple[Packet | None, bool]:
        packet = TailDrop.deque(self, now)
        if packet is None:
            self.first_above_time = 0
            return None, False
        sojourn = now - packet.time_ns
        if sojourn < self.settings.target or self.bytes() <= self.longest:
            self.first_above_time = 0
        elif self.first_above_time == 0:
            self.first_above_time = now + self.settings.interval
        elif now >= self.first_above_time:
            return packet, True
        return packet, False

    def control_law(self, t: int, count: int) -> int:
        return t + round(self.settings.interval / math.sqrt(count))

    def mark(self, packet: Packet | None) -> bool:
        if self.settings.ecn == "on" and packet is not None and packet.ect:
            packet.marked = True
            return True
        return False

    def deque(self, now: int) -> Packet | None:
        packet, ok_to_drop = self.dodequeue(now)
        if self.dropping:
            if not ok_to_drop:
                self.dropping = False
            while now >= self.drop_next and self.dropping:
                self.count += 1
                if self.mark(packet):
                    self.drop_next = self.control_law(self.drop_next, self.count)
                    return packet
                assert packet is not None
                packet.drop("aqm", now)
                packet, ok_to_drop = self.dodequeue(now)
                if ok_to_drop:
                    self.drop_next = self.control_law(self.drop_next, self.count)
                else:
                    self.dropping = False
        elif ok_to_drop:
            if not self.mark(packet):
                assert packet is not None
                packet.drop("aqm", now)
                packet, _ = self.dodequeue(now)
            self.dropping = True
            delta = self.count - self.lastcount
            self.count = 1
            if delta > 1 and now - self.drop_next < 16 * self.settings.interval:
                self.count = delta
            self.drop_next = self.control_law(now, self.count)
            self.lastcount = self.count
        return packet


class FairQueue:
    """FQ-CoDel (RFC 8290), with a CoDel queue per flow. Flows that just became busy go first."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.flows: dict[int, Codel] = {}
        self.credits: dict[int, int] = {}
        self.longest = 0
        self.new: deque[int] = deque()
        self.old: deque[int] = deque()

    def length(self) -> int:
        return sum(len(flow.waiting) for flow in self.flows.values())

    def bytes(self) -> int:
        return sum(flow.bytes() for flow in self.flows.values())

    def hash(self, packet: Packet) -> int:
        if not packet.is_ip:
            return 0
        addresses, protocol = packet.data[26:34], packet.data[23]
        ports = int.from_bytes(packet.data[34:38], "big")
        x = mix(int.from_bytes(addresses, "big"))
        x = mix(x ^ (protocol << 32 | ports))
        return mix(x ^ self.settings.seed) % FLOWS

    def enque(self, packet: Packet, busy: bool, _random: float) -> None:
        number = self.hash(packet)
        self.longest = max(self.longest, packet.length)
        self.flows.setdefault(number, Codel(self.settings)).waiting.append(packet)
        if number not in self.new and number not in self.old:
            self.credits[number] = self.settings.quantum_bytes or 1514
            self.new.append(number)
        if busy and self.settings.queue_packets and self.length() > self.settings.queue_packets:
            self.drop_from_fattest(packet.time_ns)

    def drop_from_fattest(self, now: int) -> None:
        """Drop half of the fattest flow's bytes, but at most 64 packets, as Linux does."""
        # Of flows with the same number of bytes, the flow with the lowest number is the fattest.
        fattest = max(sorted(self.flows.items()), key=lambda item: item[1].bytes())[1]
        half, gone = fattest.bytes() // 2, 0
        for _ in range(64):
            packet = fattest.waiting.popleft()
            packet.drop("queue", now)
            gone += packet.length
            if gone >= half:
                break

    def deque(self, now: int) -> Packet | None:
        while self.new or self.old:
            turn = self.new or self.old
            number = turn[0]
            if self.credits[number] <= 0:
                self.credits[number] += self.settings.quantum_bytes or 1514
                self.old.append(turn.popleft())
                continue
            self.flows[number].longest = self.longest  # all flows share one "maxpacket"
            packet = self.flows[number].deque(now)
            if packet is not None:
                self.credits[number] -= packet.length
                return packet
            turn.popleft()
            if turn is self.new:
                self.old.append(number)
        return None


@dataclass
class Pie(TailDrop):
    """PIE (RFC 8033), with the delay taken from packets' time stamps, as its section 5.2 allows."""

    drop_prob: float = 0.0
    accu_prob: float = 0.0
    qdelay: int = 0
    qdelay_old: int = 0
    burst_allowance: int = 0
    next_update: int | None = None

    def current_qdelay(self) -> int:
        return self.qdelay if self.waiting else 0

    def catch_up(self, now: int) -> None:
        if self.next_update is None:
            self.next_update = now + self.settings.interval
        while self.next_update <= now:
            self.calculate_drop_prob()
            self.next_update += self.settings.interval

    def calculate_drop_prob(self) -> None:
        qdelay = self.current_qdelay()
        p = 0.125 * ((qdelay - self.settings.target) / 1e9)
        p += 1.25 * ((qdelay - self.qdelay_old) / 1e9)
        for below, divisor in (
            (0.000001, 2048),
            (0.00001, 512),
            (0.0001, 128),
            (0.001, 32),
            (0.01, 8),
            (0.1, 2),
        ):
            if self.drop_prob < below:
                p /= divisor
                break
        else:
            p = min(p, 0.02)  # RFC 8033, 5.5
        self.drop_prob += p
        if qdelay == 0 and self.qdelay_old == 0:
            self.drop_prob *= 0.98
        self.drop_prob = min(max(self.drop_prob, 0.0), 1.0)
        self.qdelay_old = qdelay
        self.burst_allowance = max(0, self.burst_allowance - self.settings.interval)

    def drop_early(self, random: float) -> bool:
        half = self.settings.target // 2
        if self.qdelay_old < half and self.drop_prob < 0.2:
            return False
        if self.bytes() <= 2 * self.longest:
            return False
        if self.drop_prob == 0:
            self.accu_prob = 0.0
        self.accu_prob += self.drop_prob
        if self.accu_prob < 0.85:
            return False
        if self.accu_prob >= 8.5 or random < self.drop_prob:
            self.accu_prob = 0.0
            return True
        return False

    def enque(self, packet: Packet, busy: bool, random: float) -> None:
        self.catch_up(packet.time_ns)
        limit, half = self.settings.queue_packets, self.settings.target // 2
        if busy and limit and self.length() >= limit:
            packet.drop("queue", packet.time_ns)
            return
        if self.drop_prob == 0 and self.current_qdelay() < half and self.qdelay_old < half:
            self.burst_allowance = 150 * MS
        if self.burst_allowance == 0 and self.drop_early(random):
            if self.settings.ecn == "on" and packet.ect and self.drop_prob <= 0.1:
                packet.marked = True
            else:
                packet.drop("aqm", packet.time_ns)
                return
        self.append(packet)

    def deque(self, now: int) -> Packet | None:
        self.catch_up(now)
        packet = TailDrop.deque(self, now)
        if packet is not None:
            self.qdelay = now - packet.time_ns
        return packet


KINDS: dict[str, type[TailDrop | FairQueue]] = {
    "tail_drop": TailDrop,
    "codel": Codel,
    "fq_codel": FairQueue,
    "pie": Pie,
}


# ---- the link ----


def forward(settings: Settings, direction: str, packets: Iterable[Packet]) -> None:
    """Record the departures or the drop of each packet, in the order of arrival."""
    queue = KINDS[settings.aqm](settings)
    sending: Packet | None = None
    free_ns = ip_number = 0

    def send_until(now: int) -> None:
        nonlocal sending, free_ns
        while sending is not None and free_ns <= now:
            hold_ns = settings.hold_ns if sending.held else 0
            sending.departures_ns.append(free_ns + settings.delay_ns + hold_ns)
            sending = queue.deque(free_ns)
            if sending is not None:
                free_ns += transmission_ns(settings.rate_bps, sending.length)

    def enque(packet: Packet, number: int) -> None:
        nonlocal sending, free_ns
        queue.enque(packet, sending is not None, chance(settings.seed, direction, number, 2))
        if sending is None and packet.dropped is None:
            sending = queue.deque(packet.time_ns)
            if sending is not None:
                free_ns = packet.time_ns + transmission_ns(settings.rate_bps, sending.length)

    for number, packet in enumerate(packets, 1):
        send_until(packet.time_ns)
        packet.queue_packets, packet.queue_bytes = queue.length(), queue.bytes()
        ip_number += packet.is_ip
        if packet.is_ip and chance(settings.seed, direction, ip_number) < settings.loss:
            packet.drop("loss", packet.time_ns)
            continue
        packet.held = strikes(settings.hold_every, number)
        enque(packet, number)
        if strikes(settings.duplicate_every, number) and packet.dropped is None:
            send_until(packet.time_ns)
            enque(replace(packet, held=False), number)  # the copy shares the list of departures
    send_until(1 << 62)


def strikes(every: int, count: int) -> bool:
    """Return whether a rule for one frame in `every` applies to frame number `count`."""
    return every > 0 and count % every == 0


def with_ecn(frame: bytes, codepoint: int) -> bytes:
    """Return the same IPv4 frame with an ECN codepoint and its new checksum."""
    header = bytearray(frame[14:34])
    header[1] |= codepoint
    header[10:12] = b"\0\0"
    header[10:12] = struct.pack(">H", checksum(header))
    return frame[:14] + bytes(header) + frame[34:]
