"""Every mistake on the command line gives one line that names it, and exit status 2."""

import functools
import re
import shlex

import pytest
from tests.support.commands import completed
from tests.support.paths import ROOT
from tests.support.programs.harness import Programs, complaint
from tests.support.tables import table

from tcplab.lab import program_path

PROGRAMS = sorted(path.stem for path in (ROOT / "src/programs").glob("*.c"))
#: A valid value for each argument that a usage line names.
PLACEHOLDERS = {
    "HOST": "127.0.0.1",
    "PORT": "1",
    "N": "10",
    "FILE": "/etc/passwd",
    "SCHEDULE...": "0:write=1",
}


@functools.cache
def help_of(program: str) -> str:
    done = completed([program_path(program), "--help"])
    return done.stdout


def usage(program: str) -> str:
    """Return the arguments on the first line of the help, for example "HOST PORT N [MODE]"."""
    return help_of(program).splitlines()[0].partition("[OPTION]...")[2].partition(",")[0]


def arguments(program: str) -> list[str]:
    """Return valid values for the required arguments."""
    return [PLACEHOLDERS[word] for word in re.sub(r"\[.*?\]", "", usage(program)).split()]


def numbers() -> list[tuple[str, str, bool]]:
    """Return every option with a whole number as its value, and whether 0 is allowed."""
    arguments = []
    for program in PROGRAMS:
        options = re.findall(r"^ .*?(-[\w-]+) [A-Z]+ .*\((\d+) to \d+", help_of(program), re.M)
        arguments += [(program, option, least == "0") for option, least in options]
    return arguments


#: One parser (command_line.c) reads all numbers, so only the first option is given all of these
#: values. The other options are given the first two.
WRONG_NUMBERS = ["-1", "abc", "99999999999999999999", "1000000000000", *["", "1.5", "0x10", "7 "]]


@pytest.mark.parametrize("program", PROGRAMS)
def test_help_fits_a_screen(programs: Programs, program: str) -> None:
    done = programs.run(program, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f"usage: {program} ")
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 100
    assert ("--port PORT" in done.stdout) == ("(9000)" in done.stdout)


@pytest.mark.parametrize(("program", "option", "takes_zero"), numbers())
def test_a_wrong_number_is_named(
    programs: Programs, program: str, option: str, takes_zero: bool
) -> None:
    values = WRONG_NUMBERS if (program, option, takes_zero) == numbers()[0] else WRONG_NUMBERS[:2]
    for value in [*values, *([] if takes_zero else ["0"])]:
        done = programs.run(program, option, value, *arguments(program))
        line = complaint(done, 2)
        assert line.endswith("(try --help)")
        assert value in line
        if re.fullmatch(r"-?\d+", value):
            assert re.search(r"outside \d+ to \d+", line), line
        else:
            assert "is not a whole number" in line
        assert done.stdout == ""


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_wrong_option_is_named(programs: Programs, program: str) -> None:
    for word, message in (
        ("--nonsense", "--nonsense is not an option of this program"),
        ("-Zx", "-Z is not an option of this program"),
        ("--cpu", "--cpu needs a value"),
        ("--json=1", "--json=1 is not an option of this program"),
    ):
        assert message in complaint(programs.run(program, *arguments(program), word), 2)


@pytest.mark.parametrize("program", [name for name in PROGRAMS if "..." not in usage(name)])
def test_an_argument_too_many_is_named(programs: Programs, program: str) -> None:
    line = complaint(programs.run(program, *arguments(program), "a", "b", "c", "d", "e"), 2)
    assert "is one argument too many" in line


@pytest.mark.parametrize("program", [name for name in PROGRAMS if arguments(name)])
def test_a_missing_argument_is_named(programs: Programs, program: str) -> None:
    assert "missing" in complaint(programs.run(program), 2)


@pytest.mark.parametrize(("line", "message"), table("mistakes")["lines"])
def test_a_wrong_value_is_named(programs: Programs, line: str, message: str) -> None:
    done = programs.run(*shlex.split(line))
    assert message in complaint(done, 2)
    assert done.stdout == ""
