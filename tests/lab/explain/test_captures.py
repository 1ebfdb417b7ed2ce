"""Test `tcplab explain CAPTURE`: its input, output and figures, and its refusals."""

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tcplab import Lab
from tcplab.cli import explain as command
from tcplab.cli import main
from tcplab.errors import CaptureError
from tcplab.programs import small_writes
from tcplab.segments import from_file
from tcplab.timeline import Reason, Timeline

pytestmark = pytest.mark.needs_lab


def explained(capture: str, **beside: Any) -> Timeline:
    return command.find(capture, command.OfCapture(**beside))


def reasons(timeline: Timeline) -> set[Reason]:
    return {segment.reason for segment in timeline.segments}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with the captures and logs of client and server from one run."""
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


# ---- recorded ------------------------------------------------------------------------------------


def test_capture_and_log_files_are_explained(recorded: Path) -> None:
    timeline = explained(
        str(recorded / "client.pcapng"),
        log=str(recorded / "client.log"),
        peer_capture=str(recorded / "server.pcapng"),
        nodelay="off",
    )
    assert timeline.messages == 2
    assert max(segment.end for segment in timeline.segments) == 60
    assert timeline.missing == []
    assert "by Nagle" in command.report(timeline)


def test_server_can_be_explained_as_the_sender(recorded: Path) -> None:
    capture, log = str(recorded / "server.pcapng"), str(recorded / "server.log")
    without_log = explained(capture, sender="server")
    assert max(segment.end for segment in without_log.segments) == 4
    assert reasons(without_log) - {Reason.RETRANSMISSION} == {Reason.UNKNOWN}
    answers = explained(capture, sender="server", log=log, nodelay="off")
    assert [write.bytes for write in answers.writes] == [2, 2]
    assert reasons(answers) - {Reason.RETRANSMISSION} == {Reason.SENT_AT_ONCE}


def test_report_on_a_capture_alone_names_the_missing_evidence(recorded: Path) -> None:
    timeline = explained(str(recorded / "client.pcapng"))
    report = command.report(timeline)
    assert "Missing from the record:" in report
    assert "the application's log: when were these bytes written?" in report
    assert "the socket's options: was TCP_NODELAY set?" in report


def test_a_cut_capture_is_explained_as_far_as_it_goes(recorded: Path, tmp_path: Path) -> None:
    content = (recorded / "client.pcapng").read_bytes()
    cut = tmp_path / "cut.pcapng"
    whole = explained(str(recorded / "client.pcapng"))
    cut.write_bytes(content[: len(content) // 8 * 4 + 2])  # blocks end at multiples of 4
    log = str(recorded / "client.log")
    with pytest.warns(UserWarning, match="reading stopped in the middle"):
        timeline = explained(str(cut), log=log, nodelay="off")
    assert 0 < len(timeline.segments) < len(whole.segments)
    assert any(note.startswith("packets: the capture ends") for note in timeline.missing)
    # Log entries after the capture's end do not count as waiting.
    with pytest.warns(UserWarning, match="reading stopped in the middle"):
        last_ns = int(from_file(cut)["time_ns"].max())
    assert all(hold.end_ns <= last_ns for hold in timeline.holds)


def test_mistakes_are_named(recorded: Path, tmp_path: Path) -> None:
    capture = str(recorded / "client.pcapng")
    empty = tmp_path / "empty"
    empty.touch()
    for beside, message in (
        ({"log": str(recorded / "missing.log")}, r"missing\.log: No such file"),
        ({"log": capture}, r"client\.pcapng is not a log"),
        ({"log": str(empty)}, "log is empty"),
        ({"log": str(recorded / "server.log")}, "the log does not belong to the capture"),
        ({"connection": 9}, "connection 9 is not in the capture"),
    ):
        with pytest.raises(ValueError, match=message):
            explained(capture, **beside)
    for file, reason in ((empty, "not a capture: it has 0 bytes"), (tmp_path / "no", "No such")):
        with pytest.raises(CaptureError, match=reason):
            explained(str(file))


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
@example([], 2**31, [b"%d write 0" % 2**63])
def test_any_file_contents_give_a_report_or_a_one_line_error(
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
            timeline = explained(str(tmp_path / "capture"), log=str(log_file))
    except (ValueError, CaptureError) as error:
        complaint = str(error)
    else:
        assert command.report(timeline)
    assert "\n" not in complaint


# ---- the verdict ---------------------------------------------------------------------------------


def test_a_capture_has_a_verdict_and_its_segments(
    recorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", str(recorded / "client.pcapng")]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Verdict: ")
    assert main(["explain", str(recorded / "client.pcapng"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] in " ".join(out.split())
    assert "1 connection to 10.0.0.2 port " in out
    assert "sent for an unknown reason (missing: the application's log" in out


def test_the_figure_of_a_capture_is_written(recorded: Path, tmp_path: Path) -> None:
    log = ["--log", str(recorded / "client.log")]
    capture = str(recorded / "client.pcapng")
    for name, start in {"a.SVG": b"<?xml", "b.png": b"\x89PNG", "c.pdf": b"%PDF"}.items():
        assert main(["explain", capture, *log, "--figure", str(tmp_path / name)]) == 0
        assert (tmp_path / name).read_bytes().startswith(start)
