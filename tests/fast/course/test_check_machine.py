"""tools/check-machine picks a Python and a compiler, or names the package that is missing."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.support.commands import completed
from tests.support.paths import ROOT


class Machine:
    """A machine whose PATH is one directory, with basic commands and those that a test adds."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        for name in ("bash", "cat", "ln", "tail"):
            directory.joinpath(name).symlink_to(shutil.which(name) or name)
        self.command("id", "echo 1000")

    def become_root(self, *, others_cannot_run: str = "no command") -> None:
        self.command("id", "echo 0")
        options = "--reuid 65534 --regid 65534 --clear-groups"
        self.command(
            "setpriv",
            f"""[ "${{*%% [!-6]*}}" = "{options}" ] || exit 2
            shift 5
            [ "$1" != "{others_cannot_run}" ] && exec "$@" """,
        )

    def command(self, name: str, script: str) -> None:
        path = self.directory / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def python(self, name: str = "python3", *, version: str = "3.12.1", venv: bool = True) -> None:
        """Add a fake Python that answers the questions of tools/check-machine."""
        minor = int(version.split(".")[1])
        answers = {
            "*version_info*": f"exit {int(not 11 <= minor < 15)}",
            "*ensurepip*": f"exit {int(not venv)}",
            "*executable*": f"echo /opt/{name}",
            "*python_version*": f"echo {version}",
        }
        cases = "\n".join(f"{pattern}) {answer} ;;" for pattern, answer in answers.items())
        self.command(name, f"case $2 in\n{cases}\nesac")

    def check(self, **environment: str) -> subprocess.CompletedProcess[str]:
        # Without PYTHON, the tool would also look at /usr/bin/python3.
        return completed(
            [str(ROOT / "tools" / "check-machine")],
            env={"PATH": str(self.directory), "PYTHON": "python3", **environment},
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_complete_machine_prints_python_and_compiler(machine: Machine) -> None:
    machine.python()
    machine.command("cc", "exit 0")
    ran = machine.check()
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "/opt/python3\ncc\n", "")


@pytest.mark.parametrize(
    ("compiler", "debian", "fedora"),
    [
        ("exit 0", "python3-venv", "python3"),
        ("", "python3-venv gcc libc6-dev", "python3 gcc glibc-devel kernel-headers"),
    ],
    ids=["venv", "both"],
)
def test_missing_programs_are_named_with_their_package(
    machine: Machine, compiler: str, debian: str, fedora: str
) -> None:
    machine.python(venv=False)
    if compiler:
        machine.command("cc", compiler)
    ran = machine.check()
    assert "venv module" in ran.stderr
    assert install_lines(ran) == (f"apt-get install {debian}", f"dnf install {fedora}")


@pytest.mark.parametrize(
    ("compiler", "named", "debian", "fedora"),
    [
        ("", "a C compiler", "gcc libc6-dev", "gcc glibc-devel kernel-headers"),
        ("exit 1", "<linux/tcp.h>", "libc6-dev", "glibc-devel kernel-headers"),
    ],
    ids=["compiler", "headers"],
)
def test_without_a_compiler_the_course_still_opens(
    machine: Machine, compiler: str, named: str, debian: str, fedora: str
) -> None:
    machine.python()
    if compiler:
        machine.command("cc", compiler)
    ran = machine.check()
    assert (ran.returncode, ran.stdout) == (0, "/opt/python3\n\n")
    (line,) = ran.stderr.splitlines()
    assert named in line
    assert f": sudo apt-get install {debian}, Fedora: sudo dnf install {fedora}, without" in line
    assert machine.check(CC="zig").stdout == "/opt/python3\nzig\n"


def install_lines(ran: subprocess.CompletedProcess[str]) -> tuple[str, str]:
    """Return the install commands for Debian and for Fedora."""
    assert (ran.returncode, ran.stdout) == (1, "")
    debian = re.search(r"^Debian, Ubuntu: +sudo (.*)$", ran.stderr, re.MULTILINE)
    fedora = re.search(r"^Fedora: +sudo (.*)$", ran.stderr, re.MULTILINE)
    assert debian
    assert fedora
    return debian[1], fedora[1]


def test_cc_of_the_environment_is_used_with_options(machine: Machine) -> None:
    machine.python()
    machine.command("cc", "exit 1")
    machine.command("mycc", 'test "$1" = --quiet')
    assert machine.check(CC="mycc --quiet").stdout == "/opt/python3\nmycc --quiet\n"


def test_old_python_is_named_with_its_version(machine: Machine) -> None:
    machine.command("cc", "exit 0")
    assert "there is no python3" in machine.check().stderr
    machine.python(version="3.10.4")
    machine.command("apt-cache", 'test "$2" = python3.11-venv')
    ran = machine.check()
    assert "python3 is 3.10.4" in ran.stderr
    debian, fedora = install_lines(ran)
    assert fedora == "dnf install python3.13"
    if Path("/usr/bin/python3").exists():
        assert debian == "apt-get install python3.11 python3.11-venv"


def test_root_picks_a_python_that_others_can_run(machine: Machine) -> None:
    machine.become_root(others_cannot_run="python3")
    machine.command("cc", "exit 0")
    machine.python("python3")
    machine.python("python3.12")
    assert machine.check(PYTHON="").stdout == "/opt/python3.12\ncc\n"


def test_root_on_debian_gets_packages_installed(machine: Machine, tmp_path: Path) -> None:
    machine.become_root()
    machine.python()
    asked = tmp_path / "asked"
    machine.command(
        "apt-get",
        f"""echo "$@" >>'{asked}'
        case $1 in install) ln -s true '{tmp_path}/cc' ;; esac""",
    )
    machine.command("true", "exit 0")
    ran = machine.check()
    assert ran.returncode == 0, ran.stderr
    assert "installing gcc libc6-dev" in ran.stderr
    assert asked.read_text().splitlines()[-1].endswith("gcc libc6-dev")
