"""Facts of lesson 09, from the same experiments: counts, order, wide ratios of one run."""

from __future__ import annotations

import pytest
from tests.support.nonempty import each

from tcplab.experiments import idle_restart, loss_rate, lost_segment, short_transfer
from tcplab.models import Reason

pytestmark = pytest.mark.needs_lab


@pytest.fixture(scope="module")
def losses() -> lost_segment.Losses:
    return lost_segment.measure()


def test_a_transfer_takes_the_round_trips_of_the_model() -> None:
    sizes = short_transfer.measure_sizes([1_448, 14_480, 43_440, 144_800, 724_000], rtt_ms=100)
    for row in each(sizes.rows()):
        # A sender that a busy machine stops within a flight seems to have made two of it.
        assert row["model_round_trips"] <= row["round_trips"] <= 2 * row["model_round_trips"]
        assert row["took_ms"] > 0.95 * row["model_ms"]
    rates = [row["mbit"] for row in sizes.rows()]
    assert rates == sorted(rates)
    assert rates[-1] > 5 * rates[1]


def test_window_follows_the_staircase() -> None:
    """TCP_INFO shows each step of slow start, and nothing smaller after it."""
    grown = short_transfer.measure(144_800, rtt_ms=100)
    windows = [each["snd_cwnd"] for each in grown.exchange.samples]
    assert windows[0] == 10
    assert windows == sorted(windows)
    assert {10, 20, 40} <= set(windows)


def test_window_is_forgotten_after_a_pause_longer_than_the_timeout() -> None:
    pauses = idle_restart.measure(pauses_ms=(50, 1500), rtt_ms=100)
    kept, forgotten = pauses[50, True], pauses[1500, True]
    assert kept.pause_ms < forgotten.rto_ms < forgotten.pause_ms
    assert forgotten.flights_before[0] == forgotten.flights_after[0] == 10
    for row in each([kept, pauses[50, False], pauses[1500, False]]):
        assert row.cwnd_before >= 70
        assert row.flights_after[0] > 20


def test_one_lost_segment_is_sent_again_once(losses: lost_segment.Losses) -> None:
    assert [row.sent_again for row in losses.variants] == [0, 1, 1, 1, 10, 2]
    for row in each(losses.variants):
        again = [s for s in row.timeline().segments if s.reason is Reason.RETRANSMISSION]
        assert len(again) == row.sent_again
        assert not [s for s in row.timeline().segments if s.reason is Reason.UNKNOWN]


def test_what_follows_a_loss_decides_how_it_is_noticed(losses: lost_segment.Losses) -> None:
    for name in ("one of the first flight", "one of many"):
        assert (losses[name].recoveries, losses[name].probes, losses[name].timeouts) == (1, 0, 0)
        assert losses[name].sack_acks >= 3
    assert (losses["the last"].probes, losses["the last"].timeouts) == (1, 0)
    assert losses["the last"].sack_acks == 0
    assert (losses["the last twice"].probes, losses["the last twice"].timeouts) == (1, 1)


def test_the_last_segment_is_the_dear_one(losses: lost_segment.Losses) -> None:
    none, middle, last, twice = (
        losses[name].took_ms for name in ("none", "one of many", "the last", "the last twice")
    )
    # Two round trips and a delayed ACK; a busy machine may have held one of the two up.
    assert min(none, middle) + 200 < last < twice
    assert losses["one of the first flight"].cwnd_after < losses["one of many"].cwnd_after
    assert losses["the last"].cwnd_after > losses["one of many"].cwnd_after


def test_random_loss_costs_long_paths_more() -> None:
    lossy = loss_rate.measure([(1, 0.01), (100, 0.01), (40, 0.001)], ["reno"], duration_s=8)
    near, far, rare = (lossy["reno", *path].mbit for path in ((1, 0.01), (100, 0.01), (40, 0.001)))
    assert near > 3 * far
    assert rare > 2 * far
    for row in each(lossy.rows()):
        assert 0.2 < row["times_formula"] < 5
        assert row["retransmissions"] >= 3
