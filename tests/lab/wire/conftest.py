"""Provide a test bench with a wire, and the laboratory that holds it."""

from collections.abc import Iterator

import pytest
from tests.support.programs.fixtures import sanitized_directory
from tests.support.wire.bench import Bench
from tests.support.wire.model import Settings

from tcplab import Lab

__all__ = ["sanitized_directory"]


@pytest.fixture(scope="package")
def lab() -> Iterator[Lab]:
    """Return a laboratory whose client's namespace holds the benches."""
    with Lab() as made:
        yield made


@pytest.fixture(scope="package")
def shared_bench(lab: Lab) -> Iterator[Bench]:
    with Bench(lab) as made:
        yield made


@pytest.fixture
def bench(shared_bench: Bench) -> Bench:
    """Return an empty link between two ends, with the default settings."""
    shared_bench.wait_until(shared_bench.is_empty)
    shared_bench.use(Settings())
    shared_bench.set(mtu=0, icmp="on")
    shared_bench.command("reset")
    for end in shared_bench.ends:
        while end.receive(1, seconds=0):
            pass
    return shared_bench
