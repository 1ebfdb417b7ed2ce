"""Test the scapy lines that the problem sets show, and a kernel's replies to crafted packets."""

from __future__ import annotations

import json
import re
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import IP, TCP, UDP
from tests.support.lessons import BY_SLUG
from tests.support.nonempty import each
from tests.support.paths import ROOT

from tcplab import Lab
from tcplab.capture import open_capture
from tcplab.errors import ParameterError
from tcplab.grading.archive import captures_in, take_out
from tcplab.grading.assignment import Task
from tcplab.grading.packets import OwnPacket
from tcplab.grading.trial import Trial
from tcplab.segments import from_file

#: The sets that ask about a capture; the-lab has none.
SETS = each(sorted(path.parent.name for path in ROOT.glob("exercises/*/captures.zip")))


def shown_lines(name: str) -> str:
    """Return the indented scapy lines in the question about the capture."""
    notebook = json.loads((ROOT / f"exercises/{name}/{name}.ipynb").read_text())
    (text,) = [
        "".join(cell["source"]) for cell in notebook["cells"] if cell["id"] == f"{name}-q4-text"
    ]
    return "\n".join(re.findall(r"^    (.+)$", text, re.M))


def captures_of(name: str, folder: Path) -> list[Path]:
    """Extract five captures of a set's archive into a folder; return their paths."""
    source = ROOT / "exercises" / name
    names = [capture.name for capture in captures_in(source)[:5]]
    take_out(source, names, folder)
    return each([folder / name for name in names])


@pytest.mark.parametrize("name", [name for name in SETS if name != "tcp-vs-udp"])
def test_the_lines_of_a_set_see_what_the_segments_tell(name: str, tmp_path: Path) -> None:
    for capture in captures_of(name, tmp_path):
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


def test_the_lines_of_tcp_vs_udp_read_each_datagram(tmp_path: Path) -> None:
    (capture, *_rest) = captures_of("tcp-vs-udp", tmp_path)
    seen: dict[str, Any] = {"n": {"capture": str(capture)}, "i": 0}
    exec(shown_lines("tcp-vs-udp"), seen)
    assert seen["kind"] in (b"data", b"end.", b"done", b"talk")


# ---- packets that are handed in ----


@pytest.mark.needs_lab
@pytest.mark.parametrize("name", ["pipes", "small-writes", "cork", "queues"])
def test_a_packet_is_judged_by_the_kernels_answer(name: str) -> None:
    trial = Trial(ROOT / "solutions" / name)
    for student in ("ada", "bob", "carla"):
        assert trial.run("reference", student, questions=["q8"]).scores == {"q8": 1}, student
    wrong = {
        mistake: mutant.score - (trial.full - 1)
        for mistake, mutant in trial.mutants.items()
        if "q8-answer" in {*mutant.answers, *mutant.then}
    }
    assert len(wrong) >= 4  # no packet, a guess, and packets with another effect
    for mistake, points in wrong.items():
        assert trial.run(mistake, questions=["q8"]).scores == {"q8": points}, mistake


#: Answers other than an IPv4 packet with a whole TCP segment: other types, cut or forged headers.
NO_PACKETS = each(
    [
        7,
        b"E",
        [],
        "",
        "E",
        "zz",
        "00" * 40,
        "45" + "00" * 38,
        "4f" + "00" * 8 + "06" + "00" * 30,
        "45" + "00" * 8 + "06" + "00" * 22 + "f0" + "00" * 7,
        "45" + "00" * 8 + "06" + "00" * 3000,
    ]
)


@pytest.mark.parametrize("answer", NO_PACKETS, ids=lambda answer: str(answer)[:8])
def test_answer_that_is_no_packet_is_refused(answer: object) -> None:
    with pytest.raises(ParameterError, match="q8_packet"):
        OwnPacket.read(answer, "q8_packet")


# ---- packets built by hand ----


@pytest.fixture
def shake_hands() -> Any:
    """Return the function shake_hands() of lesson segments, to which the questions refer."""
    lesson = BY_SLUG["segments"]
    cells = json.loads(lesson.read_text())["cells"]
    (source,) = ["".join(cell["source"]) for cell in cells if cell["id"] == "segments-send"]
    namespace: dict[str, Any] = {"TCP": TCP}
    exec(source, namespace)
    return namespace["shake_hands"]


@cache
def solved(name: str, student: str = "ada") -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a student's numbers, and the reference answers to the question that sends packets."""
    numbers = Task(ROOT / f"solutions/{name}/task.py", name).numbers(student)
    notebook = json.loads((ROOT / f"solutions/{name}/{name}.ipynb").read_text())
    asked = sending_question(name)
    (source,) = ["".join(c["source"]) for c in notebook["cells"] if c["id"] == f"{asked}-answer"]
    answers: dict[str, Any] = {"n": numbers}
    exec(source, answers)
    return numbers, answers


def sending_question(name: str) -> str:
    """Return the number of the question below the heading *Send a packet of your own*."""
    notebook = json.loads((ROOT / f"solutions/{name}/{name}.ipynb").read_text())
    texts = ["".join(cell["source"]) for cell in notebook["cells"]]
    (text,) = [text for text in texts if text.startswith("## Send a packet of your own")]
    question: str = re.findall(r"^\*\*(q\d+)\*\*", text, re.M)[0]
    return question


def test_every_set_with_captures_sends_a_packet() -> None:
    asked = {name: sending_question(name) for name in SETS}
    assert {name: question for name, question in asked.items() if question != "q8"} == {
        "diagnosis": "q10"
    }


@pytest.mark.needs_lab
@pytest.mark.parametrize("student", ["ada", "bob"])
def test_close_with_unread_bytes_sends_a_reset(student: str) -> None:
    numbers, answers = solved("real-programs", student)
    with listening() as (lab, scapy, listener):
        ip = IP(dst=lab.server.address)
        syn = TCP(sport=4000, dport=9000, flags="S", seq=0, options=[("MSS", 1460)])
        theirs = scapy.sr1(ip / syn)[TCP].seq
        ack = theirs + 1
        scapy.send(ip / TCP(sport=4000, dport=9000, flags="A", seq=1, ack=ack))
        server, _ = listener.accept()
        with lab.client.sniff(lfilter=lambda p: TCP in p and p[TCP].sport == 9000) as live:
            server.sendall(bytes(numbers["reply_bytes"]))
            tcp = TCP(sport=4000, dport=9000, flags="PA", seq=1, ack=ack + numbers["reply_bytes"])
            scapy.send(ip / tcp / bytes(numbers["my_bytes"]))
            time.sleep(0.3)
            server.close()
            time.sleep(0.3)
        (reset,) = [p[TCP] for p in live.packets if p[TCP].flags.R]
        assert reset.seq - theirs == answers["q8_reset_seq"]
        assert reset.ack == answers["q8_reset_ack"]


@pytest.mark.needs_lab
@pytest.mark.parametrize("student", ["ada", "bob", "carla"])
def test_udp_drops_only_datagrams_with_a_wrong_checksum(student: str) -> None:
    numbers, answers = solved("tcp-vs-udp", student)
    field: dict[str, Any] = {"right": {}, "none": {"chksum": 0}, "wrong": {"chksum": 1}}
    with (
        Lab() as lab,
        lab.client.scapy_socket() as scapy,
        lab.server.socket(kind=socket.SOCK_DGRAM) as program,
    ):
        program.bind((lab.server.address, 9000))
        program.settimeout(5)
        for number, checksum in [*numbers["sent"], (255, "right")]:
            udp = UDP(dport=9000, **field[checksum])
            scapy.send(IP(dst=lab.server.address) / udp / bytes([number]))
        read = []
        while (number := program.recv(1)[0]) != 255:
            read.append(number)
    assert read == answers["q8_read"]


@contextmanager
def listening() -> Iterator[tuple[Lab, Any, Any]]:
    """Yield a laboratory, scapy on its client, and a server's socket that listens on port 9000."""
    with Lab() as lab, lab.client.scapy_socket() as scapy, lab.server.socket() as listener:
        listener.bind((lab.server.address, 9000))
        listener.listen()
        yield lab, scapy, listener


def shake_hands_with(scapy: Any, server: str, options: list[Any], window: int = 8192) -> int:
    """Shake hands with these options and this window; return the ACK number for later segments."""
    ip = IP(dst=server)
    answer = scapy.sr1(ip / TCP(sport=4000, dport=9000, flags="S", options=options))
    ack = int(answer[TCP].seq) + 1
    scapy.send(ip / TCP(sport=4000, dport=9000, flags="A", seq=1, ack=ack, window=window))
    return ack


@pytest.mark.needs_lab
@pytest.mark.parametrize("student", ["ada", "bob", "carla"])
def test_a_sender_keeps_to_the_scaled_window_and_to_ten_segments(student: str) -> None:
    numbers, answers = solved("buffers", student)
    options = [("MSS", numbers["my_mss_bytes"]), ("WScale", numbers["my_scale"])]
    expected = {
        numbers["my_window_field"]: answers["q8_small_field_bytes"],
        65_535: answers["q8_large_field_bytes"],
    }
    for field, bytes_sent in expected.items():
        with listening() as (lab, scapy, listener):
            with lab.client.sniff(lfilter=lambda p: p[TCP].payload) as live:
                shake_hands_with(scapy, lab.server.address, options, field)
                server, _ = listener.accept()
                assert server.send(bytes(10_000), socket.MSG_DONTWAIT) == 10_000
                time.sleep(0.5)  # the retransmissions bring no new data
            server.close()
        first = {p[TCP].seq: len(p[TCP].payload) for p in live.packets}
        assert sum(first.values()) == bytes_sent


@pytest.mark.needs_lab
@pytest.mark.parametrize("student", ["ada", "bob", "carla"])
def test_program_reads_up_to_the_gap(student: str) -> None:
    numbers, answers = solved("diagnosis", student)
    with listening() as (lab, scapy, listener):
        ack = shake_hands_with(scapy, lab.server.address, [("MSS", 1460)])
        server, _ = listener.accept()
        # With a Python timeout, recv() returns what is there. MSG_WAITALL needs the kernel's own
        # timeout.
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 20, 0))
        ip = IP(dst=lab.server.address)

        def send(first: int, size: int) -> None:
            tcp = TCP(sport=4000, dport=9000, flags="A", seq=first, ack=ack)
            scapy.send(ip / tcp / bytes(size))

        for first, size in numbers["pieces"]:
            send(first, size)
        readable = answers["q10_readable_bytes"]
        assert len(server.recv(readable, socket.MSG_WAITALL)) == readable
        with pytest.raises(BlockingIOError):
            server.recv(1, socket.MSG_DONTWAIT)
        # Once the gap is filled, the held data becomes readable too.
        held = answers["q10_held_bytes"]
        behind = min(first for first, _ in numbers["pieces"] if first > readable)
        hole = behind - 1 - readable
        send(readable + 1, hole)
        assert len(server.recv(hole + held, socket.MSG_WAITALL)) == hole + held
        server.close()


def sent_by_server(shake_hands: Any, mss: int, act: Callable[[Any, Any], None]) -> list[int]:
    """Let `act` drive a server; return the sizes of its data segments, without retransmissions."""
    with listening() as (lab, scapy, listener):
        with lab.client.sniff(lfilter=lambda p: p[TCP].payload) as live:
            shake_hands(scapy, IP(dst=lab.server.address), mss)
            server, _ = listener.accept()
            act(server, scapy)
            time.sleep(0.1)
        server.close()  # close() releases corked data
        first = {p[TCP].seq: len(p[TCP].payload) for p in reversed(live.packets)}
        return [first[seq] for seq in sorted(first)]


@pytest.mark.needs_lab
def test_sender_without_acks_sends_ten_segments(shake_hands: Any) -> None:
    numbers, answers = solved("segments")
    mss = numbers["my_mss_bytes"]
    sizes = sent_by_server(shake_hands, mss, lambda server, _: server.sendall(bytes(10_000)))
    assert set(sizes) == {mss}
    assert sum(sizes) == answers["q8_sent_bytes"]


@pytest.mark.needs_lab
@pytest.mark.parametrize("student", ["ada", "bob", "carla"])
def test_sack_block_shows_both_ends_of_the_gap(student: str) -> None:
    numbers, answers = solved("slow-start", student)
    mss, first = numbers["my_mss_bytes"], numbers["lost_first"]
    with listening() as (lab, scapy, listener):
        options = [("MSS", mss), ("SAckOK", b"")]
        with lab.client.sniff(lfilter=lambda p: p[TCP].payload) as live:
            start = shake_hands_with(scapy, lab.server.address, options, 20_000)
            server, _ = listener.accept()
            server.sendall(bytes(10 * mss))
            time.sleep(0.1)
            behind = start + (first - 1 + numbers["lost_segments"]) * mss
            ack = TCP(sport=4000, dport=9000, flags="A", seq=1, ack=start + (first - 1) * mss)
            ack.options = [("NOP", None), ("NOP", None), ("SAck", (behind, start + 10 * mss))]
            asked_s = time.time()
            scapy.send(IP(dst=lab.server.address) / ack)
            time.sleep(0.1)
        server.close()
    # The tail loss probe, which a busy machine sends late, does not answer the ACK.
    again = {
        p[TCP].seq - start + 1: len(p[TCP].payload)
        for p in live.packets
        if p.time > asked_s and p[TCP].seq < behind
    }
    assert len(live.packets) >= 10 + len(again)
    assert min(again) == answers["q8_again_number"]
    assert sum(again.values()) == answers["q8_again_bytes"]


@pytest.mark.needs_lab
def test_a_header_fills_segments_of_the_peers_size(shake_hands: Any) -> None:
    numbers, answers = solved("sendfile")

    def act(server: Any, _: Any) -> None:
        server.send(bytes(numbers["page_header_bytes"]), socket.MSG_MORE)
        server.send(bytes(numbers["page_bytes"]))

    sizes = sent_by_server(shake_hands, numbers["my_mss_bytes"], act)
    assert len(sizes) == answers["q8_segments"]
    assert sizes[-1] == answers["q8_last_bytes"]
