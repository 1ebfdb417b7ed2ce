"""The flagship experiment: facts about segments, and one wide ratio of times."""

from __future__ import annotations

import json

import pytest

from tcplab import Lab, Loopback
from tcplab.experiments import as_json, small_writes, table, write_patterns


@pytest.fixture(scope="module")
def result() -> small_writes.SmallWrites:
    return small_writes.measure(messages=20)


def row(result: small_writes.SmallWrites, variant: str) -> dict[str, float]:
    return next(each for each in result.rows() if each["variant"] == variant)


def test_no_packet_was_lost_by_the_recorder(result: small_writes.SmallWrites) -> None:
    assert result.provenance["capture_drops"] == 0


def test_segments_of_each_variant(result: small_writes.SmallWrites) -> None:
    assert row(result, "no_delay")["data_segments_per_message"] == 15
    assert row(result, "cork")["data_segments_per_message"] == 1
    assert row(result, "writev")["data_segments_per_message"] == 1
    assert row(result, "default")["data_segments_per_message"] == 2
    assert result["cork"].data_segment_sizes == [30] * 20


def test_the_initial_window_of_ten_segments_bounds_the_first_message(
    result: small_writes.SmallWrites,
) -> None:
    # RFC 6928. What cannot leave waits, and is sent together when an ACK opens the window.
    sizes = result["no_delay"].data_segment_sizes
    assert sizes is not None
    assert sizes[:10] == [2] * 10
    assert 10 < row(result, "no_delay")["data_segments_first_message"] <= 15
    assert sum(sizes) == 30 * 20
    # Until ACKs have widened the window; on a busy machine that may take to the second message.
    assert sum(size != 2 for size in sizes) <= 2


def test_nagle_sends_one_small_write_and_holds_the_rest(result: small_writes.SmallWrites) -> None:
    sizes = result["default"].data_segment_sizes
    assert sizes is not None
    assert sizes[-8:] == [2, 28] * 4


def test_default_waits_for_a_timer_and_cork_does_not(result: small_writes.SmallWrites) -> None:
    assert row(result, "default")["ms_per_message"] >= 30
    assert row(result, "default")["ms_per_message"] / row(result, "cork")["ms_per_message"] >= 50


def test_published_mean_stands_beside_its_own_case_only(result: small_writes.SmallWrites) -> None:
    assert "Red Hat's mean" in table(result).text()
    assert row(result, "default")["published_ms_per_message"] == pytest.approx(40.0129781)
    for provenance in (
        {"writes": 9},
        {"quickack": "always"},
        {"link": {"client->server": {"delay_ms": 10.0}}},
    ):
        other = small_writes.SmallWrites(result.variants, {**result.provenance, **provenance})
        assert "Red Hat" not in table(other).text()


def test_the_first_exchange_is_not_delayed(result: small_writes.SmallWrites) -> None:
    times_ms = result["default"].message_ms()
    assert len(times_ms) == 20
    assert times_ms[0] < sorted(times_ms)[10]


def test_system_calls_per_message(result: small_writes.SmallWrites) -> None:
    # 15 writes or one, a read of the reply, and for the cork its two ends.
    calls = {each["variant"]: each["system_calls_per_message"] for each in result.rows()}
    assert calls == {"default": 16, "no_delay": 16, "cork": 18, "writev": 2}


def test_the_congestion_control_is_pinned(result: small_writes.SmallWrites) -> None:
    assert {each["congestion"] for each in result.rows()} == {"cubic"}


def test_json_has_the_shape_of_every_experiment(result: small_writes.SmallWrites) -> None:
    data = json.loads(as_json(result))
    assert set(data) == {"experiment", "rows", "provenance"}
    assert data["experiment"] == "small-writes"
    assert {"kernel", "cpu", "cores", "sysctls", "link", "capture_drops"} <= set(data["provenance"])


def test_table_has_a_row_a_variant(result: small_writes.SmallWrites) -> None:
    lines = table(result).text().splitlines()
    assert len(lines) == 2 + 4
    assert "40.013" in table(result).text()  # the text's own figure, beside ours


def test_either_mechanism_alone_does_not_stall() -> None:
    with Lab() as lab:
        late = small_writes.measure(
            10, quickack="off", variants=["default", "no_delay"], network=lab
        )
        prompt = small_writes.measure(10, quickack="always", variants=["default"], network=lab)
    stalled = row(late, "default")["ms_per_message"]
    assert stalled > 10 * row(late, "no_delay")["ms_per_message"]
    assert stalled > 10 * row(prompt, "default")["ms_per_message"]


def test_on_loopback_nothing_is_recorded_and_said_so() -> None:
    with Loopback() as loop:
        result = small_writes.measure(5, variants=["cork"], network=loop)
    assert result["cork"].data_segment_sizes is None
    assert result.provenance["capture_drops"] is None
    assert "–" in table(result).text()
    with pytest.raises(ValueError, match="no segments were recorded"):
        result["cork"].timeline()


def test_bad_values_are_named() -> None:
    with pytest.raises(ValueError, match="messages=0 must be a whole number from 1 to 100000"):
        small_writes.measure(messages=0)
    with pytest.raises(ValueError, match="variants='fast' is not known; use one of default"):
        small_writes.measure(variants=["fast"])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="writes=0 must be a whole number from 1 to 1024"):
        small_writes.measure(writes=0)


# ---- write patterns ----


def test_minshall_lets_a_small_tail_go_after_full_segments() -> None:
    patterns = [(100,), (4, 100), (1448, 100), (2896, 100), (1449, 100)]
    measured = write_patterns.measure(patterns)
    rows = {each["variant"]: each for each in measured.rows()}
    assert rows["1448 + 100"]["segments"] == "1448 + 100"
    assert rows["2896 + 100"]["segments"] == "1448 + 1448 + 100"
    assert rows["1449 + 100"]["segments"] == "1448 + 1 + 100"
    stalled = rows.pop("4 + 100")
    assert stalled["arrival_ms"] > 5 * max(each["arrival_ms"] for each in rows.values())


def test_bad_patterns_are_named() -> None:
    with pytest.raises(ValueError, match=r"pattern \(0,\)"):
        write_patterns.measure([(0,)])
    with pytest.raises(ValueError, match=r"pattern \(\)"):
        write_patterns.measure([()])
    with pytest.raises(ValueError, match="messages=0"):
        write_patterns.measure(messages=0)
