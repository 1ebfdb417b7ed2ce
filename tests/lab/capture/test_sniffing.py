"""Test scapy on a host: passing packets, the count of lost ones, and packets built by hand."""

import socket
import threading
from pathlib import Path

import pytest
from scapy.layers.inet import IP, TCP
from tests.support.needs import NET_RAW

from tcplab import Host, Lab
from tcplab.capture import record
from tcplab.errors import CaptureError, LabError
from tcplab.experiments.sockets import connection
from tcplab.lab import Loopback, has_net_raw
from tcplab.programs import small_writes
from tcplab.segments.pcap import CaptureLossWarning

pytestmark = pytest.mark.needs_lab


def send(lab: Lab, count: int, to: str = "10.0.0.2", data: bytes = b"hello") -> None:
    with lab.client.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        for _ in range(count):
            s.sendto(data, (to, 9))


def at(lab: Lab, interface: str) -> Host:
    """Return the client with another interface."""
    return Host(lab, "client", lab.client.address, interface)


def test_scapy_sees_what_the_recorder_sees(lab: Lab) -> None:
    with record(lab.client, snaplen=2000) as capture, lab.client.sniff() as live:
        send(lab, 40)
    assert live.drops == 0
    assert live.received == len(live.packets)
    ours = [bytes(p) for p in capture.packets() if p.haslayer("UDP") and p["UDP"].dport == 9]
    theirs = [p for p in live.packets if p.haslayer("UDP") and p["UDP"].dport == 9]
    assert ours == [bytes(p) for p in theirs]
    assert len(ours) >= 40
    # Only one direction is compared, because the kernel may stamp an answer on another processor
    # before it queues an earlier packet.
    stamps = [p.time for p in theirs]
    assert stamps == sorted(stamps)
    assert live.packets[0].wirelen == 47
    assert live.packets[0].sniffed_on == "eth0"


def test_loopback_packets_are_seen_once(lab: Lab) -> None:
    with at(lab, "lo").sniff() as live:
        send(lab, 20, "127.0.0.1")
    echoes = [p for p in live.packets if p.haslayer("UDP") and not p.haslayer("ICMP")]
    assert len(echoes) == 20


def test_packets_that_scapy_was_too_slow_for_are_reported(lab: Lab) -> None:
    sent = threading.Event()  # scapy is stuck at its first packet until this is set
    sniffing = at(lab, "lo").sniff(lfilter=lambda _: sent.wait(timeout=60))
    live = sniffing.__enter__()
    send(lab, 3000, "127.0.0.1", bytes(60_000))  # more than the socket's buffer can hold
    sent.set()
    with pytest.warns(CaptureLossWarning, match=r"too slow for \d+ of \d+ packets"):
        sniffing.__exit__(None, None, None)
    assert live.drops > 0
    assert live.received == len(live.packets) + live.drops
    assert live.received >= 3000


def test_errors_are_not_hidden_and_leave_no_socket(lab: Lab) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(ZeroDivisionError), lab.client.sniff():
        _ = 1 // 0
    with (
        pytest.raises(CaptureError, match="sniffing on eth9: No such device"),
        at(lab, "eth9").sniff(),
    ):
        pass
    assert len(list(Path("/proc/self/fd").iterdir())) == before


# ---- scapy's own arguments ----


def test_lfilter_keeps_only_matching_packets(lab: Lab) -> None:
    with lab.client.sniff(lfilter=lambda packet: len(packet) > 100) as live:
        send(lab, 5)
        with lab.client.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.sendto(bytes(500), ("10.0.0.2", 9))
    sizes = [len(packet) for packet in live.packets if packet["IP"].src == "10.0.0.1"]
    assert sizes == [542]
    assert live.received > len(live.packets)
    assert live.drops == 0


def test_a_functions_error_is_only_raised(lab: Lab, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(IndexError, match="TCP"), lab.client.sniff(lfilter=lambda p: p["TCP"]):
        send(lab, 5)
    assert capfd.readouterr() == ("", "")


def test_plain_loopback_shows_only_the_courses_packets() -> None:
    if not has_net_raw():
        pytest.skip(NET_RAW)
    with Loopback() as loop, loop.client.sniff() as live:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as another:
            another.sendto(b"noise", ("127.0.0.1", 9))
        result = small_writes(loop, messages=2)
    assert result.messages == 2
    assert {loop.server.address} == {
        address for p in live.packets for address in (p["IP"].src, p["IP"].dst)
    } - {"127.0.0.1"}
    assert sum(len(p["TCP"].payload) for p in live.packets) == 2 * (30 + 2)


# ---- sending ----


def test_host_answers_hand_made_packets(lab: Lab) -> None:
    with lab.client.scapy_socket() as scapy, lab.server.socket() as listener:
        listener.bind((lab.server.address, 0))
        listener.listen()
        port = listener.getsockname()[1]
        syn = IP(dst=lab.server.address) / TCP(dport=port, flags="S", options=[("MSS", 500)])
        answer = scapy.sr1(syn)
        assert str(answer[TCP].flags) == "SA"
        assert answer[IP].dst == scapy.address
        refused = scapy.sr1(IP(dst=lab.server.address) / TCP(dport=9, flags="S"))
        assert str(refused[TCP].flags) == "RA"


def test_kernel_resets_only_connections_from_its_own_address(lab: Lab) -> None:
    resets = []
    for source in (lab.client.address, None):
        with lab.client.scapy_socket() as scapy, lab.server.socket() as listener:
            listener.bind((lab.server.address, 0))
            listener.listen()
            ip = IP(dst=lab.server.address)
            if source:
                ip.src = source
            with lab.client.sniff() as live:
                scapy.sr1(ip / TCP(sport=4321, dport=listener.getsockname()[1], flags="S"))
                with connection(lab):
                    pass  # once this is over, the client has answered all earlier packets
        ours = [p[TCP] for p in live.packets if TCP in p and p[TCP].sport == 4321]
        resets.append(sum(str(segment.flags) == "R" for segment in ours))
    assert resets == [1, 0]


def test_a_packet_that_cannot_be_sent_is_refused(lab: Lab) -> None:
    with lab.client.scapy_socket() as scapy:
        with pytest.raises(LabError, match=r"sending 2020 bytes from client .*1500.*too long"):
            scapy.send(IP(dst=lab.server.address) / bytes(2000))
        with pytest.raises(LabError, match="no IP header"):
            scapy.send(TCP())
    with Loopback() as loop, pytest.raises(LabError, match=r"use Lab\(\)"):
        loop.client.scapy_socket()
