"""The short C programs of the lessons: plain, without a warning, and checked on the wire."""

from __future__ import annotations

from dataclasses import replace
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


WHOLE = "sendfile(fd, file, NULL, size);"
TRANSFERS = {
    "as it is": (WHOLE, False),
    "loop": ("while (size > 0) size -= sendfile(fd, file, NULL, size);", True),
    "until the end": ("while (sendfile(fd, file, NULL, size) > 0);", True),
    "own offset": (
        "for (off_t at = 0; at < (off_t)size;) sendfile(fd, file, &at, size - at);",
        True,
    ),
    "always from the start": (
        "for (size_t n = 0; n < size;) { off_t at = 0; n += sendfile(fd, file, &at, size - n); }",
        False,
    ),
    "small blocks": ("(void)size; while (sendfile(fd, file, NULL, 4096) > 0);", False),
    "read and send": ("(void)size; send_by_read(fd, file);", False),
}


@pytest.mark.needs_lab
@pytest.mark.parametrize("name", TRANSFERS)
def test_the_check_of_sendfile(name: str, tmp_path: Path) -> None:
    new, passed = TRANSFERS[name]
    path = short_c.copy("sendfile", tmp_path)
    text = path.read_text()
    assert text.count(WHOLE) == 1
    path.write_text(text.replace(WHOLE, new))
    verdict = short_c.check("sendfile", path)
    assert verdict.passed is passed, verdict
    assert 0 < verdict.counts["bytes"] <= 4_000_000


@pytest.mark.needs_lab
def test_both_ways_of_sendfile_send_the_file() -> None:
    with Lab() as lab:
        for how in ("read", "sendfile"):
            ran = short_c.run(lab, "sendfile", how, file_mb=1)
            assert ran.stream == ran.file
            assert len(ran.file) == 1_000_000
            assert ran.commands[1].endswith(f" {how} FILE")


LOOP = """    static char block[131072];
    ssize_t bytes;
    while ((bytes = read(from, block, sizeof block)) > 0)
        if (write(to, block, bytes) != bytes)
            exit(1);
"""
MOVES = {
    "as it is": (LOOP, False),
    "splice": ("while (splice(from, NULL, to, NULL, 1 << 20, 0) > 0) {}", True),
    "splice, or else read": (
        f"while (splice(from, NULL, to, NULL, 65536, SPLICE_F_MORE) > 0) {{}}\n{LOOP}",
        True,
    ),
    "splice once": ("splice(from, NULL, to, NULL, 1 << 20, 0);", False),
    "sendfile, which takes no pipe": ("sendfile(to, from, NULL, 4000000);", False),
    "other bytes": (LOOP.replace("if (write", "if (block[0]++, write"), False),
}


@pytest.mark.needs_lab
@pytest.mark.parametrize("name", MOVES)
def test_the_check_of_pipes(name: str, tmp_path: Path) -> None:
    new, passed = MOVES[name]
    path = short_c.copy("pipes", tmp_path)
    text = path.read_text()
    assert text.count(LOOP) == 1
    header = "#include <sys/socket.h>"
    path.write_text(text.replace(LOOP, new).replace(header, f"{header}\n#include <sys/sendfile.h>"))
    verdict = short_c.check("pipes", path)
    assert verdict.passed is passed, verdict


@pytest.mark.needs_lab
def test_both_inputs_of_pipes_are_read_and_counted() -> None:
    with Lab() as lab:
        piped = short_c.run(lab, "pipes", stdin="cat FILE", file_mb=1)
        direct = short_c.run(lab, "pipes", stdin="FILE", file_mb=1)
    for ran in (piped, direct):
        assert ran.stream == ran.file
        assert "wchar: 1000000" in ran.output
    assert 1_000_000 <= piped.entered_bytes < 1_100_000
    uncounted = replace(piped, entered_bytes=-1)
    assert "does not count here" in short_c.CASES["pipes"].complaint(uncounted)
    assert piped.commands[1].startswith("client$ cat FILE | ./pipes ")
    assert direct.commands[1].endswith(" < FILE")


@pytest.mark.needs_lab
def test_a_stream_in_large_segments_is_left_out() -> None:
    with Lab(offload=True) as lab:
        ran = short_c.run(lab, "pipes", stdin="FILE", file_mb=1)
    assert ran.stream == b""
    assert sum(ran.sizes) == 1_000_000


def test_nothing_is_judged_without_a_laboratory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCPLAB_MODE", "recorded")
    assert short_c.check("small-writes").passed is None
