"""Track a sender's state as far as a recording shows it, and apply the rules in models/sending.py.

Sources: net/ipv4/tcp_output.c (tcp_write_xmit) and tcp.c (do_tcp_setsockopt) of Linux 6.18.
"""

from collections import deque
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from tcplab.models import Reason
from tcplab.models.kernel import RttEstimator
from tcplab.models.sending import Burst, Head, is_small_out, mss_in_window
from tcplab.timeline.congestion import CongestionWindow
from tcplab.timeline.evidence import Evidence, Packet
from tcplab.timeline.parts import count_bytes

NO_MSS: Final = "the MSS: no SYN in the capture, no options of the socket"
NO_OPTIONS: Final = "the socket's options: was TCP_NODELAY set?"


@dataclass(frozen=True, slots=True)
class Why:
    """The reason why a segment waited or left, with evidence."""

    reason: Reason
    evidence: str  #: Facts in the recording that show the reason
    missing: str = ""  #: If the reason is unknown, the evidence that would show it; otherwise ""


@lru_cache
def _full(payload_bytes: int, room_bytes: int | None, tail_bytes: int) -> Why:
    count = payload_bytes // (room_bytes or payload_bytes)
    full = "a full segment" if count <= 1 else f"{count} full segments"
    if tail_bytes:
        full += f" and one of {count_bytes(tail_bytes)} behind"
    return Why(Reason.FULL_SIZED, f"{payload_bytes} bytes are {full}")


class SenderState:
    """The sending half of a connection, with offsets from the first byte of data.

    All bytes before `una` are acknowledged, before `nxt` sent, and before `written` handed over by
    the application; the peer has room up to `window_end`. `more` is True if the last write used
    MSG_MORE and no ACK has come since.
    """

    def __init__(self, evidence: Evidence) -> None:
        self._has_log = evidence.log is not None
        self.una = self.nxt = self.written = 0
        self.window_end = 0
        self.cwnd = CongestionWindow(
            known=evidence.saw_syn, slow_start=evidence.stayed_in_slow_start
        )
        self.nodelay = evidence.nodelay
        self.corked = self.more = False
        #: The MSS, bounded by the peer's largest window (see mss_in_window), or None if unknown.
        self.mss_bytes = self._largest_mss = evidence.mss_bytes
        self._max_window = 0
        self._push = False  # send everything queued, regardless of the rules for small segments
        self._small_end = 0  # snd_sml, the end of the last segment shorter than the MSS
        self._before_ack = (0, 0, 0)  # una, window_end and segments in flight before the last ACK
        self.now_ns = self._last_sent_ns = 0
        # End and departure time of each unacknowledged segment.
        self._in_flight: deque[tuple[int, int]] = deque()
        self._rtt = RttEstimator(None if evidence.rtt_ns is None else evidence.rtt_ns / 1e6)

    @property
    def queued(self) -> int:
        return self.written - self.nxt

    @property
    def unacked(self) -> int:
        """Number of bytes sent but not acknowledged. A FIN may make it negative."""
        return self.nxt - self.una

    @property
    def room(self) -> int:
        return self.window_end - self.nxt

    @property
    def window_end_before(self) -> int:
        """End of the peer's window before the last ACK; unlimited if that ACK was the first."""
        return self._before_ack[1] or 1 << 62

    def is_full(self, packet: Packet) -> bool:
        """Return whether the packet had no room for more data. SACK blocks also take up room."""
        room = self._room_in(packet)
        return room is not None and packet.payload_bytes >= room

    def _room_in(self, packet: Packet) -> int | None:
        if self.mss_bytes is None:
            return None
        blocks = packet.sack_blocks
        return self.mss_bytes - (4 + 8 * blocks if blocks else 0)

    def tail_bytes(self, packet: Packet) -> int:
        """Return the size of a super-segment's last segment if it is short, and otherwise 0."""
        room = self._room_in(packet)
        return packet.payload_bytes % room if room and packet.payload_bytes > room else 0

    # ---- queries ----

    def obstacle(self) -> Why | None:
        """Return the reason that holds the head of the queue, or None if it may leave."""
        mss = self.mss_bytes
        if mss is None:
            return Why(Reason.UNKNOWN, "", NO_MSS)
        head = Head(
            queued_bytes=self.queued,
            mss_bytes=mss,
            room_bytes=self.room,
            cwnd_full=self.cwnd.full,
            small_is_out=self._small_is_out,
            corked=self.corked,
            more=self.more,
            nodelay=bool(self.nodelay),
            push=self._push,
        )
        reason = head.held_by()
        if reason is None:
            return None
        evidence = self._evidence(reason, mss)
        if reason is Reason.HELD_BY_NAGLE and self.nodelay is None:
            return Why(Reason.UNKNOWN, evidence, NO_OPTIONS)
        return Why(reason, evidence)

    def _evidence(self, reason: Reason, mss: int) -> str:
        small = f"{self.queued} < MSS {mss}"
        if reason is Reason.WINDOW_LIMITED:
            if not self.window_end:
                return "no answer to the SYN has come, which would tell the peer's window"
            if (window := self.window_end - self.una) <= 0:
                return "the peer's window is closed"
            room = max(self.room, 0)
            return f"the peer's window of {count_bytes(window)} has room for {room} more"
        if reason is Reason.CWND_LIMITED:
            return (
                f"{self.cwnd.in_flight} of the {self.cwnd.limit} segments that the congestion"
                " window allows are unacknowledged"
            )
        if reason is Reason.HELD_BY_NAGLE:
            return f"{count_bytes(self.unacked)} unacknowledged, {small}"
        if reason is Reason.CORKED:
            return f"the socket is corked, {small}"
        return f"the last write used MSG_MORE, {small}"

    def too_short(self) -> Why | None:
        """Return the reason if Linux defers the queued burst, or None (tcp_tso_should_defer)."""
        cwnd, mss = self.cwnd.exact, self.mss_bytes
        if cwnd is None or mss is None or self.queued <= mss or not self._in_flight:
            return None
        burst = Burst(
            queued_bytes=self.queued,
            mss_bytes=mss,
            cwnd_segments=cwnd,
            in_flight=self.cwnd.in_flight,
            window_bytes=self.window_end - self.una,
            room_bytes=self.room,
            largest_window_bytes=self._max_window,
            quiet_ms=(self.now_ns - self._last_sent_ns) / 1e6,
            oldest_ms=(self.now_ns - self._in_flight[0][1]) / 1e6,
        )
        if not burst.is_deferred(self._rtt):
            return None
        return Why(
            Reason.DEFERRED,
            f"{count_bytes(self.queued)} wait, the windows take"
            f" {min(burst.cwnd_room_bytes, burst.room_bytes)}, and an ACK is due that allows more"
            " (tcp_tso_should_defer)",
        )

    @property
    def _small_is_out(self) -> bool:
        return is_small_out(self.una, self._small_end, self.nxt)

    def obstacle_before_ack(self) -> Why | None:
        """Return the reason that held the queue just before the last ACK, or None."""
        if not self._before_ack[1]:
            return None  # the last ACK was the handshake's
        now = self.una, self.window_end, self.cwnd.in_flight
        self.una, self.window_end, self.cwnd.in_flight = self._before_ack
        why = self.obstacle()
        self.una, self.window_end, self.cwnd.in_flight = now
        return why

    def why_at_once(self, packet: Packet) -> Why:
        """Return the reason for the departure of a segment that did not have to wait."""
        if self.mss_bytes is None:
            return Why(Reason.UNKNOWN, "", NO_MSS)
        if self.is_full(packet):
            return self.why_full(packet)
        if packet.fin:
            return Why(Reason.SHUTDOWN, "the connection was closed behind it")
        evidence = "a small segment was unacknowledged, so Nagle must be off"
        if self.unacked <= 0:
            evidence = "nothing was unacknowledged"
        elif not self._small_is_out:
            evidence = f"only full segments ({count_bytes(self.unacked)}) unacknowledged"
        elif self.nodelay:
            evidence = "TCP_NODELAY is set"
        return Why(Reason.SENT_AT_ONCE, evidence)

    def why_full(self, packet: Packet) -> Why:
        """Return the reason why a full segment or super-segment left."""
        return _full(packet.payload_bytes, self._room_in(packet), self.tail_bytes(packet))

    # ---- state changes ----

    def write(self, size: int, *, more: bool) -> None:
        """Queue written bytes. If the queue is empty, clear the push flag first."""
        if self.queued <= 0:
            self._push = False
        self.written += size
        self.more = more

    def set_option(self, name: str) -> None:
        """Set or clear TCP_CORK or TCP_NODELAY: "cork", "uncork", "nodelay", "delay".

        Other names are ignored. Uncorking and setting TCP_NODELAY make the kernel look at the queue
        again (tcp_push_pending_frames). TCP_NODELAY sends all of the queue, and so does uncorking
        with TCP_NODELAY set.
        """
        if name in ("cork", "uncork"):
            self.corked = name == "cork"
        elif name in ("nodelay", "delay"):
            self.nodelay = name == "nodelay"
        if name in ("uncork", "nodelay"):
            self.more = False
            self._push = self._push or bool(self.nodelay)

    def acknowledged(self, packet: Packet) -> None:
        """Process an ACK. It also ends MSG_MORE, which applies only until the next event."""
        self._before_ack = (self.una, self.window_end, self.cwnd.in_flight)
        if packet.ack > self.una:
            self.una = packet.ack
            if self._has_log:
                self.cwnd.acked(packet.ack)
                self._take_rtt(packet)
        if packet.ack >= self.una:
            self.window_end = packet.ack + packet.window
            if packet.window > self._max_window and self._largest_mss is not None:
                self._max_window = packet.window
                self.mss_bytes = mss_in_window(self._largest_mss, self._max_window)
        self.more = False

    def _take_rtt(self, packet: Packet) -> None:
        """Sample the RTT from the oldest newly acknowledged segment, as Linux does."""
        oldest_ns = None
        while self._in_flight and self._in_flight[0][0] <= packet.ack:
            _end, sent_ns = self._in_flight.popleft()
            oldest_ns = sent_ns if oldest_ns is None else oldest_ns
        if oldest_ns is not None:
            self._rtt.sample((packet.time_ns - oldest_ns) / 1e6, self.una, self.nxt)

    def sent(self, packet: Packet, *, by_timer: bool) -> None:
        """Record new data. A segment sent by a timer does not count as small (tcp_write_wakeup)."""
        self.nxt = packet.end
        self.written = max(self.written, self.nxt)
        self._last_sent_ns = packet.time_ns
        if not self._has_log:  # then nothing is known to wait
            return
        self._in_flight.append((packet.end, packet.time_ns))
        mss = self.mss_bytes
        if mss and packet.payload_bytes % mss and not by_timer:
            self._small_end = packet.end
        self.cwnd.sent(packet.offset, packet.end, packet.gso_count, self.una)
