"""Live, loopback, recorded: which rung of the ladder an experiment stands on.

The rungs from the top: the rootless laboratory, plain loopback, a shipped recording. The variable
``TCPLAB_MODE`` chooses one; unset, it is the laboratory where one can be made, and plain loopback
elsewhere. What plain loopback cannot do is shown from a recording, and says so.
"""

from __future__ import annotations

import argparse
import functools
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from html import escape
from typing import Any, Final, Literal, ParamSpec, TypeVar, cast, get_args

from tcplab.errors import LabError
from tcplab.experiments import recordings
from tcplab.experiments.instrument import turn
from tcplab.lab import Lab, Loopback, Network, why_no_lab

__all__ = [
    "Mode",
    "add_loopback_option",
    "at_network",
    "mode",
    "network_asked_for",
    "on_the_ladder",
    "open_network",
]

Mode = Literal["live", "loopback", "recorded"]

P = ParamSpec("P")
R = TypeVar("R")

_WIRE_ONLY: Final = ("rtt_ms", "rate_mbit", "loss", "sysctls")


def mode() -> Mode:
    """The rung: what TCPLAB_MODE says, else the highest that this machine allows.

    Raises:
        ValueError: TCPLAB_MODE is none of them.
    """
    asked = os.environ.get("TCPLAB_MODE", "")
    if not asked:
        return "live" if _why_no_lab() is None else "loopback"
    if asked not in get_args(Mode):
        raise ValueError(f"TCPLAB_MODE={asked!r} must be one of {', '.join(get_args(Mode))}")
    return cast(Mode, asked)


_why_no_lab = functools.cache(why_no_lab)


def open_network(**parameters: Any) -> Lab | Loopback:
    """A Lab with these parameters; in loopback mode plain loopback, where they allow it.

    Args:
        **parameters: of :class:`tcplab.Lab`.

    Raises:
        LabError: plain loopback has no wire that these parameters could set, or no laboratory can
            be made here.
    """
    if mode() != "loopback":
        return Lab(**parameters)
    refused = [f"{name}={parameters[name]!r}" for name in _WIRE_ONLY if parameters.get(name)]
    if parameters.get("clients", 1) != 1:
        refused.append(f"clients={parameters['clients']!r}")
    if refused:
        raise LabError(f"plain loopback cannot do {', '.join(refused)}: that needs a Lab")
    return Loopback()


@contextmanager
def at_network(given: Network | None, **parameters: Any) -> Iterator[Network]:
    """The network that was given; else one of our own (:func:`open_network`), closed after.

    Raises:
        LabError: see :func:`open_network`.
    """
    if given is not None:
        yield given
        return
    network = open_network(**parameters)
    try:
        yield network
    finally:
        network.close()


def add_loopback_option(parser: argparse.ArgumentParser) -> None:
    """The option --loopback of an experiment that can do without a laboratory."""
    words = "on the machine's own 127.0.0.1, nothing recorded"
    parser.add_argument("--loopback", action="store_true", help=words)


@contextmanager
def network_asked_for(arguments: argparse.Namespace) -> Iterator[Loopback | None]:
    """Plain loopback with --loopback, else None: the experiment makes its own."""
    if not arguments.loopback:
        yield None
        return
    with Loopback() as network:
        yield network


def on_the_ladder(
    name: str, *, on_loopback: bool | Callable[..., bool] = False
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Puts an experiment's ``measure`` on the ladder.

    Where it cannot run, the result of the same call is taken from a recording, with
    ``provenance["recorded"]`` telling when, where and why; a notebook shows that at once, and
    :func:`tcplab.experiments.table` in the caption. A call that is given a ``network`` always runs.

    Args:
        name: of the experiment, unique among those that are recorded.
        on_loopback: whether it can run on plain loopback; or a function of the call's arguments,
            by keyword, which tells.
    """

    def decorate(measure: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(measure)
        def on_a_rung(*args: P.args, **kwargs: P.kwargs) -> R:
            arguments = _arguments(measure, args, kwargs)
            if arguments.pop("network", None) is not None:
                return measure(*args, **kwargs)
            rung = mode()
            if rung == "loopback":
                can = on_loopback(**arguments) if callable(on_loopback) else on_loopback
                if not can:
                    why = "plain loopback cannot do this"
                    return cast(R, _recorded(name, arguments, why))
            elif rung == "recorded":
                return cast(R, _recorded(name, arguments, "TCPLAB_MODE=recorded"))
            with turn(_announce_queue):
                result = measure(*args, **kwargs)
            if directory := os.environ.get("TCPLAB_RECORD"):
                recordings.save(directory, name, arguments, result)
            return result

        return on_a_rung

    return decorate


def recorded_words(provenance: Mapping[str, Any]) -> str:
    """One sentence for a result that was not measured now; empty for one that was."""
    recorded = provenance.get("recorded")
    if not recorded:
        return ""
    return (
        f"Recorded on {recorded['measured_at'][:10]}, Linux {recorded['kernel']}, not measured now:"
        f" {recorded['why']}."
    )


def _arguments(measure: Callable[..., Any], args: Any, kwargs: Any) -> dict[str, Any]:
    bound = inspect.signature(measure).bind(*args, **kwargs)
    bound.apply_defaults()
    return dict(bound.arguments)


def _recorded(name: str, arguments: Mapping[str, Any], why: str) -> Any:
    try:
        result = recordings.load(name, arguments)
    except recordings.MissingRecordingError as error:
        raise LabError(f"{why}, and there is {error}") from None
    origin = result.provenance
    mark = {"measured_at": origin["measured_at"], "kernel": origin["kernel"], "why": why}
    result = replace(result, provenance={**origin, "recorded": mark})
    _announce(f"● {recorded_words(result.provenance)}")
    return result


def _announce_queue(before: int) -> None:
    _announce(f"Waiting for the instrument: {before} before you.")


def _announce(words: str) -> None:
    """Says it in the notebook's cell; elsewhere the table's caption does."""
    if "IPython" not in sys.modules:
        return
    from IPython.core.getipython import get_ipython
    from IPython.display import HTML, display

    if get_ipython() is not None:
        html = HTML(f"<p><b>{escape(words)}</b></p>")  # type: ignore[no-untyped-call]
        display(html)  # type: ignore[no-untyped-call]
