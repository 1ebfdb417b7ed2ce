"""`tcplab run`: run an experiment with the options that it declares."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from tcplab.cli.declared import add_options
from tcplab.cli.loading import loading

if TYPE_CHECKING:
    from tcplab.experiments import Result
    from tcplab.experiments.declaration import Experiment

#: The figure that shows an experiment's whole result, with its quantities.
_FIGURES: Final[dict[str, tuple[str, Sequence[str], dict[str, str]]]] = {
    **dict.fromkeys(("bufferbloat", "rtt-fairness"), ("bottleneck", (), {})),
    "congestion-controls": ("contests", (), {}),
    "notsent-lowat": ("draw_bars", ("age_ms", "unsent_bytes", "mbit"), {}),
    "router-buffers": (
        "draw_curves",
        ("bdps", "used_percent", "model_percent"),
        {"by": "flows", "log": "x"},
    ),
}


def add_run(commands: Any, *, experiments: bool) -> None:
    """Add `tcplab run`, with the experiments' options only if asked, since they load slowly."""
    summary = "run an experiment and print its table; without a name, list all experiments"
    run = commands.add_parser(
        "run", help=summary, description=summary, epilog="example: tcplab run small-writes"
    )
    run.set_defaults(action=_list_experiments)
    names = run.add_subparsers(title="experiments", metavar="NAME")
    if not experiments:
        return
    with loading():
        from tcplab.experiments import every

        known = every()
    for experiment in known.values():
        parser = names.add_parser(
            experiment.name, help=experiment.summary, description=experiment.summary
        )
        parser.add_argument("--json", action="store_true", help="print rows and provenance as JSON")
        if experiment.name in _FIGURES:
            text = "save the figure in this file, such as one.png or one.svg"
            parser.add_argument("--figure", metavar="FILE", help=text)
        add_options(parser, experiment)
        parser.set_defaults(action=_run, experiment=experiment)
        parser.epilog = f"example: tcplab run {experiment.name} --json"


def measured(experiment: Experiment, options: argparse.Namespace) -> Result[Any]:
    """Run the experiment with the options of the command line."""
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

    if getattr(arguments, "figure", None):
        from tcplab import figures  # before the measurement, since an extra may be missing

    if sys.stderr.isatty():  # not every experiment shows its progress
        print(f"measuring {arguments.experiment.name} …", file=sys.stderr, flush=True)
    result = measured(arguments.experiment, arguments)
    origin = result.provenance
    # Ctrl-C ends a long experiment early; the exit status shows that the result is incomplete.
    status = 130 if origin.get("interrupted") else 0
    if getattr(arguments, "figure", None):
        draw, keys, options = _FIGURES[arguments.experiment.name]
        getattr(figures, draw)(result, *keys, **options).save(arguments.figure)
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
