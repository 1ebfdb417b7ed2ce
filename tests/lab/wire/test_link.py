"""The wire between two hosts: what TCP makes of its rate, delay, offloads and loss."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, cast

import pytest
from tests.support.wire.model import Settings

from tcplab import Lab

ETHERNET_MTU_1500 = 1538  # bytes on the wire of a full frame, for 1448 of payload


@pytest.fixture
def link(lab: Lab) -> Iterator[Lab]:
    defaults = asdict(Settings())
    del defaults["duplicate_every"], defaults["hold_every"]
    lab.link.update(**defaults)
    lab.link.command("reset")
    yield lab
    lab.link.update(**defaults)
    lab.link.command("script both clear")


def counters(lab: Lab) -> dict[str, Any]:
    """The wire's counters from client to server."""
    return cast(dict[str, Any], lab.link.command("counters")["ab"])


def transfer(lab: Lab, size: int) -> float:
    """Sends bytes from client to server over TCP; payload bits a second."""
    with lab.server.socket() as listener, lab.client.socket() as sender:
        listener.bind((lab.server.address, 0))
        listener.listen()
        sender.connect(listener.getsockname())
        receiver, _ = listener.accept()
        thread = threading.Thread(target=sender.sendall, args=[bytes(size)])
        begin = time.perf_counter()
        thread.start()
        with receiver:
            receiver.settimeout(60)
            arrived = 0
            while arrived < size and (data := receiver.recv(1 << 20)):
                arrived += len(data)
        end = time.perf_counter()
        thread.join()
    assert arrived == size
    return 8 * size / (end - begin)


def test_goodput_is_at_most_the_rate_less_the_headers(link: Lab) -> None:
    link.link.update(rate_mbit=50)
    # The wire is exact (test_model); hosts on a busy machine may not fill it.
    assert transfer(link, size=2_000_000) <= 50e6 * 1448 / ETHERNET_MTU_1500


def test_tcp_survives_what_the_wire_does_to_it(link: Lab) -> None:
    link.link.update(rate_mbit=200, rtt_ms=1, loss=0.01, seed=3)
    link.link.script("both", "duplicate data every=100")
    link.link.script("both", "hold data every=90")
    link.link.script("client->server", "drop data nth=3")
    transfer(link, size=1_000_000)
    way = counters(link)
    assert way["dropped"]["loss"] > 0
    assert way["dropped"]["script"] == 1
    assert way["duplicated"] > 0
    assert way["reordered"] > 0


@pytest.mark.needs_lab
@pytest.mark.parametrize("rate_mbit", [None, 100])
def test_super_segments_travel_whole_with_offload(rate_mbit: int | None) -> None:
    with Lab(offload=True, rate_mbit=rate_mbit, rtt_ms=1) as lab:
        size = 3_000_000
        goodput = transfer(lab, size)
        way = counters(lab)
        assert sum(way["dropped"].values()) == 0
        # With MTU-sized frames it would be 2072 of them.
        assert way["packets_in"] < size / 1448 / 4
        if rate_mbit:
            # On the wire a super-segment takes the time of the frames that it stands for.
            assert goodput <= 1.01 * rate_mbit * 1e6 * 1448 / ETHERNET_MTU_1500


def test_frames_are_no_longer_than_the_mtu_without_offload(link: Lab) -> None:
    size = 1_000_000
    transfer(link, size)
    way = counters(link)
    assert way["packets_in"] >= size / 1448
    assert way["bytes_in"] >= size / 1448 * 1514
    assert way["dropped"]["oversize"] == 0
