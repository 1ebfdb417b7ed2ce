"""Hundreds of laboratories leave nothing behind."""

from __future__ import annotations

import uuid

import pytest
from tests.support.lifetime import in_sequence, processes_with, start_and_kill, until

pytestmark = pytest.mark.needs_lab


@pytest.mark.timeout(600)
def test_hundreds_in_sequence_leave_no_namespace_and_no_memory() -> None:
    # The limit also counts namespaces that the kernel has not yet freed. The laboratories make 900
    # in all, which fit only if it frees them.
    script = 'echo 600 > /proc/sys/user/max_net_namespaces && exec "$@"'
    found = in_sequence(300, ["unshare", "--user", "--map-root-user", "sh", "-c", script, "sh"])
    assert found["after"] == found["before"]
    assert found["grown_mib"] < 18  # 64 KiB per laboratory


def test_a_hundred_whose_owner_is_sigkilled_leave_nothing() -> None:
    mark = f"MARK={uuid.uuid4()}"
    for _ in range(5):
        start_and_kill("Lab", 20, mark, processes=200)
    until(lambda: not processes_with(mark))
