"""Blocks that nobody wrote to: each case is measured, and the program leaves them alone."""

from __future__ import annotations

from tcplab.experiments import untouched_memory
from tcplab.lab import Loopback
from tcplab.programs import tcp_source, writepattern_peer


def test_each_size_is_sent_written_and_untouched() -> None:
    result = untouched_memory.measure([1440, 1 << 20], total_mb=4, runs=2)
    assert [each.key for each in result.variants] == [
        (1440, False),
        (1440, True),
        (1 << 20, False),
        (1 << 20, True),
    ]
    assert all(len(each.cpu_s_per_gb) == 2 for each in result.variants)
    assert result.rows()[1]["variant"] == "1,440, untouched"


def test_program_leaves_an_untouched_block_alone() -> None:
    """Its pages are mapped when they are sent, and not before."""
    size = 1 << 25
    with Loopback() as network, writepattern_peer(network) as port:
        written, untouched = (
            tcp_source(
                network, port, write_bytes=size, count=1, sndbuf_bytes=None, untouched=each
            ).usage.minor_faults
            for each in (False, True)
        )
    assert untouched > written
