"""The facts that lesson 03 states, from the same experiments.

Sizes and counts are exact. Of rates the best of some runs are compared, with wide bounds.
"""

from __future__ import annotations

import statistics

import pytest
from tests.support.nonempty import each

from tcplab.experiments import maxseg, mtu, path_mtu
from tcplab.models import announced_mss_bytes


@pytest.fixture(scope="module")
def sweep() -> mtu.Mtu:
    return mtu.measure(runs=3)


@pytest.fixture(scope="module")
def answers() -> maxseg.MaxSeg:
    return maxseg.measure()


@pytest.fixture(scope="module")
def paths() -> path_mtu.PathMtu:
    return path_mtu.measure()


def best(row: mtu.LoopbackMtu) -> float:
    return max(row.mb_per_s)


def test_the_derived_segment_is_the_captured_one(sweep: mtu.Mtu) -> None:
    assert sweep.provenance["capture_drops"] == 0
    for row in each(sweep.loopback):
        assert row.mss_bytes == row.derived_mss_bytes == min(row.mtu_bytes, 65_535) - 52
        assert row.syn_mss_bytes == announced_mss_bytes(min(row.mtu_bytes, 65_535))
        if not row.offload:
            assert row.largest_captured_bytes == row.mss_bytes
    assert sweep.of(16384, offload=False).mss_bytes == 16332


def test_offload_shows_super_segments_of_the_same_data(sweep: mtu.Mtu) -> None:
    split, together = (sweep.of(1500, offload=offload) for offload in (False, True))
    assert together.largest_captured_bytes > 10 * 1448
    assert together.largest_captured_bytes <= 65_535
    assert len(split.captured_bytes) >= (1 << 20) / 1448
    assert len(together.captured_bytes) < len(split.captured_bytes) / 3
    assert int(split.captured_bytes.sum()) == int(together.captured_bytes.sum()) == 1 << 20
    assert together.mss_bytes == split.mss_bytes == 1448


def test_large_mtu_needs_fewer_segments(sweep: mtu.Mtu) -> None:
    for offload in (False, True):
        small, large = (sweep.of(mtu, offload=offload) for mtu in (1500, 9000))
        few, many = (statistics.median(row.data_segments) for row in (large, small))
        assert 4 < many / few < 9  # 8948 / 1448 is 6.2


def test_without_offload_the_mtu_decides(sweep: mtu.Mtu) -> None:
    small, large = (sweep.of(mtu, offload=False) for mtu in (576, 65536))
    assert best(large) > 2 * best(small)
    assert min(small.cpu_s_per_gb) > 2 * min(large.cpu_s_per_gb)


def test_with_offload_the_mtu_hardly_matters(sweep: mtu.Mtu) -> None:
    off, on = (min(sweep.of(576, offload=offload).cpu_s_per_gb) for offload in (False, True))
    assert off > 2 * on
    on, off = (
        best(sweep.of(65536, offload=offload)) / best(sweep.of(576, offload=offload))
        for offload in (True, False)
    )
    assert on < off


def test_goodput_of_the_wire_is_rate_less_headers(sweep: mtu.Mtu) -> None:
    for row in each(sweep.wire):
        goodput = max(row.goodput_mb_per_s)
        assert 0.1 * row.model_mb_per_s < goodput < 1.03 * row.model_mb_per_s
    small, ethernet, jumbo = sweep.wire
    assert small.model_mb_per_s < ethernet.model_mb_per_s < jumbo.model_mb_per_s
    assert ethernet.header_percent == pytest.approx(100 * 90 / 1538)


def test_maxseg_is_right_on_an_ethernet(answers: maxseg.MaxSeg) -> None:
    case = answers["an Ethernet"]
    assert (case.before_bytes, case.connected_bytes, case.end_bytes) == (536, 1448, 1448)
    assert (case.syn_bytes, case.sent_bytes, case.arrived_bytes) == (1460, 1448, 1448)
    assert case.verdict == "true"


def test_requested_mss_of_either_end_counts(answers: maxseg.MaxSeg) -> None:
    own, peers = answers["a wish of 1000"], answers["the peer's wish of 1000"]
    assert (own.before_bytes, own.syn_bytes, own.peer_syn_bytes) == (1000, 1000, 1460)
    assert (peers.before_bytes, peers.syn_bytes, peers.peer_syn_bytes) == (536, 1460, 1000)
    for case in (own, peers):
        assert case.connected_bytes == case.end_bytes == case.arrived_bytes == 988


def test_too_large_mss_request_is_ignored(answers: maxseg.MaxSeg) -> None:
    case = answers["a wish of 9000"]
    assert (case.before_bytes, case.syn_bytes, case.connected_bytes) == (9000, 1460, 1448)
    assert case.verdict == "true, wish ignored"


def test_maxseg_is_too_low_on_localhost(answers: maxseg.MaxSeg) -> None:
    case = answers["localhost"]
    assert 30_000 < case.connected_bytes <= 32_768
    assert case.connected_bytes < case.arrived_bytes <= 65_483
    assert case.verdict == "too low"


def test_maxseg_is_too_high_behind_a_jumbo_card(answers: maxseg.MaxSeg) -> None:
    case = answers["jumbo card, Ethernet in the middle"]
    assert (case.connected_bytes, case.sent_bytes) == (8948, 8948)
    assert (case.end_bytes, case.arrived_bytes) == (1448, 1448)
    assert case.verdict == "too high"


def test_icmp_tells_the_path_mtu(paths: path_mtu.PathMtu) -> None:
    case = paths["ICMP tells"]
    assert case.finished
    assert case.acked_bytes == 28_800
    assert case.sent[0].packet_bytes > 1200
    assert case.icmp_mtu_bytes == 1200
    assert case.dropped == sum(not each.fits for each in case.sent) >= 1
    assert case.largest_arrived_bytes == 1148


def test_in_a_black_hole_nothing_large_arrives(paths: path_mtu.PathMtu) -> None:
    case = paths["black hole"]
    assert not case.finished
    assert "no progress" in case.complaint
    assert case.acked_bytes == 0
    assert case.icmp_mtu_bytes is None
    assert case.largest_arrived_bytes is None
    again = [each for each in case.sent if each.again]
    assert again
    assert {each.bytes for each in again} <= {1440, 1448}, "always as long as before"
    assert case.dropped >= 3


def test_each_cure_delivers_the_data(paths: path_mtu.PathMtu) -> None:
    for name in ("TCP_MAXSEG", "always probe", "probe in doubt"):
        case = paths[name]
        assert case.finished, name
        assert case.acked_bytes == 28_800
        assert not case.icmp_ms
        assert case.largest_arrived_bytes is not None
        assert case.largest_arrived_bytes <= 1148
    assert paths["TCP_MAXSEG"].dropped == 0
    assert paths["TCP_MAXSEG"].sent[0].bytes == 1148
    assert paths["always probe"].sent[0].bytes == 1024


def test_probing_starts_after_several_retransmissions(paths: path_mtu.PathMtu) -> None:
    case = paths["probe in doubt"]
    first = next(each for each in case.sent if each.fits)
    vain = [each for each in case.sent if each.again and not each.fits]
    assert len(vain) >= 3
    assert first.ms > max(each.ms for each in vain)
    assert case.ms > 100 * paths["TCP_MAXSEG"].ms or case.ms > 3000


def test_the_challenge_has_one_solution() -> None:
    solved = path_mtu.measure(1420, ["TCP_MAXSEG"], maxseg_bytes=1380)["TCP_MAXSEG"]
    assert solved.finished
    assert solved.largest_packet_bytes == 1420
    assert solved.largest_arrived_bytes == 1368
