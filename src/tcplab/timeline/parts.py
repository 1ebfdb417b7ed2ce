"""Define the parts of a timeline: writes, other calls, holds, acknowledgements and segments."""

from dataclasses import dataclass
from typing import Final

from tcplab.models import Reason

#: Events that end a message, because the application waited for the peer before it wrote more.
ENDS_MESSAGE: Final = ("reply", "read", "acknowledged")


@dataclass(frozen=True, slots=True)
class Write:
    """One call that handed bytes to TCP."""

    number: int  #: 1 for the first write in the log
    #: Number of the message, from 1. A message ends when its reply is read, or when the ACK arrives
    #: that the application awaits
    message: int
    in_message: int  #: 1 for the first write of its message
    time_ns: int  #: Time at which the call began
    offset: int  #: Offset of the first byte; the first byte of the connection has offset 0
    bytes: int  #: Number of bytes handed to TCP

    @property
    def end(self) -> int:
        return self.offset + self.bytes


@dataclass(frozen=True, slots=True)
class Mark:
    """A call other than a write, such as "cork", "uncork", "nodelay", "read" or "reply"."""

    time_ns: int  #: Time of the call, as logged
    name: str
    bytes: int  #: Number of bytes, or 0 for an option
    message: int  #: Number of the message to which the call belongs, or 0 for a call of the peer


@dataclass(frozen=True, slots=True)
class Hold:
    """A period in which bytes waited, with the reason."""

    start_ns: int  #: Start of the wait
    end_ns: int  #: End of the wait, or of the recording if the wait lasted longer
    reason: Reason  #: Reason of the wait, one of the keys of HELD_BY (timeline.py)
    evidence: str  #: Facts in the recording that show the reason
    missing: str = ""  #: If the reason is unknown, the evidence that would show it; otherwise ""
    waiting_bytes: int = 0  #: Bytes still waiting at the end (or, on the wire, all that waited)
    ended: bool = True  #: False if the wait lasted until the end of the recording
    #: "kernel" (bytes in the sender's queue, or awaiting retransmission), "application" (bytes not
    #: yet handed to TCP) or "wire" (bytes in flight)
    where: str = "kernel"

    @property
    def duration_ms(self) -> float:
        return (self.end_ns - self.start_ns) / 1e6


@dataclass(slots=True)
class Ack:
    """A segment from the peer, which acknowledges data and may carry data as well."""

    time_ns: int  #: Time at which the ACK reached the sender's interface
    ack: int  #: Offset of the next byte that the peer expects
    newly_acked_bytes: int  #: Number of bytes that this ACK is the first to acknowledge
    window: int  #: Number of bytes beyond `ack` that the peer has room for
    payload_bytes: int  #: Number of data bytes that the segment carries, or 0 for a pure ACK
    #: ack-delayed-by-peer, sent-at-once or unknown. None without new data, or if data was resent
    reason: Reason | None = None
    #: Time from the arrival of the oldest newly acknowledged byte at the peer to the departure of
    #: the ACK, or None if unknown
    delay_ms: float | None = None
    evidence: str = ""  #: Facts that show the delay
    missing: str = ""  #: If the reason is unknown, the evidence that would show it; otherwise ""
    sent_ns: int | None = None  #: Time at which the ACK left the peer, or None if unknown


@dataclass(slots=True)
class Segment:
    """A data segment as it left the sender, with the reason why it left at that moment."""

    number: int  #: 1 for the first segment
    packet: int  #: Index of the packet in the capture
    time_ns: int  #: Time at which the segment left
    offset: int  #: Offset of the first byte in the stream
    payload_bytes: int
    gso_count: int  #: Number of segments on the wire, each with at most one MSS of data
    reason: Reason  #: Reason why the segment left
    evidence: str  #: Facts in the recording that show the reason
    missing: str = ""  #: If the reason is unknown, the evidence that would show it; otherwise ""
    message: int = 0  #: Number of the first byte's message, or 0 without a log
    writes: tuple[int, ...] = ()  #: Numbers of the writes whose bytes the segment carries
    #: Time since the write of the first byte began, or None without a log
    waited_ms: float | None = None
    holds: tuple[Hold, ...] = ()  #: The segment's waits, in order
    released_by: int | None = None  #: Index in `Timeline.acks` of the ACK that released it, or None
    #: Time of arrival at the peer, or None if the segment was lost or no capture was made there
    arrived_ns: int | None = None
    #: Time at which the sender first saw the last byte acknowledged, or None if it never did
    acked_ns: int | None = None
    #: Transit time beyond that of the fastest segment, or None if unknown
    queued_ms: float | None = None
    #: True if it was resent because ACKs reported a gap; None if its first copy was not captured
    by_report: bool | None = False

    @property
    def end(self) -> int:
        return self.offset + self.payload_bytes

    @property
    def held_by(self) -> Hold | None:
        return max(self.holds, key=lambda hold: hold.duration_ms, default=None)


def count_bytes(count: int) -> str:
    """Return a number of bytes in words, such as "1 byte" or "2 bytes"."""
    return f"{count} byte" if count == 1 else f"{count} bytes"


def time_of(event: Write | Mark | Ack | Segment) -> int:
    """Return the time of an event, as a key for sorting and searching."""
    return event.time_ns
