"""The short C programs of the lessons: plain, without a warning, and checked on the wire."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.nonempty import each
from tests.support.paths import ROOT

from tcplab import Lab
from tcplab.course import short_c
from tcplab.errors import ParameterError
from tcplab.programs.compile import compile_program

PROGRAMS = sorted((ROOT / "lessons/c").glob("*.c"))
CHOICE = "argv[3][0] == 'w' ? write_at_once(fd) : send_pieces(fd);"
CALL = "send(fd, text + i * PIECE_BYTES, PIECE_BYTES, 0);"


def test_each_program_has_a_check_and_compiles_without_a_warning() -> None:
    assert [path.stem for path in PROGRAMS] == sorted(short_c.CASES)
    for path in each(PROGRAMS):
        text = path.read_text()
        assert len(text.splitlines()) <= 50
        assert '#include "' not in text  # nothing but the system's headers
        built = compile_program(path.name, text.encode(), flags=["-Wpedantic", "-Werror"])
        assert built.binary is not None, built.messages


def test_a_copy_is_kept_and_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert short_c.path_of("small-writes") == ROOT / "lessons/c/small-writes.c"
    path = short_c.copy("small-writes")
    path.write_text("mine")
    assert short_c.copy("small-writes").read_text() == "mine"
    assert short_c.path_of("small-writes") == path
    with pytest.raises(ParameterError, match="slug='no-such-lesson'"):
        short_c.copy("no-such-lesson")


@pytest.mark.needs_lab
def test_the_two_ways_of_small_writes() -> None:
    with Lab() as lab:
        pieces, whole = (short_c.run(lab, "small-writes", how) for how in ("send", "writev"))
    assert whole.sizes == [30] * 10
    assert sum(pieces.sizes) == 300
    assert len(pieces.sizes) >= 20
    assert pieces.stream == whole.stream
    assert str(whole).splitlines()[1].endswith(" writev")


CHANGES = {
    "as it is": ("", "", False),
    "one call": (CHOICE, "send(fd, text, sizeof text - 1, 0);", True),
    "MSG_MORE": (CALL, CALL.replace(", 0)", ", i < PIECES - 1 ? MSG_MORE : 0)"), True),
    "other bytes": (CHOICE, "text[0]++, send(fd, text, sizeof text - 1, 0);", False),
    "too few bytes": (
        "i < PIECES; i++)\n        send",
        "i < PIECES - 1; i++)\n        send",
        False,
    ),
    "no C": ("int main", "int man(", False),
}


@pytest.mark.needs_lab
@pytest.mark.parametrize("name", CHANGES)
def test_the_check_of_small_writes(name: str, tmp_path: Path) -> None:
    old, new, passed = CHANGES[name]
    path = short_c.copy("small-writes", tmp_path)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new) if old else text)
    verdict = short_c.check("small-writes", path)
    assert verdict.passed is passed, verdict


BEFORE = "    if (connect("
AFTER = "    if (send("
SET = "setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &(int){%d}, sizeof(int));\n"
SEND = "send(fd, data, count, 0) != (ssize_t)count"

SEGMENT_CHANGES = {
    "as it is": ("", "", False),
    "announced before connect()": (BEFORE, SET % 1380 + BEFORE, True),
    "after connect()": (AFTER, SET % 1380 + AFTER, False),
    "the packet's size": (BEFORE, SET % 1420 + BEFORE, False),
    "the data's size": (BEFORE, SET % 1368 + BEFORE, False),
    "another amount": (SEND, "send(fd, data, 1368, 0) != 1368", False),
    "nothing sent": (SEND, "0", False),
}


@pytest.mark.needs_lab
@pytest.mark.parametrize("name", SEGMENT_CHANGES)
def test_the_check_of_segments(name: str, tmp_path: Path) -> None:
    old, new, passed = SEGMENT_CHANGES[name]
    path = short_c.copy("segments", tmp_path)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new) if old else text)
    verdict = short_c.check("segments", path)
    assert verdict.passed is passed, verdict


@pytest.mark.needs_lab
@pytest.mark.parametrize("mtu", [1500, 9000])
def test_segments_asks_for_the_mss_that_it_sends(mtu: int) -> None:
    with Lab(mtu=mtu) as lab:
        ran = short_c.run(lab, "segments", "100000")
    assert max(ran.sizes) == mtu - 52
    assert len(ran.stream) == 100_000
    told = f"TCP_MAXSEG: 536 before connect(), {mtu - 52} after it, {mtu - 52} at the end"
    assert ran.output == told


SEND_ALL = "send_message(fd, atoi(argv[i]));"
IN_HALVES = "for (int half = 0; half < 2; half++) send_message(fd, atoi(argv[i]) / 2);"
DISCOVER = "setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &(int){%s}, sizeof(int));\n"
MAXSEG = "setsockopt(fd, IPPROTO_TCP, 2 /* TCP_MAXSEG */, &(int){%d}, sizeof(int));\n"

PATH_CHANGES = {
    "as it is": ("", "", False),
    "a smaller MSS": (BEFORE, MAXSEG % 1160 + BEFORE, True),
    "one byte too many": (BEFORE, MAXSEG % 1161 + BEFORE, False),
    "no DF": (BEFORE, DISCOVER % "IP_PMTUDISC_DONT" + BEFORE, True),
    "DF always": (BEFORE, DISCOVER % "IP_PMTUDISC_DO" + BEFORE, False),
    "messages that fit": (SEND_ALL, IN_HALVES, True),
    "less data": (SEND_ALL, "send_message(fd, 100);", False),
}


@pytest.mark.needs_lab
@pytest.mark.parametrize("name", PATH_CHANGES)
def test_the_check_of_path_mtu(name: str, tmp_path: Path) -> None:
    old, new, passed = PATH_CHANGES[name]
    path = short_c.copy("path-mtu", tmp_path)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new) if old else text)
    verdict = short_c.check("path-mtu", path)
    assert verdict.passed is passed, verdict


@pytest.mark.needs_lab
@pytest.mark.parametrize(("icmp", "left"), [("off", 2000), ("on", 0)])
def test_path_mtu_waits_for_what_is_not_acknowledged(icmp: str, left: int) -> None:
    with Lab() as lab:
        lab.link.update("client->server", mtu=1200, icmp=icmp)
        ran = short_c.run(lab, "path-mtu", "100", "2000")
    assert ran.output.splitlines() == [
        "100 bytes sent, 0 not acknowledged",
        f"2000 bytes sent, {left} not acknowledged",
    ]


ONE_BY_ONE = """    for (int i = 0; i < BLOCKS; i++, calls++)
        if (send(fd, blocks + i * BLOCK_BYTES, BLOCK_BYTES, 0) < 0)"""
BATCHES = """    setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &(int){BLOCK_BYTES}, sizeof(int));
    for (int i = 0; i < BLOCKS; i += %d, calls++)
        if (send(fd, blocks + i * BLOCK_BYTES, %d * BLOCK_BYTES, 0) < 0)"""
NO_OPTION = (BATCHES % (45, 45)).partition("\n")[2]

UDP_CHANGES = {
    "as it is": ("", "", False),
    "45 per call": (ONE_BY_ONE, BATCHES % (45, 45), True),
    "10 per call": (ONE_BY_ONE, BATCHES % (10, 10), False),
    "fragments": (ONE_BY_ONE, NO_OPTION, False),
    "every other block": (ONE_BY_ONE, BATCHES % (90, 45), False),
}


@pytest.mark.needs_lab
@pytest.mark.parametrize("name", UDP_CHANGES)
def test_the_check_of_tcp_vs_udp(name: str, tmp_path: Path) -> None:
    old, new, passed = UDP_CHANGES[name]
    path = short_c.copy("tcp-vs-udp", tmp_path)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new) if old else text)
    verdict = short_c.check("tcp-vs-udp", path)
    assert verdict.passed is passed, verdict
    if name == "fragments":
        assert "fragments" in verdict.message


@pytest.mark.needs_lab
def test_tcp_joins_blocks_and_udp_does_not() -> None:
    with Lab(offload=True) as lab:
        udp = short_c.run(lab, "tcp-vs-udp", "udp")
        tcp = short_c.run(lab, "tcp-vs-udp", "tcp", server=["tcpsink", "-p", "0"])
    assert udp.sizes == [1440] * 900
    assert sum(tcp.sizes) == sum(udp.sizes)
    assert len(tcp.sizes) < 900 - 1
    assert udp.output == tcp.output == "900 blocks, 900 calls"


def test_nothing_is_judged_without_a_laboratory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCPLAB_MODE", "recorded")
    assert short_c.check("small-writes").passed is None
