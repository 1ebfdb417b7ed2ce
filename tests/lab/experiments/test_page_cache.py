"""The page cache: the steps of a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tcplab.experiments import page_cache
from tcplab.experiments.files import NO_DISK, can_be_cold, file_of


def test_file_goes_into_the_page_cache_step_by_step() -> None:
    with file_of(4096) as probe:
        if not can_be_cold(probe):
            pytest.skip("no disk here: all directories for temporary files are on a tmpfs")
    cache = page_cache.measure(size_mb=16)
    written, dropped, quarter, everything, again = cache.variants
    assert dropped.cached_share <= 0.05
    assert 0.2 <= quarter.cached_share <= 1
    assert min(each.cached_share for each in (written, everything, again)) >= 0.95
    assert again.mb_per_s


def test_without_a_disk_its_recording_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tcplab.experiments.files._ELSEWHERE", ())
    monkeypatch.setattr("tempfile.tempdir", "/dev/shm")
    cache = page_cache.measure()
    assert cache.provenance["recorded"]["why"] == NO_DISK
    assert not list(Path("/dev/shm").glob("tcplab-*"))
