"""Save and load results, so that a machine can show results that it cannot measure.

With ``TCPLAB_RECORD=DIR`` set, every experiment that runs live saves its result in DIR. Its archive
has a JSON member per call, which is found by the call's arguments. An archive holds no code, only
data and names of this package's data classes.
"""

import base64
import dataclasses
import enum
import functools
import hashlib
import importlib
import io
import json
import lzma
import os
import sys
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from tcplab.capture.packets import load_layers
from tcplab.segments import DTYPE, SegmentArray
from tcplab.segments.pcap import ETHERNET

#: The directory of the recordings that come with the course.
DIRECTORY: Final = Path(__file__).parent.parent / "recordings"

#: Names of classes that were renamed, and their present names. Both are as in recordings.
FORMER_NAMES: Final[dict[str, str]] = {
    "tcplab.experiments.bottleneck:Moment": "tcplab.experiments.bottleneck:FlowSample",
    "tcplab.experiments.buffers:Transfer": "tcplab.experiments.buffers:BufferedTransfer",
    "tcplab.experiments.capture_loss:Watched": "tcplab.experiments.capture_loss:RateLoss",
    "tcplab.experiments.connection:Connection": "tcplab.experiments.connection:ShortConnection",
    "tcplab.experiments.path_mtu:PathMtu": "tcplab.experiments.result:Result",
    "tcplab.experiments.sendfile.header:WithHeader": "tcplab.experiments.sendfile:WithHeader",
    "tcplab.experiments.sendfile:Transfer": "tcplab.experiments.sendfile:SentFile",
    "tcplab.programs:Call": "tcplab.programs:SocketCall",
    "tcplab.explain:Recorded": "tcplab.explain:CommandExchange",
}

_KIND: Final = "$"  # key of an encoded object's kind, such as "tuple" or "module:Class"

#: DTYPE without gaps between its fields, because dtype.descr would list the gaps as fields.
_PACKED: Final = np.dtype([(name, DTYPE[name]) for name in DTYPE.names or ()])
_NO_TIME: Final = (1980, 1, 1, 0, 0, 0)


class MissingRecordingError(LookupError):
    """The call has not been recorded."""


def save(
    directory: str | os.PathLike[str], experiment: str, arguments: Mapping[str, Any], result: Any
) -> Path:
    """Write a result where :func:`load` finds it, and return the archive's path."""
    path = _archive(experiment, directory)
    path.parent.mkdir(parents=True, exist_ok=True)
    record = {"arguments": encode(dict(arguments)), "result": encode(result)}
    members = _members(path) if path.is_file() else {}
    members[_member(arguments)] = json.dumps(record, separators=(",", ":")).encode()
    fresh = path.with_suffix(".new")
    with zipfile.ZipFile(fresh, "w") as archive:
        for name in sorted(members):
            # With a fixed time, equal results give equal files.
            archive.writestr(zipfile.ZipInfo(name, _NO_TIME), members[name], zipfile.ZIP_LZMA)
    fresh.replace(path)
    return path


def load(
    experiment: str, arguments: Mapping[str, Any], directory: str | os.PathLike[str] | None = None
) -> Any:
    """Return a call's recorded result; MissingRecordingError if there is none."""
    path, name = _archive(experiment, directory), _member(arguments)
    members = _members(path, name) if path.is_file() else {}
    if not members:
        others = _members(path).values() if path.is_file() else ()
        raise MissingRecordingError(f"no recording of {experiment}{_nearest(arguments, others)}")
    try:
        return decode(json.loads(members[name])["result"])
    except (ImportError, ValueError, KeyError, TypeError) as error:
        raise _damaged(path, error) from None


def shipped(experiment: str) -> list[tuple[dict[str, Any], Any]]:
    """Return the arguments and the result of each recording, sorted by the arguments."""
    path = _archive(experiment, DIRECTORY)
    records = map(json.loads, _members(path).values()) if path.is_file() else ()
    results = [(decode(record["arguments"]), decode(record["result"])) for record in records]
    return sorted(results, key=lambda result: _words(result[0]))


def _archive(experiment: str, directory: str | os.PathLike[str] | None) -> Path:
    return Path(directory or DIRECTORY) / f"{experiment}.zip"


def _members(path: Path, only: str | None = None) -> dict[str, bytes]:
    """Read the members of an archive, or only `only`; ValueError if the archive is damaged."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            return {name: archive.read(name) for name in names if only in (None, name)}
    except (OSError, EOFError, zipfile.BadZipFile, lzma.LZMAError) as error:
        raise _damaged(path, error) from None


def _damaged(path: Path, why: object) -> ValueError:
    return ValueError(f"the recordings of {path.stem} in {path.name} are damaged: {why}")


def _nearest(asked: Mapping[str, Any], members: Iterable[bytes]) -> str:
    """Describe the recording with the fewest other arguments."""
    asked = _canonical(asked)
    others = [_canonical(decode(json.loads(member)["arguments"])) for member in members]

    def changed(other: Mapping[str, Any]) -> dict[str, Any]:
        return {name: other.get(name) for name, value in asked.items() if other.get(name) != value}

    if not others:
        return ""

    def distance(given: Mapping[str, Any]) -> tuple[int, float]:
        pairs = [(asked[name], b) for name, b in given.items() if isinstance(b, int | float)]
        return len(given), sum(abs(a - b) for a, b in pairs if isinstance(a, int | float))

    given = min(map(changed, others), key=distance)
    return f" with {_words({name: asked[name] for name in given})}; the nearest has {_words(given)}"


def _words(arguments: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in arguments.items()) or "no arguments"


def _member(arguments: Mapping[str, Any]) -> str:
    text = json.dumps(_canonical(arguments), sort_keys=True)
    return f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"


def _canonical(value: Any) -> Any:
    """Convert values to one form if they are equal (1, 1.0) or look alike (a list and a tuple)."""
    if isinstance(value, Mapping):
        return {str(key): _canonical(item) for key, item in value.items()}
    if isinstance(value, list | tuple | range):
        return [_canonical(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, bool | int | float | str) or value is None:
        return value
    return encode(value)


# ---- encoding ------------------------------------------------------------------------------------


def encode(value: Any) -> Any:
    """Convert plain data, arrays, scapy packets and objects of this package to JSON data.

    The objects may be dataclasses, enums or named tuples. Any other value raises TypeError.
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
        return [encode(item) for item in value]
    if isinstance(value, Mapping):
        if all(isinstance(key, str) and key != _KIND for key in value):
            return {key: encode(item) for key, item in value.items()}
        return {_KIND: "mapping", "items": [encode(list(pair)) for pair in value.items()]}
    if _holds_data(type(value)):
        return {_KIND: _name(type(value)), **encode(_fields(value))}
    if isinstance(value, tuple):
        return {_KIND: "tuple", "items": encode(list(value))}
    raise TypeError(f"a recording cannot hold a {type(value).__name__}: {value!r:.80}")


def _is_packets(value: Any) -> bool:
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
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return {_KIND: "array", "npy": base64.b64encode(file.getvalue()).decode()}


def _pcap(packets: Any) -> bytes:
    """Encode scapy packets that begin with Ethernet as a pcap file with times in ns."""
    from scapy.utils import PcapWriter

    file = io.BytesIO()
    writer = PcapWriter(file, linktype=ETHERNET, nano=True)
    writer.write_header(None)
    for packet in packets:
        writer.write_packet(packet)
    return file.getvalue()


def _packets(pcap: bytes) -> Any:
    load_layers()  # scapy needs these layers to dissect the frames
    from scapy.utils import rdpcap

    return rdpcap(io.BytesIO(pcap))


def decode(data: Any) -> Any:
    """Return the value that :func:`encode` converted; ValueError for an unknown kind of data."""
    if isinstance(data, list):
        return [decode(item) for item in data]
    if not isinstance(data, dict):
        return data
    fields = {name: decode(item) for name, item in data.items() if name != _KIND}
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
            rows.connections, rows.left_out = fields["connections"], fields["left_out"]
            return rows
        case name:
            if dataclasses.is_dataclass(cls := _class(name)):
                # The class may no longer have all fields that were recorded.
                known = {field.name for field in dataclasses.fields(cls)}
                fields = {name: value for name, value in fields.items() if name in known}
            return cls(**fields)


def _rows(stored: Any) -> SegmentArray:
    """Convert stored rows to the current columns. A column newer than the recording holds zeros."""
    rows = np.zeros(len(stored), DTYPE)
    for name in stored.dtype.names:
        rows[name] = stored[name]
    return rows.view(SegmentArray)


def _holds_data(cls: Any) -> bool:
    return isinstance(cls, type) and (
        dataclasses.is_dataclass(cls)
        or (issubclass(cls, tuple) and hasattr(cls, "_fields"))
        or issubclass(cls, enum.Enum)
    )


def _fields(value: Any) -> dict[str, Any]:
    if isinstance(value, tuple):
        return value._asdict()  # type: ignore[attr-defined, no-any-return]
    return {
        field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.init
    }


def _name(cls: type) -> str:
    """Return "module:Class". Within a package, and within an experiment, classes may move."""
    depth = 3 if cls.__module__.startswith("tcplab.experiments.") else 2
    name = ".".join(cls.__module__.split(".")[:depth]) + f":{cls.__qualname__}"
    if not name.startswith("tcplab."):
        raise TypeError(f"a recording cannot hold a {name}: it is not a class of tcplab")
    return name


@functools.cache
def _class(name: str) -> Any:
    """Return tcplab's data class with this name (see :func:`_name`), or raise ValueError."""
    module, _, cls = FORMER_NAMES.get(name, name).partition(":")
    if module.partition(".")[0] == "tcplab" and cls:
        importlib.import_module(module)
        for place in [place for place in sys.modules if f"{place}.".startswith(f"{module}.")]:
            if _holds_data(candidate := getattr(sys.modules[place], cls, None)):
                return candidate
    raise ValueError(f"{name!r} is neither a kind of data nor a class of tcplab that holds data")
