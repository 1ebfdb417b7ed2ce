"""Parts of a timeline: writes, segments, stretches of waiting, acknowledgements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tcplab.models import Reason

#: Events of an application that had to wait for the peer before it could go on writing.
ENDS_MESSAGE: Final = ("reply", "read", "acknowledged")


@dataclass(frozen=True, slots=True)
class Write:
    """One call with which the application handed bytes to TCP."""

    number: int  #: 1 for the first of the log
    #: Number of its message, from 1; a reply that was read ends a message, and so does the ACK that
    #: an application awaits
    message: int
    in_message: int  #: 1 for the first of its message
    time_ns: int  #: When the call began
    offset: int  #: Of its first byte in the stream; the first byte of the connection is 0
    bytes: int  #: How many

    @property
    def end(self) -> int:
        """Offset of the byte after its last."""
        return self.offset + self.bytes


@dataclass(frozen=True, slots=True)
class Mark:
    """A call other than a write: "cork", "uncork", "nodelay", "read", "reply", ..."""

    time_ns: int  #: When, as its log has it
    name: str  #: What
    bytes: int  #: How many, 0 for an option
    message: int  #: Number of the message in which it happened


@dataclass(frozen=True, slots=True)
class Hold:
    """A stretch of time in which something waited, and why."""

    start_ns: int  #: When it began
    end_ns: int  #: When it ended; the end of the record if it had not ended by then
    reason: Reason  #: One that HELD_BY (timeline.py) has
    evidence: str  #: Facts in the record that show it
    missing: str = ""  #: With the reason unknown, the evidence that would show it; else ""
    waiting_bytes: int = 0  #: Bytes that were waiting at its end
    ended: bool = True  #: False if it lasted to the end of the record
    #: "kernel" (bytes waited in the sender's queue, or to be sent again), "application" (they were
    #: not handed over yet), or "wire" (they were in flight)
    where: str = "kernel"
    merged: int = 1  #: Number of holds that this one stands for, see `Timeline.merged_holds`

    @property
    def duration_ms(self) -> float:
        return (self.end_ns - self.start_ns) / 1e6


@dataclass(frozen=True, slots=True)
class Ack:
    """A segment from the peer that acknowledges; it may carry data of its own."""

    time_ns: int  #: When it came to the sender's interface
    ack: int  #: Offset of the next byte that the peer expects
    newly_acked_bytes: int  #: How many bytes it is the first to acknowledge
    window: int  #: How many bytes beyond `ack` the peer has room for
    payload_bytes: int  #: Of the peer's own data; 0 for a pure ACK
    #: ack-delayed-by-peer, sent-at-once, or unknown; None if it acknowledges nothing new
    reason: Reason | None = None
    #: From the arrival of the oldest newly acknowledged byte at the peer to the ACK's departure
    #: there; None if it is not known
    delay_ms: float | None = None
    evidence: str = ""  #: What shows the delay
    missing: str = ""  #: With the reason unknown, the evidence that would show it; else ""
    sent_ns: int | None = None  #: When it left the peer; None without a capture there


@dataclass(frozen=True, slots=True)
class Segment:
    """A data segment as it left the sender, and why it left just then."""

    number: int  #: 1 for the first
    packet: int  #: Its index in the capture
    time_ns: int  #: When it left
    offset: int  #: Of its first byte in the stream
    payload_bytes: int  #: Data in it
    gso_count: int  #: How many segments of at most one MSS it is on the wire
    reason: Reason  #: Why it left when it did
    evidence: str  #: Facts in the record that show it
    missing: str = ""  #: With the reason unknown, the evidence that would show it; else ""
    message: int = 0  #: Number of the message of its first byte, 0 without a log
    writes: tuple[int, ...] = ()  #: Numbers of the writes whose bytes it carries, in the whole log
    waited_ms: float | None = None  #: Since the write of its first byte began; None without a log
    holds: tuple[Hold, ...] = ()  #: What it had to wait for, in order
    released_by: int | None = None  #: Index in `Timeline.acks` of the ACK that let it go, or None
    #: When it came to the peer; None without a capture there, or if it was lost
    arrived_ns: int | None = None
    #: When the sender first saw its last byte acknowledged; None if never
    acked_ns: int | None = None
    #: How much longer it took through the wire than the fastest; None without a capture at the peer
    queued_ms: float | None = None

    @property
    def end(self) -> int:
        """Offset of the byte after its last."""
        return self.offset + self.payload_bytes

    @property
    def held_by(self) -> Hold | None:
        """The longest of its holds."""
        return max(self.holds, key=lambda hold: hold.duration_ms, default=None)


def count_bytes(count: int) -> str:
    """ "1 byte", "2 bytes"."""
    return f"{count} byte" if count == 1 else f"{count} bytes"
