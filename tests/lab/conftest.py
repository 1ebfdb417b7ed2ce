"""Provide a laboratory for the tests that need no particular one."""

from collections.abc import Iterator

import pytest

from tcplab import Lab


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab() as made:
        yield made
