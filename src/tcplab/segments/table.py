"""The columns of a row, the array that has them, and what the other modules here share."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import numpy.typing as npt

from tcplab.checks import choice

Int64Array = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
Array = npt.NDArray[Any]

#: An end of a connection; see tcplab.segments for which is which.
Sender = Literal["client", "server"]

#: The values of the column `direction`.
FROM_CLIENT, FROM_SERVER = 0, 1

#: The bits of the column `flags`.
FIN, SYN, RST, PSH, ACK, URG, ECE, CWR, AE = (1 << bit for bit in range(9))

#: The values of the column `protocol`.
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
    "ip_id": "u2",
    "seq": "i8",
    "ack": "i8",
    "flags": "u2",
    "window": "u4",
    "window_shift": "i1",
    "sack_blocks": "u1",
    "sack_permitted": "?",
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
    """The ends of a connection: of the segments whose `connection` is its index."""

    #: "tcp" or "udp".
    protocol: str
    #: Address and port of the client.
    client: tuple[str, int]
    #: Address and port of the server.
    server: tuple[str, int]

    def __str__(self) -> str:
        return f"{self.protocol} {_endpoint(self.client)} -> {_endpoint(self.server)}"


def _endpoint(end: tuple[str, int]) -> str:
    address, port = end
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


class SegmentArray(np.ndarray[tuple[Any, ...], np.dtype[Any]]):
    """A numpy structured array of dtype DTYPE, with verbs that select rows.

    A verb returns a SegmentArray of the rows it selects, in their order; a property is a truth per
    row, to select by: ``rows[rows.from_client & rows.is_syn]``.
    """

    #: The connections of the capture; slices and selections of the array keep all of them.
    connections: tuple[Connection, ...]
    #: The packets of the capture that made no row: what they are -> how many.
    left_out: Mapping[str, int]

    if TYPE_CHECKING:  # numpy's own says that a slice is a plain array

        def __getitem__(self, key: Any, /) -> Any: ...

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        # The largest of a column is a number, not a table of one.
        return array[()] if return_scalar else super().__array_wrap__(array, context, False)

    def __array_finalize__(self, source: Any) -> None:
        self.connections = getattr(source, "connections", ())
        self.left_out = getattr(source, "left_out", {})

    # ---- selections ----

    def sent_by(self, sender: Sender) -> SegmentArray:
        """The segments that one end sent."""
        choice("sender", sender, ("client", "server"))
        return self._where(self.from_client if sender == "client" else self.from_server)

    # It takes the place of numpy's memoryview of the same name, which nobody needs here.
    def data(  # type: ignore[override]
        self, sender: Sender | None = None, *, retransmissions: bool = True
    ) -> SegmentArray:
        """The segments that carry data.

        Args:
            sender: which end's; both ends' when None.
            retransmissions: whether those with data that had passed before are among them.
        """
        rows = self if sender is None else self.sent_by(sender)
        rows = rows._where(rows.carries_data)
        return rows if retransmissions else rows._where(~np.asarray(rows["is_retransmission"]))

    def acks(self, sender: Sender | None = None) -> SegmentArray:
        """The pure ACKs of one end, or of both: they carry neither data nor SYN, FIN or RST."""
        rows = self if sender is None else self.sent_by(sender)
        return rows._where(np.asarray(rows["is_pure_ack"]))

    def of(self, connection: int) -> SegmentArray:
        """The segments of the connection of that number."""
        return self._where(np.asarray(self["connection"]) == connection)

    def at_port(self, port: int) -> SegmentArray:
        """The segments from or to a port, at either end."""
        return self._where(
            (np.asarray(self["src_port"]) == port) | (np.asarray(self["dst_port"]) == port)
        )

    def _where(self, mask: BoolArray) -> SegmentArray:
        chosen: SegmentArray = self[mask]
        return chosen

    # ---- truths per row ----

    @property
    def from_client(self) -> BoolArray:
        return np.asarray(self["direction"] == FROM_CLIENT)

    @property
    def from_server(self) -> BoolArray:
        return np.asarray(self["direction"] == FROM_SERVER)

    @property
    def carries_data(self) -> BoolArray:
        return np.asarray(self["payload_bytes"] > 0)

    @property
    def is_syn(self) -> BoolArray:
        """The SYN flag is set: a SYN or a SYN-ACK."""
        return self._has(SYN)

    @property
    def is_fin(self) -> BoolArray:
        return self._has(FIN)

    @property
    def is_rst(self) -> BoolArray:
        return self._has(RST)

    @property
    def has_ack(self) -> BoolArray:
        """The ACK flag is set, so that the column `ack` has a meaning."""
        return self._has(ACK)

    def _has(self, flag: int) -> BoolArray:
        return np.asarray(self["flags"] & flag != 0)

    # ---- numbers ----

    @property
    def first_time_ns(self) -> int:
        """Time of the first row.

        Raises:
            ValueError: there is none.
        """
        if not len(self):
            raise ValueError("no segments, so there is no first time: was anything captured?")
        return int(self["time_ns"][0])


def stable_order(group: Array) -> Int64Array:
    """Indices that sort by group and keep the order within; numpy is fastest with 16-bit keys."""
    if len(group) and int(group.max()) < 1 << 16:
        group = group.astype(np.uint16)
    return np.argsort(group, kind="stable")


def starts_of(group: Array) -> BoolArray:
    """True where in a sorted array a new group begins."""
    new = np.ones(len(group), np.bool_)
    new[1:] = group[1:] != group[:-1]
    return new
