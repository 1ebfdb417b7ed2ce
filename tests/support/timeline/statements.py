"""Find sentences of `tcplab explain CAPTURE` that the capture itself contradicts.

    python -m tests.support.timeline.statements DIRECTORY...

Every capture below the directories is read unless it is large, and each sentence about a segment is
compared with the rows of tcplab.segments. The exit status is 1 if a sentence is false, or if no
sentence was found.
"""

import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tcplab.errors import CaptureError
from tcplab.segments import TCP, SegmentArray, from_file
from tcplab.timeline import Exchange, Segment, Timeline, explain

#: Larger captures, and further connections of a capture, are skipped, as they add nothing new.
MOST_PACKETS, MOST_CONNECTIONS = 60_000, 300
#: Sentences give times to a tenth of a millisecond.
ROUNDED_MS = 0.11


class Judge:
    """Judge sentences about one connection by its packets, as the sender saw them."""

    def __init__(self, rows: SegmentArray, direction: int) -> None:
        self._rows = rows
        self._at = {int(packet): i for i, packet in enumerate(rows["packet"])}
        self._time = rows["time_ns"].tolist()
        self._start = rows["seq"].astype(np.int64).tolist()
        self._end = (rows["seq"].astype(np.int64) + rows["payload_bytes"]).tolist()
        self._ack = rows["ack"].astype(np.int64).tolist()
        mine = rows["direction"] == direction
        self._own = np.flatnonzero(mine & (rows["payload_bytes"] > 0))
        self._has_ids = len(np.unique(rows["ip_id"][self._own])) > 1
        self._acks = np.flatnonzero(~mine & rows.has_ack)
        self._highest = np.maximum.accumulate(rows["ack"].astype(np.int64)[self._acks])

    def false(self, segment: Segment, sentence: str) -> list[str]:
        """Return the ways in which a sentence is false."""
        i = self._at[segment.packet]
        again = "sent again" in sentence
        row = self._rows[i]
        mistakes = []
        if again != bool(row["is_retransmission"]) or (again and row["is_out_of_order"]):
            mistakes.append("tcplab segments says something else")
        if "sent at once" in sentence:
            mistakes.append("sent at once, without a log")
        if again and "when its bytes first left is not in the capture" not in sentence:
            mistakes += self._false_of_repetition(i, sentence)
        if segment.released_by is not None:
            mistakes += self._false_of_release(i)
        return mistakes

    def _false_of_repetition(self, i: int, sentence: str) -> Iterator[str]:
        same = [k for k in self._before(i) if self._carries(int(k), i)]
        last = max(same, default=None)
        acks = self._acks[: int(np.searchsorted(self._acks, i))]
        una = int(self._highest[len(acks) - 1]) if len(acks) else 0
        known = una >= self._end[i]
        is_first = "no earlier copy is in the capture" in sentence
        if last is None and not known and not is_first:
            yield "no packet carried its first byte before"
        if last is not None and is_first:
            yield "an earlier copy is in the capture"
        if last is not None and self._is_copy(last, i) and "IP ID" not in sentence:
            yield "a second copy of one packet"
        if ("had been acknowledged" in sentence or "keep-alive" in sentence) and not known:
            yield "not acknowledged before"
        if last is None:
            return
        since = acks[[self._time[k] > self._time[last] for k in acks]]
        if "duplicate ACK" in sentence and not any(self._ack[k] <= self._start[i] for k in since):
            yield "no duplicate ACK since it last left"
        for text, times in (
            (r"no ACK of it for ([\d.]+)", [self._time[last]]),
            (r"missing.*, ([\d.]+) ms after it first left", [self._time[same[0]]]),
            (r"came ([\d.]+) ms (?:ago|before)", [self._news(i)]),
        ):
            match = re.search(text, sentence)
            if match and min(abs(self._ms(at, i) - float(match[1])) for at in times) > ROUNDED_MS:
                yield "another time"
        if (match := re.search(r"no ACK of it for ([\d.]+)", sentence)) and (
            float(match[1]) < 1 or self._time[last] < self._news(i) > self._time[i] - 5_000_000
        ):
            yield "no ACK for: too short a time, or the ACK of other data came just before"

    def _before(self, i: int) -> list[int]:
        return list(self._own[: int(np.searchsorted(self._own, i))][-5000:])

    def _carries(self, earlier: int, i: int) -> bool:
        return bool(self._start[earlier] <= self._start[i] < self._end[earlier])

    def _is_copy(self, earlier: int, i: int) -> bool:
        same = all(self._rows[name][earlier] == self._rows[name][i] for name in ("ip_id", "seq"))
        known = self._has_ids and self._rows["ip_id"][i]
        return bool(same and known and self._end[earlier] == self._end[i])

    def _news(self, i: int) -> int:
        """Return the time of the last ACK of new data before packet `i`, or 0 if there is none."""
        count = int(np.searchsorted(self._acks, i))
        at = np.flatnonzero(np.diff(self._highest[:count], prepend=0) > 0)
        return int(self._time[self._acks[at[-1]]]) if len(at) else 0

    def _ms(self, time_ns: int, i: int) -> float:
        return float(self._time[i] - time_ns) / 1e6

    def _false_of_release(self, i: int) -> Iterator[str]:
        """Yield a mistake if the window had room even before the latest ACKs."""
        acks = self._acks[: int(np.searchsorted(self._acks, i))]
        ends = self._rows["ack"].astype(np.int64)[acks] + self._rows["window"][acks]
        recent = self._rows["time_ns"][acks] > self._time[i] - 3_000_000
        if not recent.any() or self._end[i] <= max(ends[~recent].tolist(), default=0):
            yield "released by an ACK, but there was room"


def timelines(path: Path) -> Iterator[tuple[int, str, Timeline, Judge]]:
    """Yield the connection, side, timeline and judge of each sender that explain() accepts.

    Skip a capture of more than MOST_PACKETS, and all connections after the first MOST_CONNECTIONS.
    """
    rows = from_file(path)
    tcp = rows[rows["protocol"] == TCP]
    if len(tcp) > MOST_PACKETS:
        return
    for number in np.unique(tcp["connection"]).tolist()[:MOST_CONNECTIONS]:
        one = tcp.of(number)
        for direction, sender in enumerate(("client", "server")):
            if not ((one["direction"] == direction) & (one["payload_bytes"] > 0)).any():
                continue
            try:
                timeline = explain(Exchange(None, segments=rows), connection=number, sender=sender)
            except ValueError:  # explain() refuses, for example because a clock stepped
                continue
            yield number, sender, timeline, Judge(one, direction)


def false_sentences(path: Path) -> tuple[int, list[tuple[str, list[str]]]]:
    """Return how many sentences a capture has, and the false ones with their mistakes."""
    count, false = 0, []
    for number, sender, timeline, judge in timelines(path):
        for segment, sentence in zip(timeline.segments, timeline.sentences(), strict=False):
            count += 1
            if mistakes := judge.false(segment, sentence):
                where = f"{path}, connection {number}, {sender}, packet {segment.packet + 1}"
                false.append((f"{where}: {sentence}", mistakes))
    return count, false


def main() -> int:
    warnings.simplefilter("ignore")  # truncated files cause warnings
    captures, total, kinds, lines = 0, 0, Counter[str](), []
    for path in sorted(entry for name in sys.argv[1:] for entry in Path(name).rglob("*")):
        try:
            count, false = false_sentences(path) if path.is_file() else (0, [])
        except CaptureError:
            continue
        captures, total = captures + bool(count), total + count
        for line, mistakes in false:
            kinds.update(mistakes)
            lines.append(f"{line} [{'; '.join(mistakes)}]")
    print("\n".join(lines))
    print(f"{captures} captures, {total} sentences, {len(lines)} false: {dict(kinds)}")
    return int(bool(lines) or not captures)


if __name__ == "__main__":
    sys.exit(main())
