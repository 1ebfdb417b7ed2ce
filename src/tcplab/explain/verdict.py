"""Rank the causes of a whole run's waiting time, each with its evidence and fix."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Final, Literal

from tcplab.explain import kinds
from tcplab.explain.intervals import total_ms
from tcplab.explain.joining import Conversation
from tcplab.explain.ledger import Failure, Ledger, make_ledger
from tcplab.explain.protocol_window import protocol_window
from tcplab.explain.recording import Recorded
from tcplab.explain.shares import (
    Division,
    Wait,
    black_hole_bytes,
    divided,
    in_turn,
    is_behind,
    limited_us,
    requests,
    waits,
)
from tcplab.explain.small_segments import small_segments
from tcplab.explain.stalls import Stall, stalls
from tcplab.models import Reason
from tcplab.models.kernel import RTO_MIN_MS
from tcplab.programs import SocketCalls
from tcplab.timeline import Timeline

#: A fault must take this share of the time, this long in total, and this long per wait. A smaller
#: fault is noise of the machine, or not worth fixing.
FAULT_SHARE: Final = 0.15
FAULT_MS: Final = 8.0
FAULT_EACH_MS: Final = 4.0
#: Where packets are lost, a buffer of fixed size is the limit for a small part of the time. But it
#: also stops the congestion window from growing, so each loss costs more.
LOSSY_SHARE: Final = 0.05
#: A limit must take this long in total. With this share of the time, it ranks just below a fault.
LIMIT_MS: Final = 50.0
LIMIT_SHARE: Final = 0.4
#: Pipelining is suggested if this many messages follow each other and each takes a round trip.
MANY_REQUESTS: Final = 10
MANY_CONNECTIONS: Final = 5
#: Connections with at most this many messages on average were not reused. TLS adds some messages.
FEW_REQUESTS: Final = 1.5
TLS_MESSAGES: Final = 2
#: What takes a smaller share of the run does not come first.
RUN_SHARE: Final = 0.05
#: A window that is never larger than 65535 bytes was in need of scaling if it was at least this.
_UNSCALED_BYTES: Final = 32_768
#: Shorter round trips cost less than the work of the programs.
LONG_RTT_MS: Final = 1.0

Kind = Literal["fault", "limit", "none"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One cause of waiting, with its evidence and its fix."""

    cause: str  #: "nagle-delayed-ack", "round-trips", "server", ...
    kind: Kind  #: A mistake in the use of TCP, a limit, or neither
    share: float  #: Share of the client's waiting time, 0 to 1; 0 if the finding is not about time
    ms: float  #: Total waiting time attributed to the cause
    title: str  #: The cause in a few words, such as "Nagle × delayed ACK"
    evidence: str  #: Facts in the recording that show the cause
    fix: str  #: Change to make, or "" if there is nothing to fix
    run_ms: float = 0.0  #: Time of the run that the cause took, counting each moment once
    run_share: float = 0.0  #: Share of the run, 0 to 1


def findings(
    conversations: Sequence[Conversation], recorded: Recorded | None = None
) -> list[Finding]:
    """Return the causes of waiting on all connections. The first one is the verdict."""
    return judged(conversations, recorded)[0]


def judged(
    conversations: Sequence[Conversation], recorded: Recorded | None = None
) -> tuple[list[Finding], Ledger | None]:
    """Return the causes of waiting, the verdict first, and the run's ledger, if it is known."""
    waited = [waits(conversation) for conversation in conversations]
    divisions = list(map(divided, conversations, waited))
    total: dict[str, float] = defaultdict(float)
    for division in divisions:
        for cause, ms in division.ms().items():
            total[cause] += ms
    everything = sum(total.values())
    judge = _Judge(conversations, total, waited, divisions, recorded)
    by_cause = {
        cause: judge.finding(cause, ms / everything)
        for cause, ms in total.items()
        if everything and ms
    }
    ledger = None
    others: list[Finding] = []
    if recorded is not None:
        titles = {cause: finding.title for cause, finding in by_cause.items()}
        ledger = make_ledger(recorded, conversations, divisions, titles)
        others = judge.outside(ledger)
    result = [_of_run(finding, cause, ledger) for cause, finding in by_cause.items()]
    result += [*others, *judge.failures(), *judge.many_small_writes(), *judge.facts(ledger)]
    return sorted(result, key=lambda finding: (_rank(finding), -finding.run_share)), ledger


def _of_run(finding: Finding, cause: str, ledger: Ledger | None) -> Finding:
    """Return a finding with its share of the run. Without a ledger, all of the run was waiting."""
    if ledger is None or not ledger.run_ms:
        return replace(finding, run_ms=finding.ms, run_share=finding.share)
    run_ms = ledger.ms(cause)
    return replace(finding, run_ms=run_ms, run_share=run_ms / ledger.run_ms)


def _rank(finding: Finding) -> int:
    if finding.run_share < RUN_SHARE and finding.ms:
        return 2
    if finding.kind == "fault":
        return 0
    return 1 if finding.kind == "limit" and finding.share >= LIMIT_SHARE else 2


class _Judge:
    """Describe each cause as a finding."""

    def __init__(
        self,
        conversations: Sequence[Conversation],
        total: Mapping[str, float],
        waited: Sequence[Sequence[Wait]],
        divisions: Sequence[Division],
        recorded: Recorded | None,
    ) -> None:
        self._conversations, self._total = conversations, total
        self._divisions, self._recorded = divisions, recorded
        self._of_each = waited
        self._waits: dict[str, list[Wait]] = defaultdict(list)
        for wait in chain.from_iterable(waited):
            self._waits[wait.cause].append(wait)

    def finding(self, cause: str, share: float) -> Finding:
        describe: Mapping[str, Callable[[float], Finding]] = {
            "nagle-delayed-ack": self._nagle_delayed_ack,
            "nagle": self._nagle,
            "forgotten-cork": self._forgotten_cork,
            "receive-window": self._receive_window,
            "send-buffer": self._send_buffer,
            "mtu-black-hole": self._mtu_black_hole,
            "accept-queue": self._accept_queue,
            "loss": self._loss,
            "slow-start-after-idle": self._slow_start_after_idle,
            "protocol-window": self._protocol_window,
            "congestion-window": self._congestion_window,
            "in-flight": self._in_flight,
            "handshake": self._handshake,
        }
        if cause in describe:
            return describe[cause](share)
        if cause in _STALLS:
            title, fix = _STALLS[cause]
            return self._fault(cause, share, title, self._stall(cause).evidence, fix)
        if cause in ("server", "client"):
            title = f"the {cause}'s program"
            if not any(cause in conversation.sockets for conversation in self._conversations):
                title = f"the {cause}'s program or TCP (no calls are recorded)"
            evidence = (
                f"nothing was in flight, and the {cause} had bytes to read, or was next to write"
            )
            if did := self._doings(cause):
                evidence += f"; meanwhile it was {did}"
        else:
            title, evidence = _WITHOUT_FIX[cause]
        return Finding(cause, "none", share, self._total[cause], title, evidence, "")

    def _doings(self, side: str) -> str:
        if self._recorded is None:
            return ""
        return kinds.doings_of(side, self._recorded, self._conversations, self._divisions)

    @cached_property
    def _stalls(self) -> list[Stall]:
        return [stall for conversation in self._conversations for stall in stalls(conversation)]

    def _stall(self, cause: str) -> Stall:
        same = (stall for stall in self._stalls if stall.cause == cause)
        return max(same, key=lambda stall: stall.interval[1] - stall.interval[0])

    # ---- small segments ----

    def _nagle_delayed_ack(self, share: float) -> Finding:
        delays = sorted(
            ack.delay_ms
            for timeline in self._timelines()
            for ack in timeline.acks
            if ack.delay_ms is not None and ack.reason == "ack-delayed-by-peer"
        )
        evidence = self._writes("nagle-delayed-ack")
        known = any(wait.segment is not None for wait in self._waits["nagle-delayed-ack"])
        if delays:
            late = f"{delays[len(delays) // 2]:.0f} ms"
            evidence += (
                "; Nagle's algorithm (TCP_NODELAY is off) holds each small write until the ACK of"
                f" the previous one, which the peer delays ({late})"
                if known
                else f", which its peer delayed ({late})"
            )
        fix = self._nagle_fix("nagle-delayed-ack")
        return self._fault("nagle-delayed-ack", share, "Nagle × delayed ACK", evidence, fix)

    def _nagle(self, share: float) -> Finding:
        evidence = (
            f"{self._writes('nagle')}; each small write waits until the previous one is"
            " acknowledged"
        )
        fix = self._nagle_fix("nagle")
        return self._fault("nagle", share, "Nagle's algorithm", evidence, fix)

    def _nagle_fix(self, cause: str) -> str:
        shape = self._usual_writes(cause)
        return _NODELAY if shape is not None and len(shape[1]) == 1 else _ONE_WRITE

    def _forgotten_cork(self, share: float) -> Finding:
        return self._fault(
            "forgotten-cork",
            share,
            "a cork that is never pulled",
            f"{self._writes('forgotten-cork')}, and the last bytes leave when the retransmission"
            f" timer ends the cork (TCP_CORK or MSG_MORE){self._usual_wait('forgotten-cork')}",
            "clear TCP_CORK after the last write of each message, or omit MSG_MORE"
            " (SPLICE_F_MORE) on that write",
        )

    def _usual_wait(self, cause: str) -> str:
        took_ms = sorted((wait.end_ns - wait.start_ns) / 1e6 for wait in self._waits[cause])
        return f", after {took_ms[len(took_ms) // 2]:.0f} ms" if took_ms else ""

    def _usual_writes(self, cause: str) -> tuple[str, tuple[int, ...]] | None:
        shapes: Counter[tuple[str, tuple[int, ...]]] = Counter()
        for conversation, waited in zip(self._conversations, self._of_each, strict=True):
            for side, timeline in conversation.timelines.items():
                messages = {
                    wait.segment.message
                    for wait in waited
                    if (wait.cause, wait.side) == (cause, side) and wait.segment is not None
                }
                by_message: dict[int, list[int]] = defaultdict(list)
                for write in timeline.writes:
                    if write.message in messages:
                        by_message[write.message].append(write.bytes)
                shapes.update((side, tuple(sizes)) for sizes in by_message.values())
        return shapes.most_common(1)[0][0] if shapes else None

    def _writes(self, cause: str) -> str:
        """Return, for example, "the server hands a message to TCP in 2 writes (113, 200 bytes)"."""
        usual = self._usual_writes(cause)
        if usual is None:
            side = self._side(cause)
            return (
                f"by the segments alone, because the {side}'s program is not recorded:"
                f" {len(self._waits[cause])} of its small segments left just after the ACK of the"
                " previous one"
            )
        side, sizes = usual
        shown = ", ".join(map(str, sizes[:4])) + (", …" if len(sizes) > 4 else "")
        count = f"{len(sizes)} writes" if len(sizes) > 1 else "1 write"
        what = "a message" if len(sizes) > 1 else "each small message"
        return f"the {side} hands {what} to TCP in {count} ({shown} bytes)"

    # ---- windows and buffers ----

    def _receive_window(self, share: float) -> Finding:
        total = self._total["receive-window"]
        conversation, side = self._worst("receive-window")
        reader = "server" if side == "client" else "client"
        socket = conversation.sockets.get(reader)
        waited = [
            (wait.start_ns, wait.end_ns) for wait in self._waits_of(conversation, "receive-window")
        ]
        behind = socket is not None and is_behind(socket, waited)
        if not behind and (fixed := self._fixed_window(conversation, reader, socket)) is not None:
            cause, title, evidence, fix = fixed
            return self._fault(cause, share, title, evidence, fix, total)
        if socket is not None and socket.fixed("rcvbuf") is not None and not behind:
            return self._fault(
                "fixed-receive-buffer",
                share,
                "a receive buffer of fixed size",
                f"the {reader} set SO_RCVBUF to {socket.fixed('rcvbuf')} bytes, which switches"
                f" autotuning off, and the {side}'s data waited for its window",
                "do not set SO_RCVBUF, or set it to more than rate × round-trip time (twice that,"
                " for the kernel's overhead)",
                total,
            )
        text = f"the {side}'s data waited for room in the {reader}'s window"
        if behind and socket is not None:
            unread = max((call.unread for call in socket.calls), default=0)
            read = (
                f"which had up to {unread} unread bytes" if unread else "of which no read is known"
            )
            text += f", {read}"
        fix = f"raise the largest size in net.ipv4.tcp_rmem on the {reader}'s host, or send less"
        if _grows(conversation.timelines[side]):
            text += (
                ", which the kernel enlarges step by step (autotuning), but later than slow start"
            )
            fix = (
                f"raise the middle value in net.ipv4.tcp_rmem on the {reader}'s host, with which a"
                " window begins; the largest one was not reached"
            )
        if behind:
            fix = f"let the {reader} read sooner, or in a separate thread"
        elif socket is None:
            fix = f"let the {reader} read sooner; if it does, give it a larger receive buffer"
        return self._limit("receive-window", share, "the receive window", text, fix)

    def _fixed_window(
        self, conversation: Conversation, reader: str, socket: SocketCalls | None
    ) -> tuple[str, str, str, str] | None:
        """Return cause, title, evidence and fix of a window that no buffer size can enlarge."""
        if socket is not None and (clamp := socket.fixed("window_clamp")) is not None:
            return (
                "window-clamp",
                "a receive window of fixed size",
                f"the {reader} set TCP_WINDOW_CLAMP to {clamp} bytes, which limits its window",
                "do not set TCP_WINDOW_CLAMP",
            )
        side = "server" if reader == "client" else "client"
        syns = {end: conversation.syns(end) for end in ("client", "server")}
        without = [end for end, rows in syns.items() if len(rows) and rows["wscale"].max() < 0]
        largest = max((ack.window for ack in conversation.timelines[side].acks), default=0)
        if without and all(map(len, syns.values())) and largest >= _UNSCALED_BYTES:
            return (
                "no-window-scaling",
                "no window scaling",
                (
                    f"the {without[-1]}'s SYN has no window scale option (RFC 7323), so no window"
                    " can be larger than 65535 bytes"
                ),
                (
                    f"turn on net.ipv4.tcp_window_scaling on the {without[-1]}'s host, or find the"
                    " middlebox that removes the option"
                ),
            )
        return None

    def _send_buffer(self, share: float) -> Finding:
        total = self._total["send-buffer"]
        for conversation in self._conversations:
            for side, socket in conversation.sockets.items():
                fixed = socket.fixed("sndbuf")
                waited = any(
                    wait.side == side for wait in self._waits_of(conversation, "send-buffer")
                )
                limited = any(call.sndbuf_limited_us for call in socket.calls)
                if fixed is not None and (waited or limited):
                    return self._fault(
                        "fixed-send-buffer",
                        share,
                        "a send buffer of fixed size",
                        f"the {side} set SO_SNDBUF to {fixed} bytes, which switches autotuning off,"
                        " and was blocked in its writes with both windows open",
                        "do not set SO_SNDBUF, or set it to more than rate × round-trip time (twice"
                        " that, for the kernel's overhead)",
                        total,
                    )
        text = "a program was blocked in its writes while the buffer was full"
        fix = "raise the largest size in net.ipv4.tcp_wmem on the sender's host, or send less"
        return self._limit("send-buffer", share, "the send buffer", text, fix)

    def _protocol_window(self, share: float) -> Finding:
        conversation, side = self._worst("protocol-window")
        window = protocol_window(conversation.timelines[side])
        assert window is not None, "its pauses were counted"
        reader = "server" if side == "client" else "client"
        return self._limit(
            "protocol-window",
            share,
            "a window of the protocol above TCP",
            f"the {side}'s program stopped {len(window.pauses_ns)} times with"
            f" {window.in_flight_bytes} bytes unacknowledged, though TCP's window had room for"
            f" {window.room_bytes} more, and continued when a short message from the"
            f" {reader} arrived",
            f"raise the {reader}'s window in the protocol (HTTP/2: SETTINGS_INITIAL_WINDOW_SIZE and"
            " WINDOW_UPDATE of the connection; SFTP: more requests at once) to more than rate ×"
            " round-trip time",
        )

    def _worst(self, cause: str) -> tuple[Conversation, str]:
        total: Counter[tuple[int, str]] = Counter()
        for number, waited in enumerate(self._of_each):
            for wait in waited:
                if wait.cause == cause:
                    total[number, wait.side] += wait.end_ns - wait.start_ns
        if not total:  # the kernel counted the time, but no packet shows it
            for number, conversation in enumerate(self._conversations):
                for side, socket in conversation.sockets.items():
                    total[number, side] = limited_us(socket, "rwnd_limited_us")
        if not total:
            return self._conversations[0], "client"
        number, side = total.most_common(1)[0][0]
        return self._conversations[number], side

    def _waits_of(self, conversation: Conversation, cause: str) -> list[Wait]:
        at = next(i for i, candidate in enumerate(self._conversations) if candidate is conversation)
        return [wait for wait in self._of_each[at] if wait.cause == cause]

    # ---- the network ----

    def _mtu_black_hole(self, share: float) -> Finding:
        sizes = [
            black_hole_bytes(conversation, side)
            for conversation in self._conversations
            for side in conversation.timelines
        ]
        largest = max((size for size in sizes if size is not None), default=0)
        return self._fault(
            "mtu-black-hole",
            share,
            "an MTU black hole",
            f"segments larger than {largest} bytes never reached the peer, smaller ones did, and"
            " the sender received no ICMP message",
            "let ICMP “fragmentation needed” through, lower the MTU or clamp the MSS on that path;"
            " net.ipv4.tcp_mtu_probing=1 works around it",
        )

    def _accept_queue(self, share: float) -> Finding:
        times = max((conversation.overflows for conversation in self._conversations), default=0)
        return self._fault(
            "accept-queue",
            share,
            "a full accept queue",
            f"the server's kernel dropped {times} handshakes because its program had not accepted"
            " earlier connections (ListenOverflows); the client's kernel repeats its SYN after 1 s,"
            " 2 s and 4 s, and resends the data it sent in the meantime",
            "raise the backlog of listen() (up to net.core.somaxconn), accept in a separate"
            " thread, or open fewer connections at once",
        )

    def _loss(self, share: float) -> Finding:
        return self._limit(
            "loss",
            share,
            "lost packets that were sent again",
            self._repairs(),
            "find where the path drops packets; TCP can only send them again",
        )

    def _repairs(self) -> str:
        """Return how many losses a timer repaired, and how many the receiver's reports did."""
        took_ms = sorted((wait.end_ns - wait.start_ns) / 1e6 for wait in self._waits["loss"])
        slow = [ms for ms in took_ms if ms >= RTO_MIN_MS]
        fast = took_ms[: len(took_ms) - len(slow)]
        parts = []
        if slow:
            parts.append(
                f"{len(slow)} retransmissions by the timer, after {slow[len(slow) // 2]:.0f} ms and"
                f" more ({sum(slow):.0f} ms in all): no later data showed the receiver the gap"
            )
        if fast:
            parts.append(
                f"{len(fast)} retransmissions that a duplicate ACK or a probe caused, after"
                f" {fast[len(fast) // 2]:.3g} ms ({sum(fast):.0f} ms in all)"
            )
        return "; ".join(parts) or "retransmissions on the connection"

    def _slow_start_after_idle(self, share: float) -> Finding:
        cause = "slow-start-after-idle"
        side = self._side(cause)
        return self._limit(
            cause,
            share,
            "slow start after a pause",
            f"after a pause longer than the retransmission timeout the {side}'s kernel starts again"
            " from a window of 10 segments, and doubles it once per round trip",
            f"net.ipv4.tcp_slow_start_after_idle=0 on the {side}'s host, or keep the connection"
            " busy",
        )

    def _congestion_window(self, share: float) -> Finding:
        cause = "congestion-window"
        fix = "keep connections open, because their window stays large while they are busy"
        if self._lossy() and len(self._conversations) == 1:
            fix = "find where the path drops packets, because each loss makes the window smaller"
        return self._limit(
            cause,
            share,
            "slow start and the congestion window",
            "as many segments were in flight as the congestion window allows",
            f"{fix}; send less",
        )

    def _in_flight(self, share: float) -> Finding:
        messages = sum(map(requests, self._conversations))
        rtt_ms = max((timeline.rtt_ms or 0 for timeline in self._timelines()), default=0)
        most = max(map(in_turn, self._conversations), default=0)
        title, ms = "round trips", self._total["in-flight"]
        if most >= MANY_REQUESTS and rtt_ms >= LONG_RTT_MS and _counts(share, ms):
            return Finding(
                "round-trips",
                "limit",
                share,
                ms,
                title,
                f"{most} messages on one connection, each written after the answer to the previous"
                f" one was read, so that each costs a round trip of {rtt_ms:.3g} ms",
                "send the next message before the answer arrives (pipelining, batches, several at"
                " once)",
            )
        return Finding(
            "in-flight", "none", share, ms, title, f"data in flight ({messages} messages)", ""
        )

    def _handshake(self, share: float) -> Finding:
        targets = Counter(
            conversation.server for conversation in self._conversations if conversation.handshake_ns
        )
        count = max(targets.values(), default=0)
        rtt_ms = max((timeline.rtt_ms or 0 for timeline in self._timelines()), default=0)
        ms = self._total["handshake"]
        tls = TLS_MESSAGES * sum(conversation.is_tls for conversation in self._conversations)
        asked = sum(map(requests, self._conversations)) - tls
        once = 0 < asked <= FEW_REQUESTS * count
        if count >= MANY_CONNECTIONS and once and rtt_ms >= LONG_RTT_MS and share >= FAULT_SHARE:
            return Finding(
                "new-connections",
                "limit",
                share,
                ms,
                "a connection for each request",
                f"{count} connections to one server for {asked} requests, each with a handshake of"
                f" a round trip{', and TLS has one more' if tls else ''}",
                "keep connections open and reuse them (keep-alive, a pool)",
            )
        return Finding("handshake", "none", share, ms, "handshakes", "SYN to SYN-ACK", "")

    def failures(self) -> list[Finding]:
        """Return a finding for a server that no connection ever reached."""
        worked = {one.server[1] for one in self._conversations if one.handshake_ns}
        for conversation in self._conversations:
            if conversation.failure and conversation.server[1] not in worked:
                text = f"{conversation.name}: {conversation.failure}"
                fix = "check the address, port and firewall, and whether the server is listening"
                if "capture ends" in text:
                    fix = "capture for longer, and on the interface that the answer takes"
                share = 0.0 if worked else 1.0
                kind: Kind = "none" if worked and self._recorded is None else "fault"
                title = "no connection"
                return [Finding("not-connected", kind, share, 0.0, title, text, fix, 0.0, share)]
        return []

    def outside(self, ledger: Ledger) -> list[Finding]:
        """Return a finding for each part of the run in which the client did not wait for TCP."""
        result = []
        for entry in ledger.entries:
            share = entry.ms / ledger.run_ms
            if entry.cause == "connecting":
                result.append(self._connecting(ledger, entry.ms, share))
            elif not entry.is_tcp:
                finding = Finding(entry.cause, "none", 0.0, 0.0, entry.title, "", "")
                result.append(replace(finding, run_ms=entry.ms, run_share=share))
        return result

    @staticmethod
    def _connecting(ledger: Ledger, ms: float, share: float) -> Finding:
        worst = max(ledger.failures, key=lambda failure: failure.ms)
        title, fix = _ATTEMPTS.get(worst.why, ("attempts to connect that failed", ""))
        shown = sorted(ledger.failures, key=lambda failure: -failure.ms)[:3]
        evidence = "; ".join(map(in_words, shown))
        grave = share >= FAULT_SHARE and ms >= LIMIT_MS and bool(fix)
        kind: Kind = "fault" if grave else "none"
        return Finding("connecting", kind, 0.0, 0.0, title, evidence, fix, ms, share)

    def facts(self, ledger: Ledger | None) -> list[Finding]:
        """Return the faults that the division of time does not show."""
        facts = [*kinds.small_mss(self._conversations)]
        if self._recorded is not None:
            facts += kinds.resets(self._recorded, self._conversations)
            facts += kinds.held_inside(self._recorded, self._conversations)
        run_ms = ledger.run_ms if ledger is not None else 0.0
        result = []
        for fact in facts:
            took_ms = total_ms(fact.waited)
            share = min(took_ms / run_ms, 1.0) if run_ms else 0.0
            grave = not fact.waited or fact.cause != "nagle-delayed-ack" or share >= FAULT_SHARE
            kind: Kind = "fault" if grave else "none"
            shown = fact.cause, kind, 0.0, 0.0, fact.title, fact.evidence, fact.fix
            result.append(Finding(*shown, run_ms=took_ms, run_share=share))
        return [*result, *self._one_way()]

    def _one_way(self) -> list[Finding]:
        sides = {one.only for one in self._conversations if not one.failure}
        if len(sides) != 1 or "" in sides:
            return []
        [side] = sides
        title = (
            f"only packets from the {side} are in the capture; without the other direction, the"
            " reason for a wait is not known"
        )
        fix = "capture where both directions pass: at one of the hosts, or at both mirror ports"
        return [Finding("one-direction", "fault", 0.0, 0.0, title, "", fix, 0.0, 1.0)]

    def many_small_writes(self) -> list[Finding]:
        """Return a finding for needlessly small segments, which cost headers, if not time."""
        senders = [
            segment
            for conversation in self._conversations
            for segment in small_segments(conversation)
        ]
        if not senders:
            return []
        worst = max(senders, key=lambda sender: sender.segments - sender.full)
        size = worst.payload_bytes / worst.segments
        what = (
            f"{worst.writes} writes one after the other, and TCP_NODELAY sends each immediately: "
            if worst.writes
            else "its data in pieces, as its segments show (its program is not recorded): "
        )
        evidence = (
            f"the {worst.side} hands TCP {what}{worst.segments} segments of {size:.0f} bytes on"
            f" average where {worst.full} would do"
        )
        return [
            Finding("many-small-writes", "fault", 0.0, 0.0, "many small writes", evidence, _BUFFER)
        ]

    # ---- the record ----

    def _fault(
        self,
        cause: str,
        share: float,
        title: str,
        evidence: str,
        fix: str,
        ms: float | None = None,
    ) -> Finding:
        total = self._total.get(cause, 0.0) if ms is None else ms
        stretches = self._waits.get(cause, ())
        each_ms = total / len(stretches) if stretches else total
        least = LOSSY_SHARE if cause.startswith("fixed-") and self._lossy() else FAULT_SHARE
        grave = share >= least and total >= FAULT_MS and each_ms >= FAULT_EACH_MS
        return Finding(cause, "fault" if grave else "none", share, total, title, evidence, fix)

    def _limit(self, cause: str, share: float, title: str, evidence: str, fix: str) -> Finding:
        total = self._total[cause]
        kind: Kind = "limit" if _counts(share, total) else "none"
        return Finding(cause, kind, share, total, title, evidence, fix)

    def _lossy(self) -> bool:
        return any(
            segment.reason is Reason.RETRANSMISSION
            for timeline in self._timelines()
            for segment in timeline.segments
        )

    def _timelines(self) -> list[Timeline]:
        return [
            timeline
            for conversation in self._conversations
            for timeline in conversation.timelines.values()
        ]

    def _side(self, cause: str) -> str:
        counted = Counter(wait.side for wait in self._waits[cause])
        return counted.most_common(1)[0][0] if counted else "client"


def _counts(share: float, total_ms: float) -> bool:
    return share >= FAULT_SHARE and total_ms >= LIMIT_MS


def in_words(failure: Failure) -> str:
    """Return, for example, "30 attempts to connect to 10.0.0.2 port 80: refused by an RST"."""
    count = f"{failure.count} attempts" if failure.count > 1 else "an attempt"
    return (
        f"{count} to connect to {failure.address}: {failure.detail}; {failure.ms:.0f} ms with the"
        " pauses before the next attempt"
    )


def _grows(timeline: Timeline) -> bool:
    """Return whether the peer's window still grew in the second half of the transfer."""
    windows = [ack.window for ack in timeline.acks if ack.newly_acked_bytes]
    middle = max(windows[: len(windows) // 2], default=0)
    return max(windows, default=0) > 1.1 * middle > 0


#: Title and fix of attempts to connect that failed, by why they did.
_ATTEMPTS: Final = {
    "no-port": (
        "attempts to connect for which no local port was free",
        (
            "keep connections open and reuse them (keep-alive, a pool): the side that closes first"
            " keeps its port in TIME_WAIT for 60 s"
        ),
    ),
    "no-answer": (
        "an address that does not answer",
        (
            "remove the dead address, or try the next address after 250 ms instead of waiting for"
            " an error (Happy Eyeballs, RFC 8305)"
        ),
    ),
    "refused": (
        "an address that refuses connections, and the pauses before the next attempt",
        "start the server first, or make the pauses between attempts shorter",
    ),
}

#: Title and fix of waits that the calls show.
_STALLS: Final = {
    "deadlock": (
        "a deadlock: both programs write, and neither reads",
        (
            "let the client read answers while it writes (another thread, or non-blocking writes),"
            " or limit the requests that are under way"
        ),
    ),
    "no-end": (
        "both programs wait for data, and no data is in flight",
        (
            "let the client end its request: by shutdown(SHUT_WR), or by the length or delimiter"
            " that the server expects"
        ),
    ),
    "defer-accept": (
        "TCP_DEFER_ACCEPT on a server that speaks first",
        "do not set TCP_DEFER_ACCEPT on a server whose protocol begins with the server's banner",
    ),
    "small-reads": (
        "many small reads",
        (
            "read into a buffer of about 10 kB, and take the small pieces from there (a buffered"
            " reader)"
        ),
    ),
    "pacing-rate": (
        "the sender's own rate limit",
        "do not set SO_MAX_PACING_RATE, or set it higher",
    ),
}

_ONE_WRITE: Final = (
    "hand each message over in one write (a buffer, writev()), or pass MSG_MORE on every write"
    " except the last; TCP_NODELAY also ends the wait, at the cost of one segment per write"
)

_NODELAY: Final = (
    "set TCP_NODELAY; each message is already a single write, so this adds no segments"
)

_BUFFER: Final = (
    "collect the bytes in a buffer of about 10 kB and write that (a buffered writer, writev()); or"
    " leave TCP_NODELAY off, or TCP_CORK on, while there is more to send"
)

#: Title and evidence of the other causes, which no change to the program can remove.
_WITHOUT_FIX: Final = {
    "link-rate": ("the rate of the link", "segments waited in the queue of the link"),
    "unknown": ("something that is not in the record", "see the missing evidence below"),
}
