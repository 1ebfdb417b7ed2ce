"""Bufferbloat, fairness and RTT fairness: counts, order and wide ratios."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path

import pytest
from tests.support.figures.readable import assert_readable
from tests.support.nonempty import each

from tcplab import Lab, figures
from tcplab.capture import queue_events
from tcplab.cli import main
from tcplab.errors import ParameterError
from tcplab.experiments import as_json, bottleneck
from tcplab.models import jain_index
from tcplab.programs import tcp_bulk

pytestmark = pytest.mark.needs_lab


@pytest.fixture(scope="module")
def bloat() -> bottleneck.Bufferbloat:
    return bottleneck.measure_bufferbloat(queues=(100, 5), duration_s=6, page_bytes=20_000)


@pytest.fixture(scope="module")
def crowds() -> bottleneck.Fairness:
    return bottleneck.measure_fairness(flows=(1, 3), duration_s=8)


@pytest.fixture(scope="module")
def races() -> bottleneck.RttFairness:
    return bottleneck.measure_rtt_fairness(
        rtts_ms=(10, 160), congestions=("reno",), queue_packets=20, duration_s=12
    )


def test_a_longer_queue_makes_everybody_wait(bloat: bottleneck.Bufferbloat) -> None:
    long, short = bloat[100, "reno", "tail_drop"], bloat[5, "reno", "tail_drop"]
    assert 50 < long.most_queue <= 100
    assert short.most_queue <= 5
    assert long.median_queue > 3 * short.median_queue
    assert long.probe_ms > 2 * short.probe_ms
    assert short.drops > 0
    for variant in each(bloat.variants):
        assert variant.pages > 0
        assert variant.run.flows[0].congestion == "reno"
        assert variant.mbit < 9.5  # the line's, without headers
        # What the wire dropped TCP sent again, or the page's TCP did.
        assert variant.retransmissions > 0


def test_the_series_are_on_one_clock(bloat: bottleneck.Bufferbloat) -> None:
    for variant in each(bloat.variants):
        run = variant.run
        flow = run.flows[0]
        times = [moment.time_s for moment in flow.moments]
        assert times == sorted(times)
        assert 0 <= times[0] < 3
        assert times[-1] <= 6
        assert all(0 <= at_s <= 6 for at_s, _length in each(run.queue))
        assert all(0 <= at_s <= 6 for at_s in each(run.drops_s))
        # The window halves after a drop, never before the first.
        shrunk = [
            b.time_s
            for a, b in zip(flow.moments, flow.moments[1:], strict=False)
            if b.cwnd_segments < a.cwnd_segments
        ]
        assert shrunk
        assert min(shrunk) >= run.drops_s[0]


def test_flows_share_the_link(crowds: bottleneck.Fairness) -> None:
    alone, three = crowds[1], crowds[3]
    assert alone.jain == 1
    assert len(three.run.flows) == 3
    assert [flow.rtt_ms for flow in three.run.flows] == [4, 6, 8]
    assert 1 / 3 < three.jain <= 1
    for crowd in each(crowds.variants):
        assert crowd.least_mbit <= crowd.mbit / crowd.flows <= crowd.most_mbit
        assert crowd.mbit < 9.5
        assert crowd.mbit > 3


def test_a_longer_round_trip_gets_less(races: bottleneck.RttFairness) -> None:
    reno = races["reno", "tail_drop"]
    assert reno.near_mbit > 1.5 * reno.far_mbit
    assert reno.model_ratio > 1.5
    assert reno.ratio == reno.near_mbit / reno.far_mbit


def test_each_has_a_figure_and_json(
    bloat: bottleneck.Bufferbloat,
    crowds: bottleneck.Fairness,
    races: bottleneck.RttFairness,
    tmp_path: Path,
) -> None:
    for result in (bloat, crowds, races):
        picture = figures.bottleneck(result)
        assert "Four strips" in picture.alt
        assert picture.title in picture.alt
        assert_readable(picture)
        picture.save(tmp_path / "one.png")
        assert len(json.loads(as_json(result))["rows"]) == len(result.variants)
        assert "wire_late_share" in result.provenance
        assert result.provenance["congestion"] == "reno"
    one = figures.bottleneck(crowds, 1)
    assert one.title != figures.bottleneck(crowds).title
    with pytest.raises(KeyError, match="7 was not measured"):
        figures.bottleneck(crowds, 7)
    with pytest.raises(ValueError, match="nothing to draw"):
        figures.bottleneck(bottleneck.Fairness([], {}))


def test_the_command_line_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "fair.svg"
    arguments = ["run", "fairness", "--flows", "2", "--duration-s", "2", "--figure", str(path)]
    assert main(arguments) == 0
    assert "2 flows" in capsys.readouterr().out
    assert path.read_text().startswith("<?xml")


def test_a_managed_queue_is_short_and_marks() -> None:
    found = bottleneck.measure_bufferbloat(
        queues=(1000,), aqms=("codel+ecn",), duration_s=4, page_bytes=5_000
    )
    (only,) = found.variants
    # What is not ECN-capable is dropped in place of marked: a SYN, what is sent again, a probe.
    assert only.marks == len(only.run.marks_s) > 5 * only.drops
    assert only.retransmissions <= 5 * only.drops


def test_queue_events_tell_the_queue_of_each_packet() -> None:
    with Lab(rtt_ms=4, rate_mbit=5, queue_packets=10) as lab:
        with lab.link.capture() as recording:
            tcp_bulk(lab, count=200, sndbuf_bytes=None, rcvbuf_bytes=None)
            time.sleep(0.1)  # the last ACK of all is still on its way
        counted = lab.link.counters()["client->server"]
        with recording:
            events = queue_events(recording)
    mine = events[events["direction"] == 0]
    came, left = (mine[mine["event"] == name] for name in ("came", "left"))
    dropped = mine[mine["event"] == "dropped"]
    assert len(came) + len(dropped) == counted["packets_in"]
    assert len(left) == counted["packets_out"]
    assert len(dropped) == counted["dropped"]["queue"] > 0
    assert set(dropped["reason"]) == {"queue"}
    assert set(dropped["queue_packets"]) == {10}
    assert came["queue_packets"].max() == 9
    assert (mine["time_ns"][1:] >= mine["time_ns"][:-1]).all()
    assert (left["late_ns"] >= 0).all()


@pytest.mark.parametrize(
    ("rates", "index"), [((5, 5, 5), 1.0), ((9, 0, 0), 1 / 3), ((1, 2, 3), 36 / 42)]
)
def test_jains_index(rates: tuple[float, ...], index: float) -> None:
    assert math.isclose(jain_index(rates), index)


@pytest.mark.parametrize("rates", [(), (0, 0), (1, -1)])
def test_no_index_of(rates: tuple[float, ...]) -> None:
    with pytest.raises(ParameterError):
        jain_index(rates)


def test_congestion_controls_that_the_kernel_lacks_are_refused() -> None:
    with pytest.raises(ParameterError, match="congestions"):
        bottleneck.measure_bufferbloat(congestions=("vegas",))  # type: ignore[arg-type]
