"""Check lesson records-and-quotes (Microsoft's two cases) against its recordings."""

from __future__ import annotations

import pytest

from tcplab.experiments import records


def test_late_acks_allow_45_records_per_second() -> None:
    assert records.model_per_s("unbuffered", "linux") is None
    model = records.model_per_s("unbuffered", "delaying")
    assert model == pytest.approx(45, rel=0.1)
    sent = records.measure(unbuffered_count=60, segments=True)
    assert sent["unbuffered", "delaying"].result.records_per_s == pytest.approx(model, rel=0.2)
