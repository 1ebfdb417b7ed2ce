"""Write the steps of demos as slides (PNG files of questions and answers) and notes."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from tcplab.demos.steps import Demo, Step
from tcplab.errors import LabError
from tcplab.experiments.mode import recorded_note
from tcplab.figures.canvas import drawing, new_figure
from tcplab.figures.picture import PNG_WIDTH
from tcplab.tables import digits
from tcplab.widgets.controls import say_all
from tcplab.widgets.panel import Panel
from tcplab.widgets.spec import load
from tcplab.widgets.words import in_words

NOTES: Final = "notes.md"
#: Number of characters per line, and height of a line, of a question on a slide.
_CHARACTERS: Final = 40
_LINE: Final = 0.085


def write_slides(demos: Sequence[Demo], directory: Path) -> None:
    """Run each step, write its slides and notes.md, and print the paths of answers and notes."""
    directory.mkdir(parents=True, exist_ok=True)
    notes = ["# Notes to the slides"]
    for demo in demos:
        notes.append(f"## {demo.title} (lesson {demo.lesson})")
        panel = Panel(load(demo.panel))
        for number, step in enumerate(demo.steps, 1):
            stem = f"{demo.name}-{number}"
            run = _measured(panel, step)
            question, answer = f"{stem}-question.png", f"{stem}-answer.png"
            (directory / question).write_bytes(_question(demo, step))
            (directory / answer).write_bytes(run["png"])
            notes += _notes(demo, number, run, panel.spec.unit, (question, answer))
            print(directory / answer)
    (directory / NOTES).write_text("\n\n".join(notes) + "\n", encoding="utf-8")
    print(directory / NOTES)


def _measured(panel: Panel, step: Step) -> dict[str, Any]:
    # A live run uses short settings, because no one will move its sliders.
    panel.set(**{**step.settings, **panel.spec.headless}).start().wait()
    if panel.phase != "done":
        raise LabError(panel.message)
    return panel.runs[-1]


def _notes(
    demo: Demo, number: int, run: dict[str, Any], unit: str, files: Sequence[str]
) -> Iterator[str]:
    step = demo.steps[number - 1]
    yield f"### {number} · {step.title}"
    yield "\n".join(f"- `{file}`" for file in files)
    options = ", ".join(option.label for option in step.options)
    yield f"**Ask:** {step.ask}" + (f" ({options})" if options else "")
    if step.options and run["headline"] is not None:
        yield f"**Measured:** {digits(run['headline'])} {unit}".rstrip()
    yield f"**Say:** {step.explain}"
    yield f"**The picture:** {run['title']}"
    origin = run["provenance"]
    for note in (recorded_note(origin), *(f"Note: {text}." for text in run["notes"])):
        if note:
            yield note
    where = (f"{name} {in_words(origin[name])}" for name in ("kernel", "cpu") if name in origin)
    settings = say_all(load(demo.panel).controls, run["values"])
    yield "Measured here: " + ", ".join([*where, settings])


def _question(demo: Demo, step: Step) -> bytes:
    with drawing():
        figure = new_figure()
        figure.text(0.05, 0.94, f"{demo.title} · {step.title}", fontsize=13, va="top")
        lines = textwrap.wrap(step.ask, _CHARACTERS)
        look: dict[str, Any] = {"fontsize": 21, "fontweight": "bold", "linespacing": 1.3}
        figure.text(0.05, 0.84, "\n".join(lines), va="top", **look)
        top = 0.78 - _LINE * len(lines)
        for number, option in enumerate(step.options):
            figure.text(0.09, top - 0.09 * number, option.label, fontsize=19, va="top")
        data = io.BytesIO()
        figure.savefig(data, format="png", dpi=PNG_WIDTH / figure.get_figwidth())
    return data.getvalue()
