import pytest

from tcplab import figures
from tcplab.experiments import bottleneck, buffers, capture_loss, connection, table, udp_batching


def test_ten_bytes_take_ten_packets_and_three_round_trips() -> None:
    tour = connection.measure(rtt_ms=20)
    packets = [(row["from"], row["variant"], row["payload_bytes"]) for row in tour.rows()]
    assert packets == [
        ("client", "SYN", 0),
        ("server", "SYN ACK", 0),
        ("client", "ACK", 0),
        ("client", "PSH ACK", 5),
        ("server", "ACK", 0),
        ("server", "PSH ACK", 5),
        ("client", "ACK", 0),
        ("client", "FIN ACK", 0),
        ("server", "FIN ACK", 0),
        ("client", "ACK", 0),
    ]
    assert tour.rows()[-1]["time_ms"] == pytest.approx(3 * 20, abs=2)
    assert min(row["frame_bytes"] for row in tour.rows()) == 66
    assert tour.provenance["capture_drops"] == 0


def test_handshake_figure_describes_the_packets() -> None:
    tour = connection.measure(rtt_ms=20)
    picture = figures.handshake(tour)
    assert picture.title.startswith("Ten bytes take 10 packets, and the first byte leaves 20 ms")
    assert "from the client: SYN seq 0, MSS 1460" in picture.parts["packet-0"]
    assert picture.table.text() == table(tour).text()
    assert picture.png()[:4] == b"\x89PNG"


def test_recordings_agree_with_sentences_that_no_claim_holds() -> None:
    # BBR takes most of the line in the short queue. In the long one Reno does, even from cubic.
    contests = bottleneck.measure_controls()
    assert contests["reno, bbr", 16].first_share < 0.35
    assert contests["reno, bbr", 320].first_share > 0.65
    assert contests["cubic, reno", 320].first_share < 0.5
    # Scapy keeps up with 2000 packets per second, and the recorder with any number.
    loss = capture_loss.measure()
    assert loss[500].scapy_drops == loss[2000].scapy_drops == 0
    assert [run.recorder_drops for run in loss.variants] == [0] * 4
    # The SYN-ACK has the scale of the first size. A buffer that shrinks later overflows.
    *_, shrunk = order = buffers.measure_order().variants
    assert [case.window_scale for case in order] == [3, 7, 0, 3]
    assert min(shrunk.retransmissions, shrunk.zero_windows) > 0
    batches = udp_batching.measure(runs=3)
    assert batches["tcp"].row()["cpu_s_per_gb"] < batches["udp"].row()["cpu_s_per_gb"]
