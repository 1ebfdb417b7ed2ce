"""Define a picture, which is a figure with its finding as the title and its numbers as a table."""

from __future__ import annotations

import functools
import io
import os
import textwrap
from collections.abc import Callable, Mapping, Sized
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from tcplab.experiments.mode import mode
from tcplab.experiments.provenance import warning_note
from tcplab.figures import page
from tcplab.figures.canvas import POINTS, WIDTH, drawing
from tcplab.figures.style import text_width_px
from tcplab.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

P = ParamSpec("P")
S = TypeVar("S", bound=Sized)

PNG_WIDTH: Final = 1280
_RECORDED: Final = "recorded, not measured now"
#: Font sizes for a title, each with the number of characters that fit in a line.
_TITLES: Final = ((16, 56), (14, 64), (13, 69), (12, 75))
_NOTE_SIZE: Final = 9.5
_TITLE, _NOTE = "title", "note"  # gids of title and note


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """A figure with its finding as the title, and its numbers as a table.

    As the last expression of a notebook cell, a picture is shown once, with its alternative text.
    """

    figure: Figure  #: the figure with title and note, for a projector; not managed by pyplot
    title: str
    table: Table
    note: str = ""  #: facts that apply to the whole figure, shown below the drawing
    #: the description of each mark in the figure, by the mark's gid
    parts: Mapping[str, str] = field(default_factory=dict)
    times: page.Times = ()  #: parts of the time axis, if the figure can be played
    unused: float = 0.0  #: height in units of the empty area below the drawing

    @property
    def alt(self) -> str:
        return f"{self.title}. The numbers are in the table of this picture."

    def png(self) -> bytes:
        """Return the figure as PNG, with an aspect ratio of 16:9 unless it has many rows."""
        data = io.BytesIO()
        self._write(data, "png")
        return data.getvalue()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the figure in the format of the file name's extension (.png, .svg or .pdf)."""
        self._write(path, Path(path).suffix[1:].lower())

    def _write(self, target: str | os.PathLike[str] | io.BytesIO, kind: str) -> None:
        # The files have no date, so that equal figures make equal files.
        metadata = {
            "png": {"Description": self.alt},
            "svg": {"Date": None, "Title": self.title, "Description": self.alt},
            "pdf": {"CreationDate": None, "Title": self.title, "Subject": self.alt},
        }
        options: dict[str, Any] = {"pil_kwargs": {"compress_level": 1}} if kind == "png" else {}
        with drawing():
            self.figure.savefig(
                target,
                format=kind or None,
                dpi=PNG_WIDTH / self.figure.get_figwidth(),
                metadata=metadata.get(kind),
                **options,
            )

    def html(self) -> str:
        """Return the figure as HTML with title, drawing, note and script."""
        return f"{self.markup()}<script>{page.script()}</script>"

    def markup(self) -> str:
        """Return the figure as HTML without the script, for a page that contains it already."""
        image = page.themed(self._svg(), self.parts, self.times, self.unused)
        return page.markup(self.title, image, self.alt, self._notes())

    def _svg(self) -> str:
        data = io.StringIO()
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        texts = [text for text in self.figure.texts if text.get_gid() in (_TITLE, _NOTE)]
        with drawing():
            for text in texts:
                text.set_visible(False)
            self.figure.savefig(data, format="svg", metadata=nothing)
            for text in texts:
                text.set_visible(True)
        return data.getvalue()

    def _notes(self) -> str:
        notes = [self.note, _RECORDED if mode() == "recorded" else ""]
        return " · ".join(filter(None, notes))

    def _repr_mimebundle_(self, **_options: Any) -> dict[str, str]:
        return {"text/html": self.html(), "text/plain": self.alt}


def drawn(draw: Callable[P, Picture]) -> Callable[P, Picture]:
    """Decorate a function that draws a picture, to apply the style and add title and note.

    If the first argument is a result that a busy machine disturbed, the note says so.
    """

    @functools.wraps(draw)
    def once(*args: P.args, **kwargs: P.kwargs) -> Picture:
        with drawing():
            picture = draw(*args, **kwargs)
            disturbed = warning_note(getattr(args[0], "provenance", {})).rstrip(".")
            note = " · ".join(filter(None, [picture.note, disturbed]))
            picture = replace(picture, note=note)
            _write_title(picture.figure, picture.title)
            _write_note(picture.figure, picture._notes())
        return picture

    return once


def some(items: S, missing: str = "there is nothing to draw") -> S:
    """Return the items that a figure shows, or raise ValueError(missing) if there are none."""
    if not len(items):
        raise ValueError(missing)
    return items


def _write_title(figure: Figure, text: str) -> None:
    text = page.unbroken(text)
    wrapped = [(size, textwrap.wrap(text, characters)) for size, characters in _TITLES]
    size, lines = next((choice for choice in wrapped if len(choice[1]) <= 2), wrapped[-1])
    at = 6 / WIDTH, 1 - 4 / (figure.get_figheight() * POINTS)
    look: dict[str, Any] = {"fontsize": size, "fontweight": "bold", "va": "top", "linespacing": 1.1}
    figure.text(*at, "\n".join(lines[:3]), gid=_TITLE, **look)


def _write_note(figure: Figure, text: str) -> None:
    at = 1 - 6 / WIDTH, 3 / (figure.get_figheight() * POINTS)
    size = _NOTE_SIZE * min(1, (WIDTH - 30) / max(text_width_px(text, _NOTE_SIZE), 1))
    figure.text(*at, text, ha="right", fontsize=size, gid=_NOTE, color="#595959")
