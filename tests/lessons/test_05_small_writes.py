"""Facts of lesson 05: the matrix, and Microsoft's two cases."""

from __future__ import annotations

import pytest

from tcplab import figures
from tcplab.experiments import quotes, records, write_patterns
from tcplab.models import message_cost

# ---- the matrix ----


@pytest.fixture(scope="module")
def matrix() -> write_patterns.WriteMatrix:
    return write_patterns.measure_matrix()


def test_two_cells_of_forty_wait_for_a_timer(matrix: write_patterns.WriteMatrix) -> None:
    assert len(matrix.variants) == 40
    assert matrix[(4, 100), "default", "linux"].stalled
    assert matrix[(2,) * 15, "default", "linux"].stalled
    # A neighbour that took both CPUs for so long may look like a timer, but not often.
    assert sum(cell.stalled for cell in matrix.variants) <= 6
    assert matrix.provenance["capture_drops"] == 0


def test_matrix_figure(matrix: write_patterns.WriteMatrix) -> None:
    picture = figures.write_matrix(matrix)
    assert "of 40 combinations wait for a timer" in picture.title
    assert "4 + 100 with default, receiver linux" in picture.alt
    assert len(picture.table.rows) == 40


def test_segments_in_each_cell(matrix: write_patterns.WriteMatrix) -> None:
    for receiver in ("linux", "at once"):
        for option in ("cork", "msg_more", "writev"):
            assert matrix[(4, 100), option, receiver].segments == (104,)
            assert matrix[(2,) * 15, option, receiver].segments == (30,)
        assert matrix[(4, 100), "default", receiver].segments == (4, 100)
        assert matrix[(1448, 100), "default", receiver].segments == (1448, 100)
        assert matrix[(100,), "no_delay", receiver].segments == (100,)
    assert matrix[(2,) * 15, "default", "linux"].segments == (2, 28)
    assert len(matrix[(2,) * 15, "no_delay", "linux"].segments) >= 10


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


def test_the_first_two_of_the_lesson_agree_with_the_model() -> None:
    assert message_cost([4, 100]).ms_per_message == pytest.approx(44, abs=4)
