"""Send a header before a file, and see which segments leave with each socket option."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tcplab.experiments import Result, Variant, column, computed, experiment, provenance
from tcplab.experiments.exchange import segments_of
from tcplab.experiments.files import file_of
from tcplab.experiments.parameters import Runs
from tcplab.experiments.progress import in_rounds
from tcplab.lab import Lab
from tcplab.programs import HeaderOptions, send_file
from tcplab.tables import run_lengths

HEADER_BYTES, FILE_BYTES, RTT_MS = 100, 10_000, 20.0
_OPTIONS: Final[Mapping[str, HeaderOptions]] = {
    "default": HeaderOptions(HEADER_BYTES),
    "TCP_NODELAY": HeaderOptions(HEADER_BYTES, nodelay=True),
    "TCP_CORK": HeaderOptions(HEADER_BYTES, cork=True),
    "TCP_CORK, never cleared": HeaderOptions(HEADER_BYTES, leave_corked=True),
    "TCP_CORK and TCP_NODELAY": HeaderOptions(HEADER_BYTES, cork=True, nodelay=True),
    "MSG_MORE": HeaderOptions(HEADER_BYTES, more=True),
}


class WithHeader(Variant, heading="method"):
    """A header and a file that were sent with one socket option."""

    option: str
    ms: float = column("ms", ".1f")  #: median over the runs
    #: payloads in the last run
    segments: Sequence[int] = column("segment sizes (bytes)", show=run_lengths)

    header_alone = computed(
        lambda case: "yes" if case.segments[0] == HEADER_BYTES else "no", "header alone"
    )


@experiment("sendfile-header")
def measure(runs: Runs = 3) -> Result[WithHeader]:
    """Send a 100-byte header before a file, with TCP_CORK, MSG_MORE and TCP_NODELAY."""
    with Lab(rtt_ms=RTT_MS) as lab, file_of(FILE_BYTES) as path:
        results, done = in_rounds(
            "sendfile-header", runs, list(_OPTIONS), lambda option: _sent(lab, path, option)
        )
        variants = [
            WithHeader(option, statistics.median(ms for ms, _sizes in sent), sent[-1][1])
            for option, sent in results.items()
        ]
        return Result(variants, provenance(lab, **done))


def _sent(lab: Lab, path: Path, option: str) -> tuple[float, Sequence[int]]:
    with lab.client.capture() as capture:
        result = send_file(lab, path, method="sendfile", header=_OPTIONS[option])
    sizes = segments_of(capture).data("client", retransmissions=False)["payload_bytes"]
    return 1e3 * result.usage.wall_s, sizes.tolist()
