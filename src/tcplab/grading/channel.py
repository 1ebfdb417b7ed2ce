"""Rebuild trusted data from the JSON lines that the learner's process sends.

Once the first cell runs, any code may write to the channel. Lines that the runner
(tcplab.grading.sandbox_runner) cannot have sent are dropped and reported. All other lines are
copied field by field.
"""

import base64
import binascii
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from tcplab.grading.neutral import one_line, picture, whole
from tcplab.grading.sandbox_runner import KEPT_TYPES, MAX_DEPTH, MAX_FILE_BYTES, MAX_ITEMS, plain

#: Maximum number of characters in one stream of a cell, and in a displayed object such as a picture
#: in base64.
MAX_OUTPUT: Final = 20_000
MAX_DISPLAYED: Final = 80_000
#: Maximum number of outputs of one cell. The sandbox limits all data on the channel.
MAX_OUTPUTS: Final = 60
#: Maximum number of lines of a traceback.
MAX_LINES: Final = 30
#: Maximum number of characters in an exception's name, and in its message.
MAX_NAME: Final = 200
MAX_MESSAGE: Final = 2000

#: The escape sequences of a terminal (ECMA-48), and single control characters.
_CONTROL: Final = re.compile(
    "\x1b(?:\\[[0-?]*[ -/]*[@-~]|[\\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\\\)?|.)?"
    "|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
)


@dataclass(slots=True)
class Received:
    """The data that was received over the channel."""

    started: int | None = None  #: index of the cell that was started last, or None
    finished: bool = False  #: True if the runner has sent everything
    #: outputs of each completed cell, by the cell's index
    outputs: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    answers: dict[str, Any] = field(default_factory=dict)  #: plain data, by the variable's name
    files: dict[str, bytes] = field(default_factory=dict)  #: contents, by name
    damage: list[str] = field(default_factory=list)  #: kinds of data that were dropped

    def note(self, damage: str) -> None:
        """Record a kind of damage, once."""
        if damage not in self.damage:
            self.damage.append(damage)


def receive(
    data: bytes, cells: Sequence[int], names: Sequence[str], files: Sequence[str]
) -> Received:
    """Copy the well-formed data about these cells (by index), variables and files (by name)."""
    received = Received()
    lines = data.split(b"\n", 2 * len(cells) + 64)
    if len(lines) > 2 * len(cells) + 64:
        received.note("more lines than the runner sends")
        # The last line is kept, because the runner may have sent it after too many other lines.
        lines = [*lines[:-1], lines[-1].rstrip(b"\n").rpartition(b"\n")[2]]
    for line in filter(None, lines):
        match _parsed(line):
            case {"start": int(index)} if _is_index(index, cells):
                received.started = index
            case {"cell": int(index), "outputs": list(outputs)} if _is_index(index, cells):
                if index in received.outputs:
                    received.note("outputs of a cell twice")
                received.outputs[index] = _outputs(outputs, received)
            case {"answers": dict(answers), "files": dict(sent)}:
                if received.finished:
                    received.note("more than one set of answers")
                received.finished = True
                received.answers = {name: _answer(answers.get(name), received) for name in names}
                received.files = _files(sent, files, received)
            case _:
                received.note("a line that is not in the runner's format")
    return received


def _parsed(line: bytes) -> Any:
    def refuse(constant: str) -> NoReturn:
        raise ValueError(constant)

    try:
        parsed = json.loads(line, parse_constant=refuse)
        return json.loads(whole(json.dumps(parsed, ensure_ascii=False)))
    except (ValueError, RecursionError):
        return None


def _is_index(index: int, cells: Sequence[int]) -> bool:
    return type(index) is int and index in cells


# ---- outputs -------------------------------------------------------------------------------------


def _outputs(outputs: list[Any], received: Received) -> list[dict[str, Any]]:
    if len(outputs) > MAX_OUTPUTS:
        received.note(f"more than {MAX_OUTPUTS} outputs of one cell")
    read = [output for content in outputs[:MAX_OUTPUTS] if (output := _output(content))]
    if len(read) < min(len(outputs), MAX_OUTPUTS):
        received.note("an output that is not in the runner's format")
    return read


def _output(output: Any) -> dict[str, Any] | None:
    match output:
        case {"output_type": "stream", "name": "stdout" | "stderr" as name, "text": str(text)}:
            return {"output_type": "stream", "name": name, "text": _shown(text)}
        case {"output_type": "display_data", "data": dict(data)}:
            displayed = {kind: _displayed(kind, data.get(kind)) for kind in KEPT_TYPES}
            kept = {kind: value for kind, value in displayed.items() if value is not None}
            return {"output_type": "display_data", "data": kept, "metadata": {}} if kept else None
        case {"output_type": "error", "ename": str(name), "evalue": str(value), **rest}:
            lines = rest.get("traceback")
            shown = [line for line in lines if isinstance(line, str)] if type(lines) is list else []
            return {
                "output_type": "error",
                "ename": one_line(name, MAX_NAME),
                "evalue": _shown(value, MAX_MESSAGE),
                "traceback": [_shown(line) for line in shown[-MAX_LINES:]],
            }
    return None


def _displayed(kind: str, value: Any) -> str | None:
    if kind == "text/plain":
        return _shown(value, MAX_DISPLAYED) if isinstance(value, str) else None
    return picture(kind, value) if isinstance(value, str) and len(value) <= MAX_DISPLAYED else None


def _shown(text: str, most: int = MAX_OUTPUT) -> str:
    """Remove control characters and escape sequences, and cut the text to `most` characters."""
    return _CONTROL.sub("", text[: 4 * most].replace("\r\n", "\n"))[:most]


# ---- answers -------------------------------------------------------------------------------------


def _answer(value: Any, received: Received) -> Any:
    """Return a copy of a value, after checking that the runner's plain() can have made it."""
    # A value that is not supported has become an object, which adds a level and an item.
    if plain(value, MAX_DEPTH + 1, 2 * MAX_ITEMS) == value:
        return value
    received.note("an answer that is not in the runner's format")
    return None


def _files(sent: Mapping[str, Any], wanted: Sequence[str], received: Received) -> dict[str, bytes]:
    contents = {}
    for name, text in sent.items():
        try:
            if name not in wanted or len(text) > 2 * MAX_FILE_BYTES:
                raise ValueError(name)
            contents[name] = base64.b64decode(text, validate=True)
        except (ValueError, TypeError, binascii.Error):
            received.note("a file that is not in the runner's format")
    return contents
