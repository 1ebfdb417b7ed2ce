"""Test the three programs of diagnosis and their fixes on a wire, with verdicts and messages."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tcplab.cli import main
from tcplab.experiments import as_json, diagnosis, recordings
from tcplab.experiments.diagnosis.cases import Program

pytestmark = pytest.mark.needs_lab

Repair = Callable[..., Path]

NODELAY = 'set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY");'
WHOLE_LINE = (
    """    log_event("write", 1);
    system_calls += send_all(fd, &character, 1, 0);
    bytes++;
""",
    """    static char line[80];
    static size_t filled;
    line[filled++] = character;
    bytes++;
    if (character != '\\n')
        return;
    system_calls += send_all(fd, line, filled, 0);
    filled = 0;
""",
)


@pytest.fixture
def repair(tmp_path: Path) -> Repair:
    """Return a function that copies a program and replaces some of the text."""

    def edit(program: Program, *replacements: tuple[str, str]) -> Path:
        path = diagnosis.copy(program, tmp_path)
        text = path.read_text()
        for old, new in replacements:
            assert text.count(old) == 1, f"{old!r} is not there once"
            text = text.replace(old, new)
        path.write_text(text)
        return path

    return edit


# ---- the programs as shipped ----


def test_result_is_a_table_json_and_a_recording(capsys: pytest.CaptureFixture[str]) -> None:
    result = diagnosis.measure("ticker", count=20)
    assert '"experiment": "diagnosis"' in as_json(result)
    assert recordings.decode(recordings.encode(result)).rows() == result.rows()
    assert result.payload_bytes == 20 * diagnosis.LINE_BYTES == result.report["system_calls"]
    assert result.segments_per_unit > 2
    assert main(["run", "diagnosis", "--program", "ticker", "--count", "2"]) == 0
    # On a busy machine, a line above the table may say that the wire was late.
    assert re.search(r"^program +\S", capsys.readouterr().out, re.MULTILINE)
    assert main(["run", "diagnosis", "--source", "none.c"]) == 2
    assert "none.c: no such file" in capsys.readouterr().err


def test_rtt_and_count_can_be_changed() -> None:
    few = diagnosis.measure("request", rtt_ms=6, count=5)
    assert (few.units, few.rtt_ms, few.segments_per_unit, few.held_requests) == (5, 6, 2, 5)
    assert few.excess.taken > few.excess.needed >= 6  # an exchange takes at least one RTT
    backup = diagnosis.measure("backup", rtt_ms=4, count=32)
    assert backup.bdp_bytes == 25_000 > backup.window_bytes


CHUNK = WHOLE_LINE[1].replace("char line[80]", "char line[8000]")
#: Changes by name: the program, the replacements in its text, and the complaint, if any.
CHANGED: dict[str, tuple[Program, list[tuple[str, str]], str]] = {
    "request with MSG_MORE": (
        "request",
        [("send_all(fd, data, size, 0)", "send_all(fd, data, size, size == 4 ? MSG_MORE : 0)")],
        "",
    ),
    "request with TCP_NODELAY": (
        "request",
        [("    run(fd);", f"    {NODELAY}\n    run(fd);")],
        "2 segments",
    ),
    "request that fails": (
        "request",
        [("send_header(fd);", 'fail_because("no idea");')],
        "failed (exit 1): no idea",
    ),
    "backup with an automatic buffer": (
        "backup",
        [
            ("    size_buffer(fd);\n", ""),
            ("static void size_buffer", "__attribute__((unused)) static void size_buffer"),
        ],
        "",
    ),
    "backup that reads nothing": (
        "backup",
        [
            ("        checksum = (uint32_t)checksum * 31U + block[i];", "        ;"),
            ("SO_RCVBUF, BLOCK_BYTES,", "SO_RCVBUF, 4 << 20,"),
        ],
        "The backup is not what was sent",
    ),
    "ticker with a write per line": ("ticker", [WHOLE_LINE], ""),
    "ticker with one write for all lines": (
        "ticker",
        [(WHOLE_LINE[0], CHUNK.replace("if (character != '\\n')", "if (bytes < 39 * count)"))],
        "lines wait for each other",
    ),
}


@pytest.mark.parametrize("name", CHANGED)
def test_only_a_repair_passes_and_the_verdict_says_what_is_left(repair: Repair, name: str) -> None:
    program, replacements, complaint = CHANGED[name]
    verdict = diagnosis.check(repair(program, *replacements))
    assert verdict.passed is (not complaint), str(verdict)
    assert complaint in verdict.message
    if name == "request with MSG_MORE":
        assert verdict.counts["data_segments"] == diagnosis.REQUESTS


def test_a_file_that_does_not_compile_has_not_passed(repair: Repair) -> None:
    path = repair("request", ("send_header(fd);", "send_header(fd)"))
    verdict = diagnosis.check(path)
    assert verdict.passed is False
    assert "does not compile: faulty_request.c:" in verdict.message
    assert str(path.parent) not in verdict.message
    with pytest.raises(ValueError, match="does not compile"):
        diagnosis.measure("request", str(path))
