"""Sniffing with scapy while packets pass: the same packets, and a count of the lost ones."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tcplab import Lab
from tcplab.capture import CaptureLossWarning, record, sniff_live
from tcplab.errors import CaptureError

pytestmark = pytest.mark.needs_lab


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab() as made:
        yield made


def send(lab: Lab, count: int, to: str = "10.0.0.2") -> None:
    with lab.client.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        for _ in range(count):
            s.sendto(b"hello", (to, 9))


def test_scapy_sees_what_the_recorder_sees(lab: Lab) -> None:
    with record(lab.client, snaplen=2000) as capture, sniff_live(lab.client) as live:
        send(lab, 40)
        time.sleep(0.2)
    assert live.drops == 0
    assert live.received == len(live.packets)
    ours = [bytes(p) for p in capture.packets if p.haslayer("UDP") and p["UDP"].dport == 9]
    theirs = [bytes(p) for p in live.packets if p.haslayer("UDP") and p["UDP"].dport == 9]
    assert ours == theirs
    assert len(ours) >= 40
    stamps = [p.time for p in live.packets]
    assert stamps == sorted(stamps)
    assert live.packets[0].wirelen == 47
    assert live.packets[0].sniffed_on == "eth0"


def test_packets_are_handed_over_as_they_pass(lab: Lab) -> None:
    seen: list[str] = []
    with sniff_live(lab.client, prn=lambda packet: seen.append(packet.summary())) as live:
        send(lab, 1)
        deadline = time.monotonic() + 20
        while not seen and time.monotonic() < deadline:
            time.sleep(0.01)
        assert seen  # while the statement still runs
        send(lab, 3)
    assert seen == [packet.summary() for packet in live.packets]
    assert len(seen) >= 4


def test_loopback_packets_are_seen_once(lab: Lab) -> None:
    with sniff_live(lab.client, interface="lo") as live:
        send(lab, 20, "127.0.0.1")
    echoes = [p for p in live.packets if p.haslayer("UDP") and not p.haslayer("ICMP")]
    assert len(echoes) == 20


def test_what_scapy_was_too_slow_for_is_said(lab: Lab) -> None:
    sent = threading.Event()  # until then scapy is stuck at its first packet
    live = sniff_live(lab.client, prn=lambda _: sent.wait(timeout=60))
    live.__enter__()
    send(lab, 30_000)
    sent.set()
    with pytest.warns(CaptureLossWarning, match=r"too slow for \d+ of \d+ packets"):
        live.__exit__(None, None, None)
    assert live.drops > 0
    assert live.received == len(live.packets) + live.drops
    assert live.received >= 30_000


def test_an_error_in_the_body_is_not_hidden(lab: Lab) -> None:
    with pytest.raises(ZeroDivisionError), sniff_live(lab.client) as live:
        _ = 1 // 0
    assert live._socket.fileno() == -1


def test_an_interface_that_is_not_there(lab: Lab) -> None:
    with pytest.raises(CaptureError, match="sniffing on eth9: No such device"):
        sniff_live(lab.client, interface="eth9").__enter__()
