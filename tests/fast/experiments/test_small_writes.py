from __future__ import annotations

import pytest

from tcplab.experiments import small_writes, table, write_patterns
from tcplab.models import message_cost


@pytest.fixture
def shown() -> small_writes.SmallWrites:
    return small_writes.measure(segments=True)


def ms(result: small_writes.SmallWrites) -> dict[str, float]:
    return {row["variant"]: row["ms_per_message"] for row in result.rows()}


def test_each_variant_sends_its_number_of_segments(shown: small_writes.SmallWrites) -> None:
    per_message = {row["variant"]: row["data_segments_per_message"] for row in shown.rows()}
    assert per_message == {"default": 2, "no_delay": 15, "cork": 1, "writev": 1}
    # Nagle's algorithm sends one small write and holds the rest.
    assert shown["default"].data_segment_sizes == [2, 28] * 20
    assert shown["cork"].data_segment_sizes == [30] * 20


def test_ten_segments_bound_the_first_message(shown: small_writes.SmallWrites) -> None:
    # The initial window is ten segments (RFC 6928). A further write waits until an ACK opens it.
    segments = shown["no_delay"].exchange.captured
    data = segments.data("client")[:15]
    acked = segments.acks("server")
    first_ack_ns = acked["time_ns"][acked["ack"] > data["seq"][0]][0]
    assert (data["time_ns"] < first_ack_ns).sum() <= 10
    sizes = shown["no_delay"].data_segment_sizes or []
    assert sizes[:10] == [2] * 10
    assert sizes[-15:] == [2] * 15


def test_after_the_first_exchange_only_default_waits(shown: small_writes.SmallWrites) -> None:
    times = ms(shown)
    assert times.pop("default") > 30 > 50 * max(times.values())
    first, *later = shown["default"].message_ms()
    assert first < min(later) / 4


def test_either_mechanism_alone_does_not_stall() -> None:
    delayed = ms(small_writes.measure(10, quickack="off", variants=["default", "no_delay"]))
    at_once = ms(small_writes.measure(10, quickack="always", variants=["default"]))
    assert delayed["default"] > 10 * max(delayed["no_delay"], at_once["default"])


def test_published_mean_is_shown_only_for_its_own_case(shown: small_writes.SmallWrites) -> None:
    text = table(shown).text()
    assert "published mean" in text
    assert "40.013" in text
    assert len(text.splitlines()) == 2 + 4
    for provenance in (
        {"writes": 9},
        {"quickack": "always"},
        {"link": {"client->server": {"delay_ms": 10.0}}},
    ):
        other = small_writes.SmallWrites(shown.variants, {**shown.provenance, **provenance})
        assert "published" not in table(other).text()


# ---- write patterns ------------------------------------------------------------------------------


def test_minshall_lets_a_small_tail_go_after_full_segments() -> None:
    patterns = [(100,), (4, 100), (1448, 100), (2896, 100), (1449, 100)]
    rows = {row["variant"]: row for row in write_patterns.measure(patterns).rows()}
    assert rows["1448 + 100"]["segments"] == "1448 + 100"
    assert rows["2896 + 100"]["segments"] == "1448 + 1448 + 100"
    assert rows["1449 + 100"]["segments"] == "1448 + 1 + 100"
    stalled_ms = rows.pop("4 + 100")["arrival_ms"]
    assert stalled_ms > 100 * max(row["arrival_ms"] for row in rows.values())
    assert message_cost([4, 100]).ms_per_message == pytest.approx(stalled_ms, abs=4)
