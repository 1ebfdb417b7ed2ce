"""Facts of lesson 05b: Microsoft's two cases, and what the model says of their receivers."""

from __future__ import annotations

import pytest

from tcplab.experiments import quotes, records
from tcplab.models import Peer, message_cost

# ---- case 1: records ----


@pytest.fixture(scope="module")
def sent() -> records.Records:
    return records.measure(unbuffered_count=40, segments=True)


def test_unbuffered_stalls_only_on_delayed_acks(sent: records.Records) -> None:
    # Every second one of 40 on a quiet machine. Before the receiver has read for the first time, up
    # to 16 records are acknowledged at once (TCP_MAX_QUICKACKS); a busy machine uses them up.
    late = sent["unbuffered", "delaying"].send_ms()
    assert sum(each > 25 for each in late) >= 5
    prompt = sent["unbuffered", "linux"].send_ms()
    assert sum(each > 25 for each in prompt) <= len(prompt) / 4


def test_nodelay_does_not_help_an_application_that_waits(sent: records.Records) -> None:
    late = sent["unbuffered+nodelay", "delaying"].send_ms()
    assert sum(each > 25 for each in late) >= 5


def test_nothing_stalls_with_the_default_buffer(sent: records.Records) -> None:
    slow = sent["unbuffered", "delaying"].result.records_per_s
    for way in ("default", "nodelay", "batch"):
        assert sent[way, "delaying"].result.records_per_s > 10 * slow


def test_kernel_sends_few_segments_for_many_records(sent: records.Records) -> None:
    plain, alone = sent["default", "linux"], sent["unbuffered", "linux"]
    assert plain.result.sends == 10_000
    assert plain.segments_per_record < 0.5
    assert alone.segments_per_record == 1


def test_a_batch_saves_calls_and_costs_bytes(sent: records.Records) -> None:
    batch, plain = sent["batch", "linux"].result, sent["default", "linux"].result
    assert batch.sends == 125
    assert batch.bytes == 10_000 * 100 + 125 * 4
    assert plain.bytes / 1024 == pytest.approx(591, abs=1)  # the text's 976 K would be 100 each
    assert round(10_000 * 100 / 1024) == 977


def test_a_read_of_200_bytes_is_not_a_record(sent: records.Records) -> None:
    plain = sent["default", "linux"].result
    assert plain.one_record_reads < plain.reads / 2


def test_five_records_per_second_is_windows_200_ms_timer() -> None:
    assert records.model_per_s("unbuffered", "windows") == pytest.approx(5, rel=0.01)
    assert records.model_per_s("unbuffered", "delaying") == pytest.approx(45, rel=0.1)
    assert records.model_per_s("unbuffered", "linux") is None


# ---- case 2: quotes ----


@pytest.fixture(scope="module")
def asked() -> quotes.Quotes:
    return quotes.measure(count=40, segments=True)


def test_two_connections_stall_only_on_delayed_acks(asked: quotes.Quotes) -> None:
    assert asked["two", "delaying"].stalled_share >= 0.15  # half, on a quiet machine
    assert asked["two", "linux"].stalled_share <= 0.25


def test_one_connection_and_nodelay_are_cures(asked: quotes.Quotes) -> None:
    for way in ("single", "two+nodelay"):
        assert asked[way, "delaying"].stalled_share <= 0.25
    single = asked["single", "delaying"].result.quotes_per_s
    assert single > 5 * asked["two", "delaying"].result.quotes_per_s


def test_over_one_connection_the_quote_carries_the_ack(asked: quotes.Quotes) -> None:
    single, two = asked["single", "linux"], asked["two", "linux"]
    assert single.pure_acks_per_quote is not None
    assert two.pure_acks_per_quote is not None
    assert single.pure_acks_per_quote < two.pure_acks_per_quote / 2


def test_five_quotes_per_second_and_the_cures_on_windows() -> None:
    assert quotes.model_per_s("two", "windows") == pytest.approx(5, rel=0.01)
    assert quotes.model_per_s("two, batch", "windows", 20) == pytest.approx(100, rel=0.01)
    assert quotes.model_per_s("two+nodelay", "windows") is None
    assert quotes.model_per_s("single", "windows") is None


# ---- the challenge: an ACK for every second, or every third, record ----


def test_nodelay_matters_once_two_records_are_written_before_the_wait() -> None:
    def cost_ms(records: int, option: str) -> float:
        classic = Peer(acks="classic")
        return message_cost([60] * records, option, reply_bytes=0, peer=classic).ms_per_message

    assert cost_ms(2, "no_delay") < 1
    assert cost_ms(2, "default") == pytest.approx(400, rel=0.01)
    assert cost_ms(3, "no_delay") == pytest.approx(200, rel=0.01)
    assert cost_ms(3, "default") == pytest.approx(400, rel=0.01)
