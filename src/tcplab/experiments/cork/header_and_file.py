"""A header with send(), then a file with sendfile(): is the header alone in its segment?"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path as File
from typing import Any, ClassVar, Final, Literal, get_args

from tcplab.checks import number
from tcplab.experiments import provenance
from tcplab.experiments.cork.scripts import run_lengths, segments_of
from tcplab.experiments.declaration import experiment
from tcplab.lab import Lab
from tcplab.programs import send_file
from tcplab.tables import Column

__all__ = ["HEADER_WAYS", "HeaderAndFile", "HeaderWay", "Headers", "measure_header_and_file"]

HeaderWay = Literal["default", "no_delay", "cork", "msg_more", "read+send, cork"]
HEADER_WAYS: Final[tuple[HeaderWay, ...]] = get_args(HeaderWay)


@dataclass(frozen=True, slots=True)
class Headers:
    """A header and a file, sent in one way.

    Attributes:
        way: how.
        sizes: payload bytes of the data segments.
        system_calls: of the sender.
    """

    way: HeaderWay
    sizes: tuple[int, ...]
    system_calls: int


@dataclass(frozen=True, slots=True)
class HeaderAndFile:
    """A header with send(), then a file with sendfile()."""

    experiment: ClassVar[str] = "header-and-file"
    columns: ClassVar[Sequence[Column]] = (
        Column("variant", "way"),
        Column("segments", "data segments", "d"),
        Column("sizes", "their sizes (bytes)"),
        Column("alone", "header alone"),
        Column("system_calls", "system calls", "d"),
    )

    header_bytes: int
    file_bytes: int
    ways: Sequence[Headers]
    provenance: Mapping[str, Any]

    def __getitem__(self, way: str) -> Headers:
        for each in self.ways:
            if each.way == way:
                return each
        raise KeyError(way)

    def is_alone(self, way: str) -> bool:
        """Whether the first segment carried the header and nothing of the file."""
        return self[way].sizes[0] == self.header_bytes

    def rows(self) -> list[dict[str, Any]]:
        """One row a way."""
        return [
            {
                "variant": each.way,
                "segments": len(each.sizes),
                "sizes": run_lengths(each.sizes),
                "alone": "yes" if self.is_alone(each.way) else "no",
                "system_calls": each.system_calls,
            }
            for each in self.ways
        ]


@experiment("header-and-file")
def measure_header_and_file(header_bytes: int = 200, file_bytes: int = 5000) -> HeaderAndFile:
    """Sends a header and a file, as a web server does, in each way.

    Args:
        header_bytes: 1 to 1000.
        file_bytes: 1 to 14 000: what leaves before the first ACK of a connection.

    Raises:
        ValueError: a number is out of range.
        LabError: no laboratory can be made here, or a program failed.
    """
    number("header_bytes", header_bytes, 1, 1000, unit=" bytes")
    number("file_bytes", file_bytes, 1, 14_000, unit=" bytes")
    with Lab(rtt_ms=10) as lab, tempfile.TemporaryDirectory(prefix="tcplab-") as directory:
        path = File(directory) / "file"
        path.write_bytes(bytes(file_bytes))
        measured = [_header_way(lab, path, way, header_bytes) for way in HEADER_WAYS]
        return HeaderAndFile(
            header_bytes,
            file_bytes,
            [each for each, _drops in measured],
            provenance(
                lab,
                congestion=lab.congestion,
                capture_drops=sum(drops for _each, drops in measured),
            ),
        )


def _header_way(lab: Lab, path: File, way: HeaderWay, header_bytes: int) -> tuple[Headers, int]:
    with lab.client.capture() as capture:
        result = send_file(
            lab,
            path,
            method="read" if way.startswith("read") else "sendfile",
            header_bytes=header_bytes,
            cork=way.endswith("cork"),
            more=way == "msg_more",
            nodelay=way == "no_delay",
        )
    drops = capture.drops or 0
    rows = segments_of(capture)
    mine = (rows["direction"] == 0) & (rows["payload_bytes"] > 0) & ~rows["is_retransmission"]
    sizes = tuple(int(size) for size in rows["payload_bytes"][mine])
    return Headers(way, sizes, result.system_calls), drops
