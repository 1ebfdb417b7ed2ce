"""Check lesson records-and-quotes (Microsoft's two cases) against its recordings."""

from __future__ import annotations

import pytest

from tcplab.experiments import quotes, records


@pytest.fixture
def sent() -> records.Records:
    return records.measure(unbuffered_count=60, segments=True)


@pytest.fixture
def asked() -> quotes.Quotes:
    return quotes.measure(count=60, segments=True)


# ---- case 1: records -----------------------------------------------------------------------------


def test_unbuffered_stalls_on_delayed_acks_with_nodelay_or_without(sent: records.Records) -> None:
    for way in ("unbuffered", "unbuffered+nodelay"):
        late, prompt = sent[way, "delaying"].send_ms(), sent[way, "linux"].send_ms()
        assert len(late) == len(prompt) == 60
        assert sum(delay_ms > 25 for delay_ms in late) >= 25  # every second send is late
        assert max(prompt) < 25
        assert sent[way, "linux"].segments_per_record == 1


def test_kernel_joins_records_and_a_read_is_not_a_record(sent: records.Records) -> None:
    plain = sent["default", "linux"]
    assert plain.result.sends == 10_000
    assert plain.segments_per_record < 0.1
    assert plain.result.one_record_reads < plain.result.reads / 2


def test_late_acks_allow_45_records_per_second(sent: records.Records) -> None:
    assert records.model_per_s("unbuffered", "linux") is None
    model = records.model_per_s("unbuffered", "delaying")
    assert model == pytest.approx(45, rel=0.1)
    assert sent["unbuffered", "delaying"].result.records_per_s == pytest.approx(model, rel=0.2)


# ---- case 2: quotes ------------------------------------------------------------------------------


def test_two_connections_stall_on_delayed_acks_two_fixes_help(asked: quotes.Quotes) -> None:
    two = asked["two", "delaying"]
    assert two.stalled_share == pytest.approx(0.5, abs=0.1)
    for way, server in (("two", "linux"), ("single", "delaying"), ("two+nodelay", "delaying")):
        assert asked[way, server].stalled_share == 0
        assert asked[way, server].result.quotes_per_s > 20 * two.result.quotes_per_s


def test_a_batch_of_five_stalls_as_often_and_carries_five_times_as_much() -> None:
    ways: list[quotes.QuoteMode] = ["two", "two+batch", "single", "single+batch"]
    mine = quotes.measure(60, batch=5, rtt_ms=0, variants=ways, servers=["delaying"])
    per_s = {way: mine[way, "delaying"].result.quotes_per_s for way in ways}
    assert per_s["two+batch"] == pytest.approx(5 * per_s["two"], rel=0.3)
    assert per_s["single+batch"] > 3 * per_s["single"]
