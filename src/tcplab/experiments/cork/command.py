"""The command line of the experiments with corks: `tcplab run cork PART`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, cast, get_args

from tcplab.experiments import Result
from tcplab.experiments.cork.header_and_file import measure_header_and_file
from tcplab.experiments.cork.kernel import measure_autocorking, measure_two_sockets
from tcplab.experiments.cork.scenarios import measure_forgotten, measure_scenarios
from tcplab.experiments.cork.ways import measure

__all__ = ["PARTS", "SUMMARY", "Part", "add_arguments", "from_arguments"]

SUMMARY = "one message in pieces: cork, MSG_MORE, writev, TCP_NODELAY; corks that are forgotten"

Part = Literal["ways", "forgotten", "scenarios", "autocorking", "header-and-file", "two-sockets"]
PARTS: Final[tuple[Part, ...]] = get_args(Part)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `tcplab run cork`."""
    parser.add_argument(
        "part", nargs="?", choices=PARTS, default="ways", help="which part (default ways)"
    )
    parser.add_argument(
        "--pieces", type=int, nargs="+", help="of ways: bytes of each (default 15 of 2)"
    )
    parser.add_argument("--messages", type=int, help="of ways: how many (default 20)")
    parser.add_argument("--rtt-ms", type=float, help="of the wire (default 0; 20 for scenarios)")


def from_arguments(arguments: argparse.Namespace) -> Result:
    """`measure`, or the part that was asked for, with the options of the command line."""
    part = cast(Part, arguments.part)
    run, takes = _COMMANDS[part]
    given = {
        name: value
        for name in ("pieces", "messages", "rtt_ms")
        if (value := getattr(arguments, name)) is not None
    }
    if extra := sorted(set(given) - set(takes)):
        option = "--" + extra[0].replace("_", "-")
        raise ValueError(f"{option} does not go with '{part}': leave it out")
    result: Result = run(**given)
    return result


#: Part -> function, and which of the options it takes.
_COMMANDS: Final[Mapping[Part, tuple[Callable[..., Any], Sequence[str]]]] = {
    "ways": (measure, ("pieces", "messages", "rtt_ms")),
    "forgotten": (measure_forgotten, ()),
    "scenarios": (measure_scenarios, ("rtt_ms",)),
    "autocorking": (measure_autocorking, ()),
    "header-and-file": (measure_header_and_file, ()),
    "two-sockets": (measure_two_sockets, ()),
}
