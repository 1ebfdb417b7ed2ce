"""The memory of send queues, by what filled them."""

from __future__ import annotations

import pytest

from tcplab.errors import LabError
from tcplab.experiments import send_queue, table


def test_queued_copies_take_memory_and_queued_pages_do_not() -> None:
    # Other programs take and give memory, too: so several looks, until one was undisturbed.
    for _attempt in range(12):
        queues = send_queue.measure(clients=16, runs=1)
        copied, shared = queues["read + send"], queues["sendfile"]
        assert min(copied.queued_bytes[0], shared.queued_bytes[0]) > 16 * 100_000
        if copied.memory_per_byte > 0.5 and abs(shared.memory_per_byte) < 0.25:
            break
    else:
        pytest.fail(f"never seen apart: {table(queues)}")
    assert len(table(queues).text().splitlines()) == 2 + 2


def test_bad_numbers_of_clients_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="clients=0 must be a whole number from 1 to 400"):
        send_queue.measure(clients=0)
    monkeypatch.setattr(send_queue, "_meminfo_bytes", lambda _name: 1_000_000)
    with pytest.raises(LabError, match="try fewer clients"):
        send_queue.measure(clients=400)
