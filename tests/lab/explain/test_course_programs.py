"""`tcplab explain`: what it runs, reads, prints and refuses."""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tcplab import Lab, LabError
from tcplab import explain_cli as command
from tcplab.errors import CaptureError
from tcplab.programs import small_writes
from tcplab.segments import from_file
from tcplab.timeline import Reason, Timeline


def explained(*words: str) -> Timeline:
    return command.find(parsed(words))[1]


def parsed(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return parser.parse_args(words)


def reasons(timeline: Timeline) -> set[Reason]:
    return {segment.reason for segment in timeline.segments}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with client.pcapng, server.pcapng, client.log and server.log of one run."""
    directory = tmp_path_factory.mktemp("recorded")
    with (
        Lab() as lab,
        lab.client.capture() as client,
        lab.server.capture() as server,
    ):
        small_writes(
            lab,
            "default",
            2,
            log=directory / "client.log",
            peer_log=directory / "server.log",
        )
    client.save(directory / "client.pcapng")
    server.save(directory / "server.pcapng")
    return directory


# ---- live ----------------------------------------------------------------------------------------


@pytest.mark.needs_lab
def test_it_runs_small_messages() -> None:
    name, timeline = command.find(
        parsed(["cork", "--messages", "2", "--writes", "3", "--write-bytes", "5"])
    )
    assert name == "cork"
    assert timeline.messages == 2
    assert [write.bytes for write in timeline.writes] == [5] * 6
    report = command.report(timeline)
    assert "15 bytes of writes 1–3 held" in report
    assert "by the cork" in report
    assert "corked: " in report


@pytest.mark.needs_lab
def test_it_runs_records_and_each_batch_is_one_write() -> None:
    timeline = explained("records", "--count", "60", "--batch", "20")
    assert [write.bytes for write in timeline.writes] == [2004] * 3
    assert max(each.end for each in timeline.segments) == 3 * 2004
    assert timeline.missing == []


@pytest.mark.needs_lab
def test_an_acknowledgement_that_is_awaited_ends_a_message() -> None:
    timeline = explained("records", "--count", "5", "--unbuffered")
    assert timeline.messages == 5
    # What a busy machine sends again is another matter.
    assert reasons(timeline) - {Reason.RETRANSMISSION} == {Reason.SENT_AT_ONCE}
    idle = [hold for hold in timeline.holds if hold.reason is Reason.APPLICATION_IDLE]
    size = timeline.writes[0].bytes
    assert f"the application waited for the ACK of {size} bytes" in idle[0].evidence


@pytest.mark.needs_lab
@pytest.mark.parametrize("single", [True, False])
def test_it_runs_quotes(single: bool) -> None:
    timeline = explained("quotes", "--count", "4", *["--single"] * single)
    assert [write.bytes for write in timeline.writes] == [8] * 4
    assert timeline.messages == 4
    assert timeline.missing == []
    assert timeline.segments[0].reason is Reason.SENT_AT_ONCE


def test_without_a_laboratory_it_says_what_needs_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_parameters: object) -> Lab:
        raise LabError("user namespaces are switched off")

    monkeypatch.setattr(command, "Lab", refuse)
    with pytest.raises(LabError, match=r"switched off \(`tcplab explain file CAPTURE` needs no"):
        explained("default")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["cork", "--messages", "0"], "--messages=0 must be a whole number from 1 to 10000"),
        (["cork", "--writes", "1025"], "--writes=1025 must be a whole number from 1 to 1024"),
        (
            ["cork", "--write-bytes", "-1"],
            "--write-bytes=-1 must be a whole number from 1 to 1048576",
        ),
        (["cork", "--rtt-ms", "-1"], "rtt_ms=-1.0 must be"),
        (["records", "--count", "0"], "--count=0 must be a whole number from 1 to 10000"),
        (["records", "--batch", "0"], "--batch=0 must be a whole number from 1 to 1000"),
        (["quotes", "--batch", "1001"], "--batch=1001 must be a whole number from 1 to 1000"),
        (["file", "x.pcap", "--rate-mbit", "0"], "--rate-mbit 0: give more than 0"),
        (["file", "x.pcap", "--rate-mbit", "nan"], "--rate-mbit nan: give more than 0"),
    ],
)
def test_numbers_out_of_range_are_named(words: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        explained(*words)


# ---- recorded ------------------------------------------------------------------------------------


@pytest.mark.needs_lab
def test_it_reads_files(recorded: Path) -> None:
    name, timeline = command.find(
        parsed(
            [
                "file",
                str(recorded / "client.pcapng"),
                "--log",
                str(recorded / "client.log"),
                "--peer-capture",
                str(recorded / "server.pcapng"),
                "--peer-log",
                str(recorded / "server.log"),
                "--nodelay",
                "off",
            ]
        )
    )
    assert name.endswith("client.pcapng")
    assert timeline.messages == 2
    assert max(segment.end for segment in timeline.segments) == 60
    assert timeline.missing == []
    assert "by Nagle" in command.report(timeline)


@pytest.mark.needs_lab
def test_it_reads_the_servers_side_too(recorded: Path) -> None:
    capture, log = str(recorded / "server.pcapng"), str(recorded / "server.log")
    without_log = explained("file", capture, "--sender", "server")
    assert max(segment.end for segment in without_log.segments) == 4
    assert reasons(without_log) - {Reason.RETRANSMISSION} == {Reason.UNKNOWN}
    answers = explained("file", capture, "--sender", "server", "--log", log, "--nodelay", "off")
    assert [write.bytes for write in answers.writes] == [2, 2]
    assert reasons(answers) - {Reason.RETRANSMISSION} == {Reason.SENT_AT_ONCE}


@pytest.mark.needs_lab
def test_a_capture_alone_says_what_it_does_not_tell_and_what_would(recorded: Path) -> None:
    timeline = explained("file", str(recorded / "client.pcapng"))
    report = command.report(timeline, recorded=True)
    assert "Not told by the record:" in report
    assert "the application's log: when were these bytes written? (--log)" in report
    assert "the socket's options: was TCP_NODELAY set? (--nodelay)" in report
    assert "(--log)" not in command.report(timeline)


@pytest.mark.needs_lab
def test_a_capture_that_was_cut_is_explained_as_far_as_it_goes(
    recorded: Path, tmp_path: Path
) -> None:
    content = (recorded / "client.pcapng").read_bytes()
    cut = tmp_path / "cut.pcapng"
    whole = explained("file", str(recorded / "client.pcapng"))
    cut.write_bytes(content[: len(content) // 8 * 4 + 2])  # blocks are multiples of 4 bytes
    log = str(recorded / "client.log")
    with pytest.warns(UserWarning, match="reading stopped in the middle"):
        timeline = explained("file", str(cut), "--log", log, "--nodelay", "off")
    assert 0 < len(timeline.segments) < len(whole.segments)
    assert any(each.startswith("packets: the capture ends") for each in timeline.missing)
    # What the log tells beyond the capture's end is not taken for waiting.
    with pytest.warns(UserWarning, match="reading stopped in the middle"):
        last_ns = int(from_file(cut)["time_ns"].max())
    assert all(hold.end_ns <= last_ns for hold in timeline.holds)


@pytest.mark.needs_lab
def test_json_has_all_of_it(recorded: Path) -> None:
    log = str(recorded / "client.log")
    timeline = explained("file", str(recorded / "client.pcapng"), "--log", log, "--nodelay", "off")
    data = json.loads(command.as_json("mine", timeline))
    assert data["name"] == "mine"
    assert not [each for each in data["missing"] if "log" in each or "TCP_NODELAY" in each]
    assert len(data["sentences"]) == len(data["segments"]) == len(timeline.segments)
    assert {wait["reason"] for wait in data["waits"]} >= {"held-by-nagle"}
    assert sum(ack["newly_acked_bytes"] for ack in data["acks"]) >= 60


@pytest.mark.needs_lab
def test_mistakes_are_named(recorded: Path, tmp_path: Path) -> None:
    capture = str(recorded / "client.pcapng")
    empty = tmp_path / "empty"
    empty.touch()
    for words, message in (
        (["--log", str(recorded / "missing.log")], r"missing\.log: No such file"),
        (["--log", capture], r"client\.pcapng is no log"),
        (["--log", str(empty)], "log is empty"),
        (["--log", str(recorded / "server.log")], "the log does not belong to the capture"),
        (["--connection", "9"], "connection 9 is not in the capture"),
    ):
        with pytest.raises(ValueError, match=message):
            explained("file", capture, *words)
    for file, reason in ((empty, "not a capture: it has 0 bytes"), (tmp_path / "no", "No such")):
        with pytest.raises(CaptureError, match=reason):
            explained("file", str(file))


lines = st.one_of(
    st.binary(max_size=40),
    st.builds(
        lambda time_ns, name, size: f"{time_ns} {name} {size}".encode(),
        st.integers(-(10**20), 10**20),
        st.sampled_from(["write", "more", "wrote", "reply", "read", "acknowledged", "cork", "é"]),
        st.integers(-10, 10**12),
    ),
)


@settings(
    max_examples=150,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    st.lists(st.tuples(st.integers(0, 2**31), st.binary(min_size=1, max_size=6)), max_size=6),
    st.integers(0, 2**31),
    st.none() | st.lists(lines, max_size=8),
)
@pytest.mark.needs_lab
def test_whatever_the_files_hold_there_is_a_report_or_one_line(
    recorded: Path,
    tmp_path: Path,
    changes: list[tuple[int, bytes]],
    cut: int,
    log: list[bytes] | None,
) -> None:
    content = bytearray((recorded / "client.pcapng").read_bytes())
    for at, value in changes:
        at %= len(content)
        content[at : at + len(value)] = value
    del content[cut % (2 * len(content)) :]
    (tmp_path / "capture").write_bytes(content)
    log_file = recorded / "client.log"
    if log is not None:
        log_file = tmp_path / "log"
        log_file.write_bytes(b"\n".join(log))
    complaint = ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            timeline = explained("file", str(tmp_path / "capture"), "--log", str(log_file))
    except (ValueError, CaptureError) as error:
        complaint = str(error)
    else:
        assert command.report(timeline)
        assert json.loads(command.as_json("x", timeline))
    assert "\n" not in complaint
