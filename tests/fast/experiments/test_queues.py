"""Check lessons queues, sharing and send-buffer against their recordings."""

from __future__ import annotations

import math

import pytest
from tests.support.nonempty import each

from tcplab.experiments import bottleneck, notsent_lowat
from tcplab.experiments.bottleneck import Flow, Moment, Shared, bufferbloat


def test_who_wins_depends_on_the_queue() -> None:
    result = bottleneck.measure_controls()
    for contest in each(result.variants):
        assert (contest.second_mbit is None) == (", " not in contest.controls)
        assert contest.mbit < 9.5  # headers take the rest of the line's 10 Mbit/s
    short, long = (result["reno, bbr", packets] for packets in (16, 320))
    assert short.first_share < 0.12
    assert long.first_share > 0.86
    assert result["reno", 320].rtt_ms > 4 * result["bbr", 320].rtt_ms
    assert result["bbr", 16].drops > result["reno", 16].drops


def test_data_age_comes_mostly_from_the_senders_own_queue() -> None:
    ages = notsent_lowat.measure()
    for rtt_ms in (20, 200):
        alone, small, bounded = (
            ages[name, rtt_ms] for name in ("left to the kernel", "SO_SNDBUF", "TCP_NOTSENT_LOWAT")
        )
        assert bounded.unsent_bytes <= 16_384 + 1024 < alone.unsent_bytes
        assert bounded.age_ms < alone.age_ms / 2
        assert bounded.mbit > 0.95 * alone.mbit
        # A small send buffer also limits the bytes in flight, and so the rate.
        assert small.in_flight_bytes < bounded.in_flight_bytes / 2
        assert small.mbit < bounded.mbit / 2
        for aged in (alone, small, bounded):
            assert aged.age_ms == pytest.approx(aged.model_age_ms, rel=0.1)


def test_run_without_page_loads_has_no_mean_page_time() -> None:
    moments = [Moment(at, 10, 40.0, 0, 0, 0) for at in range(10)]
    run = Shared([Flow("client", "reno", 40, moments)], [(0, 1)], [], [], [], [])
    bloat = bufferbloat.Bloat(5, "reno", "tail_drop", run)
    assert bloat.pages == 0
    assert math.isnan(bloat.page_s)
