"""Test the command line as a process: results, exit status, and output that ends early."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.commands import completed
from tests.support.paths import DATA

from tcplab.cli import main
from tcplab.segments import from_file


def tcplab(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return completed([sys.executable, "-m", "tcplab", *arguments], env=os.environ | environment)


@pytest.mark.needs_lab  # plain loopback records no packets for an ordinary user
def test_run_prints_a_table_with_its_origin(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "small-writes", "--messages", "3", "--variants", "cork", "writev"]) == 0
    out = capsys.readouterr().out.splitlines()
    # A note that the machine was busy may be above the table, or below it.
    heading = next(number for number, line in enumerate(out) if line.startswith("variant"))
    assert [line.split()[0] for line in out[heading + 2 : heading + 4]] == ["cork", "writev"]
    assert any("packets lost by the recorder: 0" in line for line in out[heading + 4 :])


def test_a_truncated_capture_is_read_with_a_warning(tmp_path: Path) -> None:
    content = (DATA / "tcpdump-plain.pcap").read_bytes()
    (tmp_path / "cut.pcap").write_bytes(content[:-7])
    done = tcplab("segments", str(tmp_path / "cut.pcap"))
    assert done.returncode == 0
    assert re.fullmatch(r"tcplab: warning: .*cut\.pcap: .*\n", done.stderr)
    whole = from_file(DATA / "tcpdump-plain.pcap")
    lines = 1 + len(whole.connections) + len(whole) - 1
    assert len(done.stdout.splitlines()) == lines


@pytest.mark.parametrize(
    ("option", "output"),
    [
        ("", "| head -n 1"),
        ("--connection 0", "> /dev/full"),
    ],
)
def test_full_output_is_one_line_of_error(option: str, output: str, tmp_path: Path) -> None:
    big = tmp_path / "big.pcap"
    content = (DATA / "tcpdump.pcap").read_bytes()
    big.write_bytes(content + content[24:] * 200)
    done = completed(
        f"{sys.executable} -m tcplab segments {big} {option} {output}",
        shell=True,
        env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
    )
    full = "full" in output
    assert done.stderr == ("tcplab: output: No space left on device\n" if full else "")
    assert done.returncode == (1 if full else 0)


def test_ctrl_c_while_it_loads_is_one_line(tmp_path: Path) -> None:
    lines = "try: os.kill(os.getpid(), signal.SIGINT); time.sleep(60)", "except BaseException: pass"
    (tmp_path / "numpy.py").write_text("\n".join(["import os, signal, time", *lines]))
    done = tcplab("segments", "x", PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "tcplab: interrupted\n")


def test_characters_that_the_output_cannot_hold_lose_no_result() -> None:
    done = tcplab("run", "connection", PYTHONIOENCODING="ascii", TCPLAB_MODE="recorded")
    assert "codec" not in done.stderr
    assert "SYN" in done.stdout
