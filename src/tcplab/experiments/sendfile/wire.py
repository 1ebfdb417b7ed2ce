"""Repeat the published measurement of three ways to send a file over 100 Mbit/s.

The author of a ChinaUnix blog entry (2006) replaced read() and send() by sendfile() for files of 9,
32 and 64 MB, and then tried TCP_CORK. He measured no difference, because his network was the limit
and a clock does not show CPU time.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Annotated, Any, Final

from tcplab.experiments import Between, experiment
from tcplab.experiments.parameters import Runs
from tcplab.experiments.sendfile.send import send_all
from tcplab.experiments.sendfile.transfers import (
    TIME,
    WORK,
    Plan,
    SendFiles,
    published_plans,
    read_plans,
)
from tcplab.lab import Lab
from tcplab.tables import Column

#: Published (fastest, slowest) time in s, by (letter of the method, size in MB).
PUBLISHED_S: Final[Mapping[tuple[str, int], tuple[float, float]]] = {
    ("A", 9): (0.71, 0.76),
    ("A", 32): (2.64, 2.68),
    ("A", 64): (5.36, 5.43),
    ("B", 9): (0.71, 1.08),
    ("B", 32): (2.66, 2.74),
    ("B", 64): (5.43, 6.64),
    ("C", 9): (0.72, 0.75),
    ("C", 32): (2.66, 2.68),
    ("C", 64): (5.38, 5.60),
}
RATE_MBIT: Final = 100.0
_SIDE_BY_SIDE: Final = 3  # transfers at the same time, such as methods A, B and C
QUEUE_PACKETS: Final = 10_000  # more than a send buffer holds, so that no packet is dropped


class OverWire(SendFiles):
    """Transfers over a 100 Mbit/s link by the published methods, and by reads of other sizes."""

    shown = f"{TIME} seconds_min seconds_max published_s {WORK} note"
    further = (Column("published_s", "published (s)"),)

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per transfer, with the published times."""
        rows = []
        for transfer in self.variants:
            published = published_s(transfer.plan)
            shown = f"{published[0]:.2f}–{published[1]:.2f}" if published else None
            middle = published and statistics.mean(published)
            rows.append(transfer.row() | {"published_s": shown, "published_seconds": middle})
        return rows

    def of(self, file_mb: float) -> OverWire:
        """Return the transfers of one size."""
        chosen = [each for each in self.variants if each.plan.file_mb == file_mb]
        return replace(self, variants=chosen)


@experiment("sendfile-wire")
def measure(
    sizes_mb: Annotated[Sequence[int], Between(1, 20_000, "MB"), "sizes of the files"] = (
        9,
        32,
        64,
    ),
    block_bytes: Annotated[Sequence[int], Between(1, 1 << 24, "bytes")] = (1024, 4096, 8192),
    runs: Runs = 3,
) -> OverWire:
    """Send a file over 100 Mbit/s by read and send, by sendfile, and with a cork.

    The receiver writes the file to its disk, as in the blog, but to /dev/null in two more rows.
    Three transfers run at the same time, each over its own link.

    Args:
        block_bytes: block sizes of read(), for the smallest file
    """
    least, largest = min(sizes_mb) * 1_000_000, max(sizes_mb) * 1_000_000
    plans = [plan for size in sizes_mb for plan in published_plans(size * 1_000_000, True)]
    plans += [replace(plan, special="to /dev/null") for plan in published_plans(largest)[:2]]
    plans += [replace(plan, into_file=True) for plan in read_plans(least, block_bytes)]
    with ExitStack() as stack:
        first, *others = (
            stack.enter_context(Lab(rate_mbit=RATE_MBIT, queue_packets=QUEUE_PACKETS))
            for _ in range(_SIDE_BY_SIDE)
        )
        return OverWire(*send_all("sendfile-wire", plans, runs, first, beside=others))


def published_s(plan: Plan) -> tuple[float, float] | None:
    """Return the published (fastest, slowest) time of a plan in s, or None if there is none."""
    return PUBLISHED_S.get((plan.name[0], round(plan.file_mb)))
