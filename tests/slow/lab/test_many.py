"""Hundreds of laboratories leave nothing behind."""

import uuid

import pytest
from tests.support.lifetime import in_sequence, processes_with, start_and_kill, until

pytestmark = pytest.mark.needs_lab


@pytest.mark.timeout(600)
def test_300_laboratories_in_sequence_leak_nothing() -> None:
    # The limit also counts namespaces that the kernel has not yet freed. The laboratories make 900
    # in all, which fit only if it frees them.
    script = 'echo 600 > /proc/sys/user/max_net_namespaces && exec "$@"'
    resources = in_sequence(300, ["unshare", "--user", "--map-root-user", "sh", "-c", script, "sh"])
    assert resources["after"] == resources["before"]
    assert resources["grown_mib"] < 18  # 64 KiB per laboratory


def test_100_laboratories_end_when_their_owner_is_killed() -> None:
    mark = f"MARK={uuid.uuid4()}"
    for _ in range(5):
        start_and_kill("Lab", 20, mark, processes=200)
    until(lambda: not processes_with(mark))
