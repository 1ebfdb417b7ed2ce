from __future__ import annotations

from typing import Any, Final

import pytest

from tcplab import LabError
from tcplab.experiments import send_queue, sendfile
from tcplab.models import transfer_ms

A, B, C = "A: read 4096 + send", "B: sendfile", "C: cork, sendfile"
#: The arguments of the lesson's own measurements.
WIRE: Final[Any] = {"sizes_mb": [9, 32, 64], "block_bytes": [1024, 8192], "runs": 1}
FILES: Final[Any] = {"sizes_mb": [64], "block_bytes": [1024, 4096, 8192]}


def test_published_and_measured_seconds_are_those_of_the_wire() -> None:
    wire = sendfile.wire.measure(**WIRE)
    rows = {(row["variant"], row["file_mb"]): row for row in wire.rows()}
    assert len(sendfile.wire.PUBLISHED_S) == 9
    for (letter, size_mb), (fastest, slowest) in sendfile.wire.PUBLISHED_S.items():
        computed_s = transfer_ms(size_mb * 1_000_000, 0, 100) / 1000
        # The article's clock stopped once the last bytes were in the send buffer, a few
        # percent before they arrived.
        assert 0.92 * computed_s <= fastest <= 1.01 * computed_s, (letter, size_mb)
        name = next(name for name in (A, B, C) if name.startswith(letter))
        row = rows[name, size_mb]
        assert row["published_s"] == f"{fastest:.2f}–{slowest:.2f}"
        assert row["seconds"] == pytest.approx(computed_s, rel=0.05)
        assert row["seconds_min"] <= row["seconds"] <= row["seconds_max"]
    into_file = {variant.plan.shown for variant in wire.variants if variant.plan.into_file}
    shown = {name for name, _size in rows}
    assert shown - into_file == {f"{A}, to /dev/null", f"{B}, to /dev/null"}


def test_over_a_slow_wire_only_cpu_time_differs() -> None:
    wire = sendfile.wire.measure(**WIRE)
    read, send_file = (wire.find(name, 64) for name in (A, B))
    assert read.wall_s == pytest.approx(send_file.wall_s, rel=0.01)
    assert (read.cpu_s_per_gb or 0) > 2 * (send_file.cpu_s_per_gb or 1)


def test_without_the_wire_less_work_is_less_time() -> None:
    fast = sendfile.measure(**FILES)
    read, send_file = fast.find(A, 64), fast.find(B, 64)
    assert (read.system_calls, send_file.system_calls) == (31_250, 1)
    assert (read.cpu_s_per_gb or 0) > 3 * (send_file.cpu_s_per_gb or 1)
    assert (read.mb_per_s or 0) < (send_file.mb_per_s or 0) / 1.5
    blocks = [fast.find(f"read {size} + send").cpu_s_per_gb or 0 for size in (1024, 8192, 131_072)]
    assert blocks[0] > 2 * blocks[1] > 2 * blocks[2] > 0


def test_zero_copy_to_the_same_machine_copies_after_all() -> None:
    (cost, *_) = sendfile.measure(**FILES).find("MSG_ZEROCOPY").costs
    assert cost.zerocopy_copied == cost.zerocopy_sends > 0


def test_sendfile_halves_cpu_time_for_one_and_many_clients() -> None:
    clients = sendfile.measure_clients(clients=[1, 64]).variants
    for read, send_file in zip(clients[::2], clients[1::2], strict=True):
        assert (read.cpu_s_per_gb or 0) > 2 * (send_file.cpu_s_per_gb or 1)


def test_queues_hold_copies_after_send_and_pages_after_sendfile() -> None:
    queues = send_queue.measure(clients=32)
    copied, shared = queues["read + send"], queues["sendfile"]
    assert min(*copied.queued_bytes, *shared.queued_bytes) > 32 * 1_000_000
    assert copied.copied_per_byte == 1
    assert shared.copied_per_byte < 0.01


def test_header_leaves_alone_without_cork_or_msg_more() -> None:
    header = sendfile.header.measure(3)
    rows = {row["variant"]: row for row in header.rows()}
    assert [name for name, row in rows.items() if row["header_alone"] == "yes"] == [
        "default",
        "TCP_NODELAY",
    ]
    assert all(row["ms"] < 1.5 * 20 for row in rows.values())  # the file does not await an ACK


def test_more_clients_than_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCPLAB_MODE", "loopback")
    monkeypatch.setattr(send_queue, "_meminfo_bytes", lambda _name: 1_000_000)
    with pytest.raises(LabError, match="try fewer clients"):
        send_queue.measure(clients=400)
