"""Reads damaged notebooks, and puts what is in them back into the shape of the assignment.

Nothing that a learner can do to a file is fatal here: what can be read is read, what belongs to the
assignment goes to its place, what is missing comes from the released notebook, and each repair is
reported. Pure functions on bytes and notebooks.
"""

from __future__ import annotations

import copy
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import nbformat
from nbformat import v4

from tcplab.grading.neutral import one_line, picture, whole

#: More than a notebook of text and code can be; a larger one is not read.
MAX_BYTES: Final = 128 << 20
MAX_CELLS: Final = 2000
MAX_SOURCE: Final = 1_000_000
#: Of all cells together.
MAX_SOURCES: Final = 8_000_000
MAX_OUTPUT: Final = 10 << 20
#: Of pictures pasted into texts, as base64.
MAX_PICTURES: Final = 32 << 20

_ASSIGNED: Final = re.compile(r"^(\w+)\s*(?::[^=\n]+)?=(?!=)", re.MULTILINE)
_BETWEEN_CELLS: Final = re.compile(r"[\s,]*")


@dataclass(slots=True)
class Repaired:
    """A notebook in the assignment's shape."""

    notebook: Any = None  #: of nbformat 4.5, without outputs.
    repairs: list[str] = field(default_factory=list)  #: what was mended, "kind: detail"
    #: what looks like more than an accident, "kind: detail"
    flags: list[str] = field(default_factory=list)
    #: ids of the task cells below which nothing was written
    untouched_tasks: list[str] = field(default_factory=list)

    def note(self, kind: str, detail: object = "") -> None:
        """Adds a repair."""
        self.repairs.append(f"{kind}: {detail}" if detail != "" else kind)


@dataclass(slots=True)
class _Cell:
    """A submitted cell: all that is taken over of it."""

    kind: str  #: "code", "markdown" or "raw"
    source: str  #: its text
    own: Mapping[str, Any]  #: nbgrader's metadata
    id: str  #: in the notebook; "" without one
    attachments: Mapping[str, Mapping[str, str]]  #: pictures pasted into a text
    scores: Sequence[str]  #: results in its outputs that nbgrader would take for a score


def repair(data: bytes, released: Any) -> Repaired:
    """Reads a submitted notebook and rebuilds it along the released one.

    Args:
        data: the file.
        released: the notebook as it was handed out (nbformat 4).

    Returns:
        The rebuilt notebook: the released cells in their order, those for answers with what the
        learner wrote, the learner's further cells where they stood.
    """
    into = Repaired()
    cells = _read(data, into)
    into.notebook = _rebuild(cells, released, into)
    if not cells:  # of which the reason stands there already
        into.repairs = [note for note in into.repairs if not note.startswith("missing-cell")]
    into.repairs = _counted(into.repairs)
    into.flags = _counted(into.flags)
    return into


def _counted(notes: Iterable[str]) -> list[str]:
    """Each once, with how often it was."""
    counts = Counter(notes)
    return [note if times == 1 else f"{note} ({times} times)" for note, times in counts.items()]


# ---- reading -------------------------------------------------------------------------------------


def _read(data: bytes, into: Repaired) -> list[_Cell]:
    """The cells of a notebook file, whatever state it is in; notes what was wrong with it."""
    if len(data) > MAX_BYTES:
        into.note("too-large", f"{len(data)} bytes")
        return []
    text = _decode(data, into)
    if not text.strip():
        into.note("empty-file")
        return []
    found = _cells_of(_parse(text, into), into)
    if len(found) > MAX_CELLS:
        into.note("too-many-cells", len(found))
    cells = [cell for each in found[:MAX_CELLS] if (cell := _clean(each, into))]
    _limit_in_all(cells, into)
    return cells


def _limit_in_all(cells: Sequence[_Cell], into: Repaired) -> None:
    """Empties the last of the cells that are too much together, and drops the last pictures."""
    text, pictures = MAX_SOURCES, MAX_PICTURES
    for number, cell in enumerate(cells, 1):
        if (text := text - len(cell.source)) < 0:
            into.note("huge-notebook", f"cell {number} is left out")
            cell.source = ""
        pictures -= sum(len(data) for one in cell.attachments.values() for data in one.values())
        if pictures < 0 and cell.attachments:
            into.note("lost-picture", f"those of cell {number}: more than {MAX_PICTURES >> 20} MiB")
            cell.attachments = {}


def _decode(data: bytes, into: Repaired) -> str:
    # By the NUL bytes among the first four, or a mark: json's own, of RFC 4627.
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
    """The JSON document: whole, with merge conflicts resolved, or as much of it as there is."""
    with suppress(ValueError, RecursionError):
        return json.loads(text)
    if "\n<<<<<<<" in text:
        into.note("merge-markers")
        text = _ours(text)
        with suppress(ValueError, RecursionError):
            return json.loads(text)
    cells = _salvage(text)
    into.note("half-written", f"{len(cells)} cells recovered")
    return {"cells": cells}


def _ours(text: str) -> str:
    """The learner's own side of each merge conflict."""
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
    """The whole objects of the list "cells"; a last one that is cut short is lost."""
    start = re.search(r'"cells"\s*:\s*\[', text)
    cells: list[Any] = []
    decoder, at = json.JSONDecoder(), start.end() if start else len(text)
    with suppress(ValueError, RecursionError):
        while len(cells) < MAX_CELLS:
            gap = _BETWEEN_CELLS.match(text, at)
            cell, at = decoder.raw_decode(text, gap.end() if gap else at)
            cells.append(cell)
    return cells


def _cells_of(document: Any, into: Repaired) -> list[Any]:
    """The list of cells of a notebook of any version."""
    if isinstance(document, dict) and "worksheets" in document:
        with suppress(Exception):  # whatever its converters stumble over
            document = nbformat.convert(nbformat.from_dict(document), 4)
            into.note("old-format", "nbformat 3 or older")
    found = document.get("cells") if isinstance(document, dict) else None
    if not isinstance(found, list):
        into.note("not-a-notebook")
        return []
    name = _at(document, "metadata", "kernelspec", "name")
    if isinstance(name, str) and name != "python3":
        into.note("other-kernel", one_line(name, 40))
    return found


def _at(document: Any, *path: str) -> Any:
    """Follows a path of keys; None where one of them is missing."""
    for key in path:
        document = document.get(key) if isinstance(document, dict) else None
    return document


def _clean(cell: Any, into: Repaired) -> _Cell | None:
    """Takes what is used of a cell; everything else is dropped."""
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
    own, outputs = _at(cell, "metadata", "nbgrader"), _at(cell, "outputs")
    outputs = outputs if isinstance(outputs, list) else []
    if _length(outputs) > MAX_OUTPUT:
        into.note("huge-output")
    return _Cell(
        kind,
        source,
        own if isinstance(own, dict) else {},
        name if isinstance(name, str) else "",
        _pictures(_at(cell, "attachments"), into),
        [shown for output in outputs[:2000] if (shown := _score(output))],
    )


def _length(value: Any) -> int:
    """Characters of the texts in a value, counted as far as MAX_OUTPUT."""
    length, todo = 0, [value]
    while todo and length <= MAX_OUTPUT:
        match todo.pop():
            case str(text):
                length += len(text)
            case list(values):
                todo += values
            case dict(members):
                todo += members.values()
    return length


def _pictures(attachments: Any, into: Repaired) -> dict[str, dict[str, str]]:
    """Those of a cell's attachments that are pictures, made anew."""
    found: dict[str, dict[str, str]] = {}
    for name, types in attachments.items() if isinstance(attachments, dict) else ():
        for kind, data in types.items() if isinstance(types, dict) else ():
            if (checked := picture(kind, data)) is not None:
                found.setdefault(whole(name), {})[kind] = checked
        if whole(name) not in found:
            into.note("lost-picture", f"{one_line(name, 60)} is no PNG, JPEG or GIF")
    return found


def _score(output: Any) -> str | None:
    """The result in an output, if nbgrader would take it for a score."""
    shown = _at(output, "data", "text/plain")
    shown = "".join(map(str, shown)) if isinstance(shown, list) else shown
    is_result = isinstance(shown, str) and _at(output, "output_type") == "execute_result"
    return shown.strip() if is_result and re.fullmatch(r"\s*\d+(\.\d+)?\s*", shown) else None


# ---- the assignment's shape ----------------------------------------------------------------------


def _role(cell: Any) -> str:
    own = cell.metadata.get("nbgrader", {})
    if own.get("task"):
        return "task"
    if own.get("solution"):
        return "manual" if own.get("grade") else "solution"
    if own.get("grade"):
        return "test"
    return "locked" if own.get("locked") else "plain"


def _rebuild(cells: Sequence[_Cell], released: Any, into: Repaired) -> Any:
    places = _match(cells, released)
    notebook = copy.deepcopy(released)
    order = [place for place in places if place is not None]
    if order != sorted(order):
        into.note("reordered-cells")
    # The learner's own cells, by the released one that they stood behind (-1: none).
    extras: dict[int, list[Any]] = {}
    behind = -1
    for cell, place in zip(cells, places, strict=True):
        if place is None:
            extras.setdefault(behind, []).append(_new_cell(cell.kind, cell))
        else:
            behind = place
    rebuilt = extras.get(-1, [])
    for index, cell in enumerate(notebook.cells):
        mine = [cells[i] for i, place in enumerate(places) if place == index]
        rebuilt += [*_fill(cell, mine, into), cell, *extras.get(index, [])]
    notebook.cells = rebuilt
    _settle_tasks(notebook, released, into)
    return notebook


def _match(cells: Sequence[_Cell], released: Any) -> list[int | None]:
    """For each submitted cell the index of the released one that it was: by its id in the
    assignment, its id in the notebook, its text, the names it defines, its neighbour."""
    by_grade_id, by_id, by_source = {}, {}, {}
    for index, cell in enumerate(released.cells):
        by_grade_id[cell.metadata.get("nbgrader", {}).get("grade_id")] = index
        by_id[cell.get("id")] = index
        by_source[cell.source.strip()] = index
    for known, nothing in ((by_grade_id, None), (by_id, ""), (by_source, "")):
        known.pop(nothing, None)
    places: list[int | None] = []
    for each in cells:
        name = each.own.get("grade_id")
        found = (
            by_grade_id.get(name if isinstance(name, str) else None),
            by_id.get(each.id),
            by_source.get(each.source.strip()),
        )
        places.append(next((place for place in found if place is not None), None))
    _match_by_names(cells, released, places)
    _match_by_neighbour(cells, released, places)
    return places


def _match_by_names(cells: Sequence[_Cell], released: Any, places: list[int | None]) -> None:
    """A cell without ids that assigns just what a missing cell of the assignment should."""
    defined = {
        i: set(_ASSIGNED.findall(each.source)) for i, each in enumerate(cells) if places[i] is None
    }
    for index, cell in enumerate(released.cells):
        wanted = set(_ASSIGNED.findall(cell.source))
        if index in places or _role(cell) != "solution" or not wanted:
            continue
        for i, names in defined.items():
            if places[i] is None and wanted <= names:
                places[i] = index


def _match_by_neighbour(cells: Sequence[_Cell], released: Any, places: list[int | None]) -> None:
    """A cell without ids that stands right after the one before a missing cell."""
    for i in range(1, len(cells)):
        before = places[i - 1]
        if places[i] is not None or before is None or before + 1 >= len(released.cells):
            continue
        following = released.cells[before + 1]
        is_written_answer = (
            _role(following) == "plain"
            and following.cell_type == "markdown"
            and _role(released.cells[before]) == "task"
        )
        if before + 1 not in places and (
            is_written_answer or _role(following) in ("solution", "manual")
        ):
            places[i] = before + 1


def _new_cell(kind: str, cell: _Cell) -> Any:
    """A cell of the learner's own. Raw ones become text: pages show their HTML as it is."""
    if kind == "code":
        return v4.new_code_cell(cell.source)
    made = v4.new_markdown_cell(cell.source)
    _attach(made, cell.attachments)
    return made


def _attach(cell: Any, attachments: Mapping[str, Mapping[str, str]]) -> None:
    if attachments and cell.cell_type == "markdown":
        cell["attachments"] = nbformat.from_dict(attachments)


def _fill(cell: Any, mine: list[_Cell], into: Repaired) -> list[Any]:
    """Puts what the learner wrote into a released cell; further copies come before it."""
    name = cell.metadata.get("nbgrader", {}).get("grade_id") or cell.get("id", "")
    role = _role(cell)
    for each in mine:
        _look_for_forgery(cell, each, name, role, into)
    if not mine:
        if role != "plain" or cell.cell_type == "code":
            into.note("missing-cell", name)
        return []
    if any(each.kind != cell.cell_type for each in mine):
        into.note("retyped-cell", name)
    if role not in ("plain", "locked") and all(each.own.get("grade_id") != name for each in mine):
        into.note("lost-cell-id", name)
    if len(mine) > 1:
        into.note("duplicated-cell", name)
    if role in ("test", "task", "locked"):
        return []
    # An untouched copy would undo the answer when it runs last.
    written = [each for each in mine if each.source.strip() != cell.source.strip()] or mine[:1]
    cell.source = written[-1].source
    _attach(cell, written[-1].attachments)
    return [_new_cell(cell.cell_type, each) for each in written[:-1]]


def _look_for_forgery(cell: Any, each: _Cell, name: str, role: str, into: Repaired) -> None:
    points, claimed = (own.get("points") for own in (cell.metadata.get("nbgrader", {}), each.own))
    if points is not None and claimed is not None and claimed != points:
        into.flags.append(f"points-changed: {name} says {claimed!r:.20}")
    if role in ("test", "locked") and each.source.strip() != cell.source.strip():
        into.flags.append(f"locked-cell-changed: {name}")
    if role == "test" and each.scores:
        into.flags.append(f"forged-score: {name} shows {each.scores[0]:.20}")


def _settle_tasks(notebook: Any, released: Any, into: Repaired) -> None:
    """Notes the tasks below which there is nothing but what was handed out."""
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
