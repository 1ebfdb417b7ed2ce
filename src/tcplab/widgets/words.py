"""Write the texts about a panel's runs as HTML: what differs, the numbers, and their origin."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from tcplab.tables import digits
from tcplab.widgets.controls import Control
from tcplab.widgets.spec import KEPT_RUNS, PanelSpec

Run = Mapping[str, Any]

#: Bars are logarithmic if the longest is more than this many times as long as the shortest.
WIDE = 20


def within_sentence(text: str) -> str:
    """Return the text with a lower-case initial, unless it begins with capitals such as "RTT"."""
    return text[0].lower() + text[1:] if text[1:2].islower() else text


def names(controls: Sequence[Control], runs: Sequence[Run]) -> list[str]:
    """Name each run by its number and the settings that differ, or its label if none does."""
    differing = [
        control for control in controls if len({run["values"][control.name] for run in runs}) > 1
    ]
    return [
        f"Run {run['number']} · "
        + (
            ", ".join(setting.say(run["values"][setting.name]) for setting in differing)
            or run["label"]
        )
        for run in runs
    ]


def comparison(
    spec: PanelSpec,
    runs: Sequence[Run],
    names: Sequence[str],
    chosen: int | None,
    marks: Mapping[str, float | None],
) -> str:
    """Return an HTML table with a bar for each run and mark that has a number; "" if none has."""
    rows = [
        (
            f"run{run['number'] % KEPT_RUNS}" + " chosen" * (run["number"] == chosen),
            name,
            run["headline"],
        )
        for run, name in zip(runs, names, strict=True)
        if run["headline"] is not None
    ]
    rows += [("mark", name, value) for name, value in marks.items() if value is not None]
    if not rows:
        return ""
    seen = [value for _, _, value in rows if value > 0]
    low, high = min(seen, default=1.0), max(seen, default=1.0)
    is_log = high / low > WIDE
    scale = f"{spec.predicts} ({spec.unit})" + ", logarithmic" * is_log
    lines = [f'<table class="tcplab-bars"><caption>{escape(scale)}</caption>']
    for kind, name, value in rows:
        part = value / high
        if is_log:
            part = math.log(max(value, low) / low * 3) / math.log(high / low * 3)
        lines.append(
            f'<tr class="{kind}"><th scope="row">{escape(name)}</th>'
            f"<td>{digits(value)} {escape(spec.unit)}</td>"
            f'<td class="track"><span style="width:{100 * part:.1f}%"></span></td></tr>'
        )
    return "\n".join([*lines, "</table>"])


def origin(run: Run) -> str:
    """Return HTML with the code that repeats a run, and with the origin of its numbers."""
    seconds = run["seconds"]
    took = (
        f"{digits(seconds['experiment'])} s experiment, {digits(seconds['overhead'])} s panel,"
        f" {digits(seconds['drawing'])} s of it drawing"
    )
    rows = {**run["provenance"], "from click to picture": took}
    terms = "".join(
        f"<dt>{escape(name.replace('_', ' '))}</dt><dd>{escape(in_words(value))}</dd>"
        for name, value in rows.items()
    )
    return (
        "<details><summary>Copy as code</summary>"
        '<button hidden class="tcplab-copy">Copy</button>'
        f'<pre tabindex="0">{escape(run["code"])}</pre></details>'
        "<details><summary>Where the numbers come from</summary>"
        f'<dl data-seconds="{escape(json.dumps(seconds))}">{terms}</dl></details>'
    )


def in_words(value: Any) -> str:
    """Return plain data as text, without the syntax of a programming language."""
    match value:
        case None:
            return "not known"
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:g}"
        case Mapping():
            parts = (
                f"{str(name).replace('_', ' ')} {in_words(member)}"
                for name, member in value.items()
            )
            return "; ".join(parts)
        case list() | tuple():
            return ", ".join(map(in_words, value))
    return str(value)
