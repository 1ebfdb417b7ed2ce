"""The wire for longer, and its recordings as tshark reads them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.lab.wire.test_faults import parse
from tests.support.wire.bench import Bench
from tests.support.wire.frames import numbered
from tests.support.wire.model import Settings


@pytest.mark.timeout(300)
def test_no_byte_is_read_that_is_not_the_frames(sanitized_directory: Path) -> None:
    parse(sanitized_directory, rounds=2_000_000)


def test_tshark_reads_it_without_complaint(
    bench: Bench, tmp_path: Path, tool: Callable[[str], str]
) -> None:
    tshark = tool("tshark")
    bench.use(Settings(loss=0.5))
    path = tmp_path / "read me.pcapng"

    def work() -> int:
        bench.ends[0].send(*[numbered(100, number) for number in range(20)])
        return 20

    recorded = bench.record(path, work)
    fields = ["frame.interface_id", "frame.time_epoch", "frame.packet_id", "frame.comment"]
    shown = subprocess.run(
        [tshark, "-n", "-r", path, "-T", "fields", *(w for f in fields for w in ("-e", f))],
        capture_output=True,
        text=True,
        check=True,
    )
    complaints = [line for line in shown.stderr.splitlines() if "Running as user" not in line]
    assert complaints == []
    lines = [line.split("\t") for line in shown.stdout.splitlines()]
    # Versions disagree about how they show the packet id.
    assert [(side, time, comment) for side, time, _, comment in lines] == [
        (str(p.side), f"{p.time_ns // 10**9}.{p.time_ns % 10**9:09}", p.comment) for p in recorded
    ]
