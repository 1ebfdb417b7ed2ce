"""Facts of lesson 10, from the same experiments: counts, order, wide ratios of one run."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from tests.support.nonempty import each

from tcplab import figures
from tcplab.experiments import bottleneck, notsent_lowat, recordings
from tcplab.experiments.bottleneck import controls
from tcplab.experiments.bottleneck.bufferbloat import Manager
from tcplab.models import Reason
from tcplab.models.links import sawtooth_share


@pytest.fixture(scope="module")
def routers() -> bottleneck.Bufferbloat:
    managers: list[Manager] = ["tail_drop", "codel", "fq_codel", "pie", "codel+ecn"]
    return bottleneck.measure_bufferbloat([300], ["cubic"], managers, rtt_ms=20, duration_s=8)


@pytest.mark.needs_lab
def test_a_managed_queue_is_short_in_the_same_room(routers: bottleneck.Bufferbloat) -> None:
    full = routers[300, "cubic", "tail_drop"]
    assert full.most_queue > 150
    for name in ("codel", "fq_codel", "pie", "codel+ecn"):
        managed = routers[300, "cubic", name]
        assert 3 * managed.median_queue < full.median_queue
        assert 2 * managed.probe_ms < full.probe_ms
        assert managed.mbit > full.mbit / 2


@pytest.mark.needs_lab
def test_marks_are_in_place_of_drops(routers: bottleneck.Bufferbloat) -> None:
    dropping, marking = routers[300, "cubic", "codel"], routers[300, "cubic", "codel+ecn"]
    assert dropping.drops > 0 == dropping.marks
    assert marking.marks > 5 * marking.drops
    assert marking.retransmissions < dropping.retransmissions


@pytest.mark.needs_lab
def test_a_larger_buffer_keeps_the_line_busier_up_to_one_bdp() -> None:
    found = bottleneck.measure_router_buffers(flows=[1, 4], bdps=[0.1, 1], duration_s=6)
    assert [each.packets for each in found.variants] == [7, 65, 7, 65]
    for count in (1, 4):
        assert found[count, 0.1].used < found[count, 1].used
        assert found[count, 0.1].median_queue < found[count, 1].median_queue
    assert found[1, 1].model_used == 1
    assert found[1, 1].jain == 1
    assert found[4, 1].jain > 0.5


@pytest.mark.needs_lab
def test_who_wins_depends_on_the_queue() -> None:
    found = bottleneck.measure_controls(queues=[16, 320], duration_s=7)
    names = {each.controls for each in found.variants}
    assert {"cubic", "reno", "cubic, reno"} <= names
    for contest in each(found.variants):
        assert (contest.second_mbit is None) == (", " not in contest.controls)
        assert contest.mbit < 9.5  # the line's, without headers
    assert found["cubic", 320].median_queue > 3 * found["cubic", 16].median_queue
    if "bbr" in names:
        short, long = (found["cubic, bbr", packets].first_share for packets in (16, 320))
        assert short < long
        assert found["bbr", 320].median_queue < found["cubic", 320].median_queue / 2


@pytest.mark.needs_lab
def test_missing_congestion_controls_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controls, "congestion_controls", lambda: ["cubic", "reno"])
    found = bottleneck.measure_controls(queues=[16], congestions=["reno", "bbr"], duration_s=2)
    assert [each.controls for each in found.variants] == ["reno"]
    assert "bbr; root may load more: sudo modprobe -a tcp_bbr" in found.provenance["left_out"]


@pytest.mark.needs_lab
def test_a_far_flow_gets_less_and_a_fair_queue_gives_it_more() -> None:
    races = bottleneck.measure_rtt_fairness(
        [10, 160], ["reno"], ["tail_drop", "fq_codel"], queue_packets=20, duration_s=10
    )
    unfair, fair = races["reno", "tail_drop"], races["reno", "fq_codel"]
    assert unfair.ratio > 2 * fair.ratio
    assert unfair.jain < fair.jain


@pytest.mark.needs_lab
def test_unsent_data_is_bounded_and_fresh() -> None:
    ages = notsent_lowat.measure(rtts_ms=[20, 200], duration_s=4)
    for rtt_ms in (20, 200):
        alone, bounded = (
            ages[name, rtt_ms] for name in ("left to the kernel", "TCP_NOTSENT_LOWAT")
        )
        assert bounded.unsent_bytes <= 16_384 + 1024 < alone.unsent_bytes
        assert bounded.age_ms < alone.age_ms
        assert bounded.age_ms >= rtt_ms / 2
    small = ages["SO_SNDBUF", 200]
    assert small.in_flight_bytes < ages["TCP_NOTSENT_LOWAT", 200].in_flight_bytes / 2
    assert small.mbit < ages["TCP_NOTSENT_LOWAT", 200].mbit / 2


@pytest.mark.parametrize(("bdps", "share"), [(0, 0.75), (1, 1.0), (5, 1.0), (1 / 3, 12 / 13)])
def test_share_of_the_sawtooth(bdps: float, share: float) -> None:
    assert sawtooth_share(bdps) == pytest.approx(share)


@pytest.mark.parametrize("buffer", [0.1, 0.5, 0.9])
def test_share_of_the_sawtooth_is_that_of_its_tooth(buffer: float) -> None:
    """Against the tooth itself: a segment more per round trip, which the queue makes longer."""
    path = 10_000
    sent = took = 0.0
    for window in range(round((1 + buffer) * path / 2), round((1 + buffer) * path)):
        sent += window
        took += max(window, path) / path
    assert sawtooth_share(buffer) == pytest.approx(sent / took / path, rel=1e-3)


# ---- what is shipped -----------------------------------------------------------------------------


def shipped_timelines() -> dict[str, Any]:
    """The timelines of lessons 09 and 10 in the recordings."""
    found = {}
    for name in ("short-transfer", "lost-segment"):
        for path in sorted((recordings.DIRECTORY / name).glob("*.json.gz")):
            result = recordings.decode(json.loads(gzip.decompress(path.read_bytes()))["result"])
            holders = result.variants if name == "lost-segment" else [result]
            for number, holder in enumerate(holders):
                found[f"{name}/{path.name}/{number}"] = holder.timeline()
    return found


def test_every_reason_in_the_shipped_examples_is_known() -> None:
    timelines = shipped_timelines()
    assert len(timelines) >= 9
    for name, timeline in each(timelines.items()):
        unknown = [s for s in (*timeline.segments, *timeline.holds) if s.reason is Reason.UNKNOWN]
        assert not unknown, name
    held = {hold.reason for timeline in timelines.values() for hold in timeline.holds}
    assert {Reason.CWND_LIMITED, Reason.RATE_LIMITED, Reason.RETRANSMISSION} <= held


def test_other_courses_measurements_are_shipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCPLAB_MODE", "recorded")
    bloat = bottleneck.measure_bufferbloat()
    assert [each.queue_packets for each in bloat.variants] == [100, 20, 5]
    crowds = bottleneck.measure_fairness()
    assert [each.flows for each in crowds.variants] == [1, 2, 3, 4, 5]
    races = bottleneck.measure_rtt_fairness()
    assert [each.congestion for each in races.variants] == ["reno", "cubic"]
    for result in (bloat, crowds, races):
        assert "Four strips" in figures.bottleneck(result).alt
