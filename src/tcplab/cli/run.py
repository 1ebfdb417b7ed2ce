"""`tcplab run`: run an experiment with the options that it declares."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from tcplab.cli.declared import add_options
from tcplab.cli.loading import loading
from tcplab.errors import ParameterError

if TYPE_CHECKING:
    from tcplab.experiments import Result
    from tcplab.experiments.declaration import Experiment


def add_run(commands: Any, given: Sequence[str]) -> None:
    """Add `tcplab run`, with the options of the experiment that the command line names."""
    summary = "run an experiment and print its table; without a name, list all experiments"
    run = commands.add_parser(
        "run", help=summary, description=summary, epilog="example: tcplab run small-writes"
    )
    run.set_defaults(action=_list_experiments)
    names = run.add_subparsers(title="experiments", metavar="NAME")
    if given[:1] != ["run"]:
        return
    with loading():
        from tcplab.experiments import catalogue, find

        known = {name: find(name) for name in given if name in catalogue()}
    if not known:
        _check_lesson(given[1:2])
    for name, (_module, about) in catalogue().items():
        parser = names.add_parser(name, help=about, description=about)
        if name not in known:  # only the experiment that is run has to be imported
            continue
        parser.add_argument("--json", action="store_true", help="print rows and provenance as JSON")
        text = "save the figure in this file, such as one.png or one.svg"
        parser.add_argument("--figure", metavar="FILE", help=text)
        add_options(parser, known[name])
        parser.set_defaults(action=_run, experiment=known[name])
        parser.epilog = f"example: tcplab run {name} --json"


def _check_lesson(name: Sequence[str]) -> None:
    """If the name is that of a lesson, raise ParameterError with the lesson's experiments."""
    from tcplab.experiments import catalogue
    from tcplab.programs.sources import course_folder

    for path in (course_folder() / "lessons").glob("*.ipynb"):
        if [path.stem.partition("-")[2]] == name:
            calls = re.findall(r"\b(?:measure_(\w+)|(\w+)\.measure)\(", path.read_text())
            known = (one for one in catalogue() if one.replace("-", "_") in chain(*calls))
            advice = ", ".join(f"tcplab run {one}" for one in known)
            raise ParameterError(f"{name[0]} is a lesson; to repeat its measurements: {advice}")


def measured(experiment: Experiment, options: argparse.Namespace) -> Result[Any]:
    """Run the experiment with the options of the command line."""
    given = {
        name: getattr(options, name) for name in experiment.parameters if hasattr(options, name)
    }
    result: Result[Any] = experiment.measure(**given)
    return result


def _list_experiments(_arguments: argparse.Namespace) -> int:
    from tcplab.experiments import catalogue

    width = max(map(len, catalogue()))
    for name, (_module, summary) in catalogue().items():
        print(f"{name:{width}}  {summary}")
    return 0


def _run(arguments: argparse.Namespace) -> int:
    from tcplab.experiments import as_json, table
    from tcplab.segments.left_out import in_words as left_out_in_words

    if arguments.figure:
        from tcplab import figures  # before the measurement, since an extra may be missing

    if sys.stderr.isatty():  # not every experiment shows its progress
        print(f"measuring {arguments.experiment.name} …", file=sys.stderr, flush=True)
    result = measured(arguments.experiment, arguments)
    origin = result.provenance
    # Ctrl-C ends a long experiment early; the exit status shows that the result is incomplete.
    status = 130 if origin.get("interrupted") else 0
    if arguments.figure:
        figures.draw(result).save(arguments.figure)
    if arguments.json:
        print(as_json(result))
        return status
    print(table(result).for_terminal())
    drops = origin.get("capture_drops")
    print(
        f"\n{origin['network']} · Linux {origin['kernel']} · {origin['cpu']}, {origin['cores']}"
        f" cores · packets lost by the recorder: {'no recording' if drops is None else drops}"
    )
    if origin.get("capture_left_out"):
        print(left_out_in_words(origin["capture_left_out"]))
    if status:
        print(f"interrupted after {origin.get('runs', 'some')} runs", file=sys.stderr)
    return status
