"""Test the scapy lines that the problem sets show, and a kernel's replies to crafted packets."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import IP, UDP
from tests.support.grading.sets import EXAMPLE, captures_in
from tests.support.grading.tried import packet_is_judged_by_the_kernels_answer, sending_question
from tests.support.nonempty import each
from tests.support.paths import ROOT

from tcplab.capture import open_capture
from tcplab.errors import ParameterError
from tcplab.grading.archive import take_out
from tcplab.grading.assignment import load_module
from tcplab.grading.packets import SYN, OwnPacket, connected
from tcplab.lab import Lab
from tcplab.segments import from_file

#: The sets that ask about a capture; the-lab has none.
SETS = each(sorted(path.parent.name for path in ROOT.glob("exercises/*/captures.zip")))
OF_TCP = [name for name in SETS if name != "tcp-vs-udp"]


def shown_lines(name: str) -> str:
    """Return the indented scapy lines in the first question about the learner's capture."""
    notebook = json.loads((ROOT / f"exercises/{name}/{name}.ipynb").read_text())
    texts = ("".join(cell["source"]) for cell in notebook["cells"])
    text = next(text for text in texts if "    packets = open_capture(" in text)
    return "\n".join(re.findall(r"^    (.+)$", text, re.M))


def captures_of(name: str, folder: Path, count: int) -> list[Path]:
    """Extract captures of a set's archive into a folder; return their paths."""
    source = ROOT / "exercises" / name
    names = [capture.name for capture in captures_in(source)[:count]]
    take_out(source, names, folder)
    return each([folder / name for name in names])


def lines_agree_with_the_segments(name: str, folder: Path, count: int) -> None:
    for capture in captures_of(name, folder, count):
        seen: dict[str, Any] = {"open_capture": open_capture}
        seen["n"] = {"capture": str(capture), "captures": [str(capture)]}
        exec(shown_lines(name), seen)
        rows = from_file(capture)
        sent = (
            rows.sent_by("server")
            if name in ("buffers", "real-programs")
            else rows.sent_by("client")
        )
        assert len(seen["sent"]) == len(sent)
        if "sizes" in seen:
            assert seen["sizes"] == sent["payload_bytes"].tolist()
        if "syns" in seen:
            announced = [dict(syn["TCP"].options)["MSS"] for syn in seen["syns"]]
            assert announced == rows[rows.is_syn]["mss"].tolist()
        if "windows" in seen:
            scale = dict(seen["sent"][0]["TCP"].options)["WScale"]
            scaled = [window << scale for window in seen["windows"][1:]]
            assert scaled == sent[~sent.is_syn]["window"].tolist()


@pytest.mark.parametrize("name", OF_TCP)
def test_the_scapy_lines_of_a_set_agree_with_the_segments(name: str, tmp_path: Path) -> None:
    lines_agree_with_the_segments(name, tmp_path, 2)


def test_the_lines_of_tcp_vs_udp_read_each_datagram(tmp_path: Path) -> None:
    (capture,) = captures_of("tcp-vs-udp", tmp_path, 1)
    seen: dict[str, Any] = {"n": {"capture": str(capture)}, "i": 0}
    exec(shown_lines("tcp-vs-udp"), seen)
    assert seen["kind"] in (b"data", b"end.", b"done", b"talk")


# ---- packets that are handed in ----


def test_every_set_with_captures_sends_a_packet() -> None:
    asked = {name: sending_question(name) for name in SETS}
    assert {name: question for name, question in asked.items() if question != "q8"} == {
        "diagnosis": "q10"
    }


@pytest.mark.needs_lab
@pytest.mark.parametrize("name", [EXAMPLE, "tcp-vs-udp"])
def test_a_packet_is_judged_by_the_kernels_answer(name: str) -> None:
    packet_is_judged_by_the_kernels_answer(name)


def test_no_wrong_checksum_is_right_by_chance() -> None:
    task = load_module(ROOT / "solutions/tcp-vs-udp/task.py", "tcp_vs_udp")
    to, data = IP(src="10.0.0.1", dst="10.0.0.2"), b"\x07"
    right = bytes(to / UDP(sport=4000, dport=9) / data)[26:28]
    assert task.source_port([(0, data), (1, data)], to, 9) == 4000
    assert task.source_port([(0, data), (int.from_bytes(right), data)], to, 9) == 4001


@pytest.mark.needs_lab
def test_a_syn_may_have_the_last_sequence_number() -> None:
    syn = OwnPacket(seq=2**32 - 1, flags=SYN)
    with Lab() as lab, connected(lab, syn) as (ours, server):
        server.send(bytes(7))
        assert [(heard.seq, heard.data_bytes) for heard in ours.hear()] == [(1, 7)]


#: An IPv4 and a TCP header in hex, of 20 bytes each.
IP_HEADER, TCP_HEADER = "45" + "00" * 8 + "06" + "00" * 10, "00" * 12 + "50" + "00" * 7
#: Answers other than an IPv4 packet with a whole TCP segment: other types, cut or forged headers.
NO_PACKETS = {
    "number": 7,
    "list": [],
    "empty": "",
    "no hex": "zz",
    "too short": IP_HEADER + TCP_HEADER[:-2],
    "IP header of 16 bytes": "44" + IP_HEADER[2:32] + TCP_HEADER,
    "IP header of 60 bytes": "4f" + (IP_HEADER + TCP_HEADER)[2:],
    "IPv6": "65" + (IP_HEADER + TCP_HEADER)[2:],
    "UDP": IP_HEADER.replace("06", "11") + TCP_HEADER,
    "TCP header of 16 bytes": IP_HEADER + TCP_HEADER.replace("50", "40"),
    "TCP header of 60 bytes": IP_HEADER + TCP_HEADER.replace("50", "f0"),
    "too long": IP_HEADER + TCP_HEADER + "00" * 1461,
}


@pytest.mark.parametrize("name", NO_PACKETS)
def test_answer_that_is_no_packet_is_refused(name: str) -> None:
    typed = IP_HEADER + TCP_HEADER
    for shown in (typed, bytes.fromhex(typed).hex(":").upper()):  # the latter as in Wireshark
        assert OwnPacket.read(shown, "q8_packet") == OwnPacket(window=0, flags=0)
    with pytest.raises(ParameterError, match="q8_packet"):
        OwnPacket.read(NO_PACKETS[name], "q8_packet")
