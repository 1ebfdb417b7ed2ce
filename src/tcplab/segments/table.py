"""The columns of a row, the array that has them, and what the other modules here share."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

__all__ = ["ACK", "DTYPE", "FIN", "RST", "SYN", "TCP", "UDP", "Connection", "SegmentArray"]

Int64Array = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
Array = npt.NDArray[Any]

FIN, SYN, RST, PSH, ACK, URG, ECE, CWR, AE = (1 << bit for bit in range(9))
TCP, UDP = 6, 17

_FORMATS: Final = {
    "packet": "u4",
    "interface": "u2",
    "outbound": "i1",
    "time_ns": "i8",
    "connection": "u4",
    "protocol": "u1",
    "direction": "u1",
    "src_port": "u2",
    "dst_port": "u2",
    "payload_bytes": "u4",
    "wire_bytes": "u4",
    "seq": "i8",
    "ack": "i8",
    "flags": "u2",
    "window": "u4",
    "window_shift": "i1",
    "sack_blocks": "u1",
    "mss": "u2",
    "wscale": "i1",
    "has_timestamps": "?",
    "ts_val": "u4",
    "ts_ecr": "u4",
    "gso_count": "u2",
    "is_retransmission": "?",
    "is_out_of_order": "?",
    "is_pure_ack": "?",
    "is_zero_window": "?",
}


def _dtype(formats: dict[str, str]) -> np.dtype[Any]:
    """In the order of reading; in memory the wide columns come first, so that all are aligned."""
    sizes = {name: np.dtype(form).itemsize for name, form in formats.items()}
    offsets, end = {}, 0
    for name in sorted(sizes, key=lambda name: -sizes[name]):
        offsets[name] = end
        end += sizes[name]
    return np.dtype(
        {
            "names": list(formats),
            "formats": list(formats.values()),
            "offsets": [offsets[name] for name in formats],
            "itemsize": end + -end % 8,
        }
    )


#: The columns of a SegmentArray.
DTYPE: Final = _dtype(_FORMATS)

#: A row as plain bytes: numpy copies a structured array field by field.
ROW_BYTES: Final = np.dtype((np.void, DTYPE.itemsize))


@dataclasses.dataclass(frozen=True, slots=True)
class Connection:
    """The ends of a connection: of the segments whose `connection` is its index.

    Attributes:
        protocol: "tcp" or "udp".
        client: address and port of the client.
        server: address and port of the server.
    """

    protocol: str
    client: tuple[str, int]
    server: tuple[str, int]

    def __str__(self) -> str:
        return f"{self.protocol} {_endpoint(self.client)} -> {_endpoint(self.server)}"


def _endpoint(end: tuple[str, int]) -> str:
    address, port = end
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


class SegmentArray(np.ndarray[tuple[Any, ...], np.dtype[Any]]):
    """A numpy structured array of dtype DTYPE that also knows the ends of its connections.

    Attributes:
        connections: the connections of the capture; kept by slices and selections of the array.
    """

    connections: tuple[Connection, ...]

    if TYPE_CHECKING:  # numpy's own says that a slice is a plain array

        def __getitem__(self, key: Any, /) -> Any: ...

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        # The largest of a column is a number, not a table of one.
        return array[()] if return_scalar else super().__array_wrap__(array, context, False)

    def __array_finalize__(self, source: Any) -> None:
        self.connections = getattr(source, "connections", ())


def stable_order(group: Array) -> Int64Array:
    """Indices that sort by group and keep the order within; numpy is fastest with 16-bit keys."""
    if len(group) and int(group.max()) < 1 << 16:
        group = group.astype(np.uint16)
    return np.argsort(group, kind="stable")


def starts_of(group: Array) -> BoolArray:
    """Where in a sorted array a new group begins."""
    new = np.ones(len(group), np.bool_)
    new[1:] = group[1:] != group[:-1]
    return new
