"""A demo in a terminal, with the Return key between question and answer."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

from tcplab.demos import Demo, Step, find
from tcplab.errors import LabError, ParameterError
from tcplab.experiments.mode import recorded_note
from tcplab.widgets.panel import Panel
from tcplab.widgets.spec import load

STEP_S = 120.0


def in_terminal(name: str, step: int | None = None, *, say: Callable[[str], None] = print) -> None:
    """Goes through a demo. Without a terminal on standard input it waits for nothing.

    Args:
        name: of the demo.
        step: this one only, from 1; all unless given.
        say: prints a line.

    Raises:
        ParameterError: no such demo or step.
        LabError: a measurement failed.
    """
    demo = find(name)
    numbers = range(1, len(demo.steps) + 1)
    if step is not None and step not in numbers:
        raise ParameterError(f"step {step}: the demo {name} has steps 1 to {len(demo.steps)}")
    panel = Panel(load(demo.panel))
    panel.warm()
    try:
        for number in numbers if step is None else (step,):
            _show_step(demo, number, panel, say)
    finally:
        panel.close()


def _show_step(demo: Demo, number: int, panel: Panel, say: Callable[[str], None]) -> None:
    step = demo.steps[number - 1]
    say(f"\n{demo.title} · {number} of {len(demo.steps)} · {step.title}\n\n{_wrapped(step.ask)}\n")
    for option in step.options:
        say(f"    {option.label}")
    votes = _votes(len(step.options)) if sys.stdin.isatty() else []
    run = measured(panel, step)
    for note in (recorded_note(run["provenance"]), *(f"Note: {each}." for each in run["notes"])):
        if note:
            say(f"\n{_wrapped(note)}")
    say(f"\n{run['text']}\n")
    if run["headline"] is not None:
        say(f"{panel.spec.predicts}: {run['headline']:.3g} {panel.spec.unit}")
        say("\n".join([*_bars(step, votes, run["headline"]), ""]))
    say(f"{_wrapped(run['alt'])}\n\n{_wrapped(step.explain)}")


def measured(panel: Panel, step: Step) -> dict[str, Any]:
    """The run of a step.

    Raises:
        LabError: it failed.
    """
    # Nobody is there to move sliders during a live run.
    panel.set(**{**step.settings, **panel.spec.headless}).start().wait(timeout_s=STEP_S)
    if panel.phase != "done":
        raise LabError(panel.message)
    return panel.runs[-1]


def _wrapped(text: str) -> str:
    """Broken between words where the terminal ends, but after at most 100 columns."""
    width = min(max(shutil.get_terminal_size().columns, 40), 100)
    return textwrap.fill(text, width, break_on_hyphens=False)


def _votes(options: int) -> list[int]:
    """The room's votes, one number per option; empty when the lecturer just presses Return."""
    if not options:
        input("\nReturn to measure … ")
        return []
    while True:
        typed = input(f"\nVotes ({options} numbers), or Return to measure … ").split()
        if not typed:
            return []
        if len(typed) == options and all(word.isdecimal() for word in typed):
            return [int(word) for word in typed]
        print(f"Give {options} numbers, such as {' '.join(['3'] * options)}, or nothing.")


def _bars(step: Step, votes: Sequence[int], measured: float) -> list[str]:
    """One line per option: a mark at the right one, the votes as a bar."""
    right = step.right(measured) if step.options else None
    lines = []
    for option, count in zip(step.options, votes or [0] * len(step.options), strict=True):
        bar = f"{'█' * round(30 * count / (max(votes) or 1))} {count}" if votes else ""
        lines.append(f"  {'✔' if option is right else ' '} {option.label:<18}{bar}".rstrip())
    return lines
