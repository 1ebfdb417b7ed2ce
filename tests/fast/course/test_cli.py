"""Test the command line's output. A mistake gives one line and status 2, or 1 for a bad file."""

import re
import shlex
import sys

import pytest
from tests.support.commands import completed
from tests.support.nonempty import each

from tcplab.cli import main
from tcplab.experiments import every


def test_run_without_a_name_lists_the_experiments(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(every())


@pytest.mark.parametrize(("named", "imported"), [([], 0), (["small-writes"], 1)])
def test_help_imports_only_the_experiment_that_it_is_about(named: list[str], imported: int) -> None:
    code = (
        "import atexit; from tcplab.cli import main; from tcplab.experiments import declaration;"
        "atexit.register(lambda: print(len(declaration._REGISTRY)));"
        f"main(['run', *{named}, '--help'])"
    )
    assert completed([sys.executable, "-c", code]).stdout.split()[-1] == str(imported)


def test_without_a_command_all_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main([])
    assert "\n    doctor " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "status", "message"),
    [
        ("run small-writes --messages 0", 2, "tcplab: messages=0 must be a whole number from 1"),
        ("run small-writes --messages abc", 2, "invalid int value: 'abc'"),
        ("run small-writes --variants x", 2, "'x' is not known; use one of def"),
        ("run write-patterns --patterns 4+x", 2, "pattern '4+x': give bytes joined by +"),
        ("run small-writes --rtt-ms -1", 2, "tcplab: rtt_ms=-1.0 must be a number"),
        ("run small-writes --mesages=3", 2, "did you mean --messages? Use one of -h, "),
        ("run small-write", 2, "'small-write' is not known; did you mean small-writes? Use"),
        ("run xyz", 2, "'xyz' is not known; use one of any-command, "),
        ("study small-write", 2, "problem set 'small-write' is not known; did you mean small"),
        ("study small-writes q11", 2, "'q11' is not known; did you mean q1? Use one of q1"),
        ("demo small-write", 2, "demo 'small-write' is not known; did you mean small-writes?"),
        ("demo cork --phones 0.0.0.0", 2, "tcplab: 0.0.0.0: give one IPv4 address of this machine"),
        ("demo cork --phones 192.0.2.1", 2, "tcplab: --phones: no page at 192.0.2.1:8765 ("),
        ("run queues", 2, "queues is a lesson; to repeat its measurements: tcplab run bufferbloat"),
        ("doctro", 2, "'doctro' is not known; did you mean doctor? Use one of lab, doctor"),
        ("segments /", 1, "tcplab: /: Is a directory"),
        ("segments /no/such", 1, "tcplab: /no/such: No such file or directory"),
        (f"explain {__file__}", 1, "test_cli.py: not a capture"),
        ("explain x.pcap --figure x.doc", 2, "--figure: x.doc: the name must end"),
        ("explain x.pcap --figure /no/such/x.svg", 2, "x.svg: no such directory"),
        ("explain x.pcap --rate-mbit nan", 2, "--rate-mbit nan: must be more than 0"),
        ("explain x.pcap --rate-mbit 0", 2, "--rate-mbit 0: must be more than 0"),
        ("explain x.pcap -- true", 2, "give either a capture, or a command after --"),
        ("explain x.pcap --json --log x", 2, "--json: only --peer-capture"),
        ("explain", 2, "no command: tcplab explain [OPTION]... -- COMMAND [ARGUMENT]..."),
        ("explain --", 2, "no command: tcplab explain [OPTION]... -- COMMAND [ARGUMENT]..."),
        ("explain --timeout-s 0 -- a", 2, "--timeout-s 0: must be more than 0 and at most 86400"),
        ("explain --loss-percent 101 -- a", 2, "--loss-percent 101: must be from 0 to 100"),
        ("explain --interface lo -- a", 2, "--interface: works only with --here"),
        ("""explain --server "a 'b" -- a""", 2, "--server a 'b: no closing quotation"),
        ("explain --here --server x --rtt-ms 5 -- a", 2, "and --rtt-ms: cannot be combined with"),
    ],
)
def test_usage_errors_are_one_line(
    command: str, status: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        returned = main(shlex.split(command))
    except SystemExit as end:  # argparse exits this way
        returned = int(end.code or 0)
    out, err = capsys.readouterr()
    assert returned == status
    assert message in err.splitlines()[-1]
    assert len(err.splitlines()) == 1 or err.startswith("usage: ")
    assert out == ""


def test_tables_are_folded_to_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TCPLAB_MODE", "recorded")
    monkeypatch.setenv("COLUMNS", "60")
    main(["run", "connection"])
    folded = capsys.readouterr().out.rpartition("\n\n")[0]
    assert max(map(len, folded.splitlines())) <= 60
    monkeypatch.setenv("COLUMNS", "400")
    main(["run", "connection"])
    heading = capsys.readouterr().out.splitlines()[2]
    assert heading.split()[-2:] == ["frame", "(bytes)"]


def test_every_command_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    commands = re.findall(r"^ {4}([a-z-]+) ", capsys.readouterr().out, re.MULTILINE)
    assert len(commands) > 8
    for command in each(commands):
        with pytest.raises(SystemExit):
            main([command, "--help"])
        assert f"example: tcplab {command}" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["grade", "--help"]])
def test_help_and_version_load_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "import sys; from tcplab.cli import main\n"
        f"try: main({arguments})\n"
        "finally: print(*sys.modules, file=sys.stderr)"
    )
    done = completed([sys.executable, "-c", code], check=True)
    loaded = set(done.stderr.split())
    assert "tcplab.cli.front" in loaded
    assert (
        loaded & {"numpy", "jinja2", "tcplab.lab", "tcplab.segments", "tcplab.experiments"} == set()
    )
