"""The short C programs of the lessons: plain, without a warning, and checked on the wire."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.nonempty import each
from tests.support.paths import ROOT
from tests.support.timeline.made_up import ack, capture, data, handshake

from tcplab import Lab
from tcplab.course import short_c
from tcplab.course.short_c import Ran
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


CONNECT = "        int fd = connect_to(argv[1], argv[2]);\n"
LOOP = "    for (int i = 0; i < UPLOADS; i++) {\n"
CLOSE = "        close(fd);\n"
UPLOAD = "        upload(fd, data, bytes);\n"
ONE_CONNECTION = {LOOP: CONNECT[4:] + LOOP, CONNECT: "", CLOSE: ""}

UPLOADS: dict[str, tuple[dict[str, str], str]] = {
    "as it is": ({}, "opened 5 connections"),
    "one connection": (ONE_CONNECTION, "5 uploads went over one connection"),
    "closed in the loop": ({LOOP: CONNECT[4:] + LOOP, CONNECT: ""}, "failed"),
    "not closed": ({CLOSE: ""}, "opened 5 connections"),
    "one upload": ({"UPLOADS = 5": "UPLOADS = 1"}, "43,440 bytes sent are not the 217,200"),
    "a long rest": (
        ONE_CONNECTION | {UPLOAD: UPLOAD + "        usleep(700000);\n"},
        "flights, as if each began with a new window",
    ),
}


@pytest.mark.needs_lab
@pytest.mark.parametrize("name", UPLOADS)
def test_the_check_of_slow_start(name: str, tmp_path: Path) -> None:
    changes, sentence = UPLOADS[name]
    verdict = short_c.check("slow-start", changed("slow-start", changes, tmp_path))
    assert verdict.passed is (sentence == "5 uploads went over one connection"), verdict
    assert sentence in str(verdict) or sentence == "failed"


RECEIPT = "    char receipt[2];\n"
SENDS = "        send_message(fd, 'a' + i);\n"
LAST: dict[str, tuple[dict[str, str], str]] = {
    "as it is": ({}, "came back by a probe"),
    "the end of the stream": ({RECEIPT: "    shutdown(fd, SHUT_WR);\n" + RECEIPT}, ""),
    "one more message": ({RECEIPT: "    send_message(fd, 'z');\n" + RECEIPT}, ""),
    "a byte": ({RECEIPT: '    send(fd, "!", 1, 0);\n' + RECEIPT}, ""),
    "a byte, too late": (
        {RECEIPT: '    usleep(600000);\n    send(fd, "!", 1, 0);\n' + RECEIPT}
        | {"#include <time.h>\n": "#include <time.h>\n#include <unistd.h>\n"},
        "came back by a probe",
    ),
    "Nagle's algorithm": ({"TCP_NODELAY, &on": "TCP_MAXSEG, &(int){1460}"}, "not in 8 of 1000"),
    "other messages": ({SENDS: SENDS.replace("'a'", "'b'")}, "do not begin with the 8 messages"),
    "no receipt": ({RECEIPT: "    close(fd);\n    return 0;\n" + RECEIPT}, "ended without"),
}


@pytest.mark.needs_lab
@pytest.mark.parametrize("name", LAST)
def test_the_check_of_loss(name: str, tmp_path: Path) -> None:
    changes, sentence = LAST[name]
    verdict = short_c.check("loss", changed("loss", changes, tmp_path))
    assert verdict.passed is (not sentence), verdict
    assert (sentence or "the server reported the gap") in str(verdict)


@pytest.mark.parametrize(("reported_ms", "passed"), [(42, True), (330, False)])
def test_a_report_after_the_second_copy_is_too_late(reported_ms: float, passed: bool) -> None:
    """A probe of a segment that had arrived is answered with a block, too (DSACK)."""
    rows = [*handshake(), *(data(0, 1000 * number, 1000) for number in range(8))]
    rows += [data(290, 7000, 1000, is_retransmission=True), ack(reported_ms, 7000, sack_blocks=1)]
    stream = b"".join(1000 * letter.encode() for letter in "abcdefgh")
    complaint = short_c.CASES["loss"].complaint(
        Ran([], "receipt after 1 ms", capture(rows), stream)
    )
    assert (not complaint) is passed


@pytest.mark.needs_lab
@pytest.mark.parametrize(("lost", "gaps"), [(5, True), (8, False)])
def test_only_what_comes_after_a_loss_reports_it(lost: int, gaps: bool) -> None:
    with Lab(rtt_ms=40) as lab:
        lab.link.script("client->server", f"drop data nth={lost}")
        ran = short_c.run(lab, "loss")
    assert ran.sizes == [1000] * 8
    assert bool((ran.segments.sent_by("server")["sack_blocks"] > 0).any()) is gaps
    assert "receipt after" in ran.output


def changed(slug: str, changes: dict[str, str], folder: Path) -> Path:
    """A copy of a lesson's program with these texts replaced."""
    path = short_c.copy(slug, folder)
    text = path.read_text()
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)
    return path


def test_nothing_is_judged_without_a_laboratory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCPLAB_MODE", "recorded")
    assert short_c.check("small-writes").passed is None
