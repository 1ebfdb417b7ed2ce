"""Every measurement returns its shipped recording, unless a test chooses another mode."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCPLAB_MODE", "recorded")
