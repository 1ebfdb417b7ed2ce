"""Facts of lesson 08 and its three programs: counts on the wire, and their cures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tcplab.experiments import diagnosis
from tcplab.listings import source_path
from tcplab.models import window_limit_mbit

Mend = Callable[..., Path]


@pytest.fixture
def mend(tmp_path: Path) -> Mend:
    """A copy of a program with some of its text replaced."""

    def edit(program: diagnosis.Program, *replacements: tuple[str, str]) -> Path:
        path = diagnosis.copy(program, tmp_path)
        text = path.read_text()
        for old, new in replacements:
            assert text.count(old) == 1, f"{old!r} is not there once"
            text = text.replace(old, new)
        path.write_text(text)
        return path

    return edit


NODELAY = 'set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY");'
CORK = 'set_option(fd, IPPROTO_TCP, TCP_CORK, {on}, "TCP_CORK");'


# ---- the first program ----


def test_second_segment_of_the_request_waits_for_an_ack() -> None:
    request = diagnosis.measure("request")
    assert isinstance(request, diagnosis.Requests)
    assert request.payload_bytes == diagnosis.REQUESTS * diagnosis.REQUEST_BYTES
    assert request.segments_per_unit == 2
    assert request.held_requests is not None
    assert request.held_requests >= diagnosis.REQUESTS * 3 / 4
    assert request.late_requests == 0
    assert {int(size) for size in request.sent["payload_bytes"]} == {4, 100}
    assert any("held" in each and "Nagle" in each for each in request.timeline().sentences())


def test_msg_more_mends_the_request(mend: Mend) -> None:
    more = ("send_all(fd, data, size, 0)", "send_all(fd, data, size, size == 4 ? MSG_MORE : 0)")
    verdict = diagnosis.check(mend("request", more))
    assert verdict.passed, str(verdict)
    assert verdict.counts["data_segments"] == diagnosis.REQUESTS


def test_nodelay_alone_does_not_make_one_segment_of_it(mend: Mend) -> None:
    verdict = diagnosis.check(mend("request", ("    run(fd);", f"    {NODELAY}\n    run(fd);")))
    assert verdict.passed is False
    assert "a request is 2 segments" in verdict.message


# ---- the second program ----


def test_window_of_the_backup_is_below_the_bdp() -> None:
    backup = diagnosis.measure("backup")
    assert backup.payload_bytes == diagnosis.BACKUP_BYTES
    assert backup.bdp_bytes == 125_000
    assert backup.window_bytes < backup.bdp_bytes / 3
    # No more than a window fits into a round trip: a count that no machine changes.
    assert backup.round_trips >= 2 * diagnosis.BACKUP_BYTES / backup.bdp_bytes
    info = backup.peer_report["tcp_info"]
    assert info["rwnd_limited_us"] > info["busy_time_us"] / 2
    assert window_limit_mbit(backup.window_bytes, 20) < 50 / 3


def test_automatic_buffer_mends_the_backup(mend: Mend) -> None:
    unused = ("static void size_buffer", "__attribute__((unused)) static void size_buffer")
    verdict = diagnosis.check(mend("backup", ("    size_buffer(fd);\n", ""), unused))
    assert verdict.passed, str(verdict)


def test_larger_blocks_do_not_mend_the_backup(mend: Mend) -> None:
    verdict = diagnosis.check(mend("backup", ("BLOCK_BYTES = 16384", "BLOCK_BYTES = 32768")))
    assert verdict.passed is False
    assert "the wire holds 125,000" in verdict.message


# ---- the third program ----

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


def test_ticker_sends_many_segments_per_line() -> None:
    ticker = diagnosis.measure("ticker")
    assert ticker.payload_bytes == diagnosis.LINES * diagnosis.LINE_BYTES
    assert ticker.segments_per_unit > 5
    assert ticker.report["system_calls"] == ticker.payload_bytes


def test_one_write_per_line_mends_the_ticker(mend: Mend) -> None:
    verdict = diagnosis.check(mend("ticker", WHOLE_LINE))
    assert verdict.passed, str(verdict)


def test_nagle_does_not_mend_the_ticker(mend: Mend) -> None:
    verdict = diagnosis.check(mend("ticker", (f"    {NODELAY}\n", "")))
    assert verdict.passed is False


def test_lines_that_wait_for_acks_do_not_pass(mend: Mend) -> None:
    """All lines in one write would be few segments, and too late."""
    hoard = [
        ("char line[80]", "char line[8000]"),
        ("if (character != '\\n')", "if (bytes < 39 * count)"),
    ]
    old, new = WHOLE_LINE
    for before, after in hoard:
        new = new.replace(before, after)
    verdict = diagnosis.check(mend("ticker", (old, new)))
    assert verdict.passed is False
    assert "lines wait for each other" in verdict.message


# ---- what all three are ----


@pytest.mark.parametrize("program", diagnosis.PROGRAMS)
def test_a_faulty_program_is_short_and_has_a_manual(program: str) -> None:
    text = source_path(f"faulty_{program}.c").read_text()
    assert text.count("\n") <= 150
    assert text.startswith(f"/*\n * faulty_{program} - ")
    assert "What must stay" in text
    assert "goal" in text
