"""Define the parts of a timeline: writes, segments, holds, acknowledgements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tcplab.models import Reason

#: Events that end a message: the application had to wait for the peer before writing more.
ENDS_MESSAGE: Final = ("reply", "read", "acknowledged")


@dataclass(frozen=True, slots=True)
class Write:
    """One call that hands bytes to TCP."""

    number: int  #: 1 for the first write in the log
    #: Number of its message, from 1. A message ends when its reply is read, or when the ACK that
    #: the application awaits arrives
    message: int
    in_message: int  #: 1 for the first write of its message
    time_ns: int  #: When the call began
    offset: int  #: Offset of its first byte in the stream, where the connection's first byte is 0
    bytes: int  #: Size of the write

    @property
    def end(self) -> int:
        return self.offset + self.bytes


@dataclass(frozen=True, slots=True)
class Mark:
    """A call other than a write: "cork", "uncork", "nodelay", "read", "reply", ..."""

    time_ns: int  #: Time of the call, as logged
    name: str  #: Name of the call
    bytes: int  #: Size, 0 for an option
    message: int  #: Number of the message it belongs to


@dataclass(frozen=True, slots=True)
class Hold:
    """A period in which something waited, and the reason."""

    start_ns: int  #: Start of the wait
    end_ns: int  #: End of the wait, or of the recording if it lasted longer
    reason: Reason  #: One of the keys of HELD_BY (timeline.py)
    evidence: str  #: Facts in the recording that show it
    missing: str = ""  #: If the reason is unknown, the evidence that would show it; else ""
    waiting_bytes: int = 0  #: Bytes waiting at its end
    ended: bool = True  #: False if it lasted until the end of the recording
    #: "kernel" (bytes in the sender's queue, or awaiting retransmission), "application" (bytes not
    #: handed to TCP yet) or "wire" (bytes in flight)
    where: str = "kernel"
    merged: int = 1  #: Number of holds merged into this one, see `Timeline.merged_holds`

    @property
    def duration_ms(self) -> float:
        return (self.end_ns - self.start_ns) / 1e6


@dataclass(frozen=True, slots=True)
class Ack:
    """A segment from the peer. It may carry data as well as an acknowledgement."""

    time_ns: int  #: Time at which it reached the sender's interface
    ack: int  #: Offset of the next byte that the peer expects
    newly_acked_bytes: int  #: Number of bytes it is the first to acknowledge
    window: int  #: Number of bytes beyond `ack` that the peer has room for
    payload_bytes: int  #: Bytes of the peer's data, or 0 for a pure ACK
    #: ack-delayed-by-peer, sent-at-once or unknown, or None if it acknowledges nothing new
    reason: Reason | None = None
    #: Time from the arrival of the oldest newly acknowledged byte at the peer to the departure of
    #: the ACK, or None if unknown
    delay_ms: float | None = None
    evidence: str = ""  #: Facts that show the delay
    missing: str = ""  #: If the reason is unknown, the evidence that would show it; else ""
    sent_ns: int | None = None  #: Time at which it left the peer, or None without a capture there


@dataclass(frozen=True, slots=True)
class Segment:
    """A data segment as it left the sender, and the reason it left at that moment."""

    number: int  #: 1 for the first segment
    packet: int  #: Index in the capture
    time_ns: int  #: Time of departure
    offset: int  #: Offset of its first byte in the stream
    payload_bytes: int  #: Bytes of data
    gso_count: int  #: Number of segments of at most one MSS on the wire
    reason: Reason  #: Reason for leaving
    evidence: str  #: Facts in the recording that show the reason
    missing: str = ""  #: If the reason is unknown, the evidence that would show it; else ""
    message: int = 0  #: Number of the message of its first byte, or 0 without a log
    writes: tuple[int, ...] = ()  #: Numbers of the writes whose bytes it carries
    #: Time since the write of its first byte began, or None without a log
    waited_ms: float | None = None
    holds: tuple[Hold, ...] = ()  #: Its waits, in order
    released_by: int | None = None  #: Index in `Timeline.acks` of the ACK that released it, or None
    #: Time of arrival at the peer, or None without a capture there, or if the segment was lost
    arrived_ns: int | None = None
    #: Time at which the sender first saw its last byte acknowledged, or None if never
    acked_ns: int | None = None
    #: Extra transit time compared with the fastest segment, or None without a capture at the peer
    queued_ms: float | None = None

    @property
    def end(self) -> int:
        return self.offset + self.payload_bytes

    @property
    def held_by(self) -> Hold | None:
        return max(self.holds, key=lambda hold: hold.duration_ms, default=None)


def count_bytes(count: int) -> str:
    """Return "1 byte", "2 bytes" and so on."""
    return f"{count} byte" if count == 1 else f"{count} bytes"
