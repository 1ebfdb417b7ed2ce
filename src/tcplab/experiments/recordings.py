"""Results that were measured elsewhere and are shipped, for where nothing live is possible.

A recording is made by the same code that measures: with ``TCPLAB_RECORD=DIR`` set, every
experiment leaves its result in DIR as it runs. It is one gzipped JSON file a call, found again by
the experiment's name and the call's arguments. Nothing in it is code: dataclasses of this package
are named, arrays are their bytes in base64.
"""

from __future__ import annotations

import base64
import dataclasses
import enum
import gzip
import hashlib
import importlib
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

__all__ = ["DIRECTORY", "MissingRecordingError", "decode", "encode", "load", "save", "shipped"]

#: The recordings that come with the course.
DIRECTORY: Final = Path(__file__).parent.parent / "recordings"

_KIND: Final = "$"  # no field of ours starts with it


class MissingRecordingError(LookupError):
    """No recording of this call."""


def save(
    directory: str | os.PathLike[str], experiment: str, arguments: Mapping[str, Any], result: Any
) -> Path:
    """Writes a result where :func:`load` finds it, and returns the file's path.

    Raises:
        TypeError: the result holds something that is neither plain data, an array, an Enum nor a
            dataclass of this package.
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
    experiment: str,
    arguments: Mapping[str, Any],
    directory: str | os.PathLike[str] | None = None,
) -> Any:
    """The result of the same call, measured before.

    Raises:
        MissingRecordingError: there is none; the message names the calls that there are.
        ValueError: the file is damaged.
    """
    path = Path(directory or DIRECTORY) / experiment / f"{_key(arguments)}.json.gz"
    if not path.is_file():
        known = "; ".join(shipped(experiment, directory)) or "none"
        raise MissingRecordingError(
            f"no recording of {experiment} with {_words(arguments)}; there are recordings with:"
            f" {known}"
        )
    try:
        return decode(json.loads(gzip.decompress(path.read_bytes()))["result"])
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError) as error:
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
    """What is equal to Python (1 and 1.0) or to a reader (a list and a tuple) has one form."""
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
    """JSON data from plain data, arrays, enums, named tuples and dataclasses of this package.

    Raises:
        TypeError: none of these.
    """
    import numpy as np

    if isinstance(value, enum.Enum):
        return {_KIND: "enum", "class": _name(type(value)), "name": value.name}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return encode(value.item())
    if isinstance(value, np.ndarray):
        return _encode_array(value)
    if isinstance(value, list | tuple):
        return _encode_sequence(value)
    if isinstance(value, Mapping):
        return _encode_mapping(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {
            each.name: encode(getattr(value, each.name))
            for each in dataclasses.fields(value)
            if each.init
        }
        return {_KIND: "dataclass", "class": _name(type(value)), "fields": fields}
    raise TypeError(f"a recording cannot hold a {type(value).__name__}: {value!r:.80}")


def _encode_sequence(value: list[Any] | tuple[Any, ...]) -> Any:
    items = [encode(each) for each in value]
    if isinstance(value, list):
        return items
    if hasattr(value, "_fields"):
        return {_KIND: "named tuple", "class": _name(type(value)), "items": items}
    return {_KIND: "tuple", "items": items}


def _encode_mapping(value: Mapping[Any, Any]) -> dict[str, Any]:
    if all(isinstance(key, str) and not key.startswith(_KIND) for key in value):
        return {key: encode(each) for key, each in value.items()}
    pairs = [[encode(key), encode(each)] for key, each in value.items()]
    return {_KIND: "mapping", "items": pairs}


def decode(data: Any) -> Any:
    """What :func:`encode` was given.

    Raises:
        ValueError: the data is not of :func:`encode`, or names a class outside this package.
    """
    if isinstance(data, list):
        return [decode(each) for each in data]
    if not isinstance(data, dict):
        return data
    match data.get(_KIND):
        case None:
            return {key: decode(each) for key, each in data.items()}
        case "tuple":
            return tuple(decode(each) for each in data["items"])
        case "named tuple":
            return _class(data["class"], tuple)(*(decode(each) for each in data["items"]))
        case "mapping":
            return {decode(key): decode(each) for key, each in data["items"]}
        case "array":
            return _decode_array(data)
        case "enum":
            return _class(data["class"], enum.Enum)[data["name"]]
        case "dataclass":
            fields = {name: decode(each) for name, each in data["fields"].items()}
            return _class(data["class"], None)(**fields)
        case kind:
            raise ValueError(f"unknown kind {kind!r}")


def _encode_array(array: Any) -> dict[str, Any]:
    import numpy as np

    if array.dtype.hasobject:
        raise TypeError("a recording cannot hold an array of Python objects")
    plain = np.ascontiguousarray(array)
    coded: dict[str, Any] = {
        _KIND: "array",
        "dtype": _encode_dtype(plain.dtype),
        "shape": list(plain.shape),
        "data": base64.b64encode(plain.tobytes()).decode(),
    }
    # Segments come as a subclass that knows its connections.
    if type(array) is not np.ndarray:
        coded["class"] = _name(type(array))
        coded["attributes"] = encode(array.__dict__)
    return coded


def _decode_array(data: Mapping[str, Any]) -> Any:
    import numpy as np

    raw = bytearray(base64.b64decode(data["data"]))
    array: Any = np.frombuffer(raw, _decode_dtype(data["dtype"])).reshape(data["shape"])
    if "class" in data:
        array = array.view(_class(data["class"], np.ndarray))
        array.__dict__.update(decode(data["attributes"]))
    return array


def _encode_dtype(dtype: Any) -> Any:
    """The name of a plain type; of a structured one names, formats and offsets, which may overlap
    and so have no place in an npy file."""
    if dtype.names is None:
        return dtype.str
    fields = [dtype.fields[name] for name in dtype.names]
    return {
        "names": list(dtype.names),
        "formats": [_encode_dtype(each[0]) for each in fields],
        "offsets": [each[1] for each in fields],
        "itemsize": dtype.itemsize,
    }


def _decode_dtype(coded: Any) -> Any:
    import numpy as np

    if isinstance(coded, str):
        return np.dtype(coded)
    fields: Any = {**coded, "formats": [_decode_dtype(each) for each in coded["formats"]]}
    return np.dtype(fields)


def _name(cls: type) -> str:
    """Where a class is public: a package may move it from one of its modules to another."""
    module = cls.__module__
    while "." in (package := module.rpartition(".")[0]):
        if getattr(sys.modules[package], cls.__qualname__, None) is not cls:
            break
        module = package
    name = f"{module}:{cls.__qualname__}"
    if not name.startswith("tcplab."):
        raise TypeError(f"a recording cannot hold a {name}: it is not a class of tcplab")
    return name


def _class(name: str, base: type | None) -> Any:
    """A dataclass of this package, or a subclass of `base`: a recording can name nothing else."""
    module, _, qualified = name.partition(":")
    if module.partition(".")[0] != "tcplab":
        raise ValueError(f"{name} is not a class of tcplab")
    found: Any = importlib.import_module(module)
    for part in qualified.split("."):
        found = getattr(found, part)
    allowed = isinstance(found, type) and (
        dataclasses.is_dataclass(found) if base is None else issubclass(found, base)
    )
    if not allowed:
        raise ValueError(f"{name} is no such class")
    return found
