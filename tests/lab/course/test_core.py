"""Test the engineer's installation, which has the packages of `dependencies` and no extra."""

import subprocess
import sys
import venv
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from tests.fast.course.test_packaging import PROJECT
from tests.support.commands import completed
from tests.support.paths import DATA

CORE = [Requirement(text).name for text in PROJECT["dependencies"]]


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make an environment with links to the packages that an installation without extras has."""
    folder = tmp_path_factory.mktemp("core")
    venv.create(folder, with_pip=False, symlinks=True)
    (packages,) = folder.glob("lib/python3*/site-packages")
    for name in ("tcplab", *CORE):
        files = distribution(name).files or []
        for top in {file.parts[0] for file in files} - {"..", "__pycache__"}:
            (packages / top).symlink_to(str(distribution(name).locate_file(top)))
    return folder / "bin" / "python"


def tcplab(core: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return completed([str(core), "-m", "tcplab", *arguments])


@pytest.mark.needs_lab
@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        (["run", "connection"], "SYN ACK"),
        (["run", "capture-loss"], "not measured now: scapy is not installed: pip install"),
        (["segments", str(DATA / "tcpdump.pcap")], "connection 4: "),
        (["explain", str(DATA / "tcpdump-stall.pcap")], "Verdict"),
        (["explain", "--server", "python3 -m http.server 8000", "--", "true"], "Verdict"),
        (["doctor"], "lesson"),
    ],
)
def test_the_core_needs_no_extra(core: Path, arguments: list[str], printed: str) -> None:
    ran = tcplab(core, *arguments)
    assert printed in " ".join(ran.stdout.split()), ran.stderr  # long lines are wrapped
    assert "Traceback" not in ran.stderr


@pytest.mark.needs_lab
@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (["run", "rtt-fairness", "--figure", "one.svg"], "course"),
        (["explain", "--figure", "one.svg", "--", "true"], "course"),
        (["demo"], "course"),
        (["grade", "small-writes"], "grading"),
        (["study", "small-writes"], "grading"),
        (["progress"], "grading"),
    ],
)
def test_a_missing_extra_is_one_line(core: Path, arguments: list[str], extra: str) -> None:
    ran = tcplab(core, *arguments)
    assert ran.returncode == 1
    assert ran.stdout == ""
    (line,) = ran.stderr.splitlines()
    assert line.endswith(f" is not installed: pip install 'tcplab[{extra}]'")


def test_recordings_are_shown_where_unix_modules_are_missing() -> None:
    """JupyterLite's Python has no fcntl, termios or resource, and can make no laboratory."""
    script = """
import os, sys
for name in ("fcntl", "grp", "pwd", "pyroute2", "resource", "termios"):
    sys.modules[name] = None
os.environ["TCPLAB_MODE"] = "recorded"
from tcplab import experiments, figures, segments, widgets
from tcplab.course import doctor, predictions, short_c
print(experiments.table(experiments.every()["small-writes"].measure()))
"""
    ran = completed([sys.executable, "-c", script])
    assert "no_delay" in ran.stdout, ran.stderr
