"""Test the output of `tcplab segments` for people and for programs, and the input it refuses."""

import contextlib
import io
import json
from pathlib import Path

import pytest
from tests.support import forge
from tests.support.forge import Frame, Talk
from tests.support.nonempty import each
from tests.support.paths import DATA

from tcplab.cli.front import parser_of
from tcplab.segments import from_file


def printed(*argv: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        arguments = parser_of().parse_args(["segments", *argv])
        assert arguments.action(arguments) == 0
    return out.getvalue()


@pytest.fixture
def talk() -> Talk:
    talk = Talk()
    talk.handshake(options=([("MSS", 1460)], [("MSS", 1460)]))
    return talk


def test_each_segment_is_a_line_with_its_remarks(talk: Talk, tmp_path: Path) -> None:
    talk.segment(0, "PA", 1, 1, 2920)
    talk.segment(0, "PA", 1, 1, 2920)
    talk.segment(1, "A", 1, 2921, window=0)
    heading, ends, *lines = printed(str(talk.save(tmp_path / "x"))).splitlines()
    assert heading.split()[:3] == ["packet", "time", "(s)"]
    assert ends == "connection 0: tcp 192.0.2.1:40000 -> 192.0.2.2:80"
    assert len(lines) == 6
    assert lines[0].endswith("SYN         MSS 1460")
    assert lines[3].split()[2:6] == ["->", "2920", "1", "1"]
    assert lines[3].endswith("PSH ACK     2 segments in one")
    assert lines[4].endswith("2 segments in one, sent again")
    assert lines[5].split()[2] == "<-"
    assert lines[5].endswith("ACK         window closed")
    # Headings are above their columns.
    end = heading.index("bytes") + len("bytes")
    assert lines[3][:end].endswith(" 2920")


def test_every_file_of_the_corpus_can_be_printed_in_every_form() -> None:
    for path in each(sorted(DATA.glob("*.pcap*"))):
        rows = from_file(path)
        text = printed(str(path))
        lines = 1 + len(rows) + len(set(rows["connection"].tolist())) + bool(rows.left_out)
        assert text.count("\n") == lines
        listed = json.loads(printed(str(path), "--json"))
        assert [row["packet"] for row in listed] == rows["packet"].tolist()


def test_option_connection_selects_one_of_several(talk: Talk, tmp_path: Path) -> None:
    talk.segment(0, "S", 0, ports=(40_001, 80))
    path = talk.save(tmp_path / "x")
    rows = from_file(path)
    assert len(rows.connections) == 2
    assert printed(str(path)).splitlines()[-1].endswith("connection 1")
    for number in range(len(rows.connections)):
        many = int((rows["connection"] == number).sum())
        text = printed(str(path), "--connection", str(number))
        assert len(text.splitlines()) == 2 + many
        assert len(json.loads(printed(str(path), "--json", "--connection", str(number)))) == many


def test_udp_has_no_sequence_numbers(tmp_path: Path) -> None:
    path = tmp_path / "udp"
    ip = bytes.fromhex("4500002000000000401100000a0000010a000002")
    udp = bytes.fromhex("00010002000c0000") + b"four"
    path.write_bytes(forge.pcapng([Frame(bytes(12) + b"\x08\0" + ip + udp)]))
    line = printed(str(path)).splitlines()[-1]
    assert line.split() == ["0", "0.000000", "->", "4", "UDP"]


def test_an_empty_capture_has_only_headings(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(forge.pcapng([]))
    assert len(printed(str(path)).splitlines()) == 1


def test_mistakes_are_named(talk: Talk, tmp_path: Path) -> None:
    path = str(talk.save(tmp_path / "x"))
    with pytest.raises(ValueError, match=r"--connection 1 is not in .*x; it has only 0"):
        printed(path, "--connection", "1")
    with pytest.raises(ValueError, match="--connection -1 is not in"):
        printed(path, "--connection", "-1")
