"""The command line of the experiments with socket buffers: `tcplab run buffers PART`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, cast, get_args

from tcplab.experiments import Result
from tcplab.experiments.buffers.limits import measure_limits
from tcplab.experiments.buffers.queues import measure_queues
from tcplab.experiments.buffers.send_buffer import measure_held, measure_one_segment
from tcplab.experiments.buffers.throughput import SIDES, measure, measure_autotuning
from tcplab.experiments.buffers.windows import measure_grants, measure_order
from tcplab.experiments.buffers.zero_window import measure_zero_window

__all__ = ["PARTS", "SUMMARY", "Part", "add_arguments", "from_arguments"]

SUMMARY = "socket buffers: grants, windows, throughput, autotuning, and queues that are too long"

Part = Literal[
    "sweep",
    "grants",
    "order",
    "limits",
    "zero-window",
    "autotuning",
    "held",
    "one-segment",
    "queues",
]
PARTS: Final[tuple[Part, ...]] = get_args(Part)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `tcplab run buffers`."""
    parser.add_argument(
        "part", nargs="?", choices=PARTS, default="sweep", help="which part (default sweep)"
    )
    parser.add_argument("--side", choices=SIDES, default="receive", help="of sweep: which buffer")
    parser.add_argument(
        "--rtt-ms", type=float, nargs="+", help="of the wire (sweep 10 20 40, autotuning 2 40)"
    )
    parser.add_argument(
        "--rate-mbit",
        type=float,
        help="of the wire (sweep 50, limits 20, autotuning 100, queues 10)",
    )
    parser.add_argument(
        "--sizes",
        type=int,
        nargs="+",
        help="bytes to ask for (sweep, grants, autotuning, one-segment)",
    )


def from_arguments(arguments: argparse.Namespace) -> Result:
    """`measure`, or the part that was asked for, with the options of the command line."""
    part = cast(Part, arguments.part)
    given = {
        name: value
        for name, value in (
            ("rtts_ms", arguments.rtt_ms),
            ("rate_mbit", arguments.rate_mbit),
            ("requests", arguments.sizes),
        )
        if value is not None
    }
    run, takes = _COMMANDS[part]
    if extra := sorted(set(given) - set(takes)):
        option = {"rtts_ms": "--rtt-ms", "rate_mbit": "--rate-mbit", "requests": "--sizes"}[
            extra[0]
        ]
        raise ValueError(f"{option} does not go with '{part}': leave it out")
    if part == "sweep":
        given["side"] = arguments.side
    result: Result = run(**given)
    return result


#: Part -> function, and which of the options it takes.
_COMMANDS: Final[Mapping[Part, tuple[Callable[..., Any], Sequence[str]]]] = {
    "sweep": (measure, ("rtts_ms", "rate_mbit", "requests")),
    "grants": (measure_grants, ("requests",)),
    "order": (measure_order, ()),
    "limits": (measure_limits, ("rate_mbit",)),
    "zero-window": (measure_zero_window, ()),
    "autotuning": (measure_autotuning, ("rtts_ms", "rate_mbit", "requests")),
    "held": (measure_held, ()),
    "one-segment": (measure_one_segment, ("requests",)),
    "queues": (measure_queues, ("rate_mbit",)),
}
