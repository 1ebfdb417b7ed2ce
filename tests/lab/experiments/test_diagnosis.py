"""Test the three programs of diagnosis and their fixes on a wire, with verdicts and messages."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.tables import table

from tcplab.cli import main
from tcplab.experiments import as_json, diagnosis, recordings
from tcplab.experiments.diagnosis.cases import Program

pytestmark = pytest.mark.needs_lab

Repair = Callable[..., Path]

CHANGED = table("repairs")


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


@pytest.mark.parametrize("name", CHANGED)
def test_only_a_repair_passes_and_the_verdict_says_what_is_left(repair: Repair, name: str) -> None:
    change = CHANGED[name]
    verdict = diagnosis.check(repair(change["program"], *change["replacements"]))
    assert verdict.passed is (not change["complaint"]), str(verdict)
    assert change["complaint"] in verdict.message
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
