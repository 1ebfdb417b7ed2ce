"""The command line: what it prints, and that a mistake costs one line and exit status 2."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.support.nonempty import each
from tests.support.paths import DATA

from tcplab.cli import main
from tcplab.experiments import every
from tcplab.segments import from_file


def tcplab(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tcplab", *words], capture_output=True, text=True, timeout=120
    )


def test_run_prints_a_table_with_its_origin(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "small-writes", "--messages", "3", "--variants", "cork", "writev"]) == 0
    out = capsys.readouterr().out.splitlines()
    # A note that the machine was busy may be above the table, or below it.
    heading = next(number for number, line in enumerate(out) if line.startswith("variant"))
    assert [line.split()[0] for line in out[heading + 2 : heading + 4]] == ["cork", "writev"]
    assert any("packets the recorder lost: 0" in line for line in out[heading + 4 :])


def test_run_without_a_name_lists_the_experiments(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(every())


def test_run_json_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "small-writes", "--messages", "3", "--variants", "cork", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [row["variant"] for row in data["rows"]] == ["cork"]
    assert data["provenance"]["messages"] == 3


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (
            ["run", "small-writes", "--messages", "0"],
            2,
            "tcplab: messages=0 must be a whole number from 1",
        ),
        (["run", "small-writes", "--messages", "abc"], 2, "invalid int value: 'abc'"),
        (["run", "small-writes", "--rtt-ms", "-1"], 2, "tcplab: rtt_ms=-1.0 must be a number"),
        (
            ["run", "small-writes", "--writes", "0"],
            2,
            "tcplab: writes=0 must be a whole number from 1 to 1024",
        ),
        (["run", "small-writes", "--variants", "x"], 2, "invalid choice: 'x'"),
        (
            ["run", "write-patterns", "--patterns", "4+x"],
            2,
            "pattern '4+x': give bytes joined by +",
        ),
        (["explain", "x.pcap", "--figure", "x.doc"], 2, "--figure: x.doc: the name must end"),
        (["explain", "x.pcap", "--figure", "/no/such/x.svg"], 2, "x.svg: there is no such dir"),
        (["explain"], 2, "no command: tcplab explain [OPTION]... -- COMMAND"),
        (["explain", "file", "/no/such"], 1, "tcplab: /no/such: No such file or directory"),
        (["explain", "file", __file__], 1, "test_cli.py: not a capture"),
        (["segments", "/no/such"], 1, "tcplab: /no/such: No such file or directory"),
        (["segments", "/"], 1, "tcplab: /: Is a directory"),
        (["segments", __file__], 1, "test_cli.py: not a capture"),
        (["segments", "x", "--json", "--csv"], 2, "not allowed with argument"),
        (["run", "no-such"], 2, "invalid choice: 'no-such'"),
        ([], 2, "required: COMMAND"),
    ],
)
def test_usage_errors_are_one_line(
    words: Sequence[str], status: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        returned = main(words)
    except SystemExit as end:  # argparse's way
        returned = int(end.code or 0)
    out, err = capsys.readouterr()
    assert returned == status
    assert message in err.splitlines()[-1]
    assert len(err.splitlines()) == 1 or err.startswith("usage: ")
    assert out == ""


@pytest.mark.parametrize(
    ("words", "status"),
    [(["segments", "/no/such"], 1), (["explain", "x.pcap", "--rate-mbit", "0"], 2)],
)
def test_exit_status_without_traceback(words: Sequence[str], status: int) -> None:
    done = tcplab(*words)
    assert done.returncode == status
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""


def test_segments_are_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["segments", str(DATA / "tcpdump-plain.pcap")]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[1].startswith("connection 0: tcp ")
    assert err == ""


def test_a_truncated_capture_is_read_with_a_warning(tmp_path: Path) -> None:
    content = (DATA / "tcpdump-plain.pcap").read_bytes()
    (tmp_path / "cut.pcap").write_bytes(content[:-7])
    done = tcplab("segments", str(tmp_path / "cut.pcap"), "--csv")
    assert done.returncode == 0
    assert re.fullmatch(r"tcplab: warning: .*cut\.pcap: .*\n", done.stderr)
    assert len(done.stdout.splitlines()) == len(from_file(DATA / "tcpdump-plain.pcap"))


@pytest.mark.parametrize("option", ["", "--summary"])  # much to print, and little
@pytest.mark.parametrize("output", ["| true", "| head -n 1", "> /dev/full"])
def test_full_output_is_one_line_of_error(output: str, option: str, tmp_path: Path) -> None:
    big = tmp_path / "big.pcap"
    content = (DATA / "tcpdump.pcap").read_bytes()
    big.write_bytes(content + content[24:] * 200)
    done = subprocess.run(
        f"{sys.executable} -m tcplab segments {big} {option} {output}",
        shell=True,
        # Without a buffer there is nothing left to flush at the end.
        env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    full = "full" in output
    assert done.stderr == ("tcplab: output: No space left on device\n" if full else "")
    assert done.returncode == (1 if full else 0)


def test_closed_output_is_no_traceback() -> None:
    done = subprocess.run(
        f"{sys.executable} -m tcplab run small-writes --messages 2 --variants cork --loopback"
        " | true",
        shell=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "Traceback" not in done.stderr


def test_ctrl_c_while_it_loads_is_one_line(tmp_path: Path) -> None:
    lines = "try: os.kill(os.getpid(), signal.SIGINT); time.sleep(60)", "except BaseException: pass"
    (tmp_path / "numpy.py").write_text("\n".join(["import os, signal, time", *lines]))
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "tcplab", "doctor"], env=environment, capture_output=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"tcplab: interrupted\n")


def test_doctor_names_each_capability_and_lesson(capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["doctor"])
    out = capsys.readouterr().out
    for name in ("kernel", "cores", "user namespaces", "raw sockets", "C compiler", "sch_netem"):
        assert name in out
    assert "congestion control" in out
    assert "Nagle and delayed ACK" in out
    assert status in (0, 1)


def test_doctor_reports_versions(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--versions"]) == 0
    out = capsys.readouterr().out
    assert "jupyterlab" in out
    assert "asked for" in out


def test_tables_are_folded_to_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    main(["doctor", "--versions"])
    folded = capsys.readouterr().out
    assert max(map(len, folded.splitlines())) <= 60
    monkeypatch.setenv("COLUMNS", "400")
    main(["doctor", "--versions"])
    assert capsys.readouterr().out.splitlines()[0].split() == [
        "package",
        "asked",
        "for",
        "here",
        "fits",
    ]


def test_characters_that_the_output_cannot_hold_lose_no_result() -> None:
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "tcplab", "doctor", "--versions"]
    done = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert b"codec" not in done.stderr
    assert b"numpy" in done.stdout


def test_every_command_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    commands = re.findall(r"^ {4}([a-z-]+) ", capsys.readouterr().out, re.MULTILINE)
    assert len(commands) > 8
    for command in each(commands):
        with pytest.raises(SystemExit):
            main([command, "--help"])
        assert f"example: tcplab {command}" in " ".join(capsys.readouterr().out.split())
