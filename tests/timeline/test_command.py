"""`tcplab explain`: what it runs, reads, prints and refuses."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tcplab import Lab
from tcplab.lab import why_no_lab
from tcplab.programs import small_writes
from tcplab.timeline import Timeline, command

pytestmark = pytest.mark.skipif(why_no_lab() is not None, reason=f"NO LAB: {why_no_lab()}")


def explained(*words: str) -> list[tuple[str, Timeline]]:
    return command.timelines(parsed(words))


def parsed(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return parser.parse_args(words)


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
            server_log=directory / "server.log",
        )
    client.save(directory / "client.pcapng")
    server.save(directory / "server.pcapng")
    return directory


def test_it_runs_the_programs() -> None:
    named = explained("default", "cork", "--messages", "2", "--writes", "3", "--size", "5")
    assert [name for name, _timeline in named] == ["default", "cork"]
    for _name, timeline in named:
        assert timeline.messages == 2
        assert [write.bytes for write in timeline.writes] == [5] * 6
    report = command.report(named[1][1])
    assert "15 bytes of writes 1–3 held" in report
    assert "by the cork" in report
    assert "corked: " in report


def test_it_reads_files(recorded: Path) -> None:
    [(name, timeline)] = explained(
        str(recorded / "client.pcapng"),
        "--log",
        str(recorded / "client.log"),
        "--peer-capture",
        str(recorded / "server.pcapng"),
        "--peer-log",
        str(recorded / "server.log"),
        "--nodelay",
        "off",
    )
    assert name.endswith("client.pcapng")
    assert timeline.messages == 2
    assert sum(segment.payload_bytes for segment in timeline.segments) == 60
    assert timeline.missing == []
    assert "by Nagle" in command.report(timeline)
    # The server's answers, from the other side.
    [(_name, answers)] = explained(
        str(recorded / "server.pcapng"),
        "--sender",
        "server",
    )
    assert [segment.payload_bytes for segment in answers.segments] == [2, 2]


def test_a_capture_alone_says_what_it_does_not_tell(recorded: Path) -> None:
    [(_name, timeline)] = explained(str(recorded / "client.pcapng"))
    report = command.report(timeline)
    assert "Not told by the record:" in report
    assert "the application's log" in report


def test_json_has_all_of_it() -> None:
    named = explained("cork", "--messages", "2")
    [data] = json.loads(command.as_json(named))
    assert data["name"] == "cork"
    assert [row["reason"] for row in data["segments"]] == ["uncorked", "uncorked"]
    assert {wait["reason"] for wait in data["waits"]} == {"corked", "application-idle"}
    assert len(data["sentences"]) == 2
    assert data["missing"] == []


def test_mistakes_are_named(recorded: Path) -> None:
    capture = str(recorded / "client.pcapng")
    with pytest.raises(ValueError, match="'faster' is neither a capture file alone nor one of"):
        explained("faster")
    with pytest.raises(ValueError, match="neither a capture file alone"):
        explained("default", capture)
    with pytest.raises(ValueError, match=r"missing\.log: No such file"):
        explained(capture, "--log", str(recorded / "missing.log"))
    with pytest.raises(ValueError, match=r"client\.pcapng is no log"):
        explained(capture, "--log", capture)
    with pytest.raises(ValueError, match="the log does not belong to the capture"):
        explained(capture, "--log", str(recorded / "server.log"))
    with pytest.raises(ValueError, match="connection=9 is not in the capture"):
        explained(capture, "--connection", "9")
