"""Rank the causes of a whole run's waiting time, each with its evidence and fix."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from statistics import median_high
from typing import Final, Literal

from tcplab.explain import kinds
from tcplab.explain.causes import CAUSES
from tcplab.explain.intervals import total_ms
from tcplab.explain.joining import Conversation, other
from tcplab.explain.ledger import Failure, RunLedger, make_ledger
from tcplab.explain.recording import LOOPBACK, CommandExchange
from tcplab.explain.shares import (
    behind_others,
    divided,
    in_turn,
    is_behind,
    limited_us,
    requests,
    waits,
)
from tcplab.explain.stalls import Wait
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
#: Connections with at most this many requests on average were not reused. TLS adds some messages,
#: the last of which may leave with the first request (TLS 1.3).
FEW_REQUESTS: Final = 1.5
TLS_MESSAGES: Final = 2
#: What takes a smaller share of the run does not come first.
RUN_SHARE: Final = 0.05
#: A program that makes more writes without a read pushes messages, with longer pauses in between.
_PUSHES: Final = (8, 5_000_000)
#: The waits that Nagle's algorithm causes, with and without the peer's timer.
_NAGLES: Final = ("nagle-delayed-ack", "nagle")
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


#: A name in causes.toml, and the facts that its texts mention.
Told = tuple[str, Mapping[str, object]]


def judged(
    conversations: Sequence[Conversation], recorded: CommandExchange | None = None
) -> tuple[list[Finding], RunLedger | None]:
    """Return the causes of waiting, the verdict first, and the run's ledger, if it is known."""
    waited = behind_others([[*waits(conversation)] for conversation in conversations])
    judge = _Judge(conversations, waited, recorded)
    by_cause = {cause: judge.finding(cause) for cause in judge.total}
    ledger = None
    if recorded is not None:
        titles = {cause: finding.title for cause, finding in by_cause.items()}
        ledger = make_ledger(recorded, conversations, judge.divisions, titles)
    result = [_of_run(finding, cause, ledger) for cause, finding in by_cause.items()]
    result += [*judge.outside(ledger), *judge.failures(ledger), *judge.faults(ledger)]
    least = RUN_SHARE
    if ledger is not None and ledger.run_ms:
        # Only the time counts in which the command did not wait for a CPU.
        least *= 1 - (ledger.ms("cpu") + ledger.ms("stopped")) / ledger.run_ms
    return sorted(result, key=lambda one: (_rank(one, least), -one.run_share)), ledger


def _of_run(finding: Finding, cause: str, ledger: RunLedger | None) -> Finding:
    """Return a finding with its share of the run. Without a ledger, all of the run was waiting."""
    if ledger is None or not ledger.run_ms:
        return replace(finding, run_ms=finding.ms, run_share=finding.share)
    run_ms = ledger.ms(cause)
    return replace(finding, run_ms=run_ms, run_share=run_ms / ledger.run_ms)


def _rank(finding: Finding, least: float) -> int:
    if finding.run_share < least and finding.ms:
        return 2
    if finding.kind == "fault":
        return 0
    return 1 if finding.kind == "limit" and finding.share >= LIMIT_SHARE else 2


def _told(name: str, kind: Kind, facts: Mapping[str, object], **numbers: float) -> Finding:
    """Return a finding with the texts under a name in causes.toml."""
    texts = CAUSES[name]
    title, evidence, fix = (
        texts.get(part, "").format(**facts) for part in ("title", "evidence", "fix")
    )
    usual = {"share": 0.0, "ms": 0.0} | numbers
    return Finding(texts.get("cause", name), kind, title=title, evidence=evidence, fix=fix, **usual)


class _Judge:
    """Describe each cause as a finding."""

    def __init__(
        self,
        conversations: Sequence[Conversation],
        waited: Sequence[Sequence[Wait]],
        recorded: CommandExchange | None,
    ) -> None:
        self._conversations, self._recorded = conversations, recorded
        self._of_each = waited
        self.divisions = list(map(divided, conversations, waited))
        self.total: dict[str, float] = {}  #: ms of waiting by cause
        for division in self.divisions:
            for cause, ms in division.ms().items():
                self.total[cause] = self.total.get(cause, 0.0) + ms
        self._everything = sum(self.total.values())
        self._waits: dict[str, list[Wait]] = defaultdict(list)
        for wait in chain.from_iterable(waited):
            self._waits[wait.cause].append(wait)

    def finding(self, cause: str) -> Finding:
        """Return the finding for a cause that took some of the waiting time."""
        describe = getattr(self, f"_{cause.replace('-', '_')}", None)
        name, facts = describe() if describe else (cause, self._facts(cause))
        texts, ms = CAUSES[name], self.total[cause]
        counts = self._is_grave(name, ms) if texts.get("kind") == "fault" else self._is_long(cause)
        kind: Kind = texts.get("kind", "none") if counts or "sure" in texts else "none"
        return _told(name, kind, facts, share=self._share(cause), ms=ms)

    def _facts(self, cause: str) -> Mapping[str, object]:
        """Return the facts of the longest wait for a cause, or of the program that is the cause."""
        if cause in ("client", "server"):
            return self._program(cause)
        longest = max(self._waits[cause], key=lambda wait: wait.ms, default=None)
        return {} if longest is None else {"side": longest.side, **longest.facts}

    def _share(self, cause: str) -> float:
        return self.total[cause] / self._everything

    def _is_long(self, cause: str) -> bool:
        return self._share(cause) >= FAULT_SHARE and self.total[cause] >= LIMIT_MS

    def _is_grave(self, name: str, ms: float) -> bool:
        each_ms = ms / (len(self._waits.get(name, ())) or 1)
        least = LOSSY_SHARE if name.startswith("fixed-") and self._lossy() else FAULT_SHARE
        long = each_ms >= FAULT_EACH_MS or "brief" in CAUSES[name]
        # The same fix ends both of Nagle's waits, so the longer one counts with the other.
        both = [self.total.get(cause, 0.0) for cause in _NAGLES] if name in _NAGLES else [ms]
        whole_ms = sum(both) if ms == max(both) else ms
        return long and whole_ms >= max(least * self._everything, FAULT_MS)

    def _program(self, side: str) -> Mapping[str, object]:
        known = any(side in conversation.sockets for conversation in self._conversations)
        title = "" if known else " or TCP (no calls are recorded)"
        # A capture at the receiver does not show what is in flight.
        here = "no data was unacknowledged where the capture was made"
        quiet = "nothing was in flight" if known else here
        did = ""
        if self._recorded is not None:
            did = kinds.doings_of(side, self._recorded, self._conversations, self.divisions)
            did = f"; meanwhile it was {did}" * bool(did)
        return {"title": title, "did": did, "quiet": quiet}

    # ---- small segments ----

    def _nagle_delayed_ack(self) -> Told:
        acks = chain.from_iterable(line.acks for line in self._timelines())
        late = (ack.delay_ms for ack in acks if ack.reason is Reason.ACK_DELAYED_BY_PEER)
        delays = [delay_ms for delay_ms in late if delay_ms is not None]
        known = any(wait.segment is not None for wait in self._waits["nagle-delayed-ack"])
        text = CAUSES["delay"]["known" if known else "seen"]
        delay = text.format(late_ms=median_high(delays)) if delays else ""
        return "nagle-delayed-ack", {**self._small("nagle-delayed-ack"), "delay": delay}

    def _nagle(self) -> Told:
        return "nagle", self._small("nagle")

    def _small(self, cause: str) -> dict[str, object]:
        shape = self._usual_writes(cause)
        fix = "nodelay" if shape is not None and len(shape[1]) == 1 else "one-write"
        return {"writes": self._writes(cause), "small": CAUSES[fix]["fix"]}

    def _forgotten_cork(self) -> Told:
        took_ms = [wait.ms for wait in self._waits["forgotten-cork"]]
        after = f", after {median_high(took_ms):.0f} ms" if took_ms else ""
        return "forgotten-cork", {"writes": self._writes("forgotten-cork"), "after": after}

    def _usual_writes(self, cause: str) -> tuple[str, tuple[int, ...]] | None:
        """Return the side and the sizes of the writes that it makes together most often."""
        shapes: Counter[tuple[str, tuple[int, ...]]] = Counter()
        for conversation, waited in zip(self._conversations, self._of_each, strict=True):
            for side, timeline in conversation.timelines.items():
                counts = Counter(write.message for write in timeline.writes)
                of_cause = (w.segment for w in waited if (w.cause, w.side) == (cause, side))
                messages = {segment.message for segment in of_cause if segment is not None}
                together: list[int] = []
                for write, after in pairwise([*timeline.writes, None]):
                    assert write is not None
                    together.append(write.bytes)
                    same = after is not None and after.message == write.message
                    pause_ns = _PUSHES[1] if counts[write.message] > _PUSHES[0] else 1 << 62
                    if after is None or not same or after.time_ns - write.time_ns > pause_ns:
                        if write.message in messages:
                            shapes[side, tuple(together)] += 1
                        together = []
        return shapes.most_common(1)[0][0] if shapes else None

    def _writes(self, cause: str) -> str:
        """Return, for example, "the server hands a message to TCP in 2 writes (113, 200 bytes)"."""
        usual = self._usual_writes(cause)
        if usual is None:
            counted = Counter(wait.side for wait in self._waits[cause])
            side = counted.most_common(1)[0][0] if counted else "client"
            facts = {"side": side, "count": len(self._waits[cause])}
            return str(CAUSES["writes"]["unrecorded"].format(**facts))
        side, sizes = usual
        shown = ", ".join(map(str, sizes[:4])) + ", …" * (len(sizes) > 4)
        how = CAUSES["writes"]["several" if len(sizes) > 1 else "one"]
        return str(how.format(side=side, count=len(sizes), sizes=shown))

    # ---- windows and buffers ----

    def _receive_window(self) -> Told:
        number, side = self._worst("receive-window")
        conversation, reader = self._conversations[number], other(side)
        socket = conversation.sockets.get(reader)
        timeline = conversation.timelines.get(side)
        waited = [wait.interval for wait in self._of_each[number] if wait.cause == "receive-window"]
        behind = socket is not None and is_behind(conversation, reader, waited)
        facts: dict[str, object] = {"side": side, "reader": reader}
        if socket is not None and behind:
            unread = max((call.unread for call in socket.calls), default=0)
            return "slow-reader" if unread else "no-reader", {**facts, "unread": unread}
        for option, cause in _FIXED.items():
            if socket is not None and (size := socket.fixed(option)) is not None:
                return cause, {**facts, "size": size}
        largest = max((ack.window for ack in timeline.acks), default=0) if timeline else 0
        sides = ("server", "client") if conversation.handshake_ns else ()
        unscaled = [side for side in sides if conversation.syns(side)["wscale"].max() < 0]
        if unscaled and largest >= _UNSCALED_BYTES:
            return "no-window-scaling", {"side": unscaled[0]}
        if socket is None:
            return "unrecorded-reader", facts
        grows = timeline is not None and _grows(timeline)
        return "growing-window" if grows else "receive-window", facts

    def _send_buffer(self) -> Told:
        for conversation, several in zip(self._conversations, self._of_each, strict=True):
            for side, socket in conversation.sockets.items():
                size = socket.fixed("sndbuf")
                waited = any((w.cause, w.side) == ("send-buffer", side) for w in several)
                limited = any(call.sndbuf_limited_us for call in socket.calls)
                if size is not None and (waited or limited):
                    return "fixed-send-buffer", {"side": side, "size": size}
        return "send-buffer", {}

    def _worst(self, cause: str) -> tuple[int, str]:
        """Return the connection's number and the side that waited longest for a cause."""
        total: Counter[tuple[int, str]] = Counter()
        for number, waited in enumerate(self._of_each):
            for wait in waited:
                if wait.cause == cause:
                    total[number, wait.side] += wait.end_ns - wait.start_ns
        if not total:  # the kernel counted the time, but no packet shows it
            for number, conversation in enumerate(self._conversations):
                for side, socket in conversation.sockets.items():
                    total[number, side] = limited_us(socket, "rwnd_limited_us")
        return total.most_common(1)[0][0] if total else (0, "client")

    # ---- the network ----

    def _loss(self) -> Told:
        """Tell losses that a timer repaired from those that the receiver's reports did."""
        rto_ms = RTO_MIN_MS + min((line.rtt_ms or 0 for line in self._timelines()), default=0)
        slow: list[float] = []
        fast: list[float] = []
        unseen: list[float] = []
        repairs = []
        for wait in self._waits["loss"]:
            reported = wait.segment.by_report if wait.segment is not None else False
            soon = reported or wait.ms < rto_ms
            (unseen if reported is None else fast if soon else slow).append(wait.ms)
        names = "loss-by-timer", "loss-by-report", "loss-seen-late"
        for name, several in zip(names, (slow, fast, unseen), strict=True):
            if several:
                count = f"{len(several)} retransmission{'s' * (len(several) > 1)}"
                facts = {"middle_ms": median_high(several), "ms": sum(several)}
                repairs.append(CAUSES[name]["evidence"].format(count=count, **facts))
        return "loss", {"repairs": "; ".join(repairs) or "retransmissions on the connection"}

    def _congestion_window(self) -> Told:
        lossy = self._lossy() and len(self._conversations) == 1
        return "congestion-window-after-losses" if lossy else "congestion-window", {}

    def _in_flight(self) -> Told:
        most = max(map(in_turn, self._conversations), default=0)
        if most >= MANY_REQUESTS and self._rtt_ms >= LONG_RTT_MS and self._is_long("in-flight"):
            return "round-trips", {"count": most, "rtt_ms": self._rtt_ms}
        count = sum(map(requests, self._conversations))
        counted = f" ({count} message{'s' * (count != 1)})" * bool(count)
        return "in-flight", {"counted": counted}

    def _link_rate(self) -> Told:
        queued = {wait.side for wait in self._waits["link-rate"] if wait.is_behind}
        return ("behind-others", {"side": min(queued)}) if queued else ("link-rate", {})

    def _handshake(self) -> Told:
        targets = Counter(
            conversation.server
            for conversation in self._conversations
            if conversation.handshake_ns and not conversation.is_fast_open
        )
        count = max(targets.values(), default=0)
        tls = any(conversation.is_tls for conversation in self._conversations)
        asked = sum(map(_asked, self._conversations))
        long = self._rtt_ms >= LONG_RTT_MS and self._share("handshake") >= FAULT_SHARE
        if count >= MANY_CONNECTIONS and 0 < asked <= FEW_REQUESTS * count and long:
            more = ", and TLS has one more" * tls
            return "new-connections", {"count": count, "asked": asked, "tls": more}
        return "handshake", {}

    @property
    def _rtt_ms(self) -> float:
        return max((timeline.rtt_ms or 0 for timeline in self._timelines()), default=0)

    # ---- apart from the division of time ----

    def failures(self, ledger: RunLedger | None) -> Iterator[Finding]:
        """Yield a finding for a server that no connection ever reached."""
        if ledger is not None and ledger.failures and not self._conversations:
            tried = "; ".join(map(in_words, ledger.failures[:3]))
            if any(failure.address.startswith(LOOPBACK) for failure in ledger.failures):
                tried += "; the name of the server's host is “server”, not localhost"
            yield _told("not-connected", "fault", {"tried": tried}, share=1.0, run_share=1.0)
            return
        worked = {one.server[1] for one in self._conversations if one.handshake_ns}
        for one in self._conversations:
            if one.failure and one.server[1] not in worked:
                name = "cut-off" if "capture ends" in one.failure else "not-opened"
                share = 0.0 if worked else 1.0
                kind: Kind = "none" if worked and self._recorded is None else "fault"
                tried = f"{one.name}: {one.failure}"
                yield _told(name, kind, {"tried": tried}, share=share, run_share=share)
                return

    def outside(self, ledger: RunLedger | None) -> Iterator[Finding]:
        """Yield a finding for each part of the run in which the client did not wait for TCP."""
        for entry in ledger.entries if ledger is not None else ():
            assert ledger is not None
            times = {"run_ms": entry.ms, "run_share": entry.ms / ledger.run_ms}
            if entry.cause == "connecting":
                worst = sorted(ledger.failures, key=lambda failure: -failure.ms)
                name = worst[0].why if worst[0].why in CAUSES else "not-made"
                grave = times["run_share"] >= FAULT_SHARE and entry.ms >= LIMIT_MS
                kind: Kind = "fault" if grave and CAUSES[name].get("fix") else "none"
                tried = "; ".join(map(in_words, worst[:3]))
                yield _told(name, kind, {"tried": tried}, **times)
            elif not entry.is_tcp:
                yield Finding(entry.cause, "none", 0.0, 0.0, entry.title, "", "", **times)

    def faults(self, ledger: RunLedger | None) -> Iterator[Finding]:
        """Yield the faults that the division of time does not show."""
        run_ms = ledger.run_ms if ledger is not None else 0.0
        for name, facts, waited in kinds.faults(self._recorded, self._conversations):
            took_ms = total_ms(waited)
            share = min(took_ms / run_ms, 1.0) if run_ms else 0.0
            kind: Kind = "fault" if name != "nagle-inside" or share >= FAULT_SHARE else "none"
            share = 1.0 if name == "one-direction" else share
            yield _told(name, kind, facts, run_ms=took_ms, run_share=share)

    def _lossy(self) -> bool:
        sent = chain.from_iterable(line.segments for line in self._timelines())
        return any(segment.reason is Reason.RETRANSMISSION for segment in sent)

    def _timelines(self) -> list[Timeline]:
        return [line for one in self._conversations for line in one.timelines.values()]


def in_words(failure: Failure) -> str:
    """Return, for example, "30 attempts to connect to 10.0.0.2 port 80: refused by an RST"."""
    count = f"{failure.count} attempts" if failure.count > 1 else "an attempt"
    took = f"; {failure.ms:.0f} ms" + " with the pauses between them" * (failure.count > 1)
    return f"{count} to connect to {failure.address}: {failure.detail}{took * (failure.ms >= 1)}"


def _asked(conversation: Conversation) -> int:
    """Return the number of requests on a connection, without the messages of a TLS handshake."""
    count = requests(conversation)
    return max(count - TLS_MESSAGES, min(count - 1, 1), 0) if conversation.is_tls else count


def _grows(timeline: Timeline) -> bool:
    """Return whether the peer's window still grew in the second half of the transfer."""
    windows = [ack.window for ack in timeline.acks if ack.newly_acked_bytes]
    middle = max(windows[: len(windows) // 2], default=0)
    return max(windows, default=0) > 1.1 * middle > 0
