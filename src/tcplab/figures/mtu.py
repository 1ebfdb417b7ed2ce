"""Draw the figures for the segments and path-mtu lessons: packet sizes, and the black hole."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from tcplab.experiments.mtu import Mtu
from tcplab.experiments.path_mtu import PathMtu, PathMtuVariant
from tcplab.figures import bars, canvas, style
from tcplab.figures.bars import named_once
from tcplab.figures.picture import Picture, drawn, some
from tcplab.figures.style import ON_WHITE
from tcplab.models import TCP_ON_ETHERNET, header_share
from tcplab.tables import Table, count, digits, ms

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["headers", "path_mtu"]

_LINEAR_MS: Final = 0.05  # end of the axis's linear part, which includes 0


@drawn
def headers(result: Mtu) -> Picture:
    """Draw the payload's share of Ethernet's rate by segment size, as derived and as measured."""
    wire = some(result.wire, "nothing was measured on the wire; give wire_mtus")
    figure, axes = canvas.new_axes(grid="both")
    sizes = sorted({round(10 ** (step / 40)) for step in range(159)} | {1, 536, 1448, 8948})
    sizes = [size for size in sizes if size <= 8948]
    curve = [100 * (1 - header_share(size, 9000, TCP_ON_ETHERNET)) for size in sizes]
    label = "derived: data / (data + 90 bytes of headers and framing)"
    axes.plot(sizes, curve, color="black", label=label)
    percents = {
        row.mtu_bytes: 100 * statistics.median(row.goodput_mb_per_s) * 8 / row.rate_mbit
        for row in wire
    }
    _measured_shares(axes, percents)
    text = f"1 byte: {curve[0]:.1f} %"
    axes.annotate(text, (1, curve[0]), (2, 12), textcoords="offset points")
    axes.set_xscale("log")
    axes.set_xticks([1, 10, 100, 1000, 8948], ["1", "10", "100", "1000", "8948"])
    axes.set(xlim=(0.9, 30_000), ylim=(0, 116))
    axes.set(xlabel="data in a segment (bytes)", ylabel="data, of what occupies the wire (%)")
    canvas.legend(figure, ncols=1)
    shares = [
        f"{percent:.1f}\N{NO-BREAK SPACE}% with MTU {mtu}" for mtu, percent in percents.items()
    ]
    best = max(wire, key=lambda row: row.mtu_bytes)
    finding = "The larger the segments, the larger the share of data on the link"
    note = f"data, of {best.rate_mbit:g} Mbit/s: {', '.join(shares)}"
    return Picture(figure, finding, result.tables()[1], note)


def _measured_shares(axes: Axes, percents: Mapping[int, float]) -> None:
    """Draw a point for each MTU, at the payload of a full segment."""
    sizes = [mtu - 52 for mtu in percents]
    look: dict[str, Any] = {"mfc": style.ORANGE, "mec": "black", "zorder": 4}
    axes.plot(sizes, list(percents.values()), "D", ms=9, label="measured", **look)
    *others, largest = sorted(percents)
    above: dict[str, Any] = {"textcoords": "offset points", "ha": "right"}
    at = largest - 52, percents[largest]
    axes.annotate(f"MTU {largest}: {percents[largest]:.1f} %", at, (14, 8), **above)
    # The other labels are below all points, which a busy machine may have moved anywhere.
    for row, mtu in enumerate(reversed(others), 1):
        x = mtu - 52
        y = max(min(percents.values()) - 13 * row, 3)
        axes.plot([x, x], [percents[mtu], y], color="black", lw=0.6, zorder=2)
        axes.text(x, y, f"MTU {mtu}: {percents[mtu]:.1f} %", va="top", bbox=ON_WHITE)


@drawn
def path_mtu(result: PathMtu) -> Picture:
    """Draw when each segment left, and whether it fitted the path, in a lane per case."""
    cases = list(result.variants)
    figure, axes = canvas.new_axes(grid="x")
    last_ms = max([100.0, *(case.ms for case in cases)]) * 2
    for y, case in enumerate(cases):
        _path_lane(axes, case, y, result.path_mtu_bytes)
        text = f"done after {ms(case.ms)}" if case.finished else f"gave up after {ms(case.ms)}"
        axes.text(last_ms, y + 0.3, text, ha="right", va="center")
    axes.set_xscale("symlog", linthresh=_LINEAR_MS, linscale=0.4)
    axes.set_xlim(-0.1 * _LINEAR_MS, last_ms)
    bars.name_rows(axes, [_case_name(case) for case in cases])
    ticks = [0, *(10.0**power for power in range(-1, 6) if 10.0**power < last_ms)]
    axes.set_xticks(ticks, [digits(tick) for tick in ticks])
    axes.set_xticks([], minor=True)
    axes.set_xlabel("ms after the first segment with data, logarithmic from 0.05 on")
    canvas.legend(figure)
    finding, note = _path_finding(result)
    return Picture(figure, finding, Table(result.columns, result.rows(), finding), note)


def _path_lane(axes: Axes, case: PathMtuVariant, y: int, path_mtu_bytes: int) -> None:
    axes.axhline(y, color=style.FAINT, lw=1, zorder=1)
    fitted = [segment.ms for segment in case.sent if segment.fits]
    dropped = [segment.ms for segment in case.sent if not segment.fits]
    for times, height, marker, colour, name in (
        (fitted, y, "o", style.BLUE, f"segment that fits MTU {path_mtu_bytes}"),
        (dropped, y, "X", style.VERMILION, "segment too long: dropped"),
        (case.icmp_ms, y - 0.2, "v", style.YELLOW, "ICMP: fragmentation needed"),
    ):
        look: dict[str, Any] = {"mfc": colour, "mec": "black", "alpha": 0.9, "zorder": 4}
        label = named_once(axes, name)
        axes.plot(times, [height] * len(times), marker, ls="", label=label, **look)


def _case_name(case: PathMtuVariant) -> str:
    fix = case.fix.removeprefix("setsockopt ").removeprefix("sysctl net.ipv4.")
    return f"{case.name}\n({fix})" if fix and fix.split()[0] != case.name else fix or case.name


def _path_finding(result: PathMtu) -> tuple[str, str]:
    """Return the title and the note of the figure of the cases."""
    done = [variant for variant in result.variants if variant.finished]
    stuck = [variant for variant in result.variants if not variant.finished]
    titles, notes = [], []
    if done:
        titles.append(f"all data gets through in the case '{done[0].name}'")
        notes.append(f"{done[0].name}: after {ms(done[0].ms)}")
    if stuck:
        titles.append(f"the transfer never ends in the case '{stuck[0].name}'")
        notes.append(f"{stuck[0].name}: {count(stuck[0].dropped, 'packet')} dropped")
    return _sentence(", but ".join(titles)), " · ".join(notes)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
