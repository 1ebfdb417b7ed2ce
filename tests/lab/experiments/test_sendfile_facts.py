"""Facts of lesson 07, from the results of its own experiments."""

from __future__ import annotations

import pytest

from tcplab.experiments import sendfile
from tcplab.models import copies_per_byte, goodput_mbyte_s, transfer_ms

A, B = "A: read 4096 + send", "B: sendfile"


@pytest.fixture(scope="module")
def fast() -> sendfile.SendFiles:
    return sendfile.measure([64], runs=3)


def test_published_times_are_the_wires() -> None:
    assert goodput_mbyte_s(100) == pytest.approx(11.77, abs=0.005)
    # Its clock stopped when the last bytes were in the send buffer: a few per cent earlier.
    for (method, size_mb), (fastest, _slowest) in sendfile.wire.PUBLISHED_S.items():
        computed_s = transfer_ms(size_mb * 1_000_000, 0, 100) / 1000
        assert 0.92 * computed_s <= fastest <= 1.01 * computed_s, (method, size_mb)


def test_31250_system_calls_or_one(fast: sendfile.SendFiles) -> None:
    assert fast.find(A).system_calls == 31_250
    assert (fast.find(B).system_calls or 0) < 100


def test_sendfile_uses_several_times_less_cpu(fast: sendfile.SendFiles) -> None:
    # 10 to 15 times on a quiet machine.
    read, send_file = (fast.find(name).cpu_s_per_gb for name in (A, B))
    assert read
    assert send_file
    assert read > 2 * send_file


def test_more_calls_cost_more_cpu(fast: sendfile.SendFiles) -> None:
    small = fast.find("read 1024 + send").cpu_s_per_gb
    large = fast.find("read 131072 + send").cpu_s_per_gb
    assert small
    assert large
    assert small > 1.5 * large  # 4 to 5 times on a quiet machine


def test_over_a_slow_wire_only_cpu_time_differs() -> None:
    wire = sendfile.wire.measure([4], [1024], runs=3)
    read, send_file = (wire.find(name) for name in (A, B))
    assert read.wall_s
    assert send_file.wall_s
    least_s = 0.99 * 4 / goodput_mbyte_s(100)
    assert min(read.wall_s, send_file.wall_s) >= least_s
    assert (read.cpu_s_per_gb or 0) > (send_file.cpu_s_per_gb or 0)


def test_copies_per_method() -> None:
    count = {name: copies_per_byte(name) for name in ("read+send", "mmap+send", "sendfile")}
    assert [each.sender for each in count.values()] == [2, 1, 0]
    assert copies_per_byte("zerocopy", path="same machine").transit == 1


def test_zero_copy_copies_after_all(fast: sendfile.SendFiles) -> None:
    row = fast.find("MSG_ZEROCOPY").row()
    copied, _of, sends = row["copied_after_all"].split()
    assert copied == sends
