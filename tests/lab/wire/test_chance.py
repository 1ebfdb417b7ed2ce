"""Random loss: seeded and repeatable."""

from __future__ import annotations

import pytest
from tests.support.wire.bench import Bench
from tests.support.wire.frames import arp, number_of, numbered
from tests.support.wire.model import Settings

COUNT = 2000


def received(bench: Bench, side: int = 0, count: int = COUNT) -> list[int]:
    """Sends numbered frames from a side; the numbers that arrive at the other one, in order."""
    arrived: list[bytes] = []
    for first in range(0, count, 100):
        bench.ends[side].send(*[numbered(60, number) for number in range(first, first + 100)])
        bench.drain(first + 100)
        left = bench.counters()["ab" if side == 0 else "ba"]["packets_out"]
        arrived += bench.ends[1 - side].receive(left - len(arrived))
    bench.command("reset")
    return [number_of(frame) for frame in arrived]


def test_the_same_seed_and_traffic_lose_the_same_frames(bench: Bench) -> None:
    bench.set(loss=0.1, seed=7)
    first = received(bench)
    bench.set(loss=0.1, seed=7)
    assert received(bench) == first
    bench.set(loss=0.1, seed=8)
    assert received(bench) != first
    # 10 % of 2000 is 200 +- 13; five times that is wide enough for ever.
    assert abs(COUNT - len(first) - 200) < 70


def test_both_directions_have_their_own_chance(bench: Bench) -> None:
    bench.set(loss=0.1, seed=7)
    there, back = received(bench, 0), received(bench, 1)
    assert there != back


def test_the_script_does_not_shift_the_losses(bench: Bench) -> None:
    bench.set(loss=0.1, seed=7)
    alone = received(bench)
    bench.use(Settings(loss=0.1, seed=7, duplicate_every=10, hold_every=7))
    both = received(bench)
    assert set(both) == set(alone)
    assert len(both) > len(alone)
    assert both != sorted(both), "nothing overtook"


def test_a_changed_probability_goes_on_where_the_other_was(bench: Bench) -> None:
    """Without a new seed the sequence runs on: what a slider does to a live transfer."""
    bench.set(loss=0.1, seed=7)
    whole = received(bench)
    bench.set(seed=7)
    first = received(bench, count=COUNT // 2)
    bench.set(loss=0.1)
    second = received(bench, count=COUNT // 2)
    assert first + [COUNT // 2 + number for number in second] == whole


def test_arp_is_not_subject_to_chance(bench: Bench) -> None:
    """Hosts send it when their own timers say so: it must neither be lost nor shift who is."""
    bench.set(loss=1.0)
    bench.ends[0].send(*[arp(number) for number in range(50)])
    assert len(bench.ends[1].receive(50)) == 50


@pytest.mark.parametrize("loss", [0, 1])
def test_never_and_always(bench: Bench, loss: int) -> None:
    bench.set(loss=loss)
    assert len(received(bench, count=100)) == 100 * (1 - loss)
