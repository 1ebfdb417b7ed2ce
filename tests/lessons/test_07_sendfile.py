"""Facts of lesson 07, from the results of its own experiments."""

from __future__ import annotations

import pytest

from tcplab.experiments import send_file
from tcplab.models import copies_per_byte, goodput_mbyte_s, transfer_ms

A, B = "A: read 4096 + send", "B: sendfile"


@pytest.fixture(scope="module")
def fast() -> send_file.SendFiles:
    return send_file.measure(parts=["loopback"], sizes_mb=[64], runs=3)


def test_published_times_are_the_wires() -> None:
    assert goodput_mbyte_s(100) == pytest.approx(11.77, abs=0.005)
    # Its clock stopped when the last bytes were in the send buffer: a few per cent earlier.
    for (way, size_mb), (fastest, _slowest) in send_file.TEXT_S.items():
        computed_s = transfer_ms(size_mb * 1_000_000, 0, 100) / 1000
        assert 0.92 * computed_s <= fastest <= 1.01 * computed_s, (way, size_mb)


def test_31250_system_calls_or_one(fast: send_file.SendFiles) -> None:
    assert fast.find("loopback", A).system_calls == 31_250
    assert (fast.find("loopback", B).system_calls or 0) < 100


def test_sendfile_uses_several_times_less_cpu(fast: send_file.SendFiles) -> None:
    # 10 to 15 times on a quiet machine.
    read, sendfile = (fast.find("loopback", name).cpu_s_per_gb for name in (A, B))
    assert read
    assert sendfile
    assert read > 2 * sendfile


def test_more_calls_cost_more_cpu(fast: send_file.SendFiles) -> None:
    small = fast.find("loopback", "read 1024 + send").cpu_s_per_gb
    large = fast.find("loopback", "read 131072 + send").cpu_s_per_gb
    assert small
    assert large
    assert small > 1.5 * large  # 4 to 5 times on a quiet machine


def test_over_a_slow_wire_only_cpu_time_differs() -> None:
    wire = send_file.measure(parts=["wire"], sizes_mb=[4], blocks=[4096], wire_runs=3)
    read, sendfile = (wire.find("wire", name) for name in (A, B))
    assert read.wall_s
    assert sendfile.wall_s
    least_s = 0.99 * 4 / goodput_mbyte_s(100)
    assert min(read.wall_s, sendfile.wall_s) >= least_s
    assert (read.cpu_s_per_gb or 0) > (sendfile.cpu_s_per_gb or 0)


def test_copies_per_method() -> None:
    count = {name: copies_per_byte(name) for name in ("read+send", "mmap+send", "sendfile")}
    assert [each.sender for each in count.values()] == [2, 1, 0]
    assert copies_per_byte("zerocopy", path="same machine").transit == 1


def test_zero_copy_copies_after_all(fast: send_file.SendFiles) -> None:
    row = fast.find("loopback", "MSG_ZEROCOPY").row()
    copied, _of, sends = row["copied_after_all"].split()
    assert copied == sends
