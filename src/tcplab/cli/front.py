"""Parse the command line, call the command and turn its errors into an exit status."""

import argparse
import contextlib
import io
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from tcplab.cli import course, explain, grading, segments
from tcplab.cli.declared import CommandLine, add_command
from tcplab.cli.run import add_run
from tcplab.errors import TcplabError

_Command = Callable[..., int]
_FIRST: Final[Sequence[_Command]] = (course.lab, course.doctor, course.ready, course.quickstart)
_OTHERS: Final[Sequence[_Command]] = (
    explain.explain,
    segments.segments,
    course.demo,
    course.study,
    course.progress,
    grading.collect,
    grading.give_back,
    grading.grade,
    grading.autograde,
    grading.class_predictions,
    grading.draw,
    grading.handout,
    grading.try_assignment,
    grading.new_assignment,
)


def run(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    given = (sys.argv[1:] if argv is None else list(argv)) or ["--help"]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # replace characters that cannot be encoded
            stream.reconfigure(errors="replace")
    warnings.showwarning = _one_line_warning
    try:
        given, command = explain.with_command(given)
        arguments = parser_of(given).parse_args(given)
        arguments.argv = command
        status = int(arguments.action(arguments))
        sys.stdout.flush()
        return status
    except ValueError as error:  # a model, a laboratory or an experiment rejected a value
        print(f"tcplab: {error}", file=sys.stderr)
        return 2
    except TcplabError as error:
        print(f"tcplab: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        if error.filename is None:
            # Redirect stdout to /dev/null, so that the flush at exit cannot fail.
            with contextlib.suppress(OSError, ValueError), Path(os.devnull).open("wb") as nowhere:
                os.dup2(nowhere.fileno(), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):  # `tcplab … | head` is not an error
            print(f"tcplab: {error.filename or 'output'}: {error.strerror}", file=sys.stderr)
        return 1


def _one_line_warning(message: Warning | str, *_: object, **__: object) -> None:
    print(f"tcplab: warning: {message}", file=sys.stderr)


class _Version(argparse.Action):
    """Print the version; look it up only when asked, because that is slow."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object, **__: object) -> None:
        from importlib.metadata import version

        print(f"tcplab {version('tcplab')}")
        parser.exit()


def parser_of(given: Sequence[str] = ()) -> argparse.ArgumentParser:
    """Return the parser of all commands, with the options of the experiment that `given` names."""
    parser = CommandLine(
        prog="tcplab", description="Why TCP programs are fast or slow, measured on two hosts."
    )
    text = "show the program's version number and exit"
    parser.add_argument("--version", action=_Version, nargs=0, help=text)
    commands: Any = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for function in _FIRST:
        add_command(commands, function)
    add_run(commands, given)
    for function in _OTHERS:
        add_command(commands, function)
    return parser
