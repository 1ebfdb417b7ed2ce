"""The short C programs of the lessons: plain, without a warning, and checked on the wire."""

from __future__ import annotations

import re
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


def test_nothing_is_judged_without_a_laboratory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCPLAB_MODE", "recorded")
    assert short_c.check("small-writes").passed is None


CONNECT = "    if (connect(fd"
SEND = "        if (send(fd, block"
LEFT = "#include <linux/sockios.h>\n#include <sys/ioctl.h>\n#include <unistd.h>\n"


def option(name: str, value: int) -> str:
    return f"int v = {value};\n    setsockopt(fd, {name}, &v, sizeof v);\n{CONNECT}"


def wait_while_more_than(left_bytes: int) -> str:
    condition = f"ioctl(fd, SIOCOUTQ, &left) == 0 && left > {left_bytes}"
    return f"int left;\n        while ({condition})\n            usleep(1000);\n{SEND}"


SHORTER: dict[str, tuple[str, str, bool]] = {
    "as it is": ("", "", False),
    "a BDP unacknowledged": (SEND, wait_while_more_than(25_000), True),
    "paced": (CONNECT, option("SOL_SOCKET, SO_MAX_PACING_RATE", 1_100_000), True),
    "a small send buffer": (CONNECT, option("SOL_SOCKET, SO_SNDBUF", 16_384), False),
    "little unsent": (CONNECT, option("IPPROTO_TCP, TCP_NOTSENT_LOWAT", 16_384), False),
    "one block at a time": (SEND, wait_while_more_than(0), False),
    "half of the bytes": ("atoi(argv[3]) / 10;", "atoi(argv[3]) / 20;", False),
}


@pytest.mark.needs_lab
@pytest.mark.parametrize("name", SHORTER)
def test_the_check_of_queues(name: str, tmp_path: Path) -> None:
    old, new, passed = SHORTER[name]
    path = short_c.copy("queues", tmp_path)
    text = path.read_text()
    assert old in text
    path.write_text(LEFT + (text.replace(old, new) if old else text))
    verdict = short_c.check("queues", path)
    assert verdict.passed is passed, verdict


@pytest.mark.needs_lab
def test_a_longer_queue_makes_the_round_trip_of_queues_longer_and_the_copy_no_faster() -> None:
    found = []
    for queue_packets in (20, 1000):
        with Lab(rtt_ms=20, rate_mbit=10, congestion="reno", queue_packets=queue_packets) as lab:
            found.append(short_c.run(lab, "queues", "1000"))
    short, long = found
    assert len(short.stream) == len(long.stream) == 1_000_000
    assert 3 * max(short.in_flight) < max(long.in_flight)
    assert re.fullmatch(r"RTT \d+( \d+){10} ms, [\d.]+ Mbit/s", long.output)


SOCKET = "    int fd = socket("
LARGER: dict[str, tuple[str, str, bool]] = {
    "as it is": ("", "", False),
    "two connections": (SOCKET, f"fork();\n{SOCKET}", True),
    "four connections": (SOCKET, f"fork();\n    fork();\n{SOCKET}", True),
    "reno": ("TCP_CONGESTION, argv[3], strlen(argv[3])", 'TCP_CONGESTION, "reno", 4', False),
    "nothing sent": ("while (now() - start < atof(argv[4]))", "if (start < 0)", False),
}


@pytest.mark.needs_lab
@pytest.mark.parametrize("name", LARGER)
def test_the_check_of_sharing(name: str, tmp_path: Path) -> None:
    old, new, passed = LARGER[name]
    path = short_c.copy("sharing", tmp_path)
    text = path.read_text()
    assert old in text
    path.write_text(LEFT + (text.replace(old, new) if old else text))
    verdict = short_c.check("sharing", path)
    assert verdict.passed is passed, verdict


@pytest.mark.needs_lab
def test_programs_that_run_together_have_a_control_each_and_share_a_line() -> None:
    with Lab(clients=[10, 40], rate_mbit=10, queue_packets=20) as lab:
        near, far = short_c.run_together(lab, "sharing", "reno 1", "cubic 1")
    assert [ran.output.partition(":")[0] for ran in (near, far)] == ["reno", "cubic"]
    assert str(far).splitlines()[0].startswith("client2$ ./sharing 10.0.0.2 ")
    assert min(sum(near.sizes), sum(far.sizes)) > 10_000
    assert sum(near.sizes) + sum(far.sizes) < 3_000_000  # of one line, with what its queue holds
