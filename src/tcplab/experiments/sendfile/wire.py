"""Repeat the published measurement of three ways to send a file over 100 Mbit/s.

The author of a ChinaUnix blog entry (2006) replaced read() and send() by sendfile() for files of 9,
32 and 64 MB, and then tried TCP_CORK. He measured no difference, because his network was the limit
and a clock does not show CPU time.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Annotated, Final

from tcplab.experiments import Between, experiment
from tcplab.experiments.parameters import Runs
from tcplab.experiments.sendfile.send import send_all
from tcplab.experiments.sendfile.transfers import SendFiles, published_plans, read_plans
from tcplab.lab import Lab

RATE_MBIT: Final = 100.0
_SIDE_BY_SIDE: Final = 3  # transfers at the same time, such as methods A, B and C
QUEUE_PACKETS: Final = 10_000  # more than a send buffer holds, so that no packet is dropped


@experiment("sendfile-wire")
def measure(
    sizes_mb: Annotated[Sequence[int], Between(1, 20_000, "MB"), "sizes of the files"] = (
        9,
        32,
        64,
    ),
    block_bytes: Annotated[Sequence[int], Between(1, 1 << 24, "bytes")] = (1024, 4096, 8192),
    runs: Runs = 3,
) -> SendFiles:
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
        return send_all("sendfile-wire", plans, runs, first, beside=others)
