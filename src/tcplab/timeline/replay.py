"""Replay recorded events through the kernel's sending rules, to explain each segment."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice, takewhile
from typing import Final, TypeAlias

import numpy as np

from tcplab.models import Reason
from tcplab.models.kernel import RTO_MIN_MS
from tcplab.segments import FIN, SYN
from tcplab.timeline.evidence import WRITES, Evidence, Packet
from tcplab.timeline.observations import Observations, ReplayEvent
from tcplab.timeline.parts import ENDS_MESSAGE, Hold, Mark, Segment, Write, count_bytes
from tcplab.timeline.rules import SenderState, Why

OVERTAKEN: Final = "when it left: later bytes came first, and no earlier copy is in the capture"
_CLOSED: Final = "the connection was closed: a FIN does not wait"
NO_LOG: Final = "the application's log: when were these bytes written?"

#: Two events this close together may be cause and effect. The kernel needs some microseconds, and a
#: busy machine more.
CLOSE_NS: Final = 1_000_000
#: The kernel processes a packet within this time after it was recorded.
RACE_NS: Final = 20_000
#: A segment that leaves later than this after an ACK freed it was held by something else.
LATE_NS: Final = 5_000_000
#: Like LATE_NS, for a segment that a call of the application freed. This limit is longer, because
#: the application may have to wait for a CPU.
CALL_NS: Final = 20_000_000
#: An application that writes nothing for this long is idle, even if it reads nothing either.
IDLE_NS: Final = 1_000_000
#: The timer that ends a cork runs for at least 200 ms. Ticks can make it look up to 10 ms shorter.
CORK_TIMER_NS: Final = int((RTO_MIN_MS - 10) * 1e6)
#: The number of duplicate ACKs that indicate a loss (RFC 5681).
_FAST_RETRANSMIT_ACKS: Final = 3
#: Reordering rarely delays a segment for longer. Wireshark uses the same value.
_REORDERED_NS: Final = 3_000_000
#: Among this many segments, the one that first carried some bytes is searched for.
_NEAR: Final = 64
#: A segment lists at most this many of its holds, the last ones.
_MOST_HOLDS: Final = 64
#: If one of these events releases several segments, it is the reason for all of them.
_FURTHER: Final = (Reason.RELEASED_BY_ACK, Reason.UNCORKED, Reason.NODELAY_SET)
#: Reasons for waits that end with an ACK.
_ENDED_BY_ACK: Final = (Reason.CWND_LIMITED, Reason.WINDOW_LIMITED, Reason.DEFERRED)
#: Calls that release segments, as reasons, with the reasons for the holds that each call ends.
_BY_OPTION: Final = {
    "uncork": (Why(Reason.UNCORKED, "the cork was pulled"), (Reason.CORKED, Reason.MSG_MORE)),
    "nodelay": (
        Why(Reason.NODELAY_SET, "TCP_NODELAY was set"),
        (Reason.HELD_BY_NAGLE, Reason.CORKED, Reason.MSG_MORE, Reason.UNKNOWN),
    ),
}

#: The reason why a segment left, the hold that ended with it, and the index of the ACK that ended
#: the hold.
Verdict: TypeAlias = tuple[Why, Hold | None, int | None]


@dataclass(slots=True)
class _Open:
    since: ReplayEvent  #: The event that started the hold
    why: Why  #: The reason as known so far
    released_at: ReplayEvent | None = None  #: The event that removed the obstacle, or None
    mystery: bool = False  #: True if no recorded event explains the start of the hold
    in_call: bool = False  #: True if the application's write had not returned


@dataclass(frozen=True, slots=True)
class _Free:
    """The state of the connection when the queue became free to leave."""

    since: ReplayEvent  #: The event that freed the queue
    segments: int  #: Segments in flight
    room_bytes: int  #: Bytes of room in the peer's window
    #: Bytes in flight, or 0 if the congestion window may have held the queue
    surely_bytes: int
    deferred: Why | None  #: Reason why the kernel may have deferred the burst, or None


@lru_cache
def _without_proof(why: Why, has_tail: bool) -> Why:
    caveat = "which only a log can explain" if has_tail else "only a log can show whether it waited"
    return replace(why, evidence=f"{why.evidence}, {caveat}")


class Replay:
    """Replay the evidence, and explain each segment."""

    def __init__(self, evidence: Evidence) -> None:
        self._e = evidence
        self.sender = SenderState(evidence)
        self._seen = Observations(evidence, self.sender)
        self._rtt_ns = evidence.rtt_ns or 0
        self._open: _Open | None = None
        self._free: _Free | None = None
        # The verdict on the previous segment, or None if it no longer applies to the next one.
        self._chain: Verdict | None = None
        self._quiet_since: int | None = None  # start of a wait with nothing in flight
        self._empty_since: int | None = None
        self._last_sent_ns: int | None = None
        self._message, self._in_message, self._message_over = 0, 0, True
        self._sent: list[Packet] = []  # sorted by offset
        self._passed_ns: dict[tuple[int, int, int], int] = {}  # time, by IP ID, offset and size
        self._resent: list[tuple[int, Segment]] = []  # hold's index; cleared when all data is ACKed
        self._duplicate_acks, self._with_sack, self._duplicate_ns = 0, False, 0
        self._advances: list[Packet] = []  # the ACKs of new data, in order
        self.writes: list[Write] = []
        self.marks: list[Mark] = []
        self.segments: list[Segment] = []
        self.holds: list[Hold] = []
        self.gaps: list[tuple[int, int]] = []  # offsets that were sent but not captured
        self._gap_ns: list[int] = []  # when each gap was noticed
        self._filled: set[int] = set()  # gaps whose bytes came later

    def run(self) -> Replay:
        """Replay all events, and return this object with its results."""
        for moment in self._events():
            if moment.kind == "app" or self._free is None:
                self._chain = None
            if moment.kind == "app":
                self._application(moment)
            elif moment.kind == "in":
                self._arrival(moment, self._e.into[moment.number])
            else:
                self._departure(moment, self._e.out[moment.number])
        self._end()
        return self

    def _events(self) -> Iterator[ReplayEvent]:
        # If times are equal, calls come first, because a write is logged before it is made. Packets
        # follow in the order of the capture.
        several = self._e.log or (), self._e.into, self._e.out
        times = np.array([one.time_ns for some in several for one in some], np.int64)
        indices = [one.index for some in several[1:] for one in some]
        orders = np.array([-1] * len(several[0]) + indices, np.int64)
        kinds = np.repeat(("app", "in", "out"), [*map(len, several)])
        numbers = np.concatenate([np.arange(len(some)) for some in several])
        places = np.lexsort((orders, times))
        yield from map(ReplayEvent, *(part[places].tolist() for part in (times, kinds, numbers)))

    def _end(self) -> None:
        self._close(self._e.end_ns, ended=False)
        self.gaps = [gap for i, gap in enumerate(self.gaps) if i not in self._filled]
        if self._e.log and self._message_over and self._empty_since is not None:
            self._end_idleness(self._e.log[-1].time_ns)

    # ---- the queue ----

    def _judge(self, moment: ReplayEvent) -> None:
        """Find the obstacle after an event, and open or close a hold accordingly."""
        if self._e.log is None:
            return  # nothing is known to wait
        if self.sender.queued <= 0:
            self._close(moment.time_ns)
            self._free = self._quiet_since = None
            if self._empty_since is None:
                self._empty_since = moment.time_ns
            return
        if self.sender.unacked > 0:
            self._quiet_since = None
        elif self._quiet_since is None or moment.kind == "in":
            self._quiet_since = moment.time_ns
        self.sender.now_ns = moment.time_ns
        why = self.sender.obstacle()
        if why is None:
            self._let_go(moment)
            return
        self._free = None
        if self._open and self._open.why.reason is why.reason:
            # The evidence names the bytes that wait at the end, not those that waited first.
            self._open.why, self._open.released_at = why, None
            return
        self._close(moment.time_ns)
        self._open = _Open(moment, why)

    def _let_go(self, moment: ReplayEvent) -> None:
        opened = self._open
        if opened and opened.released_at is None and not opened.mystery:
            # A deferred burst waits for an ACK, whatever the application does in the meantime.
            until_ack = opened.why.reason is Reason.DEFERRED and moment.kind != "in"
            opened.released_at = None if until_ack else moment
        if self._free is None:
            cwnd = self.sender.cwnd
            surely_bytes = self.sender.unacked if cwnd.has_room else 0
            self._free = _Free(
                moment, cwnd.in_flight, self.sender.room, surely_bytes, self.sender.too_short()
            )

    def _close(self, time_ns: int, *, ended: bool = True) -> Hold | None:
        """End the open hold and return it, or None if no hold was open or it took no time."""
        if self._open is None:
            return None
        opened, self._open = self._open, None
        if time_ns <= opened.since.time_ns and ended:
            return None
        why = opened.why
        if why.reason is Reason.UNKNOWN:
            why = self._sampled(opened.since, time_ns, in_call=opened.in_call) or why
        where = "application" if why.reason is Reason.SNDBUF_LIMITED else "kernel"
        told = why.reason, why.evidence, why.missing
        waiting_bytes = max(self.sender.queued, 0)
        hold = Hold(opened.since.time_ns, time_ns, *told, waiting_bytes, ended, where)
        self.holds.append(hold)
        return hold

    def _sampled(self, since: ReplayEvent, end_ns: int, *, in_call: bool) -> Why | None:
        segments, room = (self._free.segments, self._free.room_bytes) if self._free else (0, 0)
        return self._seen.sampled(since.time_ns, end_ns, segments, room, in_call=in_call)

    # ---- the application ----

    def _application(self, moment: ReplayEvent) -> None:
        event = self._seen.called(moment)
        if event.name == "wrote":
            self._accepted(event.bytes)
        if self._free is not None and self.sender.queued > 0 and self._open is None:
            since, deferred = self._free.since, self._free.deferred
            why = deferred or self._seen.mystery()
            self._open = _Open(since, why, mystery=deferred is None)
        if event.name in WRITES:
            self._write(moment, event.bytes, more=event.name == "more")
        else:
            self.sender.set_option(event.name)
            if event.name in ENDS_MESSAGE:
                self._message_over = True
            # A cork that is set before the first write of a message belongs to that message.
            begins = self._message_over and event.name in ("cork", "nodelay", "delay")
            message = max(self._message + begins, 1)
            self.marks.append(Mark(event.time_ns, event.name, event.bytes, message))
        self._judge(moment)

    def _write(self, moment: ReplayEvent, size: int, *, more: bool) -> None:
        if self._message_over:
            self._message, self._in_message, self._message_over = self._message + 1, 0, False
        self._in_message += 1
        self._end_idleness(moment.time_ns)
        place = len(self.writes) + 1, self._message, self._in_message
        self.writes.append(Write(*place, moment.time_ns, self.sender.written, size))
        if self.sender.queued <= 0 and self._last_sent_ns is not None:
            self.sender.cwnd.idle(moment.time_ns - self._last_sent_ns, self._rtt_ns)
        self.sender.write(size, more=more)

    def _accepted(self, size: int) -> None:
        """Shorten the last write if TCP took fewer bytes than the application offered."""
        if self.writes and size < self.writes[-1].bytes:
            last = self.writes[-1]
            self.writes[-1] = replace(last, bytes=size)
            self.sender.written = max(last.offset + size, self.sender.nxt)

    def _end_idleness(self, time_ns: int) -> None:
        since, self._empty_since = self._empty_since, None
        if since is None or not self.segments or self.sender.queued > 0:
            return
        meanwhile = (mark for mark in reversed(self.marks[-8:]) if mark.time_ns >= since)
        awaited = next((mark for mark in meanwhile if mark.name in ENDS_MESSAGE), None)
        evidence = "everything written had been sent"
        if awaited is not None:
            size = count_bytes(awaited.bytes)
            is_ack = awaited.name == "acknowledged"
            what = f"the ACK of {size}" if is_ack else f"{size} from the peer"
            evidence += f"; the application waited for {what}"
        elif time_ns - since < IDLE_NS:
            return
        idle = Hold(since, time_ns, Reason.APPLICATION_IDLE, evidence, where="application")
        self.holds.append(idle)

    # ---- the peer ----

    def _arrival(self, moment: ReplayEvent, packet: Packet) -> None:
        if not packet.has_ack:
            return
        if packet.sack_blocks and packet.ack - self.sender.nxt in (0, 1):
            self._needless_after_all()
        if packet.ack > self.sender.una:
            self._duplicate_acks, self._with_sack = 0, False
            self._advances.append(packet)
        elif packet.ack == self.sender.una and self._is_duplicate(packet):
            self._duplicate_acks += 1
            self._duplicate_ns = packet.time_ns
            self._with_sack = self._with_sack or bool(packet.sack_blocks)
        if packet.sack_blocks and packet.ack >= self.sender.una:  # each of these is a duplicate
            self._lost()
        self._seen.acknowledged(moment, packet)
        self.sender.acknowledged(packet)
        self._judge(moment)

    def _needless_after_all(self) -> None:
        """Withdraw a hold for a loss if both copies arrived, as a tail loss probe's often do.

        An ACK of everything that was sent can only have a SACK block for a duplicate (RFC 2883).
        """
        if len(self._resent) == 1:
            index, segment = self._resent.pop()
            del self.holds[index]
            segment.holds = ()
            segment.evidence += "; its first copy had arrived (D-SACK)"

    def _is_duplicate(self, packet: Packet) -> bool:
        """Return whether this is a duplicate ACK (RFC 5681, 2). Any ACK with SACK blocks is one."""
        same_window = packet.ack + packet.window == self.sender.window_end
        plain = not (packet.payload_bytes or packet.flags & (SYN | FIN))
        return bool(packet.sack_blocks) or (plain and same_window and self.sender.unacked > 0)

    def _lost(self) -> None:
        self.sender.cwnd.forget()
        self._seen.recovery_end = self.sender.nxt

    # ---- segments ----

    def _departure(self, moment: ReplayEvent, packet: Packet) -> None:
        if not packet.payload_bytes:  # a SYN has some with TCP Fast Open (RFC 7413)
            return
        if packet.offset > self.sender.nxt:
            self.gaps.append((self.sender.nxt, packet.offset))
            self._gap_ns.append(packet.time_ns)
            self.sender.nxt = packet.offset
        if packet.is_retransmission:
            self._retransmission(moment, packet)
            return
        if packet.offset < self.sender.nxt:
            self._gap_noticed(packet)
            self._append(packet, Why(Reason.UNKNOWN, "", OVERTAKEN))
            self._keep(packet)
            return
        if self.sender.unacked <= 0:
            self._resent.clear()
        self._chain = why, hold, released_by = self._verdict(moment, packet)
        self._append(packet, why, self._holds_of(packet, hold), released_by)
        self.sender.sent(packet, by_timer=why.reason is Reason.CORK_TIMEOUT)
        self._last_sent_ns = packet.time_ns
        self._sent.append(packet)
        self._remember(packet)
        self._free = None
        self._judge(moment)

    def _append(
        self, packet: Packet, why: Why, holds: Sequence[Hold] = (), released_by: int | None = None
    ) -> None:
        number = len(self.segments) + 1, packet.packet
        place = packet.time_ns, packet.offset, packet.payload_bytes, packet.gso_count
        segment = Segment(*number, *place, why.reason, why.evidence, why.missing)
        segment.holds, segment.released_by = tuple(holds), released_by
        if self.writes and (carried := self._carried(packet)):
            segment.message = carried[0].message
            segment.writes = tuple(write.number for write in carried)
            segment.waited_ms = (packet.time_ns - carried[0].time_ns) / 1e6
        self.segments.append(segment)

    def _carried(self, packet: Packet) -> list[Write]:
        first = last = bisect.bisect_right(self.writes, packet.offset, key=lambda write: write.end)
        while last < len(self.writes) and self.writes[last].offset < packet.end:
            last += 1
        return self.writes[first:last]

    def _holds_of(self, packet: Packet, hold: Hold | None) -> list[Hold]:
        if not self.writes or not (carried := self._carried(packet)):
            return [hold] if hold else []
        late = takewhile(lambda hold: hold.end_ns > carried[0].time_ns, reversed(self.holds))
        excluded = (Reason.APPLICATION_IDLE, Reason.RETRANSMISSION)
        # A segment of a huge write has had thousands of holds before it.
        return [hold for hold in islice(late, _MOST_HOLDS) if hold.reason not in excluded][::-1]

    def _retransmission(self, moment: ReplayEvent, packet: Packet) -> None:
        first_ns, last_ns = self._left_ns(packet)
        if packet.end <= self.sender.una or self._passed(packet) is not None:
            self._append(packet, self._why_needless(packet))
            self._remember(packet)
            return
        evidence, by_report = self._loss(packet, first_ns, last_ns)
        if first_ns is None:
            first_ns = self._gap_noticed(packet)
        elif (fresh := packet.end - self.sender.nxt) > 0:
            evidence += f"; it also carries {count_bytes(fresh)} of new data"
        self._keep(packet)
        self._lost()
        why = Why(Reason.RETRANSMISSION, evidence)
        since_ns = packet.time_ns if first_ns is None else first_ns
        hold = Hold(since_ns, packet.time_ns, why.reason, evidence, "", packet.payload_bytes)
        self.holds.append(hold)
        self._append(packet, why, [hold])
        self.segments[-1].by_report = by_report
        self._resent.append((len(self.holds) - 1, self.segments[-1]))
        self._remember(packet)
        self._last_sent_ns = packet.time_ns
        if packet.end > self.sender.nxt:  # new data follows the resent bytes in this packet
            self.sender.sent(packet, by_timer=False)
            self._judge(moment)

    def _remember(self, packet: Packet) -> None:
        if packet.ip_id:
            self._passed_ns[packet.ip_id, packet.offset, packet.payload_bytes] = packet.time_ns

    def _passed(self, packet: Packet) -> int | None:
        return self._passed_ns.get((packet.ip_id, packet.offset, packet.payload_bytes))

    def _keep(self, packet: Packet) -> None:
        bisect.insort(self._sent, packet, key=lambda sent: sent.offset)

    def _left_ns(self, packet: Packet) -> tuple[int | None, int]:
        """Return when the packet's first byte first left, or None, and when it last left."""
        end = bisect.bisect_right(self._sent, packet.offset, key=lambda sent: sent.offset)
        # A long segment that came late overlaps with those that had come before.
        near = self._sent[max(end - _NEAR, 0) : end]
        times = [sent.time_ns for sent in near if sent.end > packet.offset]
        return min(times, default=None), max(times, default=0)

    def _gap_noticed(self, packet: Packet) -> int | None:
        """Return when a capture at the peer first lacked the bytes that a segment brings."""
        at = bisect.bisect_right(self.gaps, packet.offset, key=lambda gap: gap[0]) - 1
        if at < 0 or not self.gaps[at][0] <= packet.offset < self.gaps[at][1]:
            return None
        self._filled.add(at)
        return self._gap_ns[at]

    def _loss(self, packet: Packet, first_ns: int | None, left_ns: int) -> tuple[str, bool | None]:
        """Return the evidence of a loss, and whether the receiver reported it (RFC 5681, 3.2).

        An ACK that came before the bytes were last sent does not show their loss.
        """
        if first_ns is None:
            if (noticed_ns := self._gap_noticed(packet)) is None:
                return "when its bytes first left is not in the capture", False
            late_ns = packet.time_ns - noticed_ns
            doubt = ", so it may have been overtaken" * (late_ns < _REORDERED_NS)
            ago = f"{late_ns / 1e6:.1f} ms before"
            return f"later bytes had come {ago}; no earlier copy is in the capture{doubt}", None
        if (known := self.sender.una - packet.offset) > 0:
            quiet_ms = (packet.time_ns - self._seen.last_news_ns) / 1e6
            return f"the ACK of its first {count_bytes(known)} came {quiet_ms:.1f} ms before", False
        waited_ms = (packet.time_ns - left_ns) / 1e6
        duplicates = self._duplicate_acks
        if self._duplicate_ns > left_ns and (
            self._with_sack or duplicates >= _FAST_RETRANSMIT_ACKS
        ):
            acks = "a duplicate ACK" if duplicates == 1 else f"{duplicates} duplicate ACKs"
            how = " (SACK)" if self._with_sack else ""
            after_ms = (packet.time_ns - first_ns) / 1e6
            return f"reported missing by {acks}{how}, {after_ms:.1f} ms after it first left", True
        quiet_ns = packet.time_ns - self._seen.last_news_ns
        recovering = self._seen.recovery_end > self.sender.una
        if recovering and self._seen.last_news_ns > left_ns and quiet_ns < LATE_NS:
            return f"an ACK of data before it came {quiet_ns / 1e6:.1f} ms ago: the next gap", True
        if packet.time_ns - left_ns < max(self._rtt_ns, CLOSE_NS):
            return f"{waited_ms:.1f} ms after it left, sooner than its ACK could come", False
        return f"no ACK of it for {waited_ms:.1f} ms", False

    def _why_needless(self, packet: Packet) -> Why:
        """Return the reason for a copy of an earlier packet, or for data that was already ACKed."""
        if (passed_ns := self._passed(packet)) is not None:
            ago = f"{(packet.time_ns - passed_ns) / 1e6:.1f} ms before"
            evidence = f"by its IP ID ({packet.ip_id}) the packet that passed {ago}"
            return Why(Reason.RETRANSMISSION, f"{evidence}, copied on its way or sent unchanged")
        at = bisect.bisect_left(self._advances, packet.end, key=lambda ack: ack.ack)
        since = self._advances[at].time_ns
        evidence = f"its bytes had been acknowledged {(packet.time_ns - since) / 1e6:.1f} ms before"
        if packet.payload_bytes == 1 and packet.end == self.sender.una:
            return Why(Reason.RETRANSMISSION, f"a keep-alive (RFC 9293, 3.8.4): {evidence}")
        doubt = "the ACK had not reached the sender, or the capture was not made at the sender"
        return Why(Reason.RETRANSMISSION, f"{evidence}: {doubt}")

    # ---- why a segment left ----

    def _verdict(self, moment: ReplayEvent, packet: Packet) -> Verdict:
        if self._e.log is None:
            return self._without_log(moment, packet)
        if self._open is None:
            return self._not_held(moment, packet)
        if self._open.released_at is not None or self._race(moment):
            return self._released(moment, packet)
        return self._left_while_blocked(moment, packet)

    def _without_log(self, moment: ReplayEvent, packet: Packet) -> Verdict:
        """Return the verdict on a segment if there is no log. Only full ones can be explained."""
        if not self.sender.is_full(packet):
            return Why(Reason.UNKNOWN, "", NO_LOG), None, None
        ack = self._seen.last_ack
        lacked_room = packet.end > self.sender.window_end_before  # only the last ACK made room
        if lacked_room and ack is not None and moment.time_ns - ack.time_ns <= 2 * CLOSE_NS:
            return self._seen.by_ack(ack, packet), None, ack.number
        has_tail = bool(self.sender.tail_bytes(packet))
        return _without_proof(self.sender.why_full(packet), has_tail), None, None

    def _not_held(self, moment: ReplayEvent, packet: Packet) -> Verdict:
        since = self._free.since if self._free else moment
        if (why := self._still_kept(since, moment)) is not None:
            self._open = _Open(since, why, in_call=self._seen.in_call(moment))
            return self._after_hold(moment, packet)
        if self._chain is not None and self._chain[0].reason in _FURTHER:
            # The same event released the previous segment, whose size may differ.
            _why, hold, released_by = self._chain
            ack = self._seen.last_ack
            if ack is not None and ack.number == released_by:
                return self._seen.by_ack(ack, packet), hold, released_by
            return self._chain
        return self.sender.why_at_once(packet), None, None

    def _after_hold(self, moment: ReplayEvent, packet: Packet) -> Verdict:
        hold, ack = self._close(moment.time_ns), self._seen.last_ack
        by_window = hold is not None and hold.reason in _ENDED_BY_ACK
        if by_window and ack is not None and moment.time_ns - ack.time_ns < CLOSE_NS:
            return self._seen.by_ack(ack, packet), hold, ack.number
        return self.sender.why_at_once(packet), hold, None

    def _still_kept(self, since: ReplayEvent, moment: ReplayEvent) -> Why | None:
        """Return why a segment left later than it could, or None if nothing shows that it did."""
        late_ns = moment.time_ns - since.time_ns
        if late_ns <= RACE_NS:
            return None
        deferred = self._free.deferred if self._free else None
        sampled = self._sampled(since, moment.time_ns, in_call=self._seen.in_call(moment))
        if late_ns <= CLOSE_NS:
            # A wait this short counts only if TCP_INFO shows it, or if an ACK ended a deferral that
            # the kernel's rule requires. Deferred bursts leave with the next ACK.
            ack = self._seen.last_ack
            came = ack is not None and ack.time_ns > since.time_ns
            return sampled or (deferred if came else None)
        why = self._seen.blocked_call(moment, self._free.surely_bytes if self._free else 0)
        if why.reason is Reason.UNKNOWN and deferred is not None:
            return sampled or deferred
        limit_ns = LATE_NS if since.kind == "in" else CALL_NS
        return None if why.reason is Reason.UNKNOWN and late_ns <= limit_ns else why

    def _race(self, moment: ReplayEvent) -> bool:
        """Return whether the ACK captured just before the hold was processed only after its start.

        If so, attribute the hold to the obstacle that the ACK removed.
        """
        opened, ack = self._open, self._seen.last_ack
        if opened is None or ack is None or not opened.mystery:
            return False
        if not 0 <= opened.since.time_ns - ack.time_ns < RACE_NS:
            return False
        if moment.time_ns - ack.time_ns > CLOSE_NS:
            return False
        if any(mark.time_ns > ack.time_ns for mark in self.marks[-2:]):
            return False  # the application had already read the data that came with the ACK
        why = self.sender.obstacle_before_ack()
        if why is not None:
            opened.why, opened.released_at = why, ack
        return why is not None

    def _released(self, moment: ReplayEvent, packet: Packet) -> Verdict:
        assert self._open is not None
        release = self._cause(self._open.released_at or moment, packet)
        held_for = self._open.why.reason
        if (why := self._still_kept(release, moment)) is not None:
            # The segment was free to leave at `release` but left later, so something else held it.
            self._close(release.time_ns)
            self._open = _Open(release, why, in_call=self._seen.in_call(moment))
            if why.reason is Reason.DEFERRED:
                return self._after_hold(moment, packet)
        hold = self._close(moment.time_ns)
        if release.kind == "in":
            return self._seen.by_ack(release, packet), hold, release.number
        return self._by_call(release, held_for, packet), hold, None

    def _by_call(self, release: ReplayEvent, held_for: Reason, packet: Packet) -> Why:
        if (name := (self._e.log or ())[release.number].name) in _BY_OPTION:
            return _BY_OPTION[name][0]
        if self.sender.is_full(packet):
            return Why(Reason.FULL_SIZED, "a full segment had come together")
        if held_for is Reason.MSG_MORE:
            return Why(Reason.SENT_AT_ONCE, "the last write came without MSG_MORE")
        return self.sender.why_at_once(packet)

    def _cause(self, release: ReplayEvent, packet: Packet) -> ReplayEvent:
        """Return `release`, or a later ACK if a packet has no bytes of the write at `release`."""
        ack = self._seen.last_ack
        if release.kind == "app" and ack is not None and ack.time_ns >= release.time_ns:
            write = self.writes[-1]
            if write.time_ns == release.time_ns and packet.end <= write.offset:
                return ack
        return release

    def _left_while_blocked(self, moment: ReplayEvent, packet: Packet) -> Verdict:
        assert self._open is not None
        opened = self._open
        why = (
            self._by_option(moment)
            or self._by_timer(moment)
            or (Why(Reason.SHUTDOWN, _CLOSED) if packet.fin else None)
            or self._by_probe(moment)
        )
        if why is not None:
            return why, self._close(moment.time_ns), None
        previous = self._seen.previous()
        if opened.since == previous or opened.since.time_ns > previous.time_ns:
            # Nothing has happened since the hold began, so the segment did not wait and the
            # obstacle was not real.
            self._open = None
            if opened.why.reason is Reason.CWND_LIMITED:
                self.sender.cwnd.contradicted()
            return self.sender.why_at_once(packet), None, None
        if opened.mystery and self._sampled(opened.since, moment.time_ns, in_call=opened.in_call):
            return self._after_hold(moment, packet)
        missing = opened.why.missing or "what let it go: neither a call nor an ACK was recorded"
        return Why(Reason.UNKNOWN, "", missing), self._close(moment.time_ns), None

    def _by_option(self, moment: ReplayEvent) -> Why | None:
        """Return the reason if an option that releases the segment is logged just after it left."""
        assert self._open is not None
        following, held_for = self._seen.following, self._open.why.reason
        # If a timer could have sent the segment too, the option must be logged very soon after.
        reach = CLOSE_NS if self._timer_due(moment) else CALL_NS
        if following is None or following.time_ns - moment.time_ns > reach:
            return None
        why, ended = _BY_OPTION.get(following.name, (None, ()))
        if held_for not in ended:
            return None
        self.sender.set_option(following.name)
        return why

    def _timer_due(self, moment: ReplayEvent) -> bool:
        since = self._quiet_since
        return since is not None and moment.time_ns - since >= CORK_TIMER_NS

    def _by_timer(self, moment: ReplayEvent) -> Why | None:
        """Return the reason if the probe timer, which runs with nothing in flight, has fired."""
        assert self._open is not None
        if self._quiet_since is None or not self._timer_due(moment):
            return None
        held_for = self._open.why.reason
        waited = f"{(moment.time_ns - self._quiet_since) / 1e6:.0f} ms"
        if held_for is Reason.CORKED:
            return Why(Reason.CORK_TIMEOUT, f"the cork stayed in for {waited} (tcp(7))")
        if held_for is Reason.MSG_MORE:
            return Why(Reason.CORK_TIMEOUT, f"no further write came for {waited} (tcp(7))")
        if held_for is not Reason.WINDOW_LIMITED:
            return None
        evidence = f"after {waited} the persist timer sent as much as the window takes"
        return Why(Reason.WINDOW_LIMITED, evidence)

    def _by_probe(self, moment: ReplayEvent) -> Why | None:
        """Return the reason if this is a tail loss probe (RFC 8985, 7), sent for lack of an ACK."""
        if self.sender.unacked <= 0 or self._last_sent_ns is None:
            return None
        # A segment from the peer that acknowledges nothing new does not restart the timer.
        seen = self._seen
        awaited_since = max(self._last_sent_ns, seen.last_news_ns, seen.last_call.time_ns)
        quiet_ns = moment.time_ns - awaited_since
        if quiet_ns < max(2 * self._rtt_ns, CLOSE_NS):
            return None
        return Why(
            Reason.TAIL_LOSS_PROBE,
            f"nothing new was ACKed for {quiet_ns / 1e6:.1f} ms, more than two round trips: only a"
            " tail loss probe sends then",
        )
