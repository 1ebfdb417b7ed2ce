"""Results that were measured elsewhere and are shipped, for where nothing live is possible.

A recording is made by the same code that measures: with ``TCPLAB_RECORD=DIR`` set, every
experiment leaves its result in DIR as it runs. An experiment has one archive, with a JSON member
per call, found again by the call's arguments. Nothing in it is code: classes of this package that
only hold data are named. Rows of one kind (segments, calls, samples) are kept as columns, and whole
numbers as differences to the row before: series then take a third of the space.
"""

from __future__ import annotations

import base64
import dataclasses
import enum
import hashlib
import importlib
import io
import json
import os
import sys
import typing
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np

from tcplab.capture.packets import load_layers
from tcplab.segments import DTYPE, SegmentArray
from tcplab.segments.pcap import ETHERNET

#: The recordings that come with the course.
DIRECTORY: Final = Path(__file__).parent.parent / "recordings"

_KIND: Final = "$"  # says what an object stands for: a kind below, or "module:Class"

#: DTYPE without the gaps and the order in memory, which an npy file cannot hold.
_PACKED: Final = np.dtype([(name, DTYPE[name]) for name in DTYPE.names or ()])
_NO_TIME: Final = (1980, 1, 1, 0, 0, 0)
#: Characters; a longer list of recordings helps nobody.
_LONG: Final = 600


class MissingRecordingError(LookupError):
    """No recording of this call."""


def save(
    directory: str | os.PathLike[str], experiment: str, arguments: Mapping[str, Any], result: Any
) -> Path:
    """Write a result where :func:`load` finds it, and return the archive's path.

    Raises:
        TypeError: the result holds something that :func:`encode` does not know.
    """
    path = _archive(experiment, directory)
    path.parent.mkdir(parents=True, exist_ok=True)
    record = {"arguments": encode(dict(arguments)), "result": encode(result)}
    members = _members(path) if path.is_file() else {}
    members[_member(arguments)] = json.dumps(record, separators=(",", ":")).encode()
    fresh = path.with_suffix(".new")
    with zipfile.ZipFile(fresh, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in sorted(members):
            # Without a time, equal results are equal files.
            entry = zipfile.ZipInfo(name, _NO_TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, members[name], compresslevel=9)
    fresh.replace(path)
    return path


def load(
    experiment: str, arguments: Mapping[str, Any], directory: str | os.PathLike[str] | None = None
) -> Any:
    """The result of the same call, measured before.

    Raises:
        MissingRecordingError: there is none; the message names the calls that there are.
        ValueError: the archive is damaged.
    """
    path, name = _archive(experiment, directory), _member(arguments)
    members = _members(path, name) if path.is_file() else {}
    if not members:
        others = [_words(each) for each, _result in shipped(experiment, directory)]
        known = "; ".join(others) or "none"
        if len(known) > _LONG:
            known = f"{len(others)} with other arguments"
        raise MissingRecordingError(
            f"no recording of {experiment} with {_words(arguments)}; there are recordings with:"
            f" {known}"
        )
    try:
        return decode(json.loads(members[name])["result"])
    except (ImportError, ValueError, KeyError, TypeError) as error:
        raise _damaged(path, error) from None


def shipped(
    experiment: str, directory: str | os.PathLike[str] | None = None
) -> list[tuple[dict[str, Any], Any]]:
    """The arguments and the result of each recording of an experiment."""
    path = _archive(experiment, directory)
    records = map(json.loads, _members(path).values()) if path.is_file() else ()
    found = [(decode(each["arguments"]), decode(each["result"])) for each in records]
    return sorted(found, key=lambda each: _words(each[0]))


def _archive(experiment: str, directory: str | os.PathLike[str] | None) -> Path:
    return Path(directory or DIRECTORY) / f"{experiment}.zip"


def _members(path: Path, only: str | None = None) -> dict[str, bytes]:
    """The members of an archive; with `only` at most that one.

    Raises:
        ValueError: it is damaged.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            return {name: archive.read(name) for name in names if only in (None, name)}
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise _damaged(path, error) from None


def _damaged(path: Path, why: object) -> ValueError:
    return ValueError(f"the recordings of {path.stem} in {path.name} are damaged: {why}")


def _words(arguments: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in arguments.items()) or "no arguments"


def _member(arguments: Mapping[str, Any]) -> str:
    text = json.dumps(_canonical(arguments), sort_keys=True)
    return f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"


def _canonical(value: Any) -> Any:
    """One form for what is equal to Python (1 and 1.0) or to a reader (a list and a tuple)."""
    if isinstance(value, Mapping):
        return {str(key): _canonical(each) for key, each in value.items()}
    if isinstance(value, list | tuple | range):
        return [_canonical(each) for each in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, bool | int | float | str) or value is None:
        return value
    return encode(value)


# ---- the code ------------------------------------------------------------------------------------


def encode(value: Any) -> Any:
    """JSON data from plain data, arrays, scapy packets, enums, named tuples and dataclasses of this
    package.

    Raises:
        TypeError: none of these.
    """
    if isinstance(value, enum.Enum):
        return {_KIND: _name(type(value)), "value": value.value}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return encode(value.item())
    if _is_packets(value) or (isinstance(value, np.ndarray) and not value.dtype.hasobject):
        return _encode_array(value)
    if isinstance(value, list):
        return _encode_list(value)
    if isinstance(value, Mapping):
        if all(isinstance(key, str) and key != _KIND for key in value):
            return {key: encode(each) for key, each in value.items()}
        return {_KIND: "mapping", "items": [encode(list(pair)) for pair in value.items()]}
    if _holds_data(type(value)):
        return {_KIND: _name(type(value)), **encode(_fields(value))}
    if isinstance(value, tuple):
        return {_KIND: "tuple", "items": encode(list(value))}
    raise TypeError(f"a recording cannot hold a {type(value).__name__}: {value!r:.80}")


def _encode_list(values: list[Any]) -> Any:
    """Columns for several rows of one kind; else one element after the other."""
    rows = [row for each in values if (row := _row(each)) is not None]
    kinds = {(of, tuple(fields)) for of, fields in rows}
    if len(values) < 2 or len(rows) < len(values) or len(kinds) > 1:
        return [encode(each) for each in values]
    ((of, names),) = kinds
    columns = {name: _encode_column([fields[name] for _of, fields in rows]) for name in names}
    return {_KIND: "rows", "of": of, "columns": columns}


def _row(value: Any) -> tuple[str, Mapping[str, Any]] | None:
    """The kind of a row and its fields by name; None for what is no row, or has no fields."""
    if isinstance(value, tuple | Mapping) and not value:
        return None
    if _holds_data(type(value)) and not isinstance(value, enum.Enum):
        return _name(type(value)), _fields(value)
    if isinstance(value, tuple):
        return "tuple", {str(place): each for place, each in enumerate(value)}
    if isinstance(value, Mapping) and all(isinstance(key, str) and key != _KIND for key in value):
        return "mapping", value
    return None


def _encode_column(values: Sequence[Any]) -> Any:
    """The elements, or of whole numbers the first and the differences."""
    if values and all(type(each) is int for each in values):
        return {_KIND: "steps", "steps": [values[0], *(b - a for a, b in pairwise(values))]}
    return encode(list(values))


def _is_packets(value: Any) -> bool:
    """True for a scapy PacketList, without importing scapy to find out."""
    return type(value).__module__ == "scapy.plist"


def _encode_array(array: Any) -> dict[str, Any]:
    if _is_packets(array):
        return {_KIND: "packets", "pcap": base64.b64encode(_pcap(array)).decode()}
    if isinstance(array, SegmentArray):
        rows = np.asarray(array).astype(_PACKED)
        return {
            _KIND: "segments",
            "rows": _encode_array(rows),
            "connections": encode(array.connections),
            "left_out": encode(dict(array.left_out)),
        }
    if array.dtype.names and array.ndim == 1 and len(array):
        columns = {name: _encode_column(array[name].tolist()) for name in array.dtype.names}
        return {_KIND: "table", "types": array.dtype.descr, "columns": columns}
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return {_KIND: "array", "npy": base64.b64encode(file.getvalue()).decode()}


def _pcap(packets: Any) -> bytes:
    """Scapy packets that begin with Ethernet, as a pcap file with nanoseconds."""
    from scapy.utils import PcapWriter

    file = io.BytesIO()
    writer = PcapWriter(file, linktype=ETHERNET, nano=True)
    writer.write_header(None)
    for packet in packets:
        writer.write_packet(packet)
    return file.getvalue()


def _packets(pcap: bytes) -> Any:
    load_layers()  # without them scapy would not know what is in a frame
    from scapy.utils import rdpcap

    return rdpcap(io.BytesIO(pcap))


def decode(data: Any) -> Any:
    """The value that :func:`encode` was given.

    Raises:
        ValueError: the data is not of :func:`encode`, or names a class that it could not.
    """
    if isinstance(data, list):
        return [decode(each) for each in data]
    if not isinstance(data, dict):
        return data
    fields = {name: decode(each) for name, each in data.items() if name != _KIND}
    match data.get(_KIND):
        case None:
            return fields
        case "tuple":
            return tuple(fields["items"])
        case "mapping":
            return dict(fields["items"])
        case "steps":
            return list(accumulate(fields["steps"]))
        case "rows":
            return _decode_rows(fields["of"], fields["columns"])
        case "table" | "array" | "packets" | "segments" as kind:
            return _decode_array(kind, fields)
        case name:
            return _class(name)(**fields)


def _decode_array(kind: str, fields: Mapping[str, Any]) -> Any:
    match kind:
        case "table":
            types = np.dtype([(name, of) for name, of in fields["types"]])
            return np.array(list(zip(*fields["columns"].values(), strict=True)), types)
        case "array":
            return np.load(io.BytesIO(base64.b64decode(fields["npy"])), allow_pickle=False)
        case "packets":
            return _packets(base64.b64decode(fields["pcap"]))
    rows = _rows(fields["rows"])
    rows.connections = fields["connections"]
    rows.left_out = fields.get("left_out", {})
    return rows


def _decode_rows(of: str, columns: Mapping[str, Sequence[Any]]) -> list[Any]:
    rows = zip(*columns.values(), strict=True)
    match of:
        case "tuple":
            return list(rows)
        case "mapping":
            return [dict(zip(columns, row, strict=True)) for row in rows]
        case name:
            cls = _class(name)
            return [cls(**dict(zip(columns, row, strict=True))) for row in rows]


def _rows(stored: Any) -> SegmentArray:
    """Rows as they are now: a column that is younger than the recording holds zeros."""
    rows = np.zeros(len(stored), DTYPE)
    for name in stored.dtype.names:
        rows[name] = stored[name]
    return rows.view(SegmentArray)


def _holds_data(cls: Any) -> bool:
    """True for a dataclass, a named tuple or an enum."""
    return isinstance(cls, type) and (
        dataclasses.is_dataclass(cls)
        or (issubclass(cls, tuple) and hasattr(cls, "_fields"))
        or issubclass(cls, enum.Enum)
    )


def _fields(value: Any) -> dict[str, Any]:
    """The arguments that make a dataclass or a named tuple anew."""
    if isinstance(value, tuple):
        return value._asdict()  # type: ignore[attr-defined, no-any-return]
    return {each.name: getattr(value, each.name) for each in dataclasses.fields(value) if each.init}


def _name(cls: type) -> str:
    """A class by the outermost package that shows it, which may move it between its modules."""
    module = cls.__module__
    while "." in (package := module.rpartition(".")[0]):
        if getattr(sys.modules[package], cls.__qualname__, None) is not cls:
            break
        module = package
    name = f"{module}:{cls.__qualname__}"
    if not name.startswith("tcplab."):
        raise TypeError(f"a recording cannot hold a {name}: it is not a class of tcplab")
    return name


def _class(name: str) -> Any:
    """The class of that name: one of this package that only holds data, and nothing else."""
    module, _, cls = name.partition(":")
    if module.partition(".")[0] == "tcplab" and cls:
        found = getattr(importlib.import_module(module), cls, None)
        found = typing.get_origin(found) or found  # a name for Result[...]
        if _holds_data(found):
            return found
    raise ValueError(f"{name!r} is neither a kind of data nor a class of tcplab that holds data")
