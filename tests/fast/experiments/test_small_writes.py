from __future__ import annotations

import pytest

from tcplab.experiments import small_writes, table


@pytest.fixture
def shown() -> small_writes.SmallWrites:
    return small_writes.measure(segments=True)


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
