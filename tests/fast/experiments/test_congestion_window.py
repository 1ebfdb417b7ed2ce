"""Check lessons slow-start and loss against their recordings."""

from typing import get_args

import pytest
from tests.support.nonempty import each
from tests.support.timeline.made_up import ack, capture, data, handshake

from tcplab.experiments import loss_rate, lost_segment, recordings, short_transfer
from tcplab.models import Reason
from tcplab.timeline import Timeline


def test_most_transfers_are_too_short_to_reach_the_rate() -> None:
    sizes = short_transfer.measure_sizes()
    for row in each(sizes.rows()):
        assert row["took_ms"] == pytest.approx(row["model_ms"], rel=0.05)
        if row["data_bytes"] <= 724_000:
            assert row["round_trips"] == row["model_round_trips"]


def test_stalled_sender_neither_splits_nor_joins_flights() -> None:
    """The first flight takes almost an RTT. In the second, of six, the sender pauses after two."""
    first = [data(18 * number, 100 * number, 100) for number in range(3)]
    later = [data(at, 100 * seq, 100) for seq, at in enumerate((40, 41, 60, 61, 62, 63), 3)]
    acks = [ack(39.9, 200), ack(40.9, 300), ack(80, 500)]
    rows = sorted([*handshake(), *first, *later, *acks], key=lambda row: row["time_ns"])
    flights = short_transfer.flights(capture(rows), rtt_ms=40)
    assert [flight.segments for flight in flights] == [3, 6]


def test_segments_that_acks_of_a_slow_link_release_are_one_flight() -> None:
    """Ten segments take 7 ms at 17.4 Mbit/s, so the link never idles. At 1000 Mbit/s it would."""
    times = [*[0.0] * 10, *(3.5 + 1.4 * (number // 2) for number in range(8))]
    sent = [data(at, 1448 * number, 1448) for number, at in enumerate(times)]
    acks = [ack(3.4 + 1.4 * number, 2896 * (number + 1)) for number in range(4)]
    rows = sorted([*handshake(), *sent, *acks], key=lambda row: row["time_ns"])
    for rate_mbit, count in ((17.4, 1), (1000, 2)):
        assert len(short_transfer.flights(capture(rows), 2.2, rate_mbit)) == count


def test_price_of_a_lost_segment_depends_on_what_follows_it() -> None:
    losses = lost_segment.measure(get_args(lost_segment.Lost))
    assert [loss.sent_again for loss in losses.variants] == [0, 1, 1, 1, 10, 2]
    ways = {loss.lost: (loss.recoveries, loss.probes, loss.timeouts) for loss in losses.variants}
    assert ways == {
        "none": (0, 0, 0),
        "one of the first flight": (1, 0, 0),
        "one of many": (1, 0, 0),
        "the last": (0, 1, 0),
        "the last ten": (1, 1, 0),
        "the last twice": (0, 1, 1),
    }
    none, first, many, last, _ten, twice = losses.variants
    assert last.took_ms - none.took_ms > 5 * (many.took_ms - none.took_ms)
    assert (
        twice.cwnd_after < first.cwnd_after < many.cwnd_after < last.cwnd_after == none.cwnd_after
    )
    for loss in each(losses.variants):
        again = [s for s in loss.timeline().segments if s.reason is Reason.RETRANSMISSION]
        assert len(again) == loss.sent_again


def test_random_loss_costs_long_paths_nearly_everything() -> None:
    paths = [(1, 0.01), (5, 0.01), (10, 0.01), (100, 0.01), (40, 0.001)]
    lossy = loss_rate.measure(paths, ["cubic", "reno"], rate_mbit=50, duration_s=10)
    for row in each(lossy.rows()):
        assert (0.7 if row["congestion"] == "reno" else 0.6) < row["times_formula"] < 1.5
        # All losses are random, because no queue overflowed.
        expected = row["segments"] * row["loss_percent"] / 100
        assert 0.5 * expected < row["retransmissions"] < 2 * expected


def test_every_reason_in_the_shipped_examples_is_known() -> None:
    timelines: dict[str, Timeline] = {}  # of lessons slow-start and loss, recorded with Reno
    for name in ("short-transfer", "lost-segment"):
        for arguments, result in recordings.shipped(name):
            if arguments.get("congestion") == "cubic":
                continue
            holders = result.variants if name == "lost-segment" else [result]
            for number, holder in enumerate(holders):
                timelines[f"{name} {arguments}, {number}"] = holder.timeline()
    assert len(timelines) >= 9
    for name, timeline in each(timelines.items()):
        reasons = [segment.reason for segment in timeline.segments]
        reasons += [hold.reason for hold in timeline.holds]
        assert Reason.UNKNOWN not in reasons, name
    held = {hold.reason for timeline in timelines.values() for hold in timeline.holds}
    assert {Reason.CWND_LIMITED, Reason.RATE_LIMITED, Reason.RETRANSMISSION} <= held
