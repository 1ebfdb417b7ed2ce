"""The explanation of a recorded command, as text and as JSON."""

from __future__ import annotations

import dataclasses
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tcplab.explain.comments import commented, reasons_of_packets
from tcplab.explain.joining import Conversation, conversations
from tcplab.explain.recording import Recorded
from tcplab.explain.shares import requests, spans
from tcplab.explain.verdict import FAULT_SHARE, Finding, findings
from tcplab.models import Reason
from tcplab.programs import CallLog
from tcplab.programs.calls import HANDS_OVER
from tcplab.tables import ms
from tcplab.timeline import Timeline
from tcplab.timeline.timeline import missing_evidence

#: Connections and findings that the text shows.
_SHOWN: Final = 6
#: Of the time: less is not worth the evidence that would explain it.
_UNKNOWN_SHARE: Final = 0.05
#: What the recorder could not see -> in words.
_UNSEEN: Final = {
    "io_uring": "what io_uring did: its operations are no system calls",
    "32-bit": "the calls of a 32-bit program",
    "setuid": "the privileges of a set-user-ID program: under the recorder it gains none",
    "not-allowed": "calls of a process that does not let itself be looked at (prctl(2), dumpable)",
}


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a command took the time that it took, as far as TCP is concerned."""

    recorded: Recorded  #: Calls and packets
    conversations: Sequence[Conversation]  #: Its connections, in order
    findings: Sequence[Finding]  #: What they waited for; the first decides
    missing: Sequence[str] = field(default=())  #: What the record does not tell

    @property
    def verdict(self) -> Finding | None:
        """The finding that decides; None if there was no connection."""
        return self.findings[0] if self.findings else None

    @property
    def coverage(self) -> str:
        """ "the first 200,000 of 1,000,000 packets: "; "" if all were looked at."""
        looked_at = sum(len(each.rows) for each in self.conversations)
        packets = sum(each.packets for each in self.conversations)
        if looked_at == packets:
            return ""
        until_ns = max(int(each.rows["time_ns"][-1]) for each in self.conversations)
        seconds = (until_ns - self.recorded.span_ns[0]) / 1e9
        return f"the first {looked_at:,} of {packets:,} packets ({seconds:.1f} s): "

    @property
    def sentence(self) -> str:
        """The verdict in one sentence."""
        return self.coverage + self._verdict()

    def _verdict(self) -> str:
        one = self.verdict
        if one is None and self.recorded.near is None:
            return "without packets nobody can say what held the data; the calls tell this:"
        if one is None:
            return "no TCP connection was captured: there is nothing to explain"
        if one.cause == "not-connected":
            return one.evidence
        if not one.ms:
            return one.title
        count = sum(map(requests, self.conversations))
        whose = f"the time of {count} message{'s' * (count != 1)}" if count else "the time"
        share = f"{100 * one.share:.0f} % of {whose}"
        if one.kind == "none":
            return f"no fault in the use of TCP; {share}: {one.title}"
        return f"{share}: {one.title}"

    @property
    def waited_ms(self) -> float:
        """Time for which its connections waited for answers, in all."""
        return sum(finding.ms for finding in self.findings)

    @property
    def overhead(self) -> float:
        """The recorder's share of the client's time: how long it was stopped at its calls."""
        start, end = self.recorded.span_ns
        return self.recorded.client.stopped_ns / max(end - start, 1)

    def worst(self) -> Timeline:
        """The timeline to be drawn: of the sender that waited longest in its kernel.

        Raises:
            ValueError: nothing was sent.
        """
        timelines = [each for one in self.conversations for each in one.timelines.values()]
        if not timelines:
            raise ValueError("no data was captured: there is nothing to draw")
        return max(
            timelines,
            key=lambda each: (bool(each.writes), sum(each.waited_ms("kernel").values())),
        )

    # ---- as text ----

    def report(self) -> str:
        """The verdict with evidence and cure, what the rest went to, and what is missing."""
        one = self.verdict
        lines = [f"Verdict: {self.sentence}"]
        if one is not None and one.kind != "none":
            lines += [f"  why   {one.evidence}"] if one.cause != "not-connected" else []
            lines += [f"  cure  {one.cure}"] * bool(one.cure)
        for other in self.findings[1:]:
            if other.kind != "none" and other.share >= FAULT_SHARE:
                lines += [f"Also, {100 * other.share:.0f} %: {other.title}"]
                lines += [f"  why   {other.evidence}", f"  cure  {other.cure}"]
        cost = [self._cost()] if self.recorded.client.calls else []
        for part in (self._what_it_waited_for(), self._connections(), cost):
            lines += ["", *part] if part else []
        if notes := [*self.recorded.notes, *self.missing]:
            lines += ["Missing from the record:", *(f"  {note}" for note in notes)]
        return "\n".join(lines)

    def _what_it_waited_for(self) -> list[str]:
        waited = [each for each in self.findings if each.ms >= 0.01]
        waited.sort(key=lambda each: -each.ms)
        if not waited:
            return []
        many = len(self.conversations)
        summed = f", summed over {many} connections" if self._overlap else ""
        lines = [f"Of {ms(self.waited_ms)} that the client waited{summed}:"]
        for each in waited[:_SHOWN]:
            lines.append(f"  {100 * each.share:5.1f} %  {ms(each.ms):>10}  {each.title}")
        return lines

    @property
    def _overlap(self) -> bool:
        """True if its connections waited side by side."""
        start_ns, end_ns = self.recorded.span_ns
        return len(self.conversations) > 1 and self.waited_ms > (end_ns - start_ns) / 1e6

    def _connections(self) -> list[str]:
        groups: dict[tuple[str, int, str], list[Conversation]] = defaultdict(list)
        for each in self.conversations:
            groups[*each.server, each.failure].append(each)
        lines = []
        for (address, port, failure), some in list(groups.items())[:_SHOWN]:
            count = f"{len(some)} connections" if len(some) > 1 else "1 connection"
            messages = sum(map(requests, some))
            what = failure or f"{messages} messages, " * bool(messages) + _bytes(some)
            took = sum(end - start for one in some for start, end in spans(one)) / 1e6
            lines.append(f"{count} to {address} port {port}: {what}, {ms(took)}")
        if len(groups) > _SHOWN:
            lines.append(f"and {len(groups) - _SHOWN} servers more")
        return lines or self._by_calls()

    def _by_calls(self) -> list[str]:
        """Lines on connections that were not captured, by calls and TCP_INFO."""
        lines = []
        for each in self.recorded.client.sockets[:_SHOWN]:
            if not each.calls:
                continue
            last, (address, port) = each.calls[-1], each.peer
            writes = sum(call.name in HANDS_OVER for call in each.calls)
            lines.append(
                f"connection to {address} port {port}: {writes} writes, {last.written} bytes sent,"
                f" {last.read} read in {ms((last.time_ns - each.seen_ns) / 1e6)}; smallest RTT"
                f" {last.min_rtt_us / 1000:.3g} ms, {last.total_retrans} segments sent again, the"
                f" peer's window in the way for {last.rwnd_limited_us / 1000:.3g} ms, the send"
                f" buffer for {last.sndbuf_limited_us / 1000:.3g} ms"
            )
        return lines

    def _cost(self) -> str:
        start, end = self.recorded.span_ns
        calls = self.recorded.client.calls
        return (
            f"Recorded: {calls} calls of the client in {ms((end - start) / 1e6)}; the recorder"
            f" stopped it for {100 * self.overhead:.1f} % of that time"
        )

    # ---- as JSON ----

    def as_json(self) -> str:
        """One JSON object: verdict, findings, connections with their segments, what is missing."""
        data = {
            "verdict": self.sentence,
            "findings": [dataclasses.asdict(each) for each in self.findings],
            "connections": [
                {
                    "name": each.name,
                    "failure": each.failure or None,
                    "messages": requests(each),
                    "segments": {side: one.rows() for side, one in each.timelines.items()},
                    "missing": each.missing,
                }
                for each in self.conversations
            ],
            "missing": [*self.recorded.notes, *self.missing],
            "overhead": self.overhead,
            "calls": self.recorded.client.calls,
        }
        return json.dumps(data)

    # ---- for Wireshark ----

    def comments(self) -> dict[int, str]:
        """Number of a packet of the capture beside the client, from 0 -> why it left just then."""
        found = {}
        for one in self.conversations:
            for side, timeline in one.timelines.items():
                for packet, text in reasons_of_packets(timeline, one.rows).items():
                    found[packet] = f"{side}: {text}"
        return found

    def save_pcapng(self, path: str | Path) -> Path:
        """The capture beside the client, each reason as a comment of its packet.

        Raises:
            ValueError: nothing was captured.
        """
        if self.recorded.near is None:
            raise ValueError("nothing was captured, so there is no capture to save")
        data = self.recorded.near.path.read_bytes()
        Path(path).write_bytes(commented(data, self.comments()))
        return Path(path)


# ---- from the record -----------------------------------------------------------------------------


def explained(recorded: Recorded) -> Explanation:
    """Joins and judges what was recorded. A pure function."""
    found, missing = conversations(recorded)
    causes = findings(found)
    unknown = sum(each.share for each in causes if each.cause == "unknown")
    for one in found:
        missing += [f"{one.name}: {each}" for each in one.missing]
        for timeline in one.timelines.values():
            items = missing_evidence(timeline) if unknown > _UNKNOWN_SHARE else timeline.missing
            missing += [f"{one.name}: {each}" for each in items]
    for whose, log in (("client", recorded.client), ("server", recorded.server)):
        missing += _missing_of(whose, log)
    return Explanation(recorded, found, causes, tuple(_fewer(missing)))


def _missing_of(whose: str, log: CallLog | None) -> list[str]:
    if log is None:
        return []
    found = [f"{_UNSEEN.get(each, each)} (the {whose}'s)" for each in log.unseen]
    if log.logged < log.calls and log.whole and log.logged >= 200_000:
        found.append(f"{log.calls - log.logged} later calls of the {whose}")
    if not log.whole:
        found.append(f"the {whose}'s calls after the recorder was ended")
    return found


def _fewer(items: Sequence[str]) -> list[str]:
    """Each once, and of those that differ only in their connection the first."""
    seen: dict[str, str] = {}
    for item in items:
        seen.setdefault(item.partition(": ")[2] or item, item)
    some = list(seen.values())
    return some[: 2 * _SHOWN] + [f"and {len(some) - 2 * _SHOWN} more"] * (len(some) > 2 * _SHOWN)


def _bytes(some: Sequence[Conversation]) -> str:
    sent, got = (
        sum(
            segment.payload_bytes
            for one in some
            for segment in _segments(one, side)
            if segment.reason is not Reason.RETRANSMISSION
        )
        for side in ("client", "server")
    )
    return f"{sent} bytes sent, {got} received"


def _segments(one: Conversation, side: str) -> Sequence[Any]:
    timeline = one.timelines.get(side)
    return timeline.segments if timeline else ()
