"""Test the wire between several hosts, with TCP's offloads and with several faults at once."""

from pathlib import Path

import pytest
from tests.support.wire.bench import Bench
from tests.support.wire.frames import ethernet

from tcplab import Lab
from tcplab.programs import tcp_bulk


def address(number: int) -> bytes:
    return bytes([2, 0, 0, 0, 1, number])


def test_clients_share_one_bottleneck(lab: Lab) -> None:
    with Bench(lab, (3, 1)) as bench:
        *clients, server = bench.ends
        bench.set("ab", rate_bps=100, queue_packets=3)
        for number, client in enumerate(clients):
            client.send(*[ethernet(bytes(100), to=address(9), source=address(number))] * 2)
        bench.wait_until(lambda: bench.arrived() == 6)
        bench.set("ab", rate_bps=0)  # all arrived while the first was being sent (11 s)
        bench.drain(6)
        counters = bench.counters()["ab"]
        # One was being sent and three waited.
        assert (counters["packets_out"], counters["dropped"]["queue"]) == (4, 2)
        assert (counters["queue_packets_max"], counters["queue_bytes_max"]) == (3, 3 * 114)
        assert len(server.receive(4)) == 4


def test_each_answer_goes_to_its_own_client_only(lab: Lab) -> None:
    with Bench(lab, (3, 1)) as bench:
        *clients, server = bench.ends
        for number, client in enumerate(clients):
            client.send(ethernet(b"hello", to=address(9), source=address(number)))
        assert len(server.receive(3)) == 3
        answers = [ethernet(bytes([n]) * 46, to=address(n), source=address(9)) for n in range(3)]
        server.send(*answers)
        for client, answer in zip(clients, answers, strict=True):
            assert client.receive(1) == [answer]
        everyone = ethernet(bytes(46), to=b"\xff" * 6, source=address(9))
        unknown = ethernet(bytes(46), to=address(7), source=address(9))
        server.send(everyone, unknown)
        for client in clients:
            assert client.receive(2) == [everyone, unknown]
        bench.drain(8)
        assert bench.counters()["ba"]["packets_out"] == 5
        # A client's frames to another client do not come back on its own side.
        clients[0].send(ethernet(bytes(46), to=address(1), source=address(0)))
        assert len(server.receive(1)) == 1
        assert clients[1].receive(1, seconds=0.02) == []


def test_each_client_has_a_cable_of_its_own_length(lab: Lab, tmp_path: Path) -> None:
    """In each direction, the cables of a dumbbell add 0, 3 and 40 ms to the 2 ms of the link."""
    cables_ns = [0, 3_000_000, 40_000_000]
    with Bench(lab, (3, 1)) as bench:
        *clients, server = bench.ends
        bench.set("both", delay_ns=2_000_000)
        for interface, delay_ns in zip(bench.interfaces, cables_ns, strict=False):
            bench.command(f"access {interface} {delay_ns}")

        def talk() -> int:
            for number in (2, 1, 0):
                for _ in range(5):
                    clients[number].send(ethernet(bytes(46), to=address(9), source=address(number)))
            heard = server.receive(15)
            assert sorted(frame[11] for frame in heard) == [0] * 5 + [1] * 5 + [2] * 5
            for number in (2, 1, 0):
                server.send(ethernet(bytes(46), to=address(number), source=address(9)))
            return 18

        recorded = bench.record(tmp_path / "dumbbell.pcapng", talk)
        entered = {packet.id: packet.time_ns for packet in recorded if packet.inbound}
        left = [packet for packet in recorded if not packet.inbound]
        assert len(left) == 18
        for packet in left:
            number = packet.data[11] if packet.data[5] == 9 else packet.data[5]
            took_ns = packet.value("due_ns") - entered[packet.id]
            assert took_ns == 2_000_000 + cables_ns[number]


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
        # A super-segment takes the time of the frames that it represents. With 1448 bytes of
        # payload, a full frame takes 1538 bytes on the wire.
        assert 8 * result.sink.mb_per_s <= 1.01 * rate_mbit * 1448 / 1538
