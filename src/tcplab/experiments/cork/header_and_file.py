"""Send a header with send() and a file with sendfile(), and see whether they share a segment."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path as File
from typing import Annotated, Any, Final, Literal, get_args

from tcplab.experiments import Between, Result, Variant, column, computed, experiment, provenance
from tcplab.experiments.exchange import segments_of
from tcplab.experiments.quantities import yes_no
from tcplab.lab import Lab
from tcplab.lab.scratch import temporary_folder
from tcplab.programs import HeaderOptions, send_file
from tcplab.tables import Column, run_lengths

HeaderMode = Literal["default", "no_delay", "cork", "msg_more", "read+send, cork"]
HEADER_MODES: Final[tuple[HeaderMode, ...]] = get_args(HeaderMode)


class Headers(Variant):
    """A header and a file that were sent in one mode."""

    mode: HeaderMode = column("method")
    segments = computed(lambda case: len(case.sizes), "data segments", "d")
    sizes: tuple[int, ...] = column("segment sizes (bytes)", show=run_lengths)
    system_calls: int  #: number of the sender's system calls


class HeaderAndFile(Result[Headers]):
    """A header and a file that were sent in several modes."""

    @property
    def columns(self) -> Sequence[Column]:
        calls = Column("system_calls", "system calls", "d")
        return (*super().columns, Column("alone", "header alone"), calls)

    header_bytes: int
    file_bytes: int

    def is_alone(self, mode: str) -> bool:
        """Return whether the first segment carried only the header."""
        return self[mode].sizes[0] == self.header_bytes

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per mode, which also says whether the header was alone in its segment."""
        return [case.row() | {"alone": yes_no(self.is_alone(case.mode))} for case in self.variants]


@experiment("header-and-file")
def measure_header_and_file(
    header_bytes: Annotated[int, Between(1, 1000, "bytes"), "size of the header"] = 200,
    file_bytes: Annotated[int, Between(1, 14_000, "bytes")] = 5000,
) -> HeaderAndFile:
    """Send a header with send(), then a file with sendfile(), as a web server does.

    Args:
        file_bytes: size of the file, all of which must leave before the first ACK arrives
    """
    with Lab(rtt_ms=10) as lab, temporary_folder() as directory:
        path = File(directory) / "file"
        path.write_bytes(bytes(file_bytes))
        measured = [_send(lab, path, mode, header_bytes) for mode in HEADER_MODES]
        return HeaderAndFile(measured, provenance(lab), header_bytes, file_bytes)


def _send(lab: Lab, path: File, mode: HeaderMode, header_bytes: int) -> Headers:
    with lab.client.capture() as capture:
        result = send_file(
            lab,
            path,
            method="read" if mode.startswith("read") else "sendfile",
            header=HeaderOptions(
                header_bytes,
                cork=mode.endswith("cork"),
                more=mode == "msg_more",
                nodelay=mode == "no_delay",
            ),
        )
    sent = segments_of(capture).data("client", retransmissions=False)
    return Headers(mode, tuple(sent["payload_bytes"].tolist()), result.system_calls)
