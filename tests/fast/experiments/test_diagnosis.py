"""Check the recordings of lesson diagnosis, verdicts on made-up captures, and refused arguments."""

from pathlib import Path

import numpy as np
import pytest

from tcplab import figures
from tcplab.errors import LabError
from tcplab.experiments import diagnosis
from tcplab.experiments.diagnosis.cases import LINES, REQUEST_BYTES, Program, Requests
from tcplab.segments import ACK, DTYPE, FROM_CLIENT, SegmentArray
from tcplab.timeline import Exchange

# ---- the programs as shipped ----


@pytest.mark.parametrize("program", diagnosis.PROGRAMS)
def test_recorded_runs_have_a_symptom(program: Program) -> None:
    case = diagnosis.measure(program)
    part = {"request": "; in 40 of 40 ", "backup": "link holds 125,000", "ticker": "at most 1 B"}
    assert part[program] in case.complaint()
    assert case.excess.times > 3
    assert case.symptoms().caption.startswith("Recorded on")


def test_second_segment_of_the_request_waits_for_an_ack() -> None:
    request = diagnosis.measure("request")
    assert isinstance(request, Requests)
    assert request.payload_bytes == diagnosis.REQUESTS * REQUEST_BYTES
    assert request.segments_per_unit == 2
    assert (request.held_requests, request.late_requests) == (diagnosis.REQUESTS, 0)
    assert {int(size) for size in request.sent["payload_bytes"]} == {4, 100}
    assert any(
        "held" in sentence and "Nagle" in sentence for sentence in request.timeline().sentences()
    )


def test_ticker_sends_many_segments_per_line() -> None:
    ticker = diagnosis.measure("ticker")
    assert ticker.payload_bytes == LINES * diagnosis.LINE_BYTES
    assert ticker.segments_per_unit > 30
    assert ticker.report["system_calls"] == ticker.payload_bytes
    assert "it differs at byte 14 " in ticker.changed_stream(b"tick 00000000 Price 0")


# ---- the judges, on captures made up ----


def made_up(pieces: list[tuple[int, int, float]]) -> Requests:
    """Return a request whose packets are (direction, payload bytes, ms since the previous one)."""
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
    return Requests("made up", {}, {}, Exchange(None, None, rows), {})


def test_a_cork_that_is_never_pulled_is_named() -> None:
    prompt = made_up([(0, 104, 0.1), (1, 2, 0.1)] * diagnosis.REQUESTS)
    assert prompt.complaint() == ""
    corked = made_up([(0, 104, 205), (1, 2, 0.1)] * diagnosis.REQUESTS)
    assert corked.late_requests == diagnosis.REQUESTS - 1
    assert "something still holds them" in corked.complaint()


def test_requests_that_do_not_wait_for_their_answer_are_refused() -> None:
    together = made_up([(0, 1040, 0.1), (1, 20, 0.1)] * 4)
    assert "4 segments for 40 requests" in together.complaint()


def test_the_time_of_a_request_is_compared_with_the_need() -> None:
    held = [(0, 4, 0.1), (1, 0, 60), (0, 100, 0.1), (1, 2, 20)]
    case = made_up(held * diagnosis.REQUESTS)
    assert list(case.excess) == ["time of a request (ms)", pytest.approx(80.2), pytest.approx(20)]
    assert case.excess.times == pytest.approx(4.01)
    assert case.longest_gap_ms == pytest.approx(60)
    prompt = made_up([(0, 104, 0.1), (1, 2, 20)] * diagnosis.REQUESTS)
    assert prompt.excess.times == pytest.approx(1.005)
    with pytest.raises(LabError, match="fewer than two requests were answered"):
        _ = made_up([(0, 104, 0.1), (1, 2, 20)]).excess


def test_symptoms_do_not_reveal_the_cause() -> None:
    case = made_up([(0, 4, 0.1), (1, 0, 60), (0, 100, 0.1), (1, 2, 20)] * diagnosis.REQUESTS)
    text = f"{case.symptoms()} {figures.symptom(case).title}".lower()
    for telltale in ("nagle", "delayed", "window", "nodelay", "held", "buffer", "cork"):
        assert telltale not in text
    assert "40 requests" in str(case.evidence())


def test_held_requests_are_found_by_packet_order_not_time() -> None:
    held = made_up([(0, 4, 0.1), (1, 0, 0.1), (0, 100, 0.1), (1, 2, 0.1)] * diagnosis.REQUESTS)
    assert held.held_requests == diagnosis.REQUESTS
    assert held.round_trips == 2 * diagnosis.REQUESTS
    slow = made_up([(0, 4, 90), (0, 100, 90), (1, 0, 90), (1, 2, 90)] * diagnosis.REQUESTS)
    assert slow.held_requests == 0
    assert slow.round_trips == diagnosis.REQUESTS


# ---- what is refused ----


def test_a_copy_does_not_overwrite(tmp_path: Path) -> None:
    path = diagnosis.copy("request", tmp_path)
    assert "NOT JUDGED" in str(diagnosis.check(path))  # recordings do not judge a copy
    path.write_text("mine")
    assert diagnosis.copy("request", tmp_path) == path
    assert path.read_text() == "mine"


def test_bad_arguments_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"faulty_backup\.c: no such file; diagnosis\.copy"):
        diagnosis.check(tmp_path / "faulty_backup.c")
    with pytest.raises(ValueError, match=r"mine\.c: no program is known by this name"):
        diagnosis.check(tmp_path / "mine.c")
