"""A missing program is reported in one line that names its package."""

from pathlib import Path

import pytest

from tcplab import machine
from tcplab.errors import LabError, MissingError
from tcplab.lab.binaries import find_command

CURL = "curl is not installed: apt install curl"


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return a PATH without programs."""
    monkeypatch.setattr(machine, "_SERVERS", ())
    monkeypatch.setenv("PATH", str(tmp_path))
    return str(tmp_path)


def test_first_missing_program_is_named(bare: str) -> None:
    Path(bare, "nginx").touch(mode=0o755)
    assert machine.lacking("nginx", "curl", "go") == CURL
    assert machine.lacking("nginx") == ""
    with pytest.raises(MissingError, match=CURL):
        machine.require("nginx", "curl")


def test_missing_command_of_a_host_names_its_package(bare: str) -> None:
    with pytest.raises(MissingError, match=CURL):
        find_command("curl", bare)
    with pytest.raises(LabError, match="no command 'mine': neither a program of the course"):
        find_command("mine", bare)
