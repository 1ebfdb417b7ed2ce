"""The short C programs of the lessons: plain, without a warning, and checked on the wire."""

from __future__ import annotations

import re
from collections.abc import Mapping
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


def changed(slug: str, changes: Mapping[str, str], folder: Path) -> Path:
    """A copy of a program, with all changes made at once."""
    path = short_c.copy(slug, folder)
    text = path.read_text()
    assert all(old in text for old in changes)
    if changes:
        pattern = "|".join(map(re.escape, changes))
        path.write_text(re.sub(pattern, lambda found: changes[found[0]], text))
    return path


BEFORE = "ask_for(listener, atoi(argv[3]));"
AFTER = "ask_for(fd, atoi(argv[4]));"
PEEK = "recv(fd, &(char){0}, 1, MSG_PEEK);"
RECEIVERS: dict[str, tuple[dict[str, str], bool]] = {
    "as it is": ({}, False),
    "moved": ({AFTER: "", BEFORE: BEFORE + "ask_for(listener, atoi(argv[4]));"}, True),
    "the large size before, and after": ({BEFORE: "ask_for(listener, atoi(argv[4]));"}, True),
    "nothing asked for": ({BEFORE: "", AFTER: ""}, True),
    "only after the first data": ({BEFORE: "", AFTER: PEEK + AFTER}, False),
    "exchanged": ({"argv[3]": "argv[4]", "argv[4]": "argv[3]"}, False),
    "before, but for bind()": ({AFTER: "", "int fd =": f"{BEFORE} int fd ="}, False),
    "too small": ({BEFORE: "ask_for(listener, 131072);", AFTER: ""}, False),
    "stops early": ({BEFORE: "", "(got = recv": "total < 999999 && (got = recv"}, False),
    "does not listen": ({"|| listen(listener, 1) < 0": ""}, False),
    "fails": ({"printf(": "exit(3); printf("}, False),
}


@pytest.mark.needs_lab
@pytest.mark.parametrize("name", RECEIVERS)
def test_the_check_of_buffers(name: str, tmp_path: Path) -> None:
    changes, passed = RECEIVERS[name]
    verdict = short_c.check("buffers", changed("buffers", changes, tmp_path))
    assert verdict.passed is passed, verdict


CONNECT = "if (connect("
LOWAT = "setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &(int){16384}, sizeof(int));"
SNDBUF = "setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &(int){16384}, sizeof(int));"
HEADERS = {"#include <arpa/": "#include <netinet/tcp.h>\n#include <poll.h>\n#include <arpa/"}
MADE = "memset(record, '.', sizeof record);"
POLL = "poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, -1);"
WAIT = "for (int n = 16385; n > 16384; poll(NULL, 0, 1)) ioctl(fd, SIOCOUTQNSD, &n);"
SENDERS: dict[str, tuple[dict[str, str], str]] = {
    "as it is": ({}, "older records left between a question and its answer"),
    "a limit for unsent data": ({CONNECT: LOWAT + CONNECT, **HEADERS}, ""),
    "a limit and poll()": ({CONNECT: LOWAT + CONNECT, MADE: POLL + MADE, **HEADERS}, ""),
    "waits until little is unsent": ({MADE: WAIT + MADE, **HEADERS}, ""),
    "a small buffer": ({CONNECT: SNDBUF + CONNECT}, "bytes were in flight, and the path"),
    "each record an answer": ({"'.'": "'!'"}, "1600 records begin with '!'"),
    "no answer": ({"record[0] = '!';": ""}, "0 records begin with '!', for 4 questions"),
    "few records": ({"RECORDS = 1600": "RECORDS = 400"}, "client closed|bytes sent are not 1600"),
    "other bytes": ({"record[0] = '!'": "record[9] = 'x', record[0] = '!'"}, "bytes sent are not"),
}


@pytest.mark.needs_lab
@pytest.mark.parametrize("name", SENDERS)
def test_the_check_of_send_buffer(name: str, tmp_path: Path) -> None:
    changes, complaint = SENDERS[name]
    path = changed("send-buffer", changes, tmp_path)
    verdict = short_c.check("send-buffer", path)
    assert verdict.passed is (not complaint), verdict
    assert re.search(complaint, verdict.message)


@pytest.mark.needs_lab
def test_a_program_that_listens() -> None:
    with Lab(rtt_ms=10, rate_mbit=50) as lab:
        ran = short_c.run(lab, "buffers", "65536", "0")
        lines = str(ran).splitlines()
        assert lines[0] == "server$ ./buffers 10.0.0.2 7000 65536 0"
        assert lines[1].startswith("client$ tcpsource ")
        assert lines[2].startswith("2621440 bytes at ")
        again = short_c.run(lab, "buffers", "0", "65536")  # on the same port
    assert again.stream == ran.stream


def test_nothing_is_judged_without_a_laboratory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCPLAB_MODE", "recorded")
    assert short_c.check("small-writes").passed is None
