import json

import pytest

from tcplab import Lab
from tcplab.experiments import as_json, maxseg, mtu, path_mtu, recordings, table
from tcplab.experiments.interface_settings import set_offloads
from tcplab.programs import tcp_bulk

pytestmark = pytest.mark.needs_lab


def test_segments_of_an_mtu_with_and_without_offload() -> None:
    sweep = mtu.measure([1500], [True, False], runs=1)
    together, split = sweep.variants
    for row in (together, split):
        assert (row.mss_bytes, row.syn_mss_bytes) == (1448, 1460)
        assert int(row.captured_bytes.sum()) == 1 << 20
    assert split.largest_captured_bytes == 1448
    assert 10 * 1448 < together.largest_captured_bytes <= 65_535
    data = json.loads(as_json(sweep))
    assert data["experiment"] == "mtu"
    assert (data["provenance"]["capture_drops"], data["provenance"]["runs"]) == (0, 1)
    again = recordings.decode(recordings.encode(sweep))
    assert table(again).text() == table(sweep).text()


def test_maxseg_is_right_only_on_an_ethernet() -> None:
    answers = maxseg.measure()
    assert {answer.name: answer.verdict for answer in answers.variants} == {
        "Ethernet": "true",
        "request 1000": "true",
        "localhost": "too low",
        "jumbo card over Ethernet": "too high",
    }


def test_a_capture_is_behind_gso_and_gro_and_before_tso() -> None:
    longest = {}
    with Lab() as lab:
        cable = lab.direct(offload=True)
        for tso, gso, gro in ((0, 0, 0), (0, 1, 0), (0, 1, 1), (1, 1, 0)):
            set_offloads(cable.client, tso=bool(tso), gso=bool(gso))
            set_offloads(cable.server, gro=bool(gro))
            with cable.client.capture() as near, cable.server.capture() as far:
                tcp_bulk(cable, write_bytes=16_384, count=64)
            longest[tso, gso, gro] = [
                int(end.segments.data("client", retransmissions=False)["payload_bytes"].max())
                for end in (near, far)
            ]
    assert longest[0, 0, 0] == longest[0, 1, 0] == [1448, 1448]
    joined_at_the_sender, joined_at_the_receiver = longest[0, 1, 1]
    assert joined_at_the_sender == 1448 < joined_at_the_receiver
    assert min(longest[1, 1, 0]) > 1448


def test_icmp_reports_the_path_mtu_and_a_probe_finds_it() -> None:
    informed, probed = path_mtu.measure(variants=["ICMP arrives", "always probe"]).variants
    assert informed.icmp_mtu_bytes == 1200
    assert informed.dropped == sum(not segment.fits for segment in informed.sent) >= 1
    assert probed.icmp_mtu_bytes is None
    assert probed.sent[0].bytes == 1024
    for case in (informed, probed):
        assert case.finished
        assert case.acked_bytes == 28_800
        assert case.largest_arrived_bytes is not None
        assert 1024 <= case.largest_arrived_bytes <= 1148


def test_maxseg_that_fits_arrives_and_one_byte_more_does_not() -> None:
    """Check the solution of the lesson's challenge. One byte more is lost in a black hole."""
    fits, too_large = (
        path_mtu.measure(1420, ["TCP_MAXSEG"], maxseg_bytes=wish)["TCP_MAXSEG"]
        for wish in (1380, 1381)
    )
    assert fits.finished
    assert fits.dropped == 0
    assert (fits.largest_packet_bytes, fits.largest_arrived_bytes) == (1420, 1368)
    assert not too_large.finished
    assert "no progress" in too_large.complaint
    assert too_large.largest_packet_bytes == 1421
    assert too_large.dropped >= 3
