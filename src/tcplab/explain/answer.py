"""Present the explanation of a recorded command as text and as JSON."""

import dataclasses
import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tcplab.explain.causes import CAUSES
from tcplab.explain.comments import with_reasons
from tcplab.explain.intervals import total_ms
from tcplab.explain.joining import Conversation, conversations
from tcplab.explain.ledger import RunLedger
from tcplab.explain.recording import LOOPBACK, CommandExchange
from tcplab.explain.shares import requests, spans
from tcplab.explain.verdict import RUN_SHARE, Finding, in_words, judged
from tcplab.programs import CallLog
from tcplab.programs.calls import HANDS_OVER
from tcplab.segments.table import uncollected
from tcplab.tables import ms
from tcplab.timeline import Timeline
from tcplab.timeline.timeline import missing_evidence

#: Maximum number of connections, and of findings, that the text shows.
_SHOWN: Final = 6
#: All missing evidence is listed if a larger share of the time than this is unexplained.
_UNKNOWN_SHARE: Final = 0.05
#: "No fault" is said only if at most this share of the run has no known cause, or this time, which
#: is the noise of a short run, or as much as the client and the recorder waited for a CPU.
_UNEXPLAINED_SHARE: Final = 0.05
_UNEXPLAINED_MS: Final = 50.0
_LEAST_MS: Final = 0.01
#: A recorder that stops the client for this share of the run makes it another run.
_SLOWED: Final = 0.2

#: Sentences of the report, and the evidence that is missing by the kind that no recorder sees.
REPORT: Final = CAUSES["report"]
UNSEEN: Final = CAUSES["unseen"]


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of a command's waiting time, as far as TCP is concerned."""

    recorded: CommandExchange  #: The calls and packets of the command
    conversations: Sequence[Conversation]  #: The connections of the command, in order
    connections: int  #: Number of captured connections, some of which may not be explained
    findings: Sequence[Finding]  #: The causes of waiting. The first one is the verdict
    missing: Sequence[str] = field(default=())  #: Evidence that the recording lacks
    ledger: RunLedger | None = None  #: The time of the run, divided among all that the client did

    @property
    def verdict(self) -> Finding | None:
        return self.findings[0] if self.findings else None

    @property
    def coverage(self) -> str:
        """A prefix such as "the first 1,000,000 of 4,000,000 packets (9.5 s): ", or ""."""
        looked_at = sum(len(conversation.rows) for conversation in self.conversations)
        packets = sum(conversation.packets for conversation in self.conversations)
        some = ""
        if len(self.conversations) < self.connections:
            some = f"the first {len(self.conversations):,} of {self.connections:,} connections: "
        if looked_at == packets:
            return some
        until_ns = max(int(conversation.rows["time_ns"][-1]) for conversation in self.conversations)
        seconds = (until_ns - self.recorded.span_ns[0]) / 1e9
        return f"{some}the first {looked_at:,} of {packets:,} packets ({seconds:.1f} s): "

    @property
    def sentence(self) -> str:
        return self.coverage + self._verdict()

    def _verdict(self) -> str:
        one = self.verdict
        if not self.conversations and self.recorded.near is None:
            return str(REPORT["no-packets"])
        if one is None:
            has_data = any(conversation.timelines for conversation in self.conversations)
            absent = "no-wait" if has_data else "no-data" if self.conversations else "no-connection"
            return str(REPORT[absent])
        if one.cause == "not-connected":
            return one.evidence
        text = self._share(one) + one.title
        if one.kind != "none":
            return text
        if (unknown := self._unexplained) is not None:
            return f"not explained: {unknown}; {text}"
        if not self.conversations:
            return f"no TCP connection of the client was captured; {text}"
        if any(finding.kind == "fault" for finding in self.findings):
            return f"no fault takes {100 * RUN_SHARE:.0f} % of the run; {text}"
        return f"no fault in the use of TCP; {text}"

    def _share(self, one: Finding) -> str:
        """Return the shares that a cause has of the run and of the waiting time, or ""."""
        count = sum(map(requests, self.conversations))
        whose = f"the time of {count} message{'s' * (count != 1)}" if count else "the time"
        parts = []
        if self.ledger is not None and self.ledger.by_calls and one.run_ms:
            parts.append(f"{100 * one.run_share:.0f} % of the run")
        if one.ms:
            parts.append(f"{100 * one.share:.0f} % of {whose}")
        return ", ".join(parts) + ": " * bool(parts)

    @property
    def _unexplained(self) -> str | None:
        """The time of the run without a known cause, in words, or None if there is little of it."""
        if self.ledger is None:
            return None
        run_ms = self.ledger.run_ms
        unknown_ms = self.ledger.ms("unexplained") + self.ledger.ms("unknown")
        cpu_ms = self.ledger.ms("cpu") + self.ledger.ms("stopped") - self.overhead * run_ms
        if unknown_ms <= max(_UNEXPLAINED_SHARE * run_ms, _UNEXPLAINED_MS, cpu_ms):
            return None
        return f"{ms(unknown_ms)} of {ms(run_ms)}"

    @property
    def waited_ms(self) -> float:
        """Total time for which the connections waited for answers."""
        return sum(finding.ms for finding in self.findings)

    @property
    def overhead(self) -> float:
        """The share of the client's time for which the recorder stopped it at its calls."""
        start, end = self.recorded.span_ns
        return self.recorded.client.stopped_ns / max(end - start, 1)

    def worst(self) -> Timeline:
        """Return the timeline with the longest waits in the kernel, preferring one with a log."""
        timelines = [one for several in self.conversations for one in several.timelines.values()]
        if not timelines:
            raise ValueError("no data was captured: there is nothing to draw")
        return max(
            timelines, key=lambda one: (bool(one.writes), sum(one.waited_ms("kernel").values()))
        )

    # ---- as text ----

    def report(self) -> str:
        """Return the verdict with its evidence and fix, the ledger, and missing evidence."""
        lines = [f"Verdict: {self.sentence}"]
        calls, percent = self.recorded.client.calls, 100 * self.overhead
        if self.ledger is not None and self.ledger.run_ms:
            lines += [f"The {'run' if calls else 'capture'}: {self._sum()}"]
        if self.overhead >= _SLOWED:
            lines.append("  note  " + REPORT["slowed"].format(percent=percent))
        for number, one in enumerate(self.findings):
            if (one.kind == "none" and not (one.evidence and not number)) or (
                number and not (one.share or one.run_share or one.kind == "fault")
            ):
                continue
            lines += [f"Also, {self._share(one)}{one.title}"] * bool(number)
            known = one.evidence and (one.cause != "not-connected" or number > 0)
            lines += [f"  why   {one.evidence}"] * bool(known)
            lines += [f"  fix   {one.fix}"] * bool(one.fix)
        if self._unexplained is not None and calls:
            lines += [f"  look  {REPORT['look']}"]
        cost = [REPORT["cost"].format(calls=calls, percent=percent)] if calls else []
        for part in (self._divided(), self._tries(), self._connections(), cost):
            lines += ["", *part] if part else []
        if notes := [*self.recorded.notes, *self.missing]:
            lines += ["Missing from the record:", *(f"  {note}" for note in notes)]
        return "\n".join(lines)

    def _sum(self) -> str:
        """Return the ledger in one line: the waits for TCP, and all else."""
        assert self.ledger is not None
        run_ms = self.ledger.run_ms
        parts = [(entry.ms, entry.title) for entry in self.ledger.entries if not entry.is_tcp]
        parts.append((run_ms - sum(took for took, _title in parts), "waiting for TCP"))
        long = [
            (took, title) for took, title in sorted(parts, reverse=True) if took >= run_ms / 100
        ]
        shown = [f"{ms(took)} {title}" for took, title in long]
        rest = run_ms - sum(took for took, _title in long)
        shown += [f"{ms(rest)} other"] * (rest >= _LEAST_MS)
        return f"{ms(run_ms)} = " + " + ".join(shown)

    def _divided(self) -> list[str]:
        """Return the lines of the ledger, the waits for TCP with their share of these waits."""
        if self.ledger is None or not self.ledger.run_ms:
            return []
        lines = [f"Of {ms(self.ledger.run_ms)}:"]
        for entry in self.ledger.entries:
            if entry.ms >= _LEAST_MS:
                what = "TCP: " * (entry.is_tcp and self.ledger.by_calls) + entry.title
                share = 100 * entry.ms / self.ledger.run_ms
                lines.append(f"  {share:5.1f} %  {ms(entry.ms):>10}  {what}")
        return lines

    def _tries(self) -> list[str]:
        failures = self.ledger.failures if self.ledger is not None else ()
        local = any(failure.address.startswith(LOOPBACK) for failure in failures)
        return [*map(in_words, failures[:_SHOWN]), *[REPORT["localhost"]] * local]

    def _connections(self) -> list[str]:
        groups: dict[tuple[str, str, str], list[Conversation]] = defaultdict(list)
        ports = Counter({one.server for one in self.conversations})
        several = Counter(address for address, _port in ports)
        for conversation in self.conversations:
            address, port = conversation.server
            where = f"port {port}" if several[address] <= _SHOWN else f"{several[address]} ports"
            groups[address, where, conversation.failure].append(conversation)
        lines = []
        for (address, where, failure), same_server in list(groups.items())[:_SHOWN]:
            count = f"{len(same_server)} connection{'s' * (len(same_server) > 1)}"
            messages = sum(map(requests, same_server))
            counted = f"{messages} message{'s' * (messages != 1)}, " * bool(messages)
            what = failure or counted + _bytes(same_server)
            took_ms = total_ms(span for one in same_server for span in spans(one))
            lines.append(f"{count} to {address} {where}: {what}, {ms(took_ms)}")
        if len(groups) > _SHOWN:
            lines.append(f"and {len(groups) - _SHOWN} servers more")
        return lines or self._by_calls()

    def _by_calls(self) -> list[str]:
        """Describe connections without captured packets, by their calls and TCP_INFO."""
        lines = []
        for socket in self.recorded.client.sockets[:_SHOWN]:
            if socket.calls:
                last, (address, port) = socket.calls[-1], socket.peer
                writes = sum(call.name in HANDS_OVER for call in socket.calls)
                took = ms((last.time_ns - socket.seen_ns) / 1e6)
                facts = {"address": address, "port": port, "writes": writes, "took": took}
                milliseconds = (last.min_rtt_us, last.rwnd_limited_us, last.sndbuf_limited_us)
                rtt, rwnd, sndbuf = (count / 1000 for count in milliseconds)
                text = REPORT["socket"]
                lines.append(text.format(**facts, last=last, rtt=rtt, rwnd=rwnd, sndbuf=sndbuf))
        return lines

    # ---- as JSON ----

    def as_json(self) -> str:
        """Return a JSON object with verdict, findings, connections and missing evidence."""
        data = {
            "verdict": self.sentence,
            "run": dataclasses.asdict(self.ledger) if self.ledger is not None else None,
            "findings": [dataclasses.asdict(finding) for finding in self.findings],
            "connections": [
                {
                    "name": conversation.name,
                    "failure": conversation.failure or None,
                    "messages": requests(conversation),
                    "segments": {
                        side: timeline.rows() for side, timeline in conversation.timelines.items()
                    },
                    "missing": conversation.missing,
                }
                for conversation in self.conversations
            ],
            "missing": [*self.recorded.notes, *self.missing],
            "overhead": self.overhead,
            "calls": self.recorded.client.calls,
        }
        return json.dumps(data)

    def save_pcapng(self, path: str | Path) -> Path:
        """Save the client's capture with the reason of each segment as a packet comment."""
        if self.recorded.near is None:
            raise ValueError("nothing was captured, so there is no capture to save")
        timelines = (line for one in self.conversations for line in one.timelines.values())
        Path(path).write_bytes(with_reasons(self.recorded.near, timelines))
        return Path(path)


# ---- making an explanation ----------------------------------------------------------------------


@uncollected()
def explained(recorded: CommandExchange) -> Explanation:
    """Join the calls and packets of a recording, and find the causes of its waits."""
    joined, connections, missing = conversations(recorded)
    causes, ledger = judged(joined, recorded)
    unknown = sum(finding.share for finding in causes if finding.cause == "unknown")
    for conversation in joined:
        missing += [f"{conversation.name}: {text}" for text in conversation.missing]
        for timeline in conversation.timelines.values():
            items = missing_evidence(timeline) if unknown > _UNKNOWN_SHARE else timeline.missing
            missing += [f"{conversation.name}: {text}" for text in items]
    for whose, log in (("client", recorded.client), ("server", recorded.server)):
        missing += _missing_of(whose, log)
    return Explanation(recorded, joined, connections, causes, tuple(_fewer(missing)), ledger)


def _missing_of(whose: str, log: CallLog | None) -> list[str]:
    if log is None:
        return []
    unseen = [f"{UNSEEN.get(kind, kind)} (the {whose}'s)" for kind in log.unseen]
    if log.is_full:
        unseen.append(f"{log.calls - log.logged} later calls of the {whose}")
    if not log.whole:
        unseen.append(f"the {whose}'s calls after the recorder was ended")
    return unseen


def _fewer(items: Sequence[str]) -> list[str]:
    """Keep one of the items that differ only in the connection, and shorten a long list."""
    seen: dict[str, str] = {}
    for item in items:
        seen.setdefault(item.partition(": ")[2] or item, item)
    more = len(seen) - 2 * _SHOWN
    return [*seen.values()][: 2 * _SHOWN] + [f"and {more} more"] * (more > 0)


def _bytes(conversations: Sequence[Conversation]) -> str:
    sent, got = (
        sum(
            max(segment.end for segment in one.timelines[side].segments)
            for one in conversations
            if side in one.timelines
        )
        for side in ("client", "server")
    )
    return f"{sent} bytes sent, {got} received"
