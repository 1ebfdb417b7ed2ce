"""Send a header before a file, and see which segments leave with each socket option."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from tcplab.experiments import experiment
from tcplab.experiments.parameters import Runs
from tcplab.experiments.sendfile.send import send_all
from tcplab.experiments.sendfile.transfers import Plan, SendFiles, Transfer
from tcplab.lab import Lab
from tcplab.programs import HeaderOptions
from tcplab.tables import Column, run_lengths

HEADER_BYTES, FILE_BYTES, RTT_MS = 100, 10_000, 20.0
_OPTIONS: Final[Mapping[str, HeaderOptions]] = {
    "default": HeaderOptions(HEADER_BYTES),
    "TCP_NODELAY": HeaderOptions(HEADER_BYTES, nodelay=True),
    "TCP_CORK": HeaderOptions(HEADER_BYTES, cork=True),
    "TCP_CORK, never cleared": HeaderOptions(HEADER_BYTES, leave_corked=True),
    "TCP_CORK and TCP_NODELAY": HeaderOptions(HEADER_BYTES, cork=True, nodelay=True),
    "MSG_MORE": HeaderOptions(HEADER_BYTES, more=True),
}


class WithHeader(SendFiles):
    """The same header and file, sent with each socket option."""

    columns: ClassVar[Sequence[Column]] = (
        Column("variant", "method"),
        Column("ms", "ms", ".1f"),
        Column("segments", "segment sizes (bytes)"),
        Column("header_alone", "header alone"),
        Column("note", "note"),
    )

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per option, without CPU times, which are too short to measure here."""
        return [
            {
                "variant": transfer.plan.name,
                "runs": len(transfer.costs),
                "ms": None if transfer.wall_s is None else transfer.wall_s * 1e3,
                "system_calls": transfer.system_calls,
                "segments": run_lengths(transfer.segments) or None,
                "header_alone": {None: None, True: "yes", False: "no"}[header_alone(transfer)],
                "note": transfer.missing,
            }
            for transfer in self.variants
        ]


@experiment("sendfile-header")
def measure(runs: Runs = 3) -> WithHeader:
    """Send a 100-byte header before a file, with TCP_CORK, MSG_MORE and TCP_NODELAY."""
    plans = [Plan(name, "sendfile", FILE_BYTES, header=header) for name, header in _OPTIONS.items()]
    with Lab(rtt_ms=RTT_MS) as lab:
        return WithHeader(*send_all("sendfile-header", plans, runs, lab, record=True))


def header_alone(transfer: Transfer) -> bool | None:
    """Return whether the header was alone in its segment, or None if segments were not recorded."""
    if not transfer.segments:
        return None
    return transfer.segments[0] == transfer.plan.header.header_bytes
