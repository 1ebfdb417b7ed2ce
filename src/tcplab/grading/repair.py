"""Reads damaged notebooks, and puts what is in them back into the shape of the assignment.

Nothing that a learner can do to a file is fatal here: what can be read is read, what belongs to the
assignment goes to its place, what is missing comes from the released notebook, and each repair is
told. Pure functions on bytes and notebooks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

__all__ = ["Repaired", "read_notebook", "repair"]

#: More than a notebook of text and code can be; a larger one is not read.
MAX_BYTES: Final = 256 << 20
MAX_CELLS: Final = 2000
MAX_SOURCE: Final = 1_000_000

_MARKER: Final = re.compile(r"^(<{7}|={7}|>{7}|\|{7})( .*)?$", re.MULTILINE)
_ASSIGNED: Final = re.compile(r"^(\w+)\s*(?::[^=\n]+)?=(?!=)", re.MULTILINE)

Cell = dict[str, Any]


@dataclass(slots=True)
class Repaired:
    """A notebook in the assignment's shape.

    Attributes:
        notebook: of nbformat 4.5, without outputs.
        repairs: what was mended, "kind: detail".
        flags: what looks like more than an accident, "kind: detail".
        untouched_tasks: ids of the task cells below which nothing was written.
    """

    notebook: Any
    repairs: list[str] = field(default_factory=list)
    flags: list[str] = field(default_factory=list)
    untouched_tasks: list[str] = field(default_factory=list)

    def note(self, kind: str, detail: object = "") -> None:
        """Adds a repair."""
        self.repairs.append(f"{kind}: {detail}" if detail != "" else kind)

    def flag(self, kind: str, detail: object = "") -> None:
        """Adds a flag."""
        self.flags.append(f"{kind}: {detail}" if detail != "" else kind)


# ---- reading -------------------------------------------------------------------------------------


def read_notebook(data: bytes, into: Repaired) -> list[Cell]:
    """The cells of a notebook file, whatever state it is in; notes what was wrong with it."""
    if len(data) > MAX_BYTES:
        into.note("too-large", f"{len(data)} bytes")
        return []
    text = _decode(data, into)
    if not text.strip():
        into.note("empty-file")
        return []
    document = _parse(text, into)
    return _cells_of(document, into)


def _decode(data: bytes, into: Repaired) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        into.note("not-utf8", "UTF-16")
        return data.decode("utf-16", errors="replace")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        into.note("not-utf8", "read as Windows-1252")
        return data.decode("cp1252", errors="replace")


def _parse(text: str, into: Repaired) -> Any:
    """The JSON document: whole, with merge conflicts resolved, or as much of it as there is."""
    document = _json(text)
    if document is not None:
        return document
    if _MARKER.search(text):
        into.note("merge-markers")
        for keep in ("ours", "theirs", "both"):
            document = _json(_without_markers(text, keep))
            if document is not None:
                return document
        text = _without_markers(text, "both")
    cells = _salvage(text)
    into.note("half-written", f"{len(cells)} cells recovered")
    return {"cells": cells}


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _without_markers(text: str, keep: str) -> str:
    """One side of each conflict, or both one after the other."""
    kept, side = [], "common"
    for line in text.splitlines():
        if line.startswith("<<<<<<<"):
            side = "ours"
        elif line.startswith("|||||||"):
            side = "base"
        elif line.startswith("=======") and side != "common":
            side = "theirs"
        elif line.startswith(">>>>>>>"):
            side = "common"
        elif side == "common" or side == keep or (keep == "both" and side != "base"):
            kept.append(line)
    return "\n".join(kept)


def _salvage(text: str) -> list[Any]:
    """The whole objects of the list "cells"; a last one that is cut short is lost."""
    start = re.search(r'"cells"\s*:\s*\[', text)
    if start is None:
        return []
    cells: list[Any] = []
    decoder, at = json.JSONDecoder(), start.end()
    while len(cells) < MAX_CELLS:
        opening = re.compile(r"[\s,]*").match(text, at)
        at = opening.end() if opening else at
        try:
            cell, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            break
        cells.append(cell)
    return cells


def _cells_of(document: Any, into: Repaired) -> list[Cell]:
    if not isinstance(document, dict):
        into.note("not-a-notebook", type(document).__name__)
        return []
    found = document.get("cells")
    if found is None and isinstance(document.get("worksheets"), list):
        into.note("old-format", "nbformat 3")
        sheets = [each for each in document["worksheets"] if isinstance(each, dict)]
        found = [cell for sheet in sheets for cell in sheet.get("cells", [])]
    if not isinstance(found, list):
        into.note("not-a-notebook", "no cells")
        return []
    _note_kernel(document, into)
    if len(found) > MAX_CELLS:
        into.note("too-many-cells", len(found))
    cells = [_clean(each, into) for each in found[:MAX_CELLS]]
    return [cell for cell in cells if cell is not None]


def _note_kernel(document: Mapping[str, Any], into: Repaired) -> None:
    metadata = document.get("metadata")
    kernel = metadata.get("kernelspec") if isinstance(metadata, dict) else None
    name = kernel.get("name") if isinstance(kernel, dict) else None
    if isinstance(name, str) and name != "python3":
        into.note("other-kernel", name[:40])


def _clean(cell: Any, into: Repaired) -> Cell | None:
    """Type, source, metadata, id and score-like outputs of a cell; everything else is dropped."""
    if not isinstance(cell, dict):
        into.note("broken-cell", type(cell).__name__)
        return None
    kind = cell.get("cell_type")
    source = cell.get("source", cell.get("input", ""))
    if isinstance(source, list):
        source = "".join(line for line in source if isinstance(line, str))
    if not isinstance(source, str) or kind not in ("code", "markdown", "raw", "heading"):
        into.note("broken-cell", kind)
        return None
    if "\r" in source:
        into.note("windows-line-ends")
        source = source.replace("\r\n", "\n").replace("\r", "\n")
    if len(source) > MAX_SOURCE:
        into.note("huge-cell", f"{len(source)} characters")
        source = source[:MAX_SOURCE]
    metadata = cell.get("metadata")
    own = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    outputs = cell.get("outputs")
    if isinstance(outputs, list) and len(json.dumps(outputs[:2000], default=str)) > 10 << 20:
        into.note("huge-output")
    return {
        "cell_type": "markdown" if kind == "heading" else kind,
        "source": source,
        "nbgrader": own if isinstance(own, dict) else {},
        "id": cell.get("id") if isinstance(cell.get("id"), str) else "",
        "scores": _scores(outputs),
    }


def _scores(outputs: Any) -> list[str]:
    """Results that nbgrader would take for a score."""
    found = []
    for output in outputs if isinstance(outputs, list) else []:
        if isinstance(output, dict) and output.get("output_type") == "execute_result":
            data = output.get("data")
            shown = data.get("text/plain") if isinstance(data, dict) else None
            shown = "".join(map(str, shown)) if isinstance(shown, list) else shown
            if isinstance(shown, str) and re.fullmatch(r"\s*\d+(\.\d+)?\s*", shown):
                found.append(shown.strip())
    return found


# ---- the assignment's shape ----------------------------------------------------------------------


def repair(data: bytes, released: Any) -> Repaired:
    """Reads a submitted notebook and rebuilds it along the released one.

    Args:
        data: the file.
        released: the notebook as it was handed out (nbformat 4).

    Returns:
        The rebuilt notebook: the released cells in their order, those for answers with what the
        learner wrote, the learner's further cells where they stood.
    """
    into = Repaired(None)
    cells = read_notebook(data, into)
    into.notebook = _rebuild(cells, released, into)
    if not cells:  # of which the reason stands there already
        into.repairs = [note for note in into.repairs if not note.startswith("missing-cell")]
    into.repairs = _counted(into.repairs)
    into.flags = _counted(into.flags)
    return into


def _counted(notes: Sequence[str]) -> list[str]:
    """Each once, with how often it was."""
    counts: dict[str, int] = {}
    for note in notes:
        counts[note] = counts.get(note, 0) + 1
    return [note if times == 1 else f"{note} ({times} times)" for note, times in counts.items()]


def _role(cell: Any) -> str:
    own = cell.metadata.get("nbgrader", {})
    if own.get("task"):
        return "task"
    if own.get("solution"):
        return "manual" if own.get("grade") else "solution"
    if own.get("grade"):
        return "test"
    return "locked" if own.get("locked") else "plain"


def _rebuild(cells: list[Cell], released: Any, into: Repaired) -> Any:
    import copy

    places = _match(cells, released)
    notebook = copy.deepcopy(released)
    order = [place for place in places if place is not None]
    if order != sorted(order):
        into.note("reordered-cells")
    extras = _extras(cells, places)
    rebuilt = [_new_cell(each) for each in extras.get(-1, [])]
    for index, cell in enumerate(notebook.cells):
        mine = [cells[i] for i, place in enumerate(places) if place == index]
        rebuilt += _fill(cell, mine, into)
        rebuilt.append(cell)
        rebuilt += [_new_cell(each) for each in extras.get(index, [])]
    notebook.cells = rebuilt
    _settle_tasks(notebook, released, into)
    return notebook


def _match(cells: Sequence[Cell], released: Any) -> list[int | None]:
    """For each submitted cell the index of the released one that it was: by its id in the
    assignment, its id in the notebook, its text, the names it defines, its neighbour."""
    by_grade_id, by_id, by_source = {}, {}, {}
    for index, cell in enumerate(released.cells):
        by_grade_id[cell.metadata.get("nbgrader", {}).get("grade_id")] = index
        by_id[cell.get("id")] = index
        by_source[cell.source.strip()] = index
    by_grade_id.pop(None, None)
    by_source.pop("", None)
    places: list[int | None] = []
    for cell in cells:
        place = by_grade_id.get(_text(cell["nbgrader"].get("grade_id")))
        if place is None:
            place = by_id.get(cell["id"] or None)
        if place is None:
            place = by_source.get(cell["source"].strip())
        places.append(place)
    _match_by_names(cells, released, places)
    _match_by_neighbour(cells, released, places)
    return places


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _match_by_names(cells: Sequence[Cell], released: Any, places: list[int | None]) -> None:
    """A cell without ids that assigns just what a missing cell of the assignment should."""
    for index, cell in enumerate(released.cells):
        wanted = set(_ASSIGNED.findall(cell.source))
        if index in places or _role(cell) != "solution" or not wanted:
            continue
        for i, each in enumerate(cells):
            if places[i] is None and wanted <= set(_ASSIGNED.findall(each["source"])):
                places[i] = index


def _match_by_neighbour(cells: Sequence[Cell], released: Any, places: list[int | None]) -> None:
    """A cell without ids that stands right after the one before a missing cell."""
    for i in range(1, len(cells)):
        before = places[i - 1]
        if places[i] is not None or before is None or before + 1 >= len(released.cells):
            continue
        following = released.cells[before + 1]
        answer = _role(following) in ("solution", "manual") or _is_written_answer(
            released.cells, before + 1
        )
        if before + 1 not in places and answer:
            places[i] = before + 1


def _is_written_answer(cells: Sequence[Any], index: int) -> bool:
    """A cell of text below a task."""
    return (
        index > 0
        and _role(cells[index]) == "plain"
        and cells[index].cell_type == "markdown"
        and _role(cells[index - 1]) == "task"
    )


def _extras(cells: Sequence[Cell], places: Sequence[int | None]) -> dict[int, list[Cell]]:
    """Cells of the learner's own, by the released cell that they stood behind (-1: none)."""
    found: dict[int, list[Cell]] = {}
    last = -1
    for cell, place in zip(cells, places, strict=True):
        if place is None:
            found.setdefault(last, []).append(cell)
        else:
            last = place
    return found


def _new_cell(cell: Cell) -> Any:
    """A cell of the learner's own. Raw ones become text: pages show their HTML as it is."""
    from nbformat import v4

    make: Any = v4.new_code_cell if cell["cell_type"] == "code" else v4.new_markdown_cell
    return make(cell["source"])


def _fill(cell: Any, mine: list[Cell], into: Repaired) -> list[Any]:
    """Puts what the learner wrote into a released cell; further copies come before it."""
    name = cell.metadata.get("nbgrader", {}).get("grade_id") or cell.get("id", "")
    role = _role(cell)
    for each in mine:
        _look_for_forgery(cell, each, name, role, into)
    if not mine:
        if role != "plain" or cell.cell_type == "code":
            into.note("missing-cell", name)
        return []
    if any(each["cell_type"] != cell.cell_type for each in mine):
        into.note("retyped-cell", name)
    if role not in ("plain", "locked") and not any(
        each["nbgrader"].get("grade_id") == name for each in mine
    ):
        into.note("lost-cell-id", name)
    if role in ("test", "task", "locked"):
        if len(mine) > 1:
            into.note("duplicated-cell", name)
        return []
    if len(mine) > 1:
        into.note("duplicated-cell", name)
        # An untouched copy would undo the answer when it runs last.
        mine = [each for each in mine if each["source"].strip() != cell.source.strip()] or mine[:1]
    cell.source = mine[-1]["source"]
    return [_new_cell({**each, "cell_type": cell.cell_type}) for each in mine[:-1]]


def _look_for_forgery(cell: Any, each: Cell, name: str, role: str, into: Repaired) -> None:
    own, theirs = cell.metadata.get("nbgrader", {}), each["nbgrader"]
    if "points" in theirs and "points" in own and theirs["points"] != own["points"]:
        into.flag("points-changed", f"{name} says {theirs['points']!r:.20}")
    if role in ("test", "locked") and each["source"].strip() != cell.source.strip():
        into.flag("locked-cell-changed", name)
    if role == "test" and each["scores"]:
        into.flag("forged-score", f"{name} shows {each['scores'][0]:.20}")


def _settle_tasks(notebook: Any, released: Any, into: Repaired) -> None:
    """Notes the tasks below which there is nothing but what was handed out."""
    handed_out = {cell.source.strip() for cell in released.cells} | {""}
    name, written = None, True
    for cell in [*notebook.cells, None]:
        role = "end" if cell is None else _role(cell)
        if role != "plain":
            if name is not None and not written:
                into.untouched_tasks.append(name)
            name = cell.metadata["nbgrader"]["grade_id"] if role == "task" else None
            written = False
        elif cell.cell_type == "markdown" and cell.source.strip() not in handed_out:
            written = True
