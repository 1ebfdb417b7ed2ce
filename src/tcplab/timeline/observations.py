"""Explain moments of a replay by the application's calls, the last ACK and TCP_INFO."""

import bisect
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from tcplab.models import Reason
from tcplab.models.sending import TSO_WIN_DIVISOR
from tcplab.programs import Event
from tcplab.timeline.evidence import WRITES, Evidence, Packet
from tcplab.timeline.parts import count_bytes
from tcplab.timeline.rules import SenderState, Why

#: Samples that are further apart than this do not bound the congestion window in between.
_DENSE_NS: Final = 50_000_000


class ReplayEvent(NamedTuple):
    """The moment of a call of the application, or of a segment that arrived or left."""

    time_ns: int
    kind: str  # "app", "in" or "out"
    number: int  # index in the log, in evidence.into or in evidence.out


class Observations:
    """The application's calls, the last ACK and TCP_INFO around the replay's current moment."""

    def __init__(self, evidence: Evidence, sender: SenderState) -> None:
        self._e = evidence
        self._sender = sender
        self._app: Sequence[Event] = evidence.log or ()
        self._next = 0  # index of the next call in the log
        self._newly_acked: dict[int, int] = {}
        self.last_ack: ReplayEvent | None = None
        self.last_news_ns = 0  # when the peer last acknowledged new data
        self.recovery_end = 0  # a recovery lasts until the bytes before it are acknowledged

    # ---- the application's calls ----

    def called(self, moment: ReplayEvent) -> Event:
        """Advance to this call, and return its event."""
        self._next = moment.number + 1
        return self._app[moment.number]

    @property
    def following(self) -> Event | None:
        return self._app[self._next] if self._next < len(self._app) else None

    def in_call(self, moment: ReplayEvent) -> bool:
        """Return whether the log shows that a write was in progress at this moment."""
        if self._next == 0 or self._app[self._next - 1].name not in WRITES:
            return False
        end = self.following
        return end is not None and end.name == "wrote" and end.time_ns >= moment.time_ns

    # ---- the peer ----

    def acknowledged(self, moment: ReplayEvent, packet: Packet) -> None:
        """Record a segment from the peer, before SenderState.acknowledged changes the state."""
        self.last_ack = moment
        newly = max(packet.ack - self._sender.una, 0)
        self._newly_acked[moment.number] = newly
        if newly:
            self.last_news_ns = moment.time_ns

    @property
    def last_call(self) -> ReplayEvent:
        return ReplayEvent(self._app[self._next - 1].time_ns, "app", self._next - 1)

    def previous(self) -> ReplayEvent:
        """Return the last call or the last ACK, whichever is more recent."""
        call, ack = self.last_call, self.last_ack
        return ack if ack is not None and ack.time_ns > call.time_ns else call

    def by_ack(self, ack: ReplayEvent, packet: Packet) -> Why:
        """Return the reason for the departure of a segment that an ACK released."""
        newly = self._newly_acked[ack.number]
        what = f"the ACK of {count_bytes(newly)}" if newly else "a window update"
        if not newly and self._e.knows_windows:
            what += f" to {count_bytes(self._e.into[ack.number].window)}"
        full = " (a full segment)" if self._sender.is_full(packet) else ""
        return Why(Reason.RELEASED_BY_ACK, f"{what} came{full}")

    # ---- what no rule explains ----

    def mystery(self) -> Why:
        """Return the reason for a wait that no rule explains, with what could explain it."""
        queued = self._sender.queued
        if queued < (self._sender.mss_bytes or 0):
            return Why(
                Reason.UNKNOWN,
                f"nothing in the record was in the way of {count_bytes(queued)}",
                "a 'more' or 'cork' event, if the application used MSG_MORE or TCP_CORK (or the"
                " counter TCPAutoCorking)",
            )
        return Why(
            Reason.UNKNOWN,
            "full segments waited, with room in the peer's window"
            f" ({count_bytes(max(self._sender.room, 0))})",
            "samples of TCP_INFO (congestion window, pacing rate), 'wrote' events (had the write"
            " returned?), or the state of the interface's own queue",
        )

    def blocked_call(self, moment: ReplayEvent, in_flight_bytes: int) -> Why:
        """Return a full send buffer as the reason for a wait, or what mystery() returns.

        `in_flight_bytes` is 0 if the congestion window may have held the segments.
        """
        options = self._e.exchange.options
        granted = options.sndbuf_bytes if options else None
        # The kernel also charges its own overhead, so a full buffer may hold only a quarter of its
        # size in data.
        full = granted is not None and in_flight_bytes >= max(granted // 4, 1)
        if not full or not self.in_call(moment):
            return self.mystery()
        return Why(
            Reason.SNDBUF_LIMITED,
            f"the application was blocked in its write: the send buffer of {granted} bytes was full"
            f" with {count_bytes(in_flight_bytes)} unacknowledged, and both windows had room",
        )

    def sampled(
        self, start_ns: int, end_ns: int, segments_in_flight: int, room_bytes: int, *, in_call: bool
    ) -> Why | None:
        """Return the reason that TCP_INFO gives for a wait, by the state at its start, or None."""
        samples = self._e.samples
        first = bisect.bisect_left(samples, start_ns, key=_time_of)
        last = bisect.bisect_right(samples, end_ns, key=_time_of)
        for sample in samples[first:last]:
            lost = sample.get("sacked", 0) + sample.get("lost", 0) - sample.get("retrans", 0)
            in_flight = sample["unacked"] - lost
            if in_flight >= sample["snd_cwnd"]:
                return _cwnd_sampled(in_flight, sample["snd_cwnd"])
            if sample["notsent_bytes"] == 0 and in_call:
                return Why(
                    Reason.SNDBUF_LIMITED,
                    "the application was blocked in its write, and TCP_INFO shows that all the send"
                    f" buffer held had been sent ({in_flight} segments unacknowledged)",
                )
            if (why := self._deferred(sample, room_bytes)) is not None:
                return why
        neighbours = [*samples[max(first - 1, 0) : first], *samples[last : last + 1]]
        dense = (
            len(neighbours) == 2 and _time_of(neighbours[1]) - _time_of(neighbours[0]) <= _DENSE_NS
        )
        if dense and self._sender.una >= self.recovery_end:
            smaller = min(sample["snd_cwnd"] for sample in neighbours)
            if segments_in_flight >= smaller:
                return _cwnd_sampled(segments_in_flight, smaller)
        return None

    def _deferred(self, sample: Mapping[str, Any], room_bytes: int) -> Why | None:
        """Return the reason if the kernel defers a burst until a third of the window is free.

        Sources: tcp_tso_should_defer; net.ipv4.tcp_tso_win_divisor, 3 by default.
        """
        mss = self._sender.mss_bytes or 0
        window = min(sample.get("snd_wnd_bytes", 0), sample["snd_cwnd"] * mss)
        several = sample["notsent_bytes"] > mss > 0
        if not (several and 0 < room_bytes < window // TSO_WIN_DIVISOR):
            return None
        return Why(
            Reason.WINDOW_LIMITED,
            f"the peer's window of {count_bytes(sample['snd_wnd_bytes'])} has room for"
            f" {room_bytes} more, less than a third of the usable window, and the kernel defers so"
            " short a burst (tcp_tso_should_defer)",
        )


def _time_of(sample: Mapping[str, Any]) -> int:
    return int(sample["time_ns"])


def _cwnd_sampled(in_flight: int, allowed: int) -> Why:
    return Why(
        Reason.CWND_LIMITED,
        f"{in_flight} segments were in flight, and TCP_INFO shows that the congestion window"
        f" allows {allowed}",
    )
