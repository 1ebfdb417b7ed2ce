"""The lessons' statements hold for their recordings, which every measurement returns here."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCPLAB_MODE", "recorded")
