"""The `tcplab` command: a thin front of the package. Exit status 2 for a mistake, 1 for a
failure."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, get_args

from tcplab.experiments import EXPERIMENTS, as_json, load, table
from tcplab.lab import LabError
from tcplab.programs import SmallWritesMode

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit status."""
    arguments = _parser().parse_args(argv)
    warnings.showwarning = _one_line_warning
    try:
        return int(arguments.action(arguments))
    except ValueError as error:  # a value that the models, a laboratory or an experiment refused
        print(f"tcplab: {error}", file=sys.stderr)
        return 2
    except LabError as error:
        print(f"tcplab: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        if isinstance(error, BrokenPipeError):  # `tcplab … | head`
            sys.stderr.close()
        else:
            print(f"tcplab: {error.filename or 'output'}: {error.strerror}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("tcplab: interrupted", file=sys.stderr)
        return 130


def _one_line_warning(message: Warning | str, *_: object, **__: object) -> None:
    print(f"tcplab: warning: {message}", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tcplab", description="Why TCP programs are fast or slow, measured on two hosts."
    )
    parser.add_argument("--version", action="version", version=f"tcplab {version('tcplab')}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    doctor = commands.add_parser("doctor", help="what this machine can do, and what to do about it")
    doctor.set_defaults(action=_doctor)

    run = commands.add_parser("run", help="run an experiment and print its table")
    experiments = run.add_subparsers(title="experiments", required=True, metavar="NAME")
    for name in EXPERIMENTS:
        module = load(name)
        experiment = experiments.add_parser(name, help=module.SUMMARY, description=module.SUMMARY)
        experiment.add_argument("--json", action="store_true", help="rows and provenance as JSON")
        module.add_arguments(experiment)
        experiment.set_defaults(action=_run, experiment=name)
    _add_explain(commands)
    return parser


def _add_explain(commands: Any) -> None:
    words = "run small writes and say of each segment why it left when it did"
    explain = commands.add_parser("explain", help=words, description=words)
    explain.add_argument("mode", choices=get_args(SmallWritesMode), help="how to send")
    explain.add_argument("--messages", type=int, default=5, help="default 5")
    explain.add_argument("--writes", type=int, default=15, help="pieces in a message (default 15)")
    explain.add_argument("--size", type=int, default=2, help="bytes in a piece (default 2)")
    explain.add_argument("--rtt-ms", type=float, default=0.0, help="of the wire (default 0)")
    explain.add_argument("--figure", metavar="FILE", help="also draw it (.png, .svg or .pdf)")
    explain.set_defaults(action=_explain)


def _explain(arguments: argparse.Namespace) -> int:
    from tcplab.experiments.small_writes import measure

    kind = (arguments.figure or ".svg").rpartition(".")[2]
    if kind not in ("png", "svg", "pdf"):
        raise ValueError(f"--figure {arguments.figure}: the name must end in .png, .svg or .pdf")
    result = measure(
        messages=arguments.messages,
        writes=arguments.writes,
        size_bytes=arguments.size,
        rtt_ms=arguments.rtt_ms,
        variants=[arguments.mode],
    )
    timeline = result[arguments.mode].timeline()
    print("\n".join(timeline.sentences()))
    if arguments.figure:
        from tcplab.figures import timeline as draw

        draw(timeline).save(arguments.figure)
    return 0


def _run(arguments: argparse.Namespace) -> int:
    result = load(arguments.experiment).from_arguments(arguments)
    origin = result.provenance
    # Ctrl-C ends a long experiment with what it has; the exit status says that there is more.
    status = 130 if origin.get("interrupted") else 0
    if arguments.json:
        print(as_json(result))
        return status
    print(table(result))
    print(
        f"\n{origin['place']} · Linux {origin['kernel']} · {origin['cpu']}, {origin['cores']} cores"
        f" · packets the recorder lost: {origin.get('capture_drops', 'no recording')}"
    )
    if status:
        print(f"interrupted after {origin.get('runs', 'some')} runs", file=sys.stderr)
    return status


def _doctor(_arguments: argparse.Namespace) -> int:
    from tcplab.doctor import capabilities, capability_table, lesson_table

    found = capabilities()
    print(capability_table(found))
    for each in found:
        if each.advice:
            print(f"\n{each.name}: {each.finding}\n  → {each.advice}")
    print()
    print(lesson_table())
    return 0 if all(each.ok is not False for each in found) else 1


if __name__ == "__main__":
    sys.exit(main())
