"""`tcplab run`: an experiment with the options of its declaration."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any, Final

from tcplab.cli.declared import add_options
from tcplab.cli.loading import loading

if TYPE_CHECKING:
    from tcplab.experiments import Result
    from tcplab.experiments.declaration import Experiment

#: The figure of an experiment's result, where one shows all of it.
_FIGURES: Final = {
    **dict.fromkeys(("bufferbloat", "fairness", "rtt-fairness"), "bottleneck"),
    "congestion-controls": "contests",
    "notsent-lowat": "data_ages",
    "router-buffers": "line_use",
}


def add_run(commands: Any, *, experiments: bool) -> None:
    """Add `tcplab run`; with the options of every experiment, whose import takes a while."""
    words = "run an experiment and print its table; without a name, list them"
    run = commands.add_parser(
        "run", help=words, description=words, epilog="example: tcplab run small-writes"
    )
    run.set_defaults(action=_list_experiments)
    names = run.add_subparsers(title="experiments", metavar="NAME")
    if not experiments:
        return
    with loading():
        from tcplab.experiments import every

        known = every()
    for each in known.values():
        own = names.add_parser(each.name, help=each.summary, description=each.summary)
        own.add_argument("--json", action="store_true", help="rows and provenance as JSON")
        if each.name in _FIGURES:
            words = "draw it into this file, such as one.png or one.svg"
            own.add_argument("--figure", metavar="FILE", help=words)
        add_options(own, each)
        own.set_defaults(action=_run, experiment=each)
        own.epilog = f"example: tcplab run {each.name} --json"


def measured(experiment: Experiment, options: argparse.Namespace) -> Result[Any]:
    """Measure the experiment with the options of the command line."""
    from tcplab.lab import Loopback

    given = {
        name: getattr(options, name) for name in experiment.parameters if hasattr(options, name)
    }
    result: Result[Any]
    if experiment.loopback_option and options.loopback:
        with Loopback() as network:
            result = experiment.measure(**given, network=network)
    else:
        result = experiment.measure(**given)
    return result


def _list_experiments(_arguments: argparse.Namespace) -> int:
    from tcplab.experiments import every

    known = every()
    width = max(map(len, known))
    for name, each in known.items():
        print(f"{name:{width}}  {each.summary}")
    return 0


def _run(arguments: argparse.Namespace) -> int:
    from tcplab.experiments import as_json, table
    from tcplab.segments.left_out import in_words as left_out_in_words

    result = measured(arguments.experiment, arguments)
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
