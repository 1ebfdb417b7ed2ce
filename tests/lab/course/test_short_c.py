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

ON, OFF, EARLY = "set_cork(fd, corked);", "set_cork(fd, 0);", "return -1;"
HEADER, BODY = "send(fd, header, HEADER, 0);", "send(fd, body, BODY, 0);"
BLANK, REPLY = "send(fd, blank, BODY + TRAILER, 0);", "if (recv("
MORE = {each: each.replace(", 0)", ", MSG_MORE)") for each in (HEADER, BODY)}
NODELAY = "int on = 1; setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);"
#: Texts of cork.c -> what stands there instead, and whether the check is content.
CORK_CHANGES: dict[str, tuple[dict[str, str], bool]] = {
    "as it is": ({}, False),
    "pulled on the error path": ({EARLY: OFF + EARLY}, True),
    "pulled by the caller": ({OFF: "", REPLY: OFF + REPLY}, True),
    "MSG_MORE": ({ON: "", **MORE}, True),
    "pulled too early": ({BLANK: OFF + BLANK}, False),
    "no cork": ({ON: ""}, False),
    "TCP_NODELAY in place of it": ({ON: NODELAY}, False),
    "nothing in place of the blank": ({BLANK: "", EARLY: OFF + EARLY}, False),
    "no sensor fails": ({"if (failed)": "if (0)"}, False),
}


ASK = 'report("answered");'
AGAIN = 'if (!ask(fd)) return 1; report("again");'
CONNECT = "connect(fd, (struct sockaddr *)&peer, sizeof peer);"
LAB_CHANGES: dict[str, tuple[dict[str, str], bool]] = {
    "as it is": ({}, False),
    "asked again": ({ASK: ASK + AGAIN}, True),
    "twice at once": ({'"hello", 5, 0': '"hellohello", 10, 0'}, False),
    "a second connection": (
        {ASK: f"close(fd); fd = socket(AF_INET, SOCK_STREAM, 0); {CONNECT} {AGAIN}"},
        False,
    ),
}


LOOP = "        if (argv[3][0] != 'b')\n            wait_for_ack(fd);\n"
SEND = "send(fd, record, sizeof record, 0);"
RECORDS_CHANGES: dict[str, tuple[dict[str, str], bool]] = {
    "as it is": ({}, False),
    "one wait at the end": ({LOOP: ""}, True),
    "the same with TCP_NODELAY": ({LOOP: "", "on = argv[3][0] == 'n'": "on = 1"}, True),
    "TCP_NODELAY alone": ({"on = argv[3][0] == 'n'": "on = 1"}, False),
    "every second record": ({"if (argv[3][0] != 'b')": "if (i % 2)"}, False),
    "fewer records": ({LOOP: "", "RECORDS = 60": "RECORDS = 40"}, False),
    "one record more": ({LOOP: "", SEND: SEND + "if (i == 0) " + SEND}, False),
}


def changed(slug: str, changes: dict[str, str], folder: Path) -> Path:
    path = short_c.copy(slug, folder)
    text = path.read_text()
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)
    return path


@pytest.mark.needs_lab
@pytest.mark.parametrize("name", LAB_CHANGES)
def test_the_check_of_the_lab(name: str, tmp_path: Path) -> None:
    changes, passed = LAB_CHANGES[name]
    verdict = short_c.check("the-lab", changed("the-lab", changes, tmp_path))
    assert verdict.passed is passed, verdict


@pytest.mark.needs_lab
@pytest.mark.parametrize("name", RECORDS_CHANGES)
def test_the_check_of_records_and_quotes(name: str, tmp_path: Path) -> None:
    changes, passed = RECORDS_CHANGES[name]
    path = changed("records-and-quotes", changes, tmp_path)
    verdict = short_c.check("records-and-quotes", path)
    assert verdict.passed is passed, verdict


@pytest.mark.needs_lab
@pytest.mark.parametrize("name", CORK_CHANGES)
def test_the_check_of_cork(name: str, tmp_path: Path) -> None:
    changes, passed = CORK_CHANGES[name]
    verdict = short_c.check("cork", changed("cork", changes, tmp_path))
    assert verdict.passed is passed, verdict


@pytest.mark.needs_lab
def test_the_three_ways_of_cork() -> None:
    with Lab(rtt_ms=20) as lab:
        alone, joined, broken = (
            short_c.run(lab, "cork", how) for how in ("default", "cork", "broken")
        )
    assert alone.sizes == 5 * [200, 1448, 1448, 124]
    assert joined.bursts == 5 * [[1448, 1448, 324]]
    late, whole = [[1448, 1448], [324]], [[1448, 1448, 324]]
    assert broken.bursts == whole + late + whole + late + whole
    assert alone.stream == joined.stream != broken.stream


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
