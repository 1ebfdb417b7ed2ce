import itertools
import re
import time
from pathlib import Path

import pytest
from tests.support.nonempty import each

from tcplab import Lab
from tcplab.capture import queue_events
from tcplab.cli import main
from tcplab.experiments import bottleneck, notsent_lowat
from tcplab.experiments.bottleneck import comparisons
from tcplab.experiments.bottleneck.sharing import Shared
from tcplab.programs import tcp_bulk

pytestmark = pytest.mark.needs_lab

LAST_ACK = "09"  # net/tcp_states.h


def assert_on_one_clock(run: Shared) -> None:
    """Assert that all series are within the two seconds of the measurement."""
    for flow in each(run.flows):
        times = [moment.time_s for moment in flow.moments]
        assert times == sorted(times)
        assert 0 <= times[0] < times[-1] <= 2
    assert all(0 <= at_s <= 2 for at_s, _length in each(run.queue))
    assert all(0 <= at_s <= 2 for at_s in each([*run.drops_s, *run.marks_s]))


def test_a_queue_fills_and_drops_and_a_managed_one_stays_short() -> None:
    result = bottleneck.measure_bufferbloat(
        [300], aqms=["tail_drop", "codel", "codel+ecn"], duration_s=2
    )
    full, dropping, marking = result.variants
    assert full.most_queue == 300
    assert min(full.drops, full.retransmissions, dropping.drops) > 0
    assert full.marks == dropping.marks == 0
    for managed in (dropping, marking):
        assert 2 * managed.median_queue < full.median_queue
        assert managed.probe_ms < full.probe_ms
    # CoDel still drops packets that cannot be marked: SYNs, retransmissions and probes.
    assert marking.marks == len(marking.run.marks_s) > marking.drops
    for variant in each(result.variants):
        assert variant.run.flows[0].congestion == "reno"
        assert_on_one_clock(variant.run)
    shrunk = [
        after.time_s
        for before, after in itertools.pairwise(full.run.flows[0].moments)
        if after.cwnd_segments < before.cwnd_segments
    ]
    assert min(each(shrunk)) >= full.run.drops_s[0]


def test_fairness_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "fair.svg"
    options = ["--congestions", "reno", "--duration-s", "2", f"--figure={path}"]
    assert main(["run", "rtt-fairness", *options]) == 0
    assert re.search(r"^reno +\d", capsys.readouterr().out, re.MULTILINE)
    assert path.read_text().startswith("<?xml")


def test_flows_of_different_round_trips_share_a_managed_queue() -> None:
    (race,) = bottleneck.measure_rtt_fairness(
        [10, 40], ["reno"], ["fq_codel"], duration_s=2
    ).variants
    assert race.label == "reno, fq_codel"
    assert [flow.rtt_ms for flow in race.run.flows] == [10, 40]
    assert race.ratio == race.near_mbit / race.far_mbit
    assert 1 / 2 < race.jain <= 1


def test_router_buffer_is_a_part_of_the_bandwidth_delay_product() -> None:
    (small,) = bottleneck.measure_router_buffers([2], [0.1], duration_s=2).variants
    assert small.packets == 7
    assert small.median_queue <= 7
    assert small.rtt_ms > 30  # the RTT of the nearer flow


def test_absent_congestion_controls_are_left_out_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparisons, "congestion_controls", lambda: ["cubic", "reno"])
    result = bottleneck.measure_controls([16], ["reno", "bbr"], duration_s=2)
    (alone,) = result.variants
    assert (alone.controls, alone.second_mbit, alone.first_share) == ("reno", None, 1)
    assert "bbr; root may load more: sudo modprobe -a tcp_bbr" in result.provenance["left_out"]


def test_unsent_data_is_bounded_by_the_option() -> None:
    ages = notsent_lowat.measure(
        ["left to the kernel", "TCP_NOTSENT_LOWAT"], rtts_ms=[20], duration_s=2
    )
    alone, bounded = ages.variants
    assert bounded.unsent_bytes <= 16_384 + 1024 < alone.unsent_bytes
    for aged in (alone, bounded):
        assert aged.most_age_ms >= aged.age_ms >= 10  # the one-way delay is 10 ms


def test_queue_events_account_for_every_packet() -> None:
    with Lab(rtt_ms=4, rate_mbit=5, queue_packets=10) as lab:
        with lab.link.capture() as recording:
            tcp_bulk(lab, count=200, sndbuf_bytes=None, rcvbuf_bytes=None)
            # Wait until the server has the last ACK, since no program waits for it.
            while f" {LAST_ACK} " in lab.server.read("/proc/net/tcp"):
                time.sleep(0.02)
        counted = lab.link.counters()["client->server"]
        with recording:
            events = queue_events(recording)
    mine = events[events["direction"] == 0]
    came, left = (mine[mine["event"] == name] for name in ("came", "left"))
    dropped = mine[mine["event"] == "dropped"]
    assert len(came) + len(dropped) == counted["packets_in"]
    assert len(left) == counted["packets_out"]
    assert len(dropped) == counted["dropped"]["queue"] > 0
    assert set(dropped["queue_packets"]) == {10}
    assert came["queue_packets"].max() == 9
    assert (mine["time_ns"][1:] >= mine["time_ns"][:-1]).all()
