"""The command line: what it prints, and that a mistake costs one line and exit status 2."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tcplab.cli import main


def tcplab(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tcplab.cli", *words], capture_output=True, text=True, timeout=120
    )


def test_run_prints_a_table_with_its_origin(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "small-writes", "--messages", "3", "--variants", "cork", "writev"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("variant")
    assert [line.split()[0] for line in out[2:4]] == ["cork", "writev"]
    assert "packets the recorder lost: 0" in out[-1]


def test_run_json_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "small-writes", "--messages", "3", "--variants", "cork", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [row["variant"] for row in data["rows"]] == ["cork"]
    assert data["provenance"]["messages"] == 3


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["run", "small-writes", "--messages", "0"], 2, "tcplab: messages=0 must be from 1"),
        (["run", "small-writes", "--messages", "abc"], 2, "invalid int value: 'abc'"),
        (["run", "small-writes", "--rtt-ms", "-1"], 2, "tcplab: rtt_ms=-1.0 must be a number"),
        (["run", "small-writes", "--writes", "0"], 2, "tcplab: writes=0 must be from 1 to 1024"),
        (["run", "small-writes", "--variants", "x"], 2, "invalid choice: 'x'"),
        (["run", "write-patterns", "4+x"], 2, "tcplab: pattern '4+x': give bytes joined by +"),
        (["explain", "cork", "--figure", "x.doc"], 2, "tcplab: --figure x.doc: the name must end"),
        (["explain", "cork", "--figure", "/no/such/x.svg"], 1, "/no/such/x.svg: No such file"),
        (["run", "no-such"], 2, "invalid choice: 'no-such'"),
        ([], 2, "required: COMMAND"),
    ],
)
def test_a_mistake_costs_one_line_and_no_traceback(
    words: Sequence[str], status: int, message: str
) -> None:
    done = tcplab(*words)
    assert done.returncode == status
    assert message in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert done.stdout == "" or "explain" in words


def test_explain_says_why_each_segment_left(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    picture = tmp_path / "timeline.svg"
    assert main(["explain", "default", "--messages", "4", "--figure", str(picture)]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert "28 bytes of writes 2–15 held" in last
    assert "by Nagle" in last
    assert "released by the peer's delayed ACK" in last
    assert picture.read_text().startswith("<?xml")


def test_a_closed_output_is_not_a_traceback() -> None:
    done = subprocess.run(
        f"{sys.executable} -m tcplab.cli run small-writes --messages 2 --variants cork --loopback"
        " | true",
        shell=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "Traceback" not in done.stderr


def test_doctor_names_each_capability_and_lesson(capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["doctor"])
    out = capsys.readouterr().out
    for name in ("kernel", "cores", "user namespaces", "raw sockets", "C compiler", "sch_netem"):
        assert name in out
    assert "congestion control" in out
    assert "Nagle and delayed ACK" in out
    assert status in (0, 1)


def test_importing_tcplab_is_light() -> None:
    heavy = {"scapy", "matplotlib", "ipywidgets", "pyroute2", "IPython"}
    code = "import sys, tcplab; print(*{name.partition('.')[0] for name in sys.modules})"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    assert not heavy & set(loaded.split())
