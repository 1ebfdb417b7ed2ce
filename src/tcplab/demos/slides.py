"""Write the steps of demos as slides (PNG files of questions, answers and pictures) and notes."""

import io
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from tcplab.demos.steps import Demo, Option, Step
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
    """Run each step, write its slides and notes.md, and print their paths."""
    directory.mkdir(parents=True, exist_ok=True)
    notes = ["# Notes to the slides"]
    for demo in demos:
        notes.append(f"## {demo.title} (lesson {demo.lesson})")
        panel = Panel(load(demo.panel))
        for number, step in enumerate(demo.steps, 1):
            stem = f"{demo.name}-{number}"
            run = _measured(panel, step)
            files = [f"{stem}-{kind}.png" for kind in ("question", "answer", "picture")]
            headline = run["headline"] if step.options else None
            measured = "" if headline is None else f"{digits(headline)} {panel.spec.unit}"
            right = None if headline is None else step.right(headline)
            pictures = _slide(demo, step), _slide(demo, step, measured, right), run["png"]
            for file, picture in zip(files, pictures, strict=True):
                (directory / file).write_bytes(picture)
                print(directory / file)
            notes += _notes(demo, number, run, measured, files)
    (directory / NOTES).write_text("\n\n".join(notes) + "\n", encoding="utf-8")
    print(directory / NOTES)


def _measured(panel: Panel, step: Step) -> dict[str, Any]:
    # A live run uses short settings, because no one will move its sliders.
    panel.set(**{**step.settings, **panel.spec.headless}).start().wait()
    if panel.phase != "done":
        raise LabError(panel.message)
    return panel.runs[-1]


def _notes(
    demo: Demo, number: int, run: dict[str, Any], measured: str, files: Sequence[str]
) -> Iterator[str]:
    step = demo.steps[number - 1]
    yield f"### {number} · {step.title}"
    yield "\n".join(f"- `{file}`" for file in files)
    options = ", ".join(option.label for option in step.options)
    yield f"**Ask:** {step.ask}" + (f" ({options})" if options else "")
    if measured:
        yield f"**Measured:** {measured}"
    yield f"**Say:** {step.explain}"
    yield f"**The picture:** {run['title']}"
    origin = run["provenance"]
    for note in (recorded_note(origin), *(f"Note: {text}." for text in run["notes"])):
        if note:
            yield note
    where = (f"{name} {in_words(origin[name])}" for name in ("kernel", "cpu") if name in origin)
    settings = say_all(load(demo.panel).controls, run["values"])
    yield "Measured here: " + ", ".join([*where, settings])


def _slide(demo: Demo, step: Step, measured: str = "", right: Option | None = None) -> bytes:
    """Draw the question with its options; once it is measured, with the answer as well."""
    with drawing():
        figure = new_figure()
        figure.text(0.05, 0.94, f"{demo.title} · {step.title}", fontsize=13, va="top")
        lines = textwrap.wrap(step.ask, _CHARACTERS)
        look: dict[str, Any] = {"fontsize": 21, "fontweight": "bold", "linespacing": 1.3}
        figure.text(0.05, 0.84, "\n".join(lines), va="top", **look)
        top = 0.78 - _LINE * len(lines)
        for number, option in enumerate(step.options):
            mark, weight = ("✔ ", "bold") if option is right else ("", "normal")
            at = 0.09, top - 0.09 * number
            figure.text(*at, mark + option.label, fontsize=19, va="top", fontweight=weight)
        figure.text(0.95, 0.3, measured, fontsize=40, ha="right", fontweight="bold")
        data = io.BytesIO()
        figure.savefig(data, format="png", dpi=PNG_WIDTH / figure.get_figwidth())
    return data.getvalue()
