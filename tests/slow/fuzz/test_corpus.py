"""Run sanitized fuzz targets on tests/fuzz/corpus, and the wire's parsers on damaged frames."""

import os
from pathlib import Path

import pytest
from tests.lab.wire.test_faults import parse
from tests.support.commands import completed
from tests.support.paths import ROOT


@pytest.mark.parametrize("target", ["command_line", "udpsink", "recordsink"])
def test_sanitizers_find_nothing_in_the_corpus(sanitized_directory: Path, target: str) -> None:
    inputs = sorted((ROOT / "tests/fuzz/corpus" / target).iterdir())
    assert len(inputs) >= 8
    done = completed(
        [sanitized_directory / f"fuzz_{target}", *inputs],
        env=os.environ | {"ASAN_OPTIONS": "detect_leaks=0"},
        errors="replace",
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.timeout(300)
def test_wire_parsers_read_no_byte_outside_the_frame(sanitized_directory: Path) -> None:
    parse(sanitized_directory, rounds=1_000_000)
