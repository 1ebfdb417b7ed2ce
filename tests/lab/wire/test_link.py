"""Test the wire between two hosts, with TCP's offloads and with several faults at once."""

from __future__ import annotations

import pytest

from tcplab import Lab
from tcplab.programs import tcp_bulk

ETHERNET_MTU_1500 = 1538  # bytes that a full frame takes on the wire, with 1448 of payload


def test_tcp_survives_what_the_wire_does_to_it() -> None:
    with Lab(rate_mbit=200, rtt_ms=1, loss=0.01) as lab:
        lab.link.update(seed=3)
        lab.link.script("both", "duplicate data every=100")
        lab.link.script("both", "hold data every=90")
        lab.link.script("client->server", "drop data nth=3")
        assert tcp_bulk(lab, write_bytes=10_000, count=100).sink.bytes == 1_000_000
        way = lab.link.counters()["client->server"]
    assert way["dropped"]["loss"] > 0
    assert way["dropped"]["script"] == 1
    assert way["duplicated"] > 0
    assert way["reordered"] > 0


@pytest.mark.parametrize("rate_mbit", [None, 100])
def test_super_segments_travel_whole_with_offload(rate_mbit: int | None) -> None:
    with Lab(offload=True, rate_mbit=rate_mbit, rtt_ms=1) as lab:
        result = tcp_bulk(lab, write_bytes=100_000, count=30, sndbuf_bytes=None, rcvbuf_bytes=None)
        way = lab.link.counters()["client->server"]
    assert sum(way["dropped"].values()) == 0
    # With MTU-sized frames there would be 2072 packets.
    assert way["packets_in"] < 3_000_000 / 1448 / 4
    if rate_mbit:
        # On the wire a super-segment takes the time of the frames that it represents.
        assert 8 * result.sink.mb_per_s <= 1.01 * rate_mbit * 1448 / ETHERNET_MTU_1500
