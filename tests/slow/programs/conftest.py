"""The C programs as installed."""

import pytest
from tests.support.programs.fixtures import installed
from tests.support.programs.harness import Programs

__all__ = ["installed"]


@pytest.fixture(scope="session")
def programs(installed: Programs) -> Programs:
    return installed
