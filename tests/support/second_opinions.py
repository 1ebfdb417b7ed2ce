"""Re-read captures that the tests record, with tshark.

    TCPLAB_KEEP_CAPTURES=DIRECTORY pytest tests/lab/timeline
    python -m tests.support.second_opinions DIRECTORY

The exit status is 1 if a difference has no reason (docs/accuracy.md), or if there is no capture.
A recording is kept only if it dropped no packet, has whole headers, and has at most MOST_BYTES.
"""

import sys
import uuid
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support import wireshark
from tests.support.needs import lacking

from tcplab.capture import Capture
from tcplab.capture.recording import HEADERS_ONLY
from tcplab.segments import from_file
from tcplab.segments.pcap import PacketTable, warn_of_gaps

#: Larger captures are not kept, because they differ only in their length.
MOST_BYTES = 4 << 20


@contextmanager
def collecting(directory: Path) -> Iterator[None]:
    """Keep a copy of each suitable recording that ends in the body of the with statement."""

    def keep_and_warn(packets: PacketTable, path: Path, *, advice: str, stacklevel: int) -> None:
        capture = Capture(path)
        if not capture.drops and path.stat().st_size <= MOST_BYTES and _whole(capture):
            capture.save(directory / f"{uuid.uuid4().hex}.pcapng")
        warn_of_gaps(packets, path, advice=advice, stacklevel=stacklevel + 1)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tcplab.capture.recording.warn_of_gaps", keep_and_warn)
        yield


def _whole(capture: Capture) -> bool:
    captured, original = capture.table.captured_bytes, capture.table.original_bytes
    return bool(((captured >= HEADERS_ONLY) | (captured == original)).all())


def unexplained(path: Path) -> str:
    """Return a line if tshark reads the capture differently without a reason, or ""."""
    differences = wireshark.unexplained(from_file(path), path)
    return f"{path}: {differences}" if differences else ""


def main() -> int:
    captures = sorted(Path(sys.argv[1]).iterdir())
    if why := lacking("tshark"):
        sys.exit(why)
    with ProcessPoolExecutor() as pool:
        disagreements = [*filter(None, pool.map(unexplained, captures))]
    summary = f"second opinions: {len(captures)} captures, {len(disagreements)} disagreements"
    print("\n".join([*disagreements, summary]))
    return int(bool(disagreements) or not captures)


if __name__ == "__main__":
    sys.exit(main())
