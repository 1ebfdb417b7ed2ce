import pytest
from tests.support.nonempty import each

from tcplab.experiments import capture_loss, connection, goodput, recordings, sockets, table
from tcplab.lab import Lab
from tcplab.segments import ACK, FIN, SYN

pytestmark = pytest.mark.needs_lab


def test_ten_byte_connection_has_a_handshake_and_two_fins() -> None:
    tour = connection.measure(rtt_ms=4)
    flags = [int(bits) for bits in tour.segments["flags"]]
    assert flags[:3] == [SYN, SYN | ACK, ACK]
    assert sum(bool(bits & FIN) for bits in flags) == 2
    assert tour.segments["payload_bytes"].sum() == tour.segments["payload_bytes"][3:].sum() == 10
    assert tour.provenance["capture_drops"] == 0
    assert recordings.decode(recordings.encode(tour)).rows() == tour.rows()


def test_question_leaves_before_the_server_has_the_connection() -> None:
    with Lab(rtt_ms=20) as lab, lab.client.capture() as recorded:
        lab.link.script("client->server", "drop any nth=2")  # the ACK of the handshake
        with sockets.connection(lab, first=b"?") as (_client, server):
            assert server.recv(1) == b"?"
    assert [int(flags) for flags in recorded.segments["flags"]].count(SYN | ACK) == 1


def test_packets_of_scapy_and_of_the_recorder_add_up() -> None:
    for run in each(capture_loss.measure([500]).variants):
        assert run.recorder_drops == 0
        assert run.passed >= run.sent == 500
        assert run.scapy_kept + run.scapy_drops == run.passed


def test_a_full_link_carries_what_the_headers_leave() -> None:
    result = goodput.measure([5])
    assert 0 < result[5, 1500].share < 1.05
    assert result[5, 1500].wire_packets >= result[5, 1500].bytes / 1448
    assert "5 Mbit/s" in table(result).text()
