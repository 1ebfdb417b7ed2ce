"""Results that were measured elsewhere and are shipped, for where nothing live is possible.

A recording is made by the same code that measures: with ``TCPLAB_RECORD=DIR`` set, every
experiment leaves its result in DIR as it runs. It is one gzipped JSON file per call, found again by
the experiment's name and the call's arguments. Nothing in it is code: classes of this package that
only hold data are named, arrays are npy files in base64.
"""

from __future__ import annotations

import base64
import dataclasses
import enum
import gzip
import hashlib
import importlib
import io
import json
import os
import sys
import typing
from collections.abc import Mapping
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
#: Characters; a longer list of recordings helps nobody.
_LONG: Final = 600


class MissingRecordingError(LookupError):
    """No recording of this call."""


def save(
    directory: str | os.PathLike[str], experiment: str, arguments: Mapping[str, Any], result: Any
) -> Path:
    """Write a result where :func:`load` finds it, and return the file's path.

    Raises:
        TypeError: the result holds something that :func:`encode` does not know.
    """
    path = Path(directory) / experiment / f"{_key(arguments)}.json.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    record = {"experiment": experiment, "arguments": encode(dict(arguments))}
    record["result"] = encode(result)
    text = json.dumps(record, separators=(",", ":"), allow_nan=True)
    # Without a time, equal results are equal files.
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    return path


def load(
    experiment: str, arguments: Mapping[str, Any], directory: str | os.PathLike[str] | None = None
) -> Any:
    """The result of the same call, measured before.

    Raises:
        MissingRecordingError: there is none; the message names the calls that there are.
        ValueError: the file is damaged.
    """
    path = Path(directory or DIRECTORY) / experiment / f"{_key(arguments)}.json.gz"
    if not path.is_file():
        others = shipped(experiment, directory)
        known = "; ".join(others) or "none"
        if len(known) > _LONG:
            known = f"{len(others)} with other arguments"
        raise MissingRecordingError(
            f"no recording of {experiment} with {_words(arguments)}; there are recordings with:"
            f" {known}"
        )
    try:
        return decode(json.loads(gzip.decompress(path.read_bytes()))["result"])
    except (OSError, EOFError, ImportError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"the recording {path.name} of {experiment} is damaged: {error}") from None


def shipped(experiment: str, directory: str | os.PathLike[str] | None = None) -> list[str]:
    """The arguments of each recording of an experiment, in words."""
    found = sorted((Path(directory or DIRECTORY) / experiment).glob("*.json.gz"))
    records = (json.loads(gzip.decompress(path.read_bytes())) for path in found)
    return sorted(_words(decode(record["arguments"])) for record in records)


def _words(arguments: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in arguments.items()) or "no arguments"


def _key(arguments: Mapping[str, Any]) -> str:
    text = json.dumps(_canonical(arguments), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


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
        return [encode(each) for each in value]
    if isinstance(value, Mapping):
        if all(isinstance(key, str) and key != _KIND for key in value):
            return {key: encode(each) for key, each in value.items()}
        return {_KIND: "mapping", "items": [encode(list(pair)) for pair in value.items()]}
    if _holds_data(type(value)):
        return {_KIND: _name(type(value)), **encode(_fields(value))}
    if isinstance(value, tuple):
        return {_KIND: "tuple", "items": encode(list(value))}
    raise TypeError(f"a recording cannot hold a {type(value).__name__}: {value!r:.80}")


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
            "rows": encode(rows),
            "connections": encode(array.connections),
            "left_out": encode(dict(array.left_out)),
        }
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
        case "array":
            return np.load(io.BytesIO(base64.b64decode(fields["npy"])), allow_pickle=False)
        case "packets":
            return _packets(base64.b64decode(fields["pcap"]))
        case "segments":
            rows = _rows(fields["rows"])
            rows.connections = fields["connections"]
            rows.left_out = fields.get("left_out", {})
            return rows
        case name:
            return _class(name)(**fields)


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
