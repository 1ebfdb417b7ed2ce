"""Test the text of the figures of sendfile, on made-up results."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.support.figures.readable import assert_readable

from tcplab import figures
from tcplab.experiments.sendfile import Cost, Plan, SendFiles, Transfer
from tcplab.experiments.sendfile.header import WithHeader
from tcplab.experiments.sendfile.wire import OverWire
from tcplab.programs import HeaderOptions

NAMES = {"A": "A: read 4096 + send", "B": "B: sendfile", "C": "C: cork, sendfile"}


def cost(size: int, wall_s: float, cpu_s_per_gb: float, segments: Sequence[int] = ()) -> Cost:
    return Cost(size, wall_s, size / wall_s / 1e6, cpu_s_per_gb, 0.2, 7, 3, 1, segments=segments)


def transfer(name: str, size_mb: int, wall_s: float, cpu: float) -> Transfer:
    size = size_mb * 1_000_000
    return Transfer(Plan(name, "sendfile", size), [cost(size, wall_s, cpu)])


def over_wire() -> OverWire:
    transfers = [
        transfer(name, size, size / 11.77, 0.5 if letter == "A" else 0.1)
        for size in (9, 32, 64)
        for letter, name in NAMES.items()
    ]
    return OverWire(transfers, {})


def with_header() -> WithHeader:
    sizes = {"default": [100, 1448, 500], "TCP_CORK": [1448, 600]}
    transfers = [
        Transfer(
            Plan(name, "sendfile", 1948, header=HeaderOptions(100)),
            [cost(2048, 0.02, 1, segments)],
        )
        for name, segments in sizes.items()
    ]
    return WithHeader(transfers, {})


def test_title_compares_cpu_time_at_equal_seconds() -> None:
    picture = figures.file_seconds(over_wire())
    assert picture.title == (
        "Each variant takes about the same time, but A takes 5.0 times the CPU time of B"
    )
    assert picture.note == "64 MB in 5.44 s"
    assert "5.43–6.64" in picture.table.text()
    assert_readable(picture)


def test_header_alone_is_in_the_title() -> None:
    picture = figures.header_segments(with_header())
    assert picture.title == "The header leaves in a separate segment with: default"
    assert "1448 + 600" in picture.table.text()
    assert_readable(picture)


def test_unmeasured_part_is_refused() -> None:
    nothing = SendFiles([], {})
    for draw in (figures.file_seconds, figures.header_segments):
        with pytest.raises(ValueError, match=r"measured|recorded"):
            draw(nothing)
