"""Check lessons segments and path-mtu against their recordings."""

import pytest
from tests.support.nonempty import each

from tcplab.experiments import maxseg, mtu, path_mtu
from tcplab.models import announced_mss_bytes


def test_segments_are_the_derived_ones_and_cost_without_offload() -> None:
    sweep = mtu.measure(runs=5)
    for row in each(sweep.variants):
        assert row.mss_bytes == row.derived_mss_bytes == min(row.mtu_bytes, 65_535) - 52
        assert row.syn_mss_bytes == announced_mss_bytes(min(row.mtu_bytes, 65_535))
        assert int(row.captured_bytes.sum()) == 1 << 20
        if not row.offload:
            assert row.largest_captured_bytes == row.mss_bytes
        else:
            assert 60_000 < row.largest_captured_bytes <= 65_535
    assert sweep[16384, False].mss_bytes == 16332
    costs = [sweep[size, False].row()["cpu_s_per_gb"] for size in mtu.MTUS]
    assert costs == sorted(costs, reverse=True)
    assert sweep.ratio(9000, 1500, offload=False) > 2.5
    assert sweep.ratio(9000, 1500, offload=True) == pytest.approx(1, abs=0.2)


def test_maxseg_differs_before_and_after_connect() -> None:
    answers = maxseg.measure(["Ethernet", "request 1000", "localhost", "jumbo card over Ethernet"])
    request = answers["request 1000"]
    assert (request.before_bytes, request.syn_bytes, request.peer_syn_bytes) == (1000, 1000, 1460)
    assert request.connected_bytes == request.end_bytes == 988
    assert answers["jumbo card over Ethernet"].sent_bytes == 8948


def test_black_hole_stops_large_segments_and_each_fix_works() -> None:
    informed, hole, *fixed = path_mtu.measure().variants
    assert not hole.finished
    assert "no progress" in hole.complaint
    assert hole.largest_arrived_bytes is None
    again = [segment for segment in hole.sent if segment.again]
    assert {segment.bytes for segment in each(again)} == {1440}, "always as long as before"
    for case in (informed, *fixed):
        assert case.finished, case.name
        assert case.acked_bytes == 28_800
    maxseg_set, _always, in_doubt = fixed
    # A sender that probes only on suspicion of a black hole first retransmits several times.
    arrived = next(segment for segment in in_doubt.sent if segment.fits)
    vain = [segment for segment in in_doubt.sent if segment.again and not segment.fits]
    assert arrived.ms > max(segment.ms for segment in vain)
    assert in_doubt.ms > 6000 > 1000 * maxseg_set.ms


def test_challenge_as_shipped_is_not_solved() -> None:
    vpn = path_mtu.measure(1500 - 80, ["TCP_MAXSEG"], maxseg_bytes=1460)["TCP_MAXSEG"]
    assert not vpn.finished
