"""Define the columns of a row, the array of rows, and helpers for the modules of this package."""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from tcplab.checks import choice

Int64Array = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
Array = npt.NDArray[Any]

#: Values of the column `direction`.
FROM_CLIENT, FROM_SERVER = 0, 1

#: Bits of the column `flags`.
FIN, SYN, RST, PSH, ACK, URG, ECE, CWR, AE = (1 << bit for bit in range(9))

_FLAGS: Final = ("FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR", "AE")

#: Values of the column `protocol`.
TCP, UDP = 6, 17

_FORMATS: Final = """
    packet u4, interface u2, outbound i1, time_ns i8, connection u4, protocol u1, direction u1,
    src_port u2, dst_port u2, payload_bytes u4, wire_bytes u4, ip_id u2, seq i8, ack i8, flags u2,
    window u4, window_shift i1, sack_blocks u1, sack_permitted ?, mss u2, wscale i1,
    has_timestamps ?, ts_val u4, ts_ecr u4, gso_count u2, is_retransmission ?, is_out_of_order ?,
    is_pure_ack ?, is_zero_window ?
"""
DTYPE: Final = np.dtype([(*column.split(),) for column in _FORMATS.split(",")], align=True)


@dataclasses.dataclass(frozen=True, slots=True)
class Connection:
    """The protocol of a connection, and the address and port of its two ends."""

    #: The transport protocol, "tcp" or "udp".
    protocol: str
    client: tuple[str, int]
    server: tuple[str, int]

    def __str__(self) -> str:
        return f"{self.protocol} {_endpoint(self.client)} -> {_endpoint(self.server)}"


def _endpoint(end: tuple[str, int]) -> str:
    address, port = end
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


@contextmanager
def uncollected() -> Iterator[None]:
    """Pause the garbage collector, which would visit millions of new objects again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _mask(column: str, test: Callable[[Array], Any]) -> Any:
    """Return a property with the truth value of a test for each row."""
    return property(lambda rows: np.asarray(test(rows[column])))


class SegmentArray(np.ndarray[tuple[Any, ...], np.dtype[Any]]):
    """A numpy structured array of dtype DTYPE, with methods that select rows.

    A method returns the selected rows as a SegmentArray, in their order. Most properties are masks
    with one truth value per row, as in ``rows[rows.from_client & rows.is_syn]``.
    """

    #: The connections of the whole capture. Slices and selections keep all of them.
    connections: tuple[Connection, ...]
    #: Number of packets in the capture that produced no row, by kind.
    left_out: Mapping[str, int]

    if TYPE_CHECKING:  # numpy's own annotation makes a slice a plain array

        def __getitem__(self, key: Any, /) -> Any: ...

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        # A reduction over a column, such as max(), returns a number instead of an array.
        return array[()] if return_scalar else super().__array_wrap__(array, context, False)

    def __array_finalize__(self, source: Any) -> None:
        self.connections = getattr(source, "connections", ())
        self.left_out = getattr(source, "left_out", {})

    def sent_by(self, sender: str) -> SegmentArray:
        """Select the segments that one end sent, "client" or "server"."""
        choice("sender", sender, ("client", "server"))
        return self._where(self.from_client if sender == "client" else self.from_server)

    # This method replaces numpy's memoryview of the same name, which this array does not need.
    def data(  # type: ignore[override]
        self, sender: str | None = None, *, retransmissions: bool = True
    ) -> SegmentArray:
        """Select segments that carry data, optionally of one sender or without retransmissions."""
        rows = self if sender is None else self.sent_by(sender)
        rows = rows._where(rows.carries_data)
        return rows if retransmissions else rows._where(~np.asarray(rows["is_retransmission"]))

    def acks(self, sender: str | None = None) -> SegmentArray:
        """Select pure ACKs (without data, SYN, FIN and RST), optionally of one sender."""
        rows = self if sender is None else self.sent_by(sender)
        return rows._where(np.asarray(rows["is_pure_ack"]))

    def of(self, connection: int) -> SegmentArray:
        """Select the segments of the connection with this number."""
        return self._where(np.asarray(self["connection"]) == connection)

    def at_port(self, port: int) -> SegmentArray:
        """Select the segments sent from or to this port."""
        return self._where(
            (np.asarray(self["src_port"]) == port) | (np.asarray(self["dst_port"]) == port)
        )

    def rows_at(self, places: npt.NDArray[np.intp]) -> SegmentArray:
        """Return the rows with these indices, ten times as fast as an index does."""
        # take() copies whole rows, and an index or a mask copies field by field.
        rows: SegmentArray = self.take(places)  # type: ignore[assignment]
        return rows

    def _where(self, mask: BoolArray) -> SegmentArray:
        return self.rows_at(np.flatnonzero(mask))

    from_client = _mask("direction", lambda direction: direction == FROM_CLIENT)
    from_server = _mask("direction", lambda direction: direction == FROM_SERVER)
    carries_data = _mask("payload_bytes", lambda size: size > 0)
    is_syn = _mask("flags", lambda flags: flags & SYN != 0)
    is_fin = _mask("flags", lambda flags: flags & FIN != 0)
    is_rst = _mask("flags", lambda flags: flags & RST != 0)
    #: True if the ACK flag is set, so that the column `ack` is valid.
    has_ack = _mask("flags", lambda flags: flags & ACK != 0)

    @property
    def first_time_ns(self) -> int:
        if not len(self):
            raise ValueError("no segments, so there is no first time: was anything captured?")
        return int(self["time_ns"][0])


def flag_names(flags: int) -> str:
    """Return the names of the TCP flags that are set, such as "SYN ACK" for 18."""
    return " ".join(name for bit, name in enumerate(_FLAGS) if flags >> bit & 1)
