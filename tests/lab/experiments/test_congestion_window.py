import pytest
from tests.support.nonempty import each

from tcplab.experiments import idle_restart, loss_rate, lost_segment, short_transfer

pytestmark = pytest.mark.needs_lab


def test_window_starts_at_ten_segments_and_only_grows() -> None:
    grown = short_transfer.measure(72_400, rtt_ms=60)
    # Fewer than ten may leave before the first ACK if the sender pauses, as on a busy machine.
    assert grown.variants[0].segments <= 10
    assert sum(flight.segments for flight in grown.variants) == 50
    assert sum(flight.bytes for flight in grown.variants) == 72_400
    assert len(grown.timeline().segments) >= 50  # if an ACK is late, some are sent again
    windows = [sample["snd_cwnd"] for sample in grown.exchange.samples]
    assert windows[0] == 10
    assert windows == sorted(windows)
    assert windows[-1] >= 20


def test_a_transfer_takes_at_least_the_round_trips_of_the_model() -> None:
    sizes = short_transfer.measure_sizes([1448, 43_440], rtt_ms=20)
    for size in each(sizes.variants):
        # On a busy machine the sender may pause within a flight, which then looks like two.
        assert size.round_trips >= size.model_round_trips
        assert size.took_ms > 0.95 * size.model_ms


def test_default_receive_window_begins_smaller_than_an_open_one() -> None:
    opened, default = short_transfer.measure_windows(72_400, rtt_ms=20, runs=1).variants
    assert sum(opened.segments) == sum(default.segments) == 50
    assert default.largest_bytes < 500_000 < opened.largest_bytes


def test_window_is_forgotten_after_a_pause_only_if_the_kernel_restarts() -> None:
    forgotten, kept = idle_restart.measure(pauses_ms=[2000], rtt_ms=20).variants
    assert 3 * forgotten.rto_ms < forgotten.pause_ms  # cwnd, 80 segments, is halved three times
    assert max(forgotten.flights_before[0], forgotten.flights_after[0]) <= 10
    assert kept.flights_after[0] > 10


def test_what_follows_a_loss_decides_how_it_is_noticed() -> None:
    many, last = lost_segment.measure(["one of many", "the last"], rtt_ms=60).variants
    assert (many.recoveries, last.recoveries) == (1, 0)
    assert last.probes >= 1  # on a busy machine, late ACKs cause further probes
    assert last.sack_acks < 3 <= many.sack_acks
    assert last.took_ms > 3 * 60 + 200  # slow start, and the delayed ACK that the probe waits for
    for loss in (many, last):
        assert loss.sent_again >= 1
        assert len(loss.timeline().segments) == lost_segment.SEGMENTS + loss.sent_again


def test_random_loss_bounds_the_rate() -> None:
    (lossy,) = loss_rate.measure([(20, 0.05)], ["reno"], duration_s=1).variants
    assert lossy.retransmissions > 0
    assert 0 < lossy.mbit < 5 * lossy.formula_mbit < 20  # without losses it would be 50
