"""Write the texts about a panel's runs as HTML: what differs, the numbers, and their origin."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from tcplab.tables import digits
from tcplab.widgets.controls import Control, say_all
from tcplab.widgets.spec import PanelSpec

Run = Mapping[str, Any]


def within_sentence(text: str) -> str:
    """Return the text with a lower-case initial, unless it begins with capitals such as "RTT"."""
    return text[0].lower() + text[1:] if text[1:2].islower() else text


def names(controls: Sequence[Control], runs: Sequence[Run]) -> list[str]:
    """Name each run by its number and the settings that differ between the runs."""
    differing = [
        control for control in controls if len({run["values"][control.name] for run in runs}) > 1
    ]
    return [
        f"Run {run['number']}" + " · " * bool(differing) + say_all(differing, run["values"])
        for run in runs
    ]


def comparison(spec: PanelSpec, rows: Sequence[tuple[str, str, float | None]]) -> str:
    """Return an HTML table of rows (class, name, number), with bars; "" if there is no number."""
    shown = [(kind, name, value) for kind, name, value in rows if value is not None]
    if not shown:
        return ""
    highest = max(value for _kind, _name, value in shown) or 1
    caption = escape(f"{spec.predicts} ({spec.unit})")
    lines = [f'<table class="tcplab-bars"><caption>{caption}</caption>']
    lines += [
        f'<tr class="{kind}"><th scope="row">{escape(name)}</th>'
        f"<td>{digits(value)} {escape(spec.unit)}</td>"
        f'<td class="track"><span style="width:{100 * value / highest:.1f}%"></span></td></tr>'
        for kind, name, value in shown
    ]
    return "\n".join([*lines, "</table>"])


def origin(run: Run) -> str:
    """Return HTML with the code that repeats a run, and with the origin of its numbers."""
    terms = "".join(
        f"<dt>{escape(name.replace('_', ' '))}</dt><dd>{escape(in_words(value))}</dd>"
        for name, value in run["provenance"].items()
    )
    return (
        "<details><summary>Copy as code</summary>"
        '<button hidden class="tcplab-copy">Copy</button>'
        f'<pre tabindex="0">{escape(run["code"])}</pre></details>'
        f"<details><summary>Where the numbers come from</summary><dl>{terms}</dl></details>"
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
