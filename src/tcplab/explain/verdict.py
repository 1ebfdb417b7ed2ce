"""Rank the causes of a whole run's waiting time, each with its evidence and fix."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import Final, Literal

from tcplab.explain import kinds
from tcplab.explain.causes import CAUSES
from tcplab.explain.intervals import total_ms
from tcplab.explain.joining import Conversation
from tcplab.explain.ledger import Failure, RunLedger, make_ledger
from tcplab.explain.protocol_window import protocol_window
from tcplab.explain.recording import LOOPBACK, CommandExchange
from tcplab.explain.shares import (
    Division,
    Wait,
    behind_others,
    black_hole_bytes,
    divided,
    in_turn,
    is_behind,
    limited_us,
    requests,
    waits,
)
from tcplab.explain.small_segments import small_segments
from tcplab.explain.stalls import stalls
from tcplab.models import Reason
from tcplab.models.kernel import RTO_MIN_MS
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
#: Writes of a message that are further apart are separate messages, which the program pushes.
_PUSH_NS: Final = 1_000_000
#: Causes that the calls show.
_BY_CALLS: Final = ("small-reads", "pacing-rate")
#: Options of a reader that fix its window, with the cause that they are.
_FIXED: Final = {"window_clamp": "window-clamp", "rcvbuf": "fixed-receive-buffer"}
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
    conversations: Sequence[Conversation], recorded: CommandExchange | None = None
) -> list[Finding]:
    """Return the causes of waiting on all connections. The first one is the verdict."""
    return judged(conversations, recorded)[0]


def judged(
    conversations: Sequence[Conversation], recorded: CommandExchange | None = None
) -> tuple[list[Finding], RunLedger | None]:
    """Return the causes of waiting, the verdict first, and the run's ledger, if it is known."""
    waited = behind_others([waits(conversation) for conversation in conversations])
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
    result += [*others, *judge.failures(ledger), *judge.many_small_writes(), *judge.facts(ledger)]
    return sorted(result, key=lambda finding: (_rank(finding), -finding.run_share)), ledger


def _of_run(finding: Finding, cause: str, ledger: RunLedger | None) -> Finding:
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
        recorded: CommandExchange | None,
    ) -> None:
        self._conversations, self._total = conversations, total
        self._divisions, self._recorded = divisions, recorded
        self._of_each = waited
        self._waits: dict[str, list[Wait]] = defaultdict(list)
        for wait in chain.from_iterable(waited):
            self._waits[wait.cause].append(wait)

    def finding(self, cause: str, share: float) -> Finding:
        """Return the finding for a cause that took this share of the waiting time."""
        if (describe := getattr(self, f"_{cause.replace('-', '_')}", None)) is not None:
            finding: Finding = describe(share)
            return finding
        if cause in ("server", "client"):
            return self._program(cause, share)
        return self._said(cause, share, evidence=self._evidence_of_calls(cause))

    def _said(self, cause: str, share: float, source: str = "", **facts: object) -> Finding:
        """Return a finding with the texts of a cause.

        `source` is the cause for which its time was counted, if that is another one.
        """
        texts = CAUSES[cause]
        title, evidence, fix = (
            texts.get(name, "").format(**facts) for name in ("title", "evidence", "fix")
        )
        total = self._total[source or cause]
        kind: Kind = "none"
        if texts.get("kind") == "limit" and _counts(share, total):
            kind = "limit"
        elif texts.get("kind") == "fault" and self._is_grave(cause, source or cause, share):
            kind = "fault"
        return Finding(cause, kind, share, total, title, evidence, fix)

    def _is_grave(self, cause: str, source: str, share: float) -> bool:
        total = self._total[source]
        stretches = self._waits.get(cause, ())
        each_ms = total / len(stretches) if stretches else total
        least = LOSSY_SHARE if cause.startswith("fixed-") and self._lossy() else FAULT_SHARE
        many = cause in _BY_CALLS  # each of these waits may be short
        return share >= least and total >= FAULT_MS and (each_ms >= FAULT_EACH_MS or many)

    def _program(self, side: str, share: float) -> Finding:
        title = f"the {side}'s program"
        if not any(side in conversation.sockets for conversation in self._conversations):
            title += " or TCP (no calls are recorded)"
        evidence = f"nothing was in flight, and the {side} had bytes to read, or was next to write"
        if self._recorded is not None:
            did = kinds.doings_of(side, self._recorded, self._conversations, self._divisions)
            evidence += f"; meanwhile it was {did}" * bool(did)
        return Finding(side, "none", share, self._total[side], title, evidence, "")

    def _evidence_of_calls(self, cause: str) -> str:
        same = (
            stall
            for conversation in self._conversations
            for stall in stalls(conversation)
            if stall.cause == cause
        )
        longest = max(same, key=lambda stall: stall.interval[1] - stall.interval[0], default=None)
        return longest.evidence if longest is not None else ""

    # ---- small segments ----

    def _nagle_delayed_ack(self, share: float) -> Finding:
        cause, delay = "nagle-delayed-ack", ""
        delays = sorted(
            ack.delay_ms
            for timeline in self._timelines()
            for ack in timeline.acks
            if ack.delay_ms is not None and ack.reason == "ack-delayed-by-peer"
        )
        if delays:
            late = f"{delays[len(delays) // 2]:.0f} ms"
            delay = f", which its peer delayed ({late})"
            if any(wait.segment is not None for wait in self._waits[cause]):
                delay = (
                    "; Nagle's algorithm (TCP_NODELAY is off) holds each small write until the ACK"
                    f" of the previous one, which the peer delays ({late})"
                )
        return self._said(cause, share, **self._small(cause), delay=delay)

    def _nagle(self, share: float) -> Finding:
        return self._said("nagle", share, **self._small("nagle"))

    def _small(self, cause: str) -> dict[str, str]:
        shape = self._usual_writes(cause)
        fix = "nodelay" if shape is not None and len(shape[1]) == 1 else "one-write"
        return {"writes": self._writes(cause), "small": CAUSES[fix]["fix"]}

    def _forgotten_cork(self, share: float) -> Finding:
        cause = "forgotten-cork"
        took_ms = sorted((wait.end_ns - wait.start_ns) / 1e6 for wait in self._waits[cause])
        after = f", after {took_ms[len(took_ms) // 2]:.0f} ms" if took_ms else ""
        return self._said(cause, share, writes=self._writes(cause), after=after)

    def _usual_writes(self, cause: str) -> tuple[str, tuple[int, ...]] | None:
        """Return the side and the sizes of the writes that it makes together most often."""
        shapes: Counter[tuple[str, tuple[int, ...]]] = Counter()
        for conversation, waited in zip(self._conversations, self._of_each, strict=True):
            for side, timeline in conversation.timelines.items():
                messages = {
                    wait.segment.message
                    for wait in waited
                    if (wait.cause, wait.side) == (cause, side) and wait.segment is not None
                }
                together: list[int] = []
                for write, after in pairwise([*timeline.writes, None]):
                    assert write is not None
                    together.append(write.bytes)
                    # A program that pushes messages writes them after pauses.
                    same = after is not None and after.message == write.message
                    if after is None or not same or after.time_ns - write.time_ns > _PUSH_NS:
                        if write.message in messages:
                            shapes[side, tuple(together)] += 1
                        together = []
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
        source = "receive-window"
        conversation, side = self._worst(source)
        reader = "server" if side == "client" else "client"
        socket = conversation.sockets.get(reader)
        timeline = conversation.timelines.get(side)
        waited = [(wait.start_ns, wait.end_ns) for wait in self._waits_of(conversation, source)]
        behind = socket is not None and is_behind(socket, waited)
        facts = {"side": side, "reader": reader}
        if socket is not None and not behind:
            for option, cause in _FIXED.items():
                if (size := socket.fixed(option)) is not None:
                    return self._said(cause, share, source, **facts, size=size)
        largest = max((ack.window for ack in timeline.acks), default=0) if timeline else 0
        unscaled = self._unscaled(conversation)
        if unscaled and largest >= _UNSCALED_BYTES and not behind:
            return self._said("no-window-scaling", share, source, side=unscaled)
        read = ""
        fix = f"raise the largest size in net.ipv4.tcp_rmem on the {reader}'s host, or send less"
        if behind and socket is not None:
            unread = max((call.unread for call in socket.calls), default=0)
            read = f", which had up to {unread} unread bytes"
            read = read if unread else ", of which no read is known"
            fix = f"let the {reader} read sooner, or in a separate thread"
        elif socket is None:
            fix = f"let the {reader} read sooner; if it does, give it a larger receive buffer"
        elif timeline is not None and _grows(timeline):
            read = ", which the kernel enlarges step by step (autotuning), later than slow start"
            fix = (
                f"raise the middle value in net.ipv4.tcp_rmem on the {reader}'s host, with which a"
                " window begins; the largest one was not reached"
            )
        return self._said(source, share, **facts, read=read, fix=fix)

    @staticmethod
    def _unscaled(conversation: Conversation) -> str:
        """Return the side whose SYN lacks the window scale option, or ""."""
        syns = {side: conversation.syns(side) for side in ("server", "client")}
        if not all(map(len, syns.values())):
            return ""
        return next((side for side, rows in syns.items() if rows["wscale"].max() < 0), "")

    def _send_buffer(self, share: float) -> Finding:
        source = "send-buffer"
        for conversation in self._conversations:
            for side, socket in conversation.sockets.items():
                size = socket.fixed("sndbuf")
                waited = any(wait.side == side for wait in self._waits_of(conversation, source))
                limited = any(call.sndbuf_limited_us for call in socket.calls)
                if size is not None and (waited or limited):
                    return self._said("fixed-send-buffer", share, source, side=side, size=size)
        return self._said(source, share)

    def _protocol_window(self, share: float) -> Finding:
        conversation, side = self._worst("protocol-window")
        window = protocol_window(conversation.timelines[side])
        assert window is not None, "its pauses were counted"
        return self._said(
            "protocol-window",
            share,
            side=side,
            reader="server" if side == "client" else "client",
            times=len(window.pauses_ns),
            in_flight=window.in_flight_bytes,
            room=window.room_bytes,
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
        which = f"larger than {largest} bytes" if largest else "with data"
        return self._said("mtu-black-hole", share, which=which)

    def _accept_queue(self, share: float) -> Finding:
        times = max((conversation.overflows for conversation in self._conversations), default=0)
        return self._said("accept-queue", share, times=times)

    def _loss(self, share: float) -> Finding:
        """Tell losses that a timer repaired from those that the receiver's reports did."""
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
        repairs = "; ".join(parts) or "retransmissions on the connection"
        return self._said("loss", share, repairs=repairs)

    def _slow_start_after_idle(self, share: float) -> Finding:
        cause = "slow-start-after-idle"
        return self._said(cause, share, side=self._side(cause))

    def _congestion_window(self, share: float) -> Finding:
        fix = "keep connections open, because their window stays large while they are busy"
        if self._lossy() and len(self._conversations) == 1:
            fix = "find where the path drops packets, because each loss makes the window smaller"
        return self._said("congestion-window", share, fix=fix)

    def _in_flight(self, share: float) -> Finding:
        messages = sum(map(requests, self._conversations))
        rtt_ms = max((timeline.rtt_ms or 0 for timeline in self._timelines()), default=0)
        most = max(map(in_turn, self._conversations), default=0)
        long = rtt_ms >= LONG_RTT_MS and _counts(share, self._total["in-flight"])
        if most >= MANY_REQUESTS and long:
            return self._said("round-trips", share, "in-flight", count=most, rtt_ms=rtt_ms)
        return self._said("in-flight", share, messages=messages)

    def _link_rate(self, share: float) -> Finding:
        queued = {wait.side for wait in self._waits["link-rate"] if wait.is_behind}
        if queued:
            return self._said("behind-others", share, "link-rate", side=min(queued))
        return self._said("link-rate", share)

    def _handshake(self, share: float) -> Finding:
        targets = Counter(
            conversation.server for conversation in self._conversations if conversation.handshake_ns
        )
        count = max(targets.values(), default=0)
        rtt_ms = max((timeline.rtt_ms or 0 for timeline in self._timelines()), default=0)
        tls = TLS_MESSAGES * sum(conversation.is_tls for conversation in self._conversations)
        asked = sum(map(requests, self._conversations)) - tls
        once = 0 < asked <= FEW_REQUESTS * count
        if count >= MANY_CONNECTIONS and once and rtt_ms >= LONG_RTT_MS and share >= FAULT_SHARE:
            more = ", and TLS has one more" * bool(tls)
            finding = self._said(
                "new-connections", share, "handshake", count=count, asked=asked, tls=more
            )
            return replace(finding, kind="limit")
        return self._said("handshake", share)

    # ---- apart from the division of time ----

    def failures(self, ledger: RunLedger | None) -> list[Finding]:
        """Return a finding for a server that no connection ever reached."""
        if ledger is not None and ledger.failures and not self._conversations:
            tried = "; ".join(map(in_words, ledger.failures[:3]))
            if any(failure.address.startswith(LOOPBACK) for failure in ledger.failures):
                tried += "; the name of the server's host is “server”, not localhost"
            fix = "check the address and port"
            title = "no connection"
            return [Finding("not-connected", "fault", 1.0, 0.0, title, tried, fix, 0.0, 1.0)]
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

    def outside(self, ledger: RunLedger) -> list[Finding]:
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
    def _connecting(ledger: RunLedger, ms: float, share: float) -> Finding:
        worst = max(ledger.failures, key=lambda failure: failure.ms)
        texts = CAUSES.get(worst.why, {"title": "attempts to connect that failed", "fix": ""})
        title, fix = texts["title"], texts["fix"]
        shown = sorted(ledger.failures, key=lambda failure: -failure.ms)[:3]
        evidence = "; ".join(map(in_words, shown))
        grave = share >= FAULT_SHARE and ms >= LIMIT_MS and bool(fix)
        kind: Kind = "fault" if grave else "none"
        return Finding("connecting", kind, 0.0, 0.0, title, evidence, fix, ms, share)

    def facts(self, ledger: RunLedger | None) -> list[Finding]:
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
        title = CAUSES["one-direction"]["title"].format(side=side)
        fix = CAUSES["one-direction"]["fix"]
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
        what = (
            f"{worst.writes} writes one after the other, and TCP_NODELAY sends each immediately: "
            if worst.writes
            else "its data in pieces, as its segments show (its program is not recorded): "
        )
        finding = self._said(
            "many-small-writes",
            0.0,
            side=worst.side,
            what=what,
            segments=worst.segments,
            size=worst.payload_bytes / worst.segments,
            full=worst.full,
        )
        return [replace(finding, kind="fault")]

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
    took = f"; {failure.ms:.0f} ms" + " with the pauses between them" * (failure.count > 1)
    return f"{count} to connect to {failure.address}: {failure.detail}{took * (failure.ms >= 1)}"


def _grows(timeline: Timeline) -> bool:
    """Return whether the peer's window still grew in the second half of the transfer."""
    windows = [ack.window for ack in timeline.acks if ack.newly_acked_bytes]
    middle = max(windows[: len(windows) // 2], default=0)
    return max(windows, default=0) > 1.1 * middle > 0
