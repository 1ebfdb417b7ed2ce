"""Make every measurement return its recording, on which the lessons' statements are tested."""

import pytest


@pytest.fixture(autouse=True)
def recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCPLAB_MODE", "recorded")
