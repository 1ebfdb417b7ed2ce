"""Test the learner's lines for packets. Right ones pass, and each wrong one gets an explanation."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from tcplab import Lab
from tcplab.capture import Sniffed
from tcplab.course import packet_lines, short_c
from tcplab.segments import SegmentArray

pytestmark = pytest.mark.needs_lab
Seen = tuple[Sniffed, SegmentArray]


@pytest.fixture(scope="module")
def seen() -> Seen:
    with Lab(rtt_ms=20) as lab:
        with lab.client.capture() as recorder, lab.client.sniff() as live:
            short_c.run(lab, "the-lab")
        return live, recorder.segments


def right(packet: Any, start: Any) -> str:
    after_ms = 1000 * float(packet.time - start)
    return f"{after_ms:.2f} ms  {packet['IP'].src}  {len(packet['TCP'].payload)} bytes"


LINES: dict[str, tuple[Callable[[Any, Any], str], str]] = {
    "right": (right, "lines agree with the recorder"),
    "nothing yet": (lambda _packet, _start: "?", "a line has three words"),
    "no number": (lambda packet, _start: f"x {packet['IP'].src} 0", "'x' is not a number"),
    "seconds": (
        lambda packet, start: f"{packet.time - start} {packet['IP'].src} 0",
        "ms after the first packet",
    ),
    "destination": (
        lambda packet, start: right(packet, start).replace(packet["IP"].src, packet["IP"].dst),
        "it came from 10.0.0.1",
    ),
    "whole packet": (
        lambda packet, start: " ".join([*right(packet, start).split()[:3], str(len(packet))]),
        "it carries 0 bytes of TCP data",
    ),
}


@pytest.mark.parametrize("name", LINES)
def test_lines_are_compared_with_the_recorder(name: str, seen: Seen) -> None:
    line, message = LINES[name]
    verdict = packet_lines.check(line, *seen)
    assert message in verdict.message
    assert verdict.passed is (name == "right")


def test_packets_that_scapy_missed_are_no_evidence(seen: Seen) -> None:
    live, recorded = seen
    fewer = dataclasses.replace(live, packets=live.packets[1:])
    for missed in (fewer, dataclasses.replace(live, drops=1)):
        verdict = packet_lines.check(right, missed, recorded)
        assert verdict.passed is None
        assert "prove nothing" in verdict.message
