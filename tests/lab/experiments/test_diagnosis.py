"""The check of a repair: what it refuses, and how it says so."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tcplab import figures
from tcplab.cli import main
from tcplab.errors import LabError
from tcplab.experiments import as_json, diagnosis, recordings
from tcplab.segments import ACK, DTYPE, FROM_CLIENT, SegmentArray
from tcplab.tables import digits
from tcplab.timeline import Exchange


def test_a_copy_does_not_overwrite(tmp_path: Path) -> None:
    path = diagnosis.copy("request", tmp_path)
    path.write_text("mine")
    assert diagnosis.copy("request", tmp_path) == path
    assert path.read_text() == "mine"


def test_bad_arguments_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="program='x' is not known; use one of request"):
        diagnosis.measure("x")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"faulty_backup\.c: no such file; diagnosis\.copy"):
        diagnosis.check(tmp_path / "faulty_backup.c")
    with pytest.raises(ValueError, match=r"mine\.c: the name does not tell the program"):
        diagnosis.check(tmp_path / "mine.c")


def test_a_file_that_does_not_compile_has_not_passed(tmp_path: Path) -> None:
    path = diagnosis.copy("request", tmp_path)
    path.write_text(path.read_text().replace("send_header(fd);", "send_header(fd)"))
    verdict = diagnosis.check(path)
    assert verdict.passed is False
    assert "does not compile: faulty_request.c:" in verdict.message
    assert str(tmp_path) not in verdict.message
    with pytest.raises(ValueError, match="does not compile"):
        diagnosis.measure("request", str(path))


def test_a_program_that_fails_has_not_passed(tmp_path: Path) -> None:
    path = diagnosis.copy("request", tmp_path)
    path.write_text(path.read_text().replace("send_header(fd);", 'fail_because("no idea");'))
    verdict = diagnosis.check(path)
    assert verdict.passed is False
    assert "failed (exit 1): no idea" in verdict.message


def test_other_bytes_do_not_pass(tmp_path: Path) -> None:
    path = diagnosis.copy("ticker", tmp_path)
    path.write_text(path.read_text().replace('" price "', '" Price "'))
    verdict = diagnosis.check(path)
    assert verdict.passed is False
    assert "it differs at byte 14" in verdict.message


def test_a_backup_that_reads_nothing_does_not_pass(tmp_path: Path) -> None:
    path = diagnosis.copy("backup", tmp_path)
    text = path.read_text().replace("        checksum = checksum * 31 + block[i];", "        ;")
    path.write_text(text.replace("SO_RCVBUF, BLOCK_BYTES,", "SO_RCVBUF, 4 << 20,"))
    verdict = diagnosis.check(path)
    assert verdict.passed is False
    assert "The backup is not what was sent" in verdict.message


def test_where_there_is_no_laboratory_nothing_is_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = diagnosis.copy("request", tmp_path)
    monkeypatch.setenv("TCPLAB_MODE", "recorded")
    verdict = diagnosis.check(path)
    assert verdict.passed is None
    assert "NOT JUDGED" in str(verdict)


def test_the_checksum_is_that_of_the_program() -> None:
    data = bytes(np.random.default_rng(1).integers(0, 256, 40_000, dtype=np.uint8))
    plain = 0
    for byte in data:
        plain = (plain * 31 + byte) % (1 << 32)
    assert diagnosis.checksum(data) == plain
    assert diagnosis.checksum(b"") == 0


def test_the_result_as_table_json_and_recording(capsys: pytest.CaptureFixture[str]) -> None:
    result = diagnosis.measure("ticker")
    assert '"experiment": "diagnosis"' in as_json(result)
    again = recordings.decode(recordings.encode(result))
    assert again.rows() == result.rows()
    assert main(["run", "diagnosis", "--program", "ticker"]) == 0
    # On a busy machine a line that says how late the wire was stands above the table.
    assert re.search(r"^program +\S", capsys.readouterr().out, re.MULTILINE)
    assert main(["run", "diagnosis", "--source", "none.c"]) == 2
    assert "none.c: no such file" in capsys.readouterr().err


def test_another_wire_and_other_counts() -> None:
    few = diagnosis.measure("request", rtt_ms=6, count=5)
    assert (few.units, few.rtt_ms, few.segments_per_unit) == (5, 6, 2)
    assert few.excess.taken > few.excess.needed >= 6  # no packet is faster than its wire
    assert diagnosis.measure("backup", rtt_ms=4, count=32).bdp_bytes == 25_000
    for count in (1, 10_001, 2.5):
        with pytest.raises(ValueError, match=rf"count={count} must be a whole number from 2 to"):
            diagnosis.measure("ticker", count=count)  # type: ignore[arg-type]


@pytest.mark.parametrize("program", diagnosis.PROGRAMS)
def test_the_recorded_runs_have_a_symptom_and_a_cause(
    program: diagnosis.Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TCPLAB_MODE", "recorded")
    case = diagnosis.measure(program)
    assert case.excess.times > 3
    assert case.symptoms().caption.startswith("Recorded on")
    for picture in (figures.symptom(case), figures.cause(case)):
        assert picture.png().startswith(b"\x89PNG")
        assert digits(case.excess.taken) in picture.alt or picture.title in picture.alt


# ---- the judges, on captures made up ----


def made_up(pieces: list[tuple[int, int, float]]) -> diagnosis.Requests:
    """A request whose packets are (direction, payload bytes, ms since the one before)."""
    rows = np.zeros(len(pieces), DTYPE).view(SegmentArray)
    now_ns, seq, ack = 10**18, 1, 1
    for row, (direction, size, since_ms) in zip(rows, pieces, strict=True):
        now_ns += round(since_ms * 1e6)
        row["time_ns"], row["direction"], row["payload_bytes"] = now_ns, direction, size
        row["flags"] = ACK
        if direction == FROM_CLIENT:
            row["seq"] = seq
            seq += size
        else:
            ack = seq
            row["ack"] = ack
            row["is_pure_ack"] = size == 0
    return diagnosis.Requests("made up", {}, {}, Exchange(None, None, rows), {})


def test_a_cork_that_nobody_pulls_is_told_from_a_prompt_request() -> None:
    prompt = made_up([(0, 104, 0.1), (1, 2, 0.1)] * diagnosis.REQUESTS)
    assert prompt.complaint() == ""
    corked = made_up([(0, 104, 205), (1, 2, 0.1)] * diagnosis.REQUESTS)
    assert corked.late_requests == diagnosis.REQUESTS - 1
    assert "something still holds them" in corked.complaint()


def test_requests_that_do_not_wait_for_their_answer_are_told() -> None:
    together = made_up([(0, 1040, 0.1), (1, 20, 0.1)] * 4)
    assert "4 segments for 40 requests" in together.complaint()


def test_what_a_request_takes_and_what_it_needs() -> None:
    held = [(0, 4, 0.1), (1, 0, 60), (0, 100, 0.1), (1, 2, 20)]
    case = made_up(held * diagnosis.REQUESTS)
    assert list(case.excess) == ["time of a request (ms)", pytest.approx(80.2), pytest.approx(20)]
    assert case.excess.times == pytest.approx(4.01)
    assert case.longest_gap_ms == pytest.approx(60)
    prompt = made_up([(0, 104, 0.1), (1, 2, 20)] * diagnosis.REQUESTS)
    assert prompt.excess.times == pytest.approx(1.005)
    with pytest.raises(LabError, match="fewer than two requests were answered"):
        _ = made_up([(0, 104, 0.1), (1, 2, 20)]).excess


def test_the_symptoms_tell_nothing_of_the_cause() -> None:
    case = made_up([(0, 4, 0.1), (1, 0, 60), (0, 100, 0.1), (1, 2, 20)] * diagnosis.REQUESTS)
    words = f"{case.symptoms()} {figures.symptom(case).title} {figures.symptom(case).alt}".lower()
    for telltale in ("nagle", "delayed", "window", "nodelay", "held", "buffer", "cork"):
        assert telltale not in words
    assert "40 requests" in str(case.evidence())


def test_held_is_by_the_order_of_packets_not_by_time() -> None:
    held = made_up([(0, 4, 0.1), (1, 0, 0.1), (0, 100, 0.1), (1, 2, 0.1)] * diagnosis.REQUESTS)
    assert held.held_requests == diagnosis.REQUESTS
    assert held.round_trips == 2 * diagnosis.REQUESTS
    slow = made_up([(0, 4, 90), (0, 100, 90), (1, 0, 90), (1, 2, 90)] * diagnosis.REQUESTS)
    assert slow.held_requests == 0
    assert slow.round_trips == diagnosis.REQUESTS
