"""What a program does to the network, segment by segment: lesson 08."""

from __future__ import annotations

import itertools
import statistics
from typing import TYPE_CHECKING, Final

from tcplab.figures import style
from tcplab.figures.style import SMALL, TEXT, Picture, count
from tcplab.tables import Column, Table

if TYPE_CHECKING:
    from tcplab.experiments.diagnosis import Diagnosis

__all__ = ["data_per_segment"]

_COLUMNS: Final = (
    Column("bytes", "data (bytes)"),
    Column("segments", "segments", ",d"),
    Column("share", "of the segments", ".0%"),
    Column("header_share", "headers' share of these frames", ".0%"),
)

_MOST_DRAWN: Final = 240
_FRAME_HEADERS: Final = 66  # Ethernet 14, IPv4 20, TCP 20, time stamps 12
_BINS: Final = (1, 2, 10, 100, 500, 1000, 1447, 1448)


def data_per_segment(case: Diagnosis) -> Picture:
    """The data of each segment in the order of departure, and a table of the sizes.

    Raises:
        ValueError: nothing was sent.
    """
    sizes = case.sent["payload_bytes"].tolist()
    if not sizes:
        raise ValueError("no data segment was recorded")
    median = statistics.median_low(sizes)
    total = sum(sizes)
    headers = len(sizes) * _FRAME_HEADERS
    title = (
        f"{case.program}: {count(len(sizes), 'segment')} for {total:,} bytes, half of them with at"
        f" most {count(median, 'byte')};"
        f" {headers / (headers + total):.0%} of what passes is headers"
    )
    figure = style.new_figure()
    style.title(figure, title)
    axes = figure.add_axes((0.085, 0.11, 0.9, 0.74))
    drawn = sizes[:_MOST_DRAWN]
    numbers = range(1, len(drawn) + 1)
    axes.vlines(numbers, 0, drawn, color=style.BLUE, lw=2.2 if len(drawn) > 100 else 5)
    axes.plot(numbers, drawn, "o", ms=4, color=style.BLUE)
    axes.axhline(1448, color=style.VERMILION, ls="--", lw=2)
    axes.text(
        0.99,
        1448 * 1.08,
        "a full segment: 1448 bytes",
        ha="right",
        fontsize=SMALL,
        color=style.ink(style.VERMILION),
        transform=axes.get_yaxis_transform(),
    )
    axes.set_yscale("symlog", linthresh=1)
    axes.set_yticks([0, 1, 10, 100, 1000], ["0", "1", "10", "100", "1000"])
    axes.set_ylim(0, 4000)
    axes.set_xlim(0, len(drawn) + 1)
    axes.set_ylabel("data in the segment (bytes, logarithmic)", fontsize=TEXT)
    more = f" (the first {len(drawn)} of {len(sizes)})" if len(sizes) > len(drawn) else ""
    axes.set_xlabel(f"segment, in order of departure{more}", fontsize=TEXT)
    axes.tick_params(labelsize=SMALL)
    axes.grid(axis="y", color="#D8D8D8", lw=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    alt = (
        f"Stem plot of the data in each segment of {case.program}, smallest {min(sizes)}, median"
        f" {median:,.0f}, largest {max(sizes):,} bytes, {len(sizes):,} segments in all. {title}."
    )
    return Picture(figure, title, alt, Table(_COLUMNS, _rows(sizes)))


def _rows(sizes: list[int]) -> list[dict[str, str | float | int]]:
    """How many segments are of which size: single sizes where few occur, else ranges."""
    kinds = sorted(set(sizes))
    if len(kinds) <= 8:
        ranges = [(kind, kind) for kind in kinds]
    else:
        edges = [*_BINS, max(kinds[-1], _BINS[-1]) + 1]
        ranges = [(low, high - 1) for low, high in itertools.pairwise(edges)]
    rows: list[dict[str, str | float | int]] = []
    for low, high in ranges:
        inside = [size for size in sizes if low <= size <= high]
        if inside:
            headers = len(inside) * _FRAME_HEADERS
            rows.append(
                {
                    "bytes": str(low) if low == high else f"{low} to {high}",
                    "segments": len(inside),
                    "share": len(inside) / len(sizes),
                    "header_share": headers / (headers + sum(inside)),
                }
            )
    return rows
