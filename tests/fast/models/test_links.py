"""Test headers, goodput and windows against published figures and on generated values."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcplab.models import (
    Encapsulation,
    announced_mss_bytes,
    bdp_bytes,
    goodput_mbyte_s,
    header_share,
    jain_index,
    mathis_mbit,
    mss_bytes,
    packet_count,
    serialisation_ms,
    slow_start_flights,
    throughput_mbit,
    transfer_ms,
    window_limit_mbit,
)
from tcplab.models.links import sawtooth_share

ENCAPSULATIONS = st.builds(
    Encapsulation,
    transport=st.sampled_from(["tcp", "udp"]),
    timestamps=st.booleans(),
    link=st.sampled_from(["ethernet", "frame", "none"]),
)


# ---- segments ----


def test_mss_is_the_mtu_less_the_headers() -> None:
    assert mss_bytes(1500) == 1500 - 20 - 20 - 12 == 1448
    assert mss_bytes(9000) == 8948
    assert mss_bytes(1500, Encapsulation(timestamps=False)) == 1460
    assert mss_bytes(1500, Encapsulation(transport="udp")) == 1472
    assert announced_mss_bytes(1500) == 1460


def test_a_super_segment_of_64_kib_is_46_segments() -> None:
    assert packet_count(65_536, 1500) == 46
    assert packet_count(0, 1500) == 0
    assert packet_count(1449, 1500) == 2


# ---- goodput ----


def test_gigabit_ethernet_carries_117_68_megabytes() -> None:
    """The figure comes from Chen Shuo, "Network programming in practice"."""
    assert goodput_mbyte_s(1000) == pytest.approx(117.6853, abs=1e-4)
    assert goodput_mbyte_s(1000, 9000) == pytest.approx(123.7553, abs=1e-4)
    assert goodput_mbyte_s(100) == pytest.approx(11.7685, abs=1e-4)


def test_each_header_is_counted_once() -> None:
    bare = Encapsulation(timestamps=False, link="none")
    assert bare.wire_bytes(1460) == 1500
    assert Encapsulation(link="frame").wire_bytes(1448) == 1514
    assert Encapsulation().wire_bytes(1448) == 1538
    # The shortest frame has 64 bytes with its check sequence, and 20 bytes of preamble and gap.
    assert Encapsulation(timestamps=False).wire_bytes(0) == 84


def test_one_byte_is_the_4000_percent_of_rfc_896() -> None:
    bare = Encapsulation(timestamps=False, link="none")
    share = header_share(1, around=bare)
    assert share / (1 - share) == pytest.approx(40)
    assert header_share(1448) == pytest.approx(1 - 1448 / 1538)


@given(ENCAPSULATIONS, st.integers(100, 65_536), st.integers(1, 100_000))
def test_goodput_grows_with_mtu_below_the_rate(around: Encapsulation, mtu: int, rate: int) -> None:
    goodput = goodput_mbyte_s(rate, mtu, around)
    assert 0 < goodput < rate / 8
    if mtu < 65_536:
        assert goodput <= goodput_mbyte_s(rate, mtu + 1, around)
    full = mss_bytes(mtu, around)
    assert goodput == pytest.approx(rate / 8 * full / around.wire_bytes(full))
    assert header_share(full, mtu, around) == pytest.approx(1 - goodput / (rate / 8))


# ---- windows ----


def test_window_and_bandwidth_delay_product_are_each_others_inverse() -> None:
    assert bdp_bytes(100, 20) == 250_000
    assert window_limit_mbit(bdp_bytes(100, 20), 20) == pytest.approx(100)
    assert window_limit_mbit(32_768, 100) == pytest.approx(2.62144)


def test_the_knee_is_where_the_window_is_the_product() -> None:
    goodput = goodput_mbyte_s(100) * 8
    product = bdp_bytes(goodput, 20 + serialisation_ms(1448, 100) + serialisation_ms(0, 100))
    assert throughput_mbit(product * 2, 20, 100) == pytest.approx(goodput)
    assert throughput_mbit(product / 2, 20, 100) == pytest.approx(goodput / 2)
    assert throughput_mbit(65_536, 0, 0) == 0


def test_mathis_rate_falls_with_the_rtt_and_the_root_of_the_loss() -> None:
    assert mathis_mbit(1460, 100, 0.01, "periodic") == pytest.approx(
        1460 * 8 / 0.1 * math.sqrt(1.5) / math.sqrt(0.01) / 1e6
    )
    assert mathis_mbit(2 * 1448, 20, 0.01) == pytest.approx(2 * mathis_mbit(1448, 20, 0.01))
    assert mathis_mbit(1448, 20, 0.04) == pytest.approx(mathis_mbit(1448, 20, 0.01) / 2)


def test_short_transfer_time_grows_by_whole_round_trips() -> None:
    assert transfer_ms(1448, 100, 1e6) == pytest.approx(50, abs=0.1)
    assert transfer_ms(19, 22.9, 1.2) == pytest.approx(11.45 + (19 + 90) * 8 / 1200)
    assert transfer_ms(11 * 1448, 100, 1e6) == pytest.approx(150, abs=1)
    assert transfer_ms(30 * 1448, 100, 1e6) == pytest.approx(150, abs=1)
    assert transfer_ms(31 * 1448, 100, 1e6) == pytest.approx(250, abs=1)


@pytest.mark.parametrize(
    ("segments", "flights"), [(0, []), (1, [1]), (10, [10]), (11, [10, 1]), (50, [10, 20, 20])]
)
def test_flights_double_in_slow_start(segments: int, flights: list[int]) -> None:
    assert slow_start_flights(segments) == flights


# ---- shares of a line ----


@pytest.mark.parametrize(("bdps", "share"), [(0, 0.75), (1, 1.0), (5, 1.0), (1 / 3, 12 / 13)])
def test_sawtooth_fills_the_line_with_a_queue_of_one_bdp(bdps: float, share: float) -> None:
    assert sawtooth_share(bdps) == pytest.approx(share)


@pytest.mark.parametrize(
    ("rates", "index"), [((5, 5, 5), 1.0), ((9, 0, 0), 1 / 3), ((1, 2, 3), 36 / 42)]
)
def test_jain_index_of_equal_and_unequal_rates(rates: tuple[float, ...], index: float) -> None:
    assert math.isclose(jain_index(rates), index)
