"""Read damaged notebooks, and restore the structure of the assignment.

These pure functions read all that is readable, put the assignment's cells in their places, and take
missing cells from the released notebook. No damage is fatal, and each repair is reported.
"""

import copy
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import nbformat
from nbformat import v4

from tcplab.grading.neutral import one_line, picture, whole

#: A larger file is not read, because no notebook of text and code is that large.
MAX_BYTES: Final = 128 << 20
MAX_CELLS: Final = 2000
MAX_SOURCE: Final = 1_000_000
#: Maximum number of characters in the sources of all cells.
MAX_SOURCES: Final = 8_000_000
#: Maximum number of base64 characters in all pictures that were pasted into texts.
MAX_PICTURES: Final = 32 << 20

_ASSIGNED: Final = re.compile(r"^(\w+)\s*(?::[^=\n]+)?=(?!=)", re.MULTILINE)
_BETWEEN_CELLS: Final = re.compile(r"[\s,]*")
#: The beginning of a cell, after one that cannot be read.
_CELL: Final = re.compile(r'\{\s*"(?:attachments|cell_type|execution_count|id|metadata)"\s*:')
#: Accepts numbers of any length, and line ends and tabs within a text, unlike Python's own.
_DECODER: Final = json.JSONDecoder(
    parse_int=lambda digits: int(digits) if len(digits) < 20 else float(digits), strict=False
)


@dataclass(slots=True)
class Repaired:
    """A notebook in the shape of the assignment."""

    notebook: Any = None  #: nbformat 4.5, without outputs
    repairs: list[str] = field(default_factory=list)  #: damage that was repaired, as "kind: detail"
    flags: list[str] = field(default_factory=list)  #: changes that look deliberate
    #: ids of the task cells that have no answer
    untouched_tasks: list[str] = field(default_factory=list)

    def note(self, kind: str, detail: object = "") -> None:
        """Add a repair."""
        self.repairs.append(f"{kind}: {detail}" if detail != "" else kind)


@dataclass(slots=True)
class _Cell:
    """The parts of a submitted cell that are kept."""

    kind: str  #: "code", "markdown" or "raw"
    source: str  #: text of the cell
    own: Mapping[str, Any]  #: metadata of nbgrader
    id: str  #: id of the cell in the notebook, or "" if it has none
    attachments: Mapping[str, Mapping[str, str]]  #: pictures that were pasted into a text
    scores: Sequence[str]  #: results in its outputs that nbgrader would read as a score


def repair(data: bytes, released: Any) -> Repaired:
    """Rebuild a submitted notebook from the released one; keep the learner's additional cells."""
    into = Repaired()
    cells = _read(data, into)
    into.notebook = _rebuild(cells, released, into)
    if not cells:  # an earlier note gives the reason
        into.repairs = [note for note in into.repairs if not note.startswith("missing-cell")]
    for notes in (into.repairs, into.flags):
        counts = Counter(notes)
        notes[:] = [note if n == 1 else f"{note} ({n} times)" for note, n in counts.items()]
    return into


# ---- reading -------------------------------------------------------------------------------------


def _read(data: bytes, into: Repaired) -> list[_Cell]:
    """Return the cells of a notebook file in any state, and note the damage in the file."""
    if len(data) > MAX_BYTES:
        into.note("too-large", f"{len(data)} bytes")
        return []
    text = _decode(data, into)
    if not text.strip():
        into.note("empty-file")
        return []
    parsed = _cells_of(_parse(text, into), into)
    if len(parsed) > MAX_CELLS:
        into.note("too-many-cells", len(parsed))
    cells = [cell for raw in parsed[:MAX_CELLS] if (cell := _clean(raw, into))]
    # Empty cells and drop pictures that exceed the limits on a whole notebook.
    left, pictures = MAX_SOURCES, MAX_PICTURES
    for number, cell in enumerate(cells, 1):
        if (left := left - len(cell.source)) < 0:
            into.note("huge-notebook", f"cell {number} is left out")
            cell.source = ""
        pictures -= sum(len(data) for types in cell.attachments.values() for data in types.values())
        if pictures < 0 and cell.attachments:
            into.note("lost-picture", f"those of cell {number}: more than {MAX_PICTURES >> 20} MiB")
            cell.attachments = {}
    return cells


def _decode(data: bytes, into: Repaired) -> str:
    # It looks for a byte order mark, and for NUL bytes among the first four, as in RFC 4627.
    encoding = json.detect_encoding(data)
    if not encoding.startswith("utf-8"):
        into.note("not-utf8", encoding.upper())
        return data.decode(encoding, errors="replace")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("utf-8-sig", errors="replace")
    broken = text.count("\ufffd")
    if sum(not character.isascii() for character in text) > 2 * broken:
        into.note("damaged-text", f"{broken} characters")
        return text
    into.note("not-utf8", "read as Windows-1252")
    return data.decode("cp1252", errors="replace")


def _parse(text: str, into: Repaired) -> Any:
    """Return the parsed JSON, after resolving merge conflicts, or the part that is readable."""
    if "\n<<<<<<<" in text:  # JSON cannot contain it, since it has no line ends in strings
        into.note("merge-markers")
        text = _ours(text)
    with suppress(ValueError, RecursionError):
        return _DECODER.decode(text)
    cells = _salvage(text)
    into.note("half-written", f"{len(cells)} cells recovered")
    return {"cells": cells}


def _ours(text: str) -> str:
    """Return the text with the learner's side of each merge conflict."""
    kept, is_ours = [], True
    for line in text.split("\n"):
        if line.startswith(("|||||||", "=======")):
            is_ours = False
        elif line.startswith(("<<<<<<<", ">>>>>>>")):
            is_ours = True
        elif is_ours:
            kept.append(line)
    return "\n".join(kept)


def _salvage(text: str) -> list[Any]:
    """Return the objects in the list "cells" that are readable."""
    start = re.search(r'"cells"\s*:\s*\[', text)
    cells: list[Any] = []
    at = start.end() if start else len(text)
    for _ in range(MAX_CELLS):
        gap = _BETWEEN_CELLS.match(text, at)
        at = gap.end() if gap else at
        try:
            cell, at = _DECODER.raw_decode(text, at)
            cells.append(cell)
        except (ValueError, RecursionError):
            if text[at : at + 1] == "]" or not (following := _CELL.search(text, at + 1)):
                break
            at = following.start()
    return cells


def _cells_of(document: Any, into: Repaired) -> list[Any]:
    """Return the list of cells of a notebook in any version of nbformat."""
    if isinstance(document, dict) and "worksheets" in document:
        with suppress(Exception):  # the converters raise many kinds of errors
            document = nbformat.convert(nbformat.from_dict(document), 4)
            into.note("old-format", "nbformat 3 or older")
    cells = document.get("cells") if isinstance(document, dict) else None
    if not isinstance(cells, list):
        into.note("not-a-notebook")
        return []
    name = _at(document, "metadata", "kernelspec", "name")
    if isinstance(name, str) and name != "python3":
        into.note("other-kernel", one_line(name, 40))
    return cells


def _at(document: Any, *path: str) -> Any:
    for key in path:
        document = document.get(key) if isinstance(document, dict) else None
    return document


def _clean(cell: Any, into: Repaired) -> _Cell | None:
    """Return the parts of a cell that are used, or None if the cell is broken."""
    kind, source, name = (_at(cell, key) for key in ("cell_type", "source", "id"))
    if isinstance(source, list):
        source = "".join(line for line in source if isinstance(line, str))
    if not isinstance(source, str) or kind not in ("code", "markdown", "raw"):
        into.note("broken-cell", one_line(kind or type(cell).__name__, 40))
        return None
    if (text := whole(source)) != source:
        into.note("half-a-character", "replaced by \ufffd")
        source = text
    if "\r" in source:
        into.note("windows-line-ends")
        source = source.replace("\r\n", "\n").replace("\r", "\n")
    if len(source) > MAX_SOURCE:
        into.note("huge-cell", f"{len(source)} characters")
        source = source[:MAX_SOURCE]
    grading, outputs = _at(cell, "metadata", "nbgrader"), _at(cell, "outputs")
    outputs = outputs if isinstance(outputs, list) else []
    return _Cell(
        kind,
        source,
        grading if isinstance(grading, dict) else {},
        name if isinstance(name, str) else "",
        _pictures(_at(cell, "attachments"), into),
        [shown for output in outputs[:2000] if (shown := _score(output))],
    )


def _pictures(attachments: Any, into: Repaired) -> dict[str, dict[str, str]]:
    pictures: dict[str, dict[str, str]] = {}
    for name, types in attachments.items() if isinstance(attachments, dict) else ():
        for kind, data in types.items() if isinstance(types, dict) else ():
            if (checked := picture(kind, data)) is not None:
                pictures.setdefault(whole(name), {})[kind] = checked
        if whole(name) not in pictures:
            into.note("lost-picture", f"{one_line(name, 60)} is no PNG, JPEG or GIF")
    return pictures


def _score(output: Any) -> str | None:
    """Return the result in an output if nbgrader would read it as a score, or None."""
    shown = _at(output, "data", "text/plain")
    shown = "".join(map(str, shown)) if isinstance(shown, list) else shown
    is_result = isinstance(shown, str) and _at(output, "output_type") == "execute_result"
    return shown.strip() if is_result and re.fullmatch(r"\s*\d+(\.\d+)?\s*", shown) else None


# ---- the assignment's shape ----------------------------------------------------------------------


def _role(cell: Any) -> str:
    grading = cell.metadata.get("nbgrader", {})
    if grading.get("task"):
        return "task"
    if grading.get("solution"):
        return "manual" if grading.get("grade") else "solution"
    if grading.get("grade"):
        return "test"
    return "locked" if grading.get("locked") else "plain"


def _rebuild(cells: Sequence[_Cell], released: Any, into: Repaired) -> Any:
    places = _match(cells, released)
    notebook = copy.deepcopy(released)
    order = [place for place in places if place is not None]
    if order != sorted(order):
        into.note("reordered-cells")
    # The learner's additional cells, by the index of the released cell that they follow (or -1).
    extras: dict[int, list[Any]] = {}
    behind = -1
    for cell, place in zip(cells, places, strict=True):
        if place is None:
            extras.setdefault(behind, []).append(_new_cell(cell.kind, cell))
        else:
            behind = place
    rebuilt = extras.get(-1, [])
    for index, cell in enumerate(notebook.cells):
        mine = [cell for cell, place in zip(cells, places, strict=True) if place == index]
        rebuilt += [*_fill(cell, mine, into), cell, *extras.get(index, [])]
    notebook.cells = rebuilt
    _settle_tasks(notebook, released, into)
    return notebook


def _match(cells: Sequence[_Cell], released: Any) -> list[int | None]:
    """Return, for each cell, the index of the released cell that it corresponds to, or None.

    Cells are matched by id, by text, by the variables that they assign, or by the cell before them.
    """
    known: dict[tuple[str, object], int] = {}
    for index, cell in enumerate(released.cells):
        known["grade_id", cell.metadata.get("nbgrader", {}).get("grade_id")] = index
        known["id", cell.get("id")] = known["source", cell.source.strip()] = index
    for nothing in (("grade_id", None), ("id", ""), ("source", "")):
        known.pop(nothing, None)
    places: list[int | None] = []
    for submitted in cells:
        name = submitted.own.get("grade_id")
        keys = [("grade_id", name)] if isinstance(name, str) else []
        keys += [("id", submitted.id), ("source", submitted.source.strip())]
        places.append(next((known[key] for key in keys if key in known), None))
    _match_by_names(cells, released, places)
    _match_by_neighbour(cells, released, places)
    return places


def _match_by_names(cells: Sequence[_Cell], released: Any, places: list[int | None]) -> None:
    defined = {
        i: set(_ASSIGNED.findall(cell.source)) for i, cell in enumerate(cells) if places[i] is None
    }
    for index, cell in enumerate(released.cells):
        wanted = set(_ASSIGNED.findall(cell.source))
        if index in places or _role(cell) != "solution" or not wanted:
            continue
        for i, names in defined.items():
            if places[i] is None and wanted <= names:
                places[i] = index


def _match_by_neighbour(cells: Sequence[_Cell], released: Any, places: list[int | None]) -> None:
    for i in range(1, len(cells)):
        before = places[i - 1]
        if places[i] is not None or before is None or before + 1 >= len(released.cells):
            continue
        following = released.cells[before + 1]
        roles = _role(released.cells[before]), _role(following)
        is_written_answer = roles == ("task", "plain") and following.cell_type == "markdown"
        is_answer = is_written_answer or roles[1] in ("solution", "manual")
        if is_answer and before + 1 not in places:
            places[i] = before + 1


def _new_cell(kind: str, cell: _Cell) -> Any:
    """Return a learner's additional cell. A raw cell becomes Markdown, whose HTML is cleaned."""
    if kind == "code":
        return v4.new_code_cell(cell.source)
    text_cell = v4.new_markdown_cell(cell.source)
    _attach(text_cell, cell.attachments)
    return text_cell


def _attach(cell: Any, attachments: Mapping[str, Mapping[str, str]]) -> None:
    if attachments and cell.cell_type == "markdown":
        cell["attachments"] = nbformat.from_dict(attachments)


def _fill(cell: Any, mine: list[_Cell], into: Repaired) -> list[Any]:
    """Put the learner's last answer into a released cell; return earlier answers as new cells."""
    name = cell.metadata.get("nbgrader", {}).get("grade_id") or cell.get("id", "")
    role = _role(cell)
    for submitted in mine:
        _look_for_forgery(cell, submitted, name, role, into)
    if not mine:
        if role != "plain" or cell.cell_type == "code":
            into.note("missing-cell", name)
        if role == "solution":
            cell.source = ""  # its "q1_ms = None" could undo an answer in another cell
        return []
    if any(submitted.kind != cell.cell_type for submitted in mine):
        into.note("retyped-cell", name)
    is_known = any(submitted.own.get("grade_id") == name for submitted in mine)
    if role not in ("plain", "locked") and not is_known:
        into.note("lost-cell-id", name)
    if len(mine) > 1:
        into.note("duplicated-cell", name)
    if role in ("test", "task", "locked"):
        return []
    # Untouched copies are left out, since one that ran after the answer would undo it.
    given = cell.source.strip()
    written = [submitted for submitted in mine if submitted.source.strip() != given] or mine[:1]
    cell.source = written[-1].source
    _attach(cell, written[-1].attachments)
    return [_new_cell(cell.cell_type, earlier) for earlier in written[:-1]]


def _look_for_forgery(cell: Any, submitted: _Cell, name: str, role: str, into: Repaired) -> None:
    points, claimed = (
        grading.get("points") for grading in (cell.metadata.get("nbgrader", {}), submitted.own)
    )
    if points is not None and claimed is not None and claimed != points:
        into.flags.append(f"points-changed: {name} says {claimed!r:.20}")
    if role in ("test", "locked") and submitted.source.strip() != cell.source.strip():
        into.flags.append(f"locked-cell-changed: {name}")
    if role == "test" and submitted.scores:
        into.flags.append(f"forged-score: {name} shows {submitted.scores[0]:.20}")


def _settle_tasks(notebook: Any, released: Any, into: Repaired) -> None:
    """Record each task without an answer, which means that no new text follows it."""
    handed_out = {cell.source.strip() for cell in released.cells} | {""}
    task, is_written = None, True
    for cell in [*notebook.cells, None]:
        role = "end" if cell is None else _role(cell)
        if role != "plain":
            if task is not None and not is_written:
                into.untouched_tasks.append(task)
            task = cell.metadata["nbgrader"]["grade_id"] if role == "task" else None
            is_written = False
        elif cell.cell_type == "markdown" and cell.source.strip() not in handed_out:
            is_written = True
