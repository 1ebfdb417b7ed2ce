"""The `tcplab` command: a thin front of the package. Exit status 2 for a mistake, 1 for a
failure."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
import warnings
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from tcplab.cli import explain, segments
from tcplab.cli.experiments import add_options
from tcplab.cli.experiments import run as run_experiment
from tcplab.cli.grading import add_commands as add_grading
from tcplab.course import ready
from tcplab.errors import TcplabError
from tcplab.experiments import as_json, every, table
from tcplab.segments.left_out import in_words as left_out_in_words

#: The figure of an experiment's result, where one shows all of it.
_FIGURES: Final = {
    **dict.fromkeys(("bufferbloat", "fairness", "rtt-fairness"), "bottleneck"),
    "congestion-controls": "contests",
    "notsent-lowat": "data_ages",
    "router-buffers": "line_use",
}

#: At the end of each command's help.
_EXAMPLES: Final = {
    "study": "ps5 q1 q7",
    "progress": "",
    "doctor": "--versions",
    "ready": "",
    "quickstart": "tcplab-course",
    "run": "small-writes",
    "explain": '--server "redis-server --protected-mode no" -- redis-cli -h server ping',
    "segments": "capture.pcapng --summary",
    "demo": "small-writes",
    "grade": "ps5 --jobs 4",
    "collect": "ps5 downloads/ps5.zip",
    "class-predictions": "submitted --lesson 05 --figures reports",
    "draw": "ps5 --new-secret",
    "handout": "ps5 --students class.txt --into ps5.zip",
    "try-assignment": "ps5 reference",
    "new-assignment": "ps12",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit status."""
    words = sys.argv[1:] if argv is None else list(argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # no result is lost for a character
            stream.reconfigure(errors="replace")
    words, command = explain.with_command(words)
    arguments = _parser(experiments=words[:1] == ["run"]).parse_args(words)
    arguments.argv = command
    warnings.showwarning = _one_line_warning
    try:
        status = int(arguments.action(arguments))
        sys.stdout.flush()
        return status
    except ValueError as error:  # a value that the models, a laboratory or an experiment refused
        print(f"tcplab: {error}", file=sys.stderr)
        return 2
    except TcplabError as error:
        print(f"tcplab: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        if error.filename is None:
            _discard_output()
        if not isinstance(error, BrokenPipeError):  # `tcplab … | head` is no mistake
            print(f"tcplab: {error.filename or 'output'}: {error.strerror}", file=sys.stderr)
        return 1


def _discard_output() -> None:
    """Nobody takes the rest, and Python would complain when it flushes it at the end."""
    with contextlib.suppress(OSError, ValueError), Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


def _one_line_warning(message: Warning | str, *_: object, **__: object) -> None:
    print(f"tcplab: warning: {message}", file=sys.stderr)


def _parser(*, experiments: bool) -> argparse.ArgumentParser:
    """The command line; with the options of every experiment, whose import takes a while."""
    parser = argparse.ArgumentParser(
        prog="tcplab", description="Why TCP programs are fast or slow, measured on two hosts."
    )
    parser.add_argument("--version", action="version", version=f"tcplab {version('tcplab')}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    doctor = commands.add_parser("doctor", help="what this machine can do, and what to do about it")
    versions = "the version of each package, beside the one that the course asks for"
    doctor.add_argument("--versions", action="store_true", help=versions)
    doctor.set_defaults(action=_doctor)

    ask = commands.add_parser("ready", help=ready.SUMMARY, description=ready.SUMMARY)
    ask.set_defaults(action=_ready)

    words = "copy the lessons and exercises into a new directory"
    start = commands.add_parser("quickstart", help=words, description=words)
    start.add_argument("directory", type=Path, metavar="DIRECTORY", help="new or empty")
    start.set_defaults(action=_quickstart)

    words = "run an experiment and print its table; without a name, list them"
    run = commands.add_parser("run", help=words, description=words)
    run.set_defaults(action=_list_experiments)
    names = run.add_subparsers(title="experiments", metavar="NAME")
    for each in every().values() if experiments else ():
        own = names.add_parser(each.name, help=each.summary, description=each.summary)
        own.add_argument("--json", action="store_true", help="rows and provenance as JSON")
        if each.name in _FIGURES:
            words = "draw it into this file, such as one.png or one.svg"
            own.add_argument("--figure", metavar="FILE", help=words)
        add_options(own, each)
        own.set_defaults(action=_run, experiment=each)
        own.epilog = f"example: tcplab run {each.name} --json"
    _add_explain(commands)
    _add_segments(commands)
    _add_demo(commands)
    _add_study(commands)
    add_grading(commands)
    for name, example in _EXAMPLES.items():
        commands.choices[name].epilog = f"example: tcplab {name} {example}".rstrip()
    return parser


def _add_study(commands: Any) -> None:
    words = "judge your attempt at a problem set; the model answer after the second one"
    parser = commands.add_parser("study", help=words, description=words)
    parser.add_argument("name", help="of the problem set, such as ps5")
    parser.add_argument("questions", nargs="*", help="only these, such as q1 (default: all)")
    parser.add_argument("--answers", action="store_true", help="show the model answers at once")
    parser.set_defaults(action=_study)
    words = "what you have predicted and attempted so far, one row per lesson"
    table = commands.add_parser("progress", help=words, description=words)
    table.set_defaults(action=_progress)


def _study(arguments: argparse.Namespace) -> int:
    from tcplab.grading.study import study

    print(study(arguments.name, *arguments.questions, answers=arguments.answers))
    return 0


def _progress(_arguments: argparse.Namespace) -> int:
    from tcplab.course.progress import progress

    print(progress().narrow(100))
    return 0


def _add_demo(commands: Any) -> None:
    words = "open a demonstration for a lecture in the browser; without a name, list them"
    demo = commands.add_parser("demo", help=words, description=words)
    demo.add_argument("name", nargs="?", help="of the demo, or a file NAME.toml of your own")
    demo.add_argument(
        "--slides",
        type=Path,
        metavar="DIR",
        help="write each step as slides (PNG) with notes; of all demos without a name",
    )
    demo.set_defaults(action=_demo)


def _demo(arguments: argparse.Namespace) -> int:
    from tcplab import demos

    if arguments.slides:
        from tcplab.demos.slides import write_slides

        name = arguments.name
        write_slides([demos.find(name)] if name else demos.every(), arguments.slides)
        return 0
    if arguments.name is None:
        for demo in demos.every():
            print(f"{demo.name:18}lesson {demo.lesson}  {demo.title} ({len(demo.steps)} steps)")
        return 0
    from tcplab.demos.page import open_page

    open_page(arguments.name)
    return 0


def _add_explain(commands: Any) -> None:
    parser = commands.add_parser("explain", help=explain.SUMMARY, description=explain.SUMMARY)
    explain.add_arguments(parser)
    parser.set_defaults(action=explain.run)


def _add_segments(commands: Any) -> None:
    summary = segments.SUMMARY
    parser = commands.add_parser("segments", help=summary, description=summary)
    segments.add_arguments(parser)
    parser.set_defaults(action=_segments)


def _segments(arguments: argparse.Namespace) -> int:
    segments.print_segments(arguments, sys.stdout)
    return 0


def _list_experiments(_arguments: argparse.Namespace) -> int:
    known = every()
    width = max(map(len, known))
    for name, each in known.items():
        print(f"{name:{width}}  {each.summary}")
    return 0


def _run(arguments: argparse.Namespace) -> int:
    result = run_experiment(arguments.experiment, arguments)
    origin = result.provenance
    # Ctrl-C ends a long experiment with what it has; the exit status says that there is more.
    status = 130 if origin.get("interrupted") else 0
    if getattr(arguments, "figure", None):
        from tcplab import figures

        getattr(figures, _FIGURES[arguments.experiment.name])(result).save(arguments.figure)
    if arguments.json:
        print(as_json(result))
        return status
    print(table(result).for_terminal())
    print(
        f"\n{origin['network']} · Linux {origin['kernel']} · {origin['cpu']}, {origin['cores']}"
        f" cores · packets the recorder lost: {origin.get('capture_drops', 'no recording')}"
    )
    if origin.get("capture_left_out"):
        print(left_out_in_words(origin["capture_left_out"]))
    if status:
        print(f"interrupted after {origin.get('runs', 'some')} runs", file=sys.stderr)
    return status


def _ready(_arguments: argparse.Namespace) -> int:
    ready.ask_all(sys.stdin, sys.stdout)
    return 0


def _quickstart(arguments: argparse.Namespace) -> int:
    from tcplab.course.files import quickstart

    quickstart(arguments.directory)
    print(f"Go on with:\n  cd {arguments.directory}\n  jupyter lab start.ipynb")
    return 0


def _doctor(arguments: argparse.Namespace) -> int:
    from tcplab.course.doctor import (
        capabilities,
        capability_table,
        lesson_table,
        program_table,
        version_table,
    )

    if arguments.versions:
        versions = version_table()
        print(versions.for_terminal())
        return 0 if all(row["fits"] == "yes" for row in versions.rows) else 1
    found = capabilities()
    print(capability_table(found).for_terminal())
    for each in found:
        if each.advice:
            print(f"\n{each.name}: {each.finding}\n  → {each.advice}")
    print()
    print(lesson_table().for_terminal())
    print()
    print(program_table().for_terminal())
    return 0 if all(each.ok is not False for each in found) else 1
