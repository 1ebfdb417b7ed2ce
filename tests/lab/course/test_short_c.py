"""The short C programs of the lessons are plain, free of warnings, and checked on the wire."""

import re
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import get_args

import pytest
from tests.support.nonempty import each
from tests.support.paths import ROOT
from tests.support.short_c import CHANGES, Change, assert_judged_as_expected, few
from tests.support.timeline.made_up import ack, capture, data, handshake, row

from tcplab import Lab
from tcplab.course import short_c
from tcplab.course.short_c import Ran
from tcplab.errors import ParameterError
from tcplab.experiments.diagnosis import run
from tcplab.experiments.diagnosis.cases import Program
from tcplab.experiments.diagnosis.run import CodeVerdict
from tcplab.programs.compile import compile_program

PROGRAMS = sorted((ROOT / "lessons/c").glob("*.c"))


def test_each_program_has_a_check_and_compiles_without_a_warning() -> None:
    assert [path.stem for path in PROGRAMS] == sorted(short_c.CASES)
    for path in each(PROGRAMS):
        text = path.read_text()
        assert len(text.splitlines()) <= 60
        assert '#include "' not in text  # only the system's headers
        built = compile_program(path.name, text.encode(), flags=["-Wpedantic", "-Werror"])
        assert built.binary is not None, built.messages


def test_learners_copy_is_kept_and_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert short_c.path_of("small-writes") == ROOT / "lessons/c/small-writes.c"
    path = short_c.copy("small-writes")
    path.write_text("mine")
    assert short_c.copy("small-writes").read_text() == "mine"
    assert short_c.path_of("small-writes") == path
    with pytest.raises(ParameterError, match="slug 'no-such-lesson'"):
        short_c.copy("no-such-lesson")


@pytest.mark.needs_lab
def test_recording_has_the_ends_of_both_directions() -> None:
    with Lab(rtt_ms=20) as lab:
        segments = short_c.run(lab, "the-lab").segments
    assert {*segments[segments.is_fin].from_server} == {False, True}  # a late ACK lets one repeat
    assert not segments.is_fin[-1]  # the last segment is the ACK of the last FIN


@pytest.mark.needs_lab
def test_cork_sends_each_message_in_one_burst() -> None:
    # After two RTTs, a tail loss probe leaves in spite of the cork, so an ACK may be one RTT late.
    with Lab(rtt_ms=100) as lab:
        alone, joined, broken = (
            short_c.run(lab, "cork", how) for how in ("default", "cork", "broken")
        )
    assert alone.sizes == 5 * [200, 1448, 1448, 124]
    assert joined.sizes == broken.sizes == 5 * [1448, 1448, 324]
    assert complaint("cork", "no-end-waits", joined) == ""
    assert " of 5 frames left only after an ACK" in complaint("cork", "no-end-waits", broken)
    assert alone.stream == joined.stream != broken.stream


@pytest.mark.needs_lab
def test_listening_program_can_run_again_on_its_port() -> None:
    with Lab(rtt_ms=10, rate_mbit=50) as lab:
        ran = short_c.run(lab, "buffers", "65536", "0")
        lines = str(ran).splitlines()
        assert lines[0] == "server$ ./buffers 10.0.0.2 7000 65536 0"
        assert lines[1].startswith("client$ tcpsource ")
        assert lines[2].startswith("2621440 bytes at ")
        again = short_c.run(lab, "buffers", "0", "65536")  # the port is free again
    assert again.stream == ran.stream


@pytest.mark.parametrize(("reported_ms", "passed"), [(42, True), (330, False)])
def test_sack_after_the_retransmission_is_too_late(reported_ms: float, passed: bool) -> None:
    """A loss probe of a segment that had already arrived also draws a SACK block (a DSACK)."""
    rows = [*handshake(), *(data(0, 1000 * number, 1000) for number in range(8))]
    rows += [data(290, 7000, 1000, is_retransmission=True), ack(reported_ms, 7000, sack_blocks=1)]
    stream = b"".join(1000 * letter.encode() for letter in "abcdefgh")
    ran = Ran([], "receipt after 1 ms", capture(rows), stream)
    assert (not complaint("loss", "reported", ran)) is passed


def test_bytes_that_the_receiver_did_not_acknowledge_are_reported() -> None:
    rows = [*handshake(), data(0, 0, 1000), ack(40, 900)]
    ran = Ran([], "", capture(rows), bytes(2100), arguments=["100", "2000"])
    assert "acknowledged 900 of 2,100" in complaint("path-mtu", "same-bytes", ran)


def test_bytes_of_two_connections_are_counted_together() -> None:
    rows = [data(0, 0, 1000), ack(1, 1000), data(2, 0, 300, connection=1)]
    rows += [row(3, False, ack=900, payload_bytes=2), ack(4, 301, connection=1)]
    ran = Ran([], "", capture(rows), b"")
    assert ran.in_flight == [1000, 300]
    assert ran.left_at_each_reply == [1300]
    assert ran.acknowledged == 1300  # the FIN that the last ACK counts is no byte


def complaint(slug: str, fact_id: str, ran: Ran) -> str:
    facts = {fact.id: fact for fact in short_c.CASES[slug].facts}
    return facts[fact_id].rule(ran)


def test_each_exercise_has_facts_wrong_programs_of_different_kinds_and_right_ones() -> None:
    for slug, case in each(list(short_c.CASES.items())):
        ids = [fact.id for fact in case.facts]
        failing = {fact_id for change in CHANGES[slug] for fact_id in change.fails.split("|")}
        wrong = [change for change in CHANGES[slug] if change.fails != "PASS"]
        assert len(wrong) >= 6, slug
        assert len(CHANGES[slug]) - len(wrong) >= 3, slug
        assert set(ids) <= failing <= {*ids, "PASS", "runs"}, slug
        assert all(fact.says[0].isupper() and fact.says[-1] != "." for fact in case.facts)


@pytest.mark.parametrize(
    ("timed", "is_busy", "passed"), [(True, True, None), (True, False, False), (False, True, False)]
)
def test_a_fact_that_depends_on_time_is_not_judged_on_a_busy_machine(
    timed: bool, is_busy: bool, passed: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = CodeVerdict("queues", False, "The line was busy for only 9 % of the time.", {}), timed
    for name, value in {"_judged": judged, "was_busy": is_busy, "why_not_live": ""}.items():
        monkeypatch.setattr(short_c, name, lambda *_, value=value: value)
    monkeypatch.setattr(short_c, "_STALL_MS", inf)
    verdict = short_c.check("queues", ROOT / "lessons/c/queues.c")
    assert verdict.passed is passed
    assert ("too busy to be sure" in verdict.message) is (passed is None)


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
    assert "does not count here" in complaint("pipes", "nothing-copied", uncounted)
    assert piped.commands[1].startswith("client$ cat FILE | ./pipes ")
    assert direct.commands[1].endswith(" < FILE")


@pytest.mark.needs_lab
def test_a_stream_in_large_segments_is_left_out() -> None:
    with Lab(offload=True) as lab:
        ran = short_c.run(lab, "pipes", stdin="FILE", file_mb=1)
    assert ran.stream == b""
    assert sum(ran.sizes) == 1_000_000


@pytest.mark.needs_lab
@pytest.mark.parametrize("mtu", [1500, 9000])
def test_segments_asks_for_the_mss_that_it_sends(mtu: int) -> None:
    with Lab(mtu=mtu) as lab:
        ran = short_c.run(lab, "segments", "100000")
    assert max(ran.sizes) == mtu - 52
    assert len(ran.stream) == 100_000
    expected = f"TCP_MAXSEG: 536 before connect(), {mtu - 52} after it, {mtu - 52} at the end"
    assert ran.output == expected


def test_without_a_laboratory_three_recorded_changes_are_offered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TCPLAB_MODE", "recorded")
    pages: list[str] = []
    monkeypatch.setattr(short_c, "announce", pages.append)
    for slug in each(list(short_c.CASES)):
        assert short_c.check(slug).passed is None
        assert_offers_three_changes(pages[-1], ROOT / f"lessons/c/{slug}.c")


def test_so_are_changes_to_the_three_slow_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TCPLAB_MODE", "recorded")
    pages: list[str] = []
    monkeypatch.setattr(run, "announce", pages.append)
    for program in get_args(Program):
        path = run.copy(program, tmp_path)
        assert run.check(path).passed is None
        assert_offers_three_changes(pages[-1], path)


def assert_offers_three_changes(page: str, program: Path) -> None:
    answers = re.findall(r"\*\*(That is it|Not quite)\.\*\* (.+)", page)
    assert sorted(title for title, _ in answers) == ["Not quite", "Not quite", "That is it"]
    assert len({reason for _, reason in answers}) == 3
    # The recorded changes are changes to the program of today.
    lines = {"…", *program.read_text().splitlines()}
    changes = re.findall(r"```diff\n(.*?)\n```", page, re.DOTALL)
    kept = [[line[1:] for line in text.splitlines() if line[0] != "+"] for text in changes]
    assert len(kept) == 3
    assert all(line in lines for text in kept for line in text), program


@pytest.mark.needs_lab
def test_programs_that_run_together_have_arguments_each_and_share_a_line() -> None:
    with Lab(clients=[10, 40], rate_mbit=10, queue_packets=20) as lab:
        near, far = short_c.run_together(lab, "sharing", "reno 1", "reno 1.5")
    command, rate = str(far).splitlines()
    assert re.fullmatch(r"client2\$ ./sharing 10.0.0.2 \d+ reno 1.5", command)
    assert re.fullmatch(r"reno: [\d.]+ Mbit/s", rate)
    assert min(sum(near.sizes), sum(far.sizes)) > 10_000
    assert sum(near.sizes) + sum(far.sizes) < 3_000_000  # one line and its queue can carry no more


@pytest.mark.needs_lab
@pytest.mark.parametrize("change", few(), ids=str)
def test_program_fails_as_shipped_and_passes_when_fixed(change: Change, tmp_path: Path) -> None:
    assert_judged_as_expected(change, tmp_path)
