"""Measure how a file enters and leaves the page cache, and how fast it is read."""

import time
from pathlib import Path

from tcplab.errors import MissingError
from tcplab.experiments import Result, Variant, column, experiment, provenance
from tcplab.experiments.files import NO_DISK, can_be_cold, file_of
from tcplab.experiments.mode import open_loopback
from tcplab.experiments.parameters import SizeMb
from tcplab.programs import page_cache


class CacheStep(Variant):
    """A step of the experiment, and the share of the file in the page cache after it."""

    action: str = column("step")
    cached_share: float = column("in the page cache", ".0%")  #: share that mincore(2) reports
    mb_per_s: float | None = column("read rate (MB/s)", ".0f", default=None)


@experiment("page-cache", on_loopback=True, figure=("cached_share", "mb_per_s"))
def measure(size_mb: SizeMb = 64) -> Result[CacheStep]:
    """Write a file, drop it from the page cache, and read a quarter of it, then all of it twice."""
    with open_loopback() as network, file_of(size_mb * 1_000_000) as path:
        steps = [CacheStep("just written", page_cache(network, path))]
        if not can_be_cold(path):
            raise MissingError(NO_DISK)
        steps.append(CacheStep("dropped (POSIX_FADV_DONTNEED)", page_cache(network, path, "cold")))
        for action, share in (("read: a quarter", 0.25), ("read: all", 1), ("read: all again", 1)):
            rate = _read(path, round(size_mb * 1e6 * share))
            steps.append(CacheStep(action, page_cache(network, path), rate))
        return Result(steps, provenance(network, size_mb=size_mb))


def _read(path: Path, file_bytes: int) -> float:
    buffer = bytearray(1 << 17)
    start, left = time.perf_counter(), file_bytes
    with path.open("rb", buffering=0) as file:
        while left > 0 and (got := file.readinto(memoryview(buffer)[:left])):
            left -= got
    return (file_bytes - left) / 1e6 / (time.perf_counter() - start)
