"""Check lessons queues, sharing and send-buffer against their recordings."""

import math

import pytest

from tcplab.experiments import notsent_lowat
from tcplab.experiments.bottleneck import Bloat, Flow
from tcplab.experiments.bottleneck.sharing import FlowSample, Shared


def test_data_age_comes_mostly_from_the_senders_own_queue() -> None:
    ages = notsent_lowat.measure()
    for rtt_ms in (20, 200):
        alone, small, bounded = (
            ages[name, rtt_ms] for name in ("left to the kernel", "SO_SNDBUF", "TCP_NOTSENT_LOWAT")
        )
        # A small send buffer also limits the bytes in flight, and so the rate.
        assert small.in_flight_bytes < bounded.in_flight_bytes / 2
        assert small.mbit < bounded.mbit / 2
        for aged in (alone, small, bounded):
            assert aged.age_ms == pytest.approx(aged.model_age_ms, rel=0.1)


def test_run_without_page_loads_has_no_mean_page_time() -> None:
    moments = [FlowSample(at, 10, 40.0, 0, 0, 0) for at in range(10)]
    run = Shared([Flow("client", "reno", 40, moments)], [(0, 1)], [], [], [], [])
    bloat = Bloat(run, 5, "reno", "tail_drop")
    assert bloat.pages == 0
    assert math.isnan(bloat.page_s)
