"""Provide the mark of a panel's processes."""

import os
import uuid
from collections.abc import Iterator

import pytest


@pytest.fixture
def mark() -> Iterator[str]:
    """Return NAME=VALUE, set in the environment of every process that a test starts."""
    name, value = "TCPLAB_TEST_PANELS", str(uuid.uuid4())
    os.environ[name] = value
    yield f"{name}={value}"
    del os.environ[name]
