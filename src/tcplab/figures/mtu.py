"""Lesson 03: the cost of a packet's size, and the black hole."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from tcplab.experiments.mtu import Mtu
from tcplab.experiments.path_mtu import PathMtu, PathMtuVariant
from tcplab.figures import style
from tcplab.figures.bars import named_once
from tcplab.figures.picture import Picture, old, some
from tcplab.figures.style import SMALL, TEXT, count, ms
from tcplab.models import TCP_ON_ETHERNET, header_share
from tcplab.tables import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["headers", "mtu_sweep", "path_mtu"]

#: Line style, marker and colour for offload off and on.
_LOOKS: Final = {False: ("-", "o", style.VERMILION), True: ("--", "s", style.BLUE)}
_FIRST_MS: Final = 0.01  # an earlier time has no place on the logarithmic axis


@old
def mtu_sweep(result: Mtu) -> Picture:
    """Throughput and CPU time against the MTU, with and without offload."""
    figure = style.new_figure()
    speed = figure.add_axes((0.08, 0.15, 0.4, 0.68))
    cost = figure.add_axes((0.575, 0.15, 0.4, 0.68))
    for offload in sorted({each.offload for each in result.loopback}):
        line, marker, colour = _LOOKS[offload]
        rows = [each for each in result.loopback if each.offload == offload]
        rows.sort(key=lambda each: each.mtu_bytes)
        look: dict[str, Any] = {"ls": line, "marker": marker, "ms": 9, "lw": 2.6, "color": colour}
        look["label"] = _offload_name(offload)
        x = [each.mtu_bytes for each in rows]
        speed.plot(x, [statistics.median(each.mb_per_s) for each in rows], **look)
        least = [min(each.mb_per_s) for each in rows]
        most = [max(each.mb_per_s) for each in rows]
        speed.vlines(x, least, most, color=colour, lw=5, alpha=0.35)
        cost.plot(x, [statistics.median(each.cpu_s_per_gb) for each in rows], **look)
    for axes in (speed, cost):
        _mtu_axis(axes, result)
        axes.set_ylim(bottom=0)
    speed.set_ylabel("MB/s (10⁶ bytes per second): median, least to most", fontsize=SMALL)
    cost.set_ylabel("CPU time of both ends (s for 10⁹ bytes)", fontsize=SMALL)
    speed.legend(loc="lower right")
    cost.legend(loc="upper right")
    finding = _sweep_finding(result)
    alt = f"Two line plots against the MTU, throughput and CPU time. {finding}."
    return Picture(figure, finding, alt, result.tables()[0])


def _offload_name(offload: bool) -> str:
    return f"offload {'on' if offload else 'off'}"


def _sweep_finding(result: Mtu) -> str:
    words = []
    for offload in sorted({each.offload for each in result.loopback}):
        rows = [each for each in result.loopback if each.offload == offload]
        low, high = (pick(rows, key=lambda each: each.mtu_bytes) for pick in (min, max))
        ratio = statistics.median(high.mb_per_s) / statistics.median(low.mb_per_s)
        words.append(
            f"{'with' if offload else 'without'} offload MTU {high.mtu_bytes} carries"
            f" {ratio:.1f} × what {low.mtu_bytes} does"
        )
    return _sentence(", ".join(words))


def _mtu_axis(axes: Axes, result: Mtu) -> None:
    axes.set_xscale("log")
    rows = sorted({each.mtu_bytes for each in result.loopback})
    axes.set_xticks(rows, [str(mtu) for mtu in rows])
    axes.set_xticks([], minor=True)
    axes.set(xlim=(min(rows) / 1.4, max(rows) * 1.4), xlabel="MTU (bytes), logarithmic")
    axes.grid()


@old
def headers(result: Mtu) -> Picture:
    """The share of an Ethernet's rate that is data, by size of segment: derived and measured."""
    wire = some(result.wire, "nothing was measured on the wire; give wire_mtus")
    figure, axes = style.new_axes((0.09, 0.12, 0.88, 0.71), grid="both")
    sizes = sorted({round(10 ** (step / 40)) for step in range(159)} | {1, 536, 1448, 8948})
    sizes = [size for size in sizes if size <= 8948]
    curve = [100 * (1 - header_share(size, 9000, TCP_ON_ETHERNET)) for size in sizes]
    label = "derived: data / (data + 90 bytes of headers and framing)"
    axes.plot(sizes, curve, color="black", lw=2.6, label=label)
    percents = {
        each.mtu_bytes: 100 * statistics.median(each.goodput_mb_per_s) * 8 / each.rate_mbit
        for each in wire
    }
    _measured_shares(axes, percents)
    words = f"1 byte: {curve[0]:.1f} %"
    axes.annotate(words, (1, curve[0]), (10, 14), textcoords="offset points", fontsize=TEXT)
    axes.set_xscale("log")
    axes.set_xticks([1, 10, 100, 1000, 8948], ["1", "10", "100", "1000", "8948"])
    axes.set(xlim=(0.9, 14_000), ylim=(0, 104))
    axes.set(xlabel="data in a segment (bytes)", ylabel="data, of what occupies the wire (%)")
    axes.legend(loc="upper left")
    shares = [
        f"{percent:.1f}\N{NO-BREAK SPACE}% are data with MTU {mtu}"
        for mtu, percent in percents.items()
    ]
    best = max(wire, key=lambda each: each.mtu_bytes)
    finding = f"Of {best.rate_mbit:g} Mbit/s, {', '.join(shares)}"
    alt = (
        f"A curve that rises from {curve[0]:.1f} % at one byte per segment towards 100 %, with the"
        f" measured points on it. {finding}."
    )
    return Picture(figure, finding, alt, result.tables()[1])


def _measured_shares(axes: Axes, percents: Mapping[int, float]) -> None:
    """A point per MTU, at the data of a full segment."""
    sizes = [mtu - 52 for mtu in percents]
    look: dict[str, Any] = {"mfc": style.ORANGE, "mec": "black", "zorder": 4}
    axes.plot(sizes, list(percents.values()), "D", ms=12, label="measured", **look)
    for (mtu, percent), size in zip(percents.items(), sizes, strict=True):
        words = f"MTU {mtu}:\n{percent:.1f} %"
        below: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "va": "top"}
        axes.annotate(words, (size, percent), (0, -16), fontsize=TEXT, **below)


@old
def path_mtu(result: PathMtu) -> Picture:
    """Each segment that left, when, and whether it fitted the path: one lane per case."""
    figure, axes = style.new_axes((0.185, 0.2, 0.79, 0.62), grid="x")
    last_ms = max([100.0, *(each.ms for each in result.variants)]) * 2.2
    cases = list(reversed(result.variants))
    for y, case in enumerate(cases):
        _path_lane(axes, case, y, result.path_mtu_bytes)
        words = f"done after {ms(case.ms)}" if case.finished else f"gave up after {ms(case.ms)}"
        axes.text(last_ms * 0.9, y + 0.22, words, ha="right")
    axes.set(xscale="log", xlim=(_FIRST_MS / 1.6, last_ms), ylim=(-0.5, len(cases) - 0.3))
    axes.set_yticks(range(len(cases)), [_case_name(each) for each in cases])
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel(
        "time after the first segment with data (ms), logarithmic; the first stands at"
        f" {_FIRST_MS}",
        fontsize=SMALL,
    )
    figure.legend(loc="lower center", ncols=3, frameon=False)
    finding = _path_finding(result)
    alt = f"A lane for each case, marks where segments left. {finding}."
    return Picture(figure, finding, alt, Table(result.columns, result.rows(), finding))


def _path_lane(axes: Axes, case: PathMtuVariant, y: int, path_mtu_bytes: int) -> None:
    axes.axhline(y, color="#B0B0B0", lw=1, zorder=1)
    fitted = [each.ms for each in case.sent if each.fits]
    dropped = [each.ms for each in case.sent if not each.fits]
    for times, height, marker, size, colour, name in (
        (fitted, y, "o", 11, style.BLUE, f"segment that fits MTU {path_mtu_bytes}"),
        (dropped, y, "X", 11, style.VERMILION, "segment that is too long: dropped"),
        (case.icmp_ms, y + 0.2, "v", 12, style.YELLOW, "ICMP: fragmentation needed"),
    ):
        xs = [max(each, _FIRST_MS) for each in times]
        look: dict[str, Any] = {"ms": size, "mfc": colour, "mec": "black", "alpha": 0.9}
        axes.plot(xs, [height] * len(xs), marker, zorder=4, label=named_once(axes, name), **look)


def _case_name(case: PathMtuVariant) -> str:
    cure = case.cure.removeprefix("setsockopt ").removeprefix("sysctl net.ipv4.")
    return f"{case.name}\n({cure})" if cure and cure.split()[0] != case.name else cure or case.name


def _path_finding(result: PathMtu) -> str:
    done = [each for each in result.variants if each.finished]
    stuck = [each for each in result.variants if not each.finished]
    words = []
    if done:
        words.append(f"{done[0].name}: all data through after {ms(done[0].ms)}")
    if stuck:
        dropped = stuck[0].dropped
        words.append(f"{stuck[0].name}: {count(dropped, 'packet')} dropped, none gets through")
    return _sentence("; ".join(words))


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
