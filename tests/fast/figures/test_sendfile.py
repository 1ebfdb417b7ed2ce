"""Test the text of the figures of sendfile, on made-up results."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.support.figures.readable import assert_readable

from tcplab import figures
from tcplab.experiments.sendfile import Cost, Plan, SendFiles, Transfer
from tcplab.experiments.sendfile.header import WithHeader
from tcplab.programs import HeaderOptions


def cost(size: int, wall_s: float, cpu_s_per_gb: float, segments: Sequence[int] = ()) -> Cost:
    return Cost(size, wall_s, size / wall_s / 1e6, cpu_s_per_gb, 0.2, 7, 3, 1, segments=segments)


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


def test_header_alone_is_in_the_title() -> None:
    picture = figures.header_segments(with_header())
    assert picture.title == "The header leaves in a separate segment with: default"
    assert "1448 + 600" in picture.table.text()
    assert_readable(picture)


def test_unmeasured_part_is_refused() -> None:
    nothing = SendFiles([], {})
    with pytest.raises(ValueError, match="recorded"):
        figures.header_segments(nothing)
