"""Check lesson records-and-quotes (Microsoft's two cases) against its recordings."""

from __future__ import annotations

import pytest

from tcplab.experiments import quotes, records

# ---- case 1: records -----------------------------------------------------------------------------


def test_late_acks_allow_45_records_per_second() -> None:
    assert records.model_per_s("unbuffered", "linux") is None
    model = records.model_per_s("unbuffered", "delaying")
    assert model == pytest.approx(45, rel=0.1)
    sent = records.measure(unbuffered_count=60, segments=True)
    assert sent["unbuffered", "delaying"].result.records_per_s == pytest.approx(model, rel=0.2)


# ---- case 2: quotes ------------------------------------------------------------------------------


def test_a_batch_of_five_stalls_as_often_and_carries_five_times_as_much() -> None:
    ways: list[quotes.QuoteMode] = ["two", "two+batch", "single", "single+batch"]
    mine = quotes.measure(60, batch=5, rtt_ms=0, variants=ways, servers=["delaying"])
    per_s = {way: mine[way, "delaying"].result.quotes_per_s for way in ways}
    assert per_s["two+batch"] == pytest.approx(5 * per_s["two"], rel=0.3)
    assert per_s["single+batch"] > 3 * per_s["single"]
