"""MTU and MSS: what a packet's size costs, what a capture shows of it, and the black hole."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any, Final

from tcplab.experiments.mtu import Mtu
from tcplab.experiments.path_mtu import PathMtu, PathMtuVariant
from tcplab.figures import style
from tcplab.figures.style import SMALL, TEXT, Picture, count, ms
from tcplab.models import TCP_ON_ETHERNET, header_share
from tcplab.tables import Column, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["headers", "mtu_sweep", "path_mtu", "segment_sizes"]

#: Line style, marker and colour for offload off and on.
_LOOKS: Final = {False: ("-", "o", style.VERMILION), True: ("--", "s", style.BLUE)}


def mtu_sweep(result: Mtu) -> Picture:
    """Throughput and CPU time against the MTU, with and without offload.

    Args:
        result: of experiments.mtu.measure.
    """
    figure = style.new_figure()
    finding = _sweep_finding(result)
    style.title(figure, finding)
    speed = figure.add_axes((0.08, 0.15, 0.4, 0.68))
    cost = figure.add_axes((0.575, 0.15, 0.4, 0.68))
    for offload in sorted({each.offload for each in result.loopback}):
        line, marker, colour = _LOOKS[offload]
        rows = [each for each in result.loopback if each.offload == offload]
        rows.sort(key=lambda each: each.mtu_bytes)
        look: dict[str, Any] = {"ls": line, "marker": marker, "ms": 9, "lw": 2.6, "color": colour}
        label = f"offload {'on' if offload else 'off'}"
        x = [each.mtu_bytes for each in rows]
        speed.plot(x, [statistics.median(each.mb_per_s) for each in rows], label=label, **look)
        speed.vlines(
            x,
            [min(each.mb_per_s) for each in rows],
            [max(each.mb_per_s) for each in rows],
            color=colour,
            lw=5,
            alpha=0.35,
        )
        cost.plot(x, [statistics.median(each.cpu_s_per_gb) for each in rows], label=label, **look)
    _mtu_axis(speed, result)
    _mtu_axis(cost, result)
    speed.set_ylabel("MB/s (10$^6$ bytes a second): median, least to most", fontsize=SMALL)
    cost.set_ylabel("CPU time of both ends (s for 10$^9$ bytes)", fontsize=SMALL)
    speed.legend(fontsize=TEXT, loc="lower right", framealpha=0.95)
    cost.legend(fontsize=TEXT, loc="upper right", framealpha=0.95)
    for axes in (speed, cost):
        axes.set_ylim(bottom=0)
    alt = f"Two line plots against the MTU, throughput and CPU time. {finding}."
    return Picture(figure, finding, alt, result.tables()[0])


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
    text = ", ".join(words)
    return text[0].upper() + text[1:]


def _mtu_axis(axes: Axes, result: Mtu) -> None:
    axes.set_xscale("log")
    rows = sorted({each.mtu_bytes for each in result.loopback})
    axes.set_xticks(rows, [str(mtu) for mtu in rows])
    axes.set_xticks([], minor=True)
    axes.set_xlim(min(rows) / 1.4, max(rows) * 1.4)
    axes.set_xlabel("MTU (bytes), logarithmic", fontsize=TEXT)
    _frame(axes)


def _frame(axes: Axes) -> None:
    axes.tick_params(labelsize=SMALL)
    axes.grid(color="#D8D8D8", lw=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def headers(result: Mtu) -> Picture:
    """The part of an Ethernet that carries data, against the size of a segment: derived, measured.

    Args:
        result: of experiments.mtu.measure.

    Raises:
        ValueError: nothing was measured on the wire.
    """
    if not result.wire:
        raise ValueError("nothing was measured on the wire; give wire_mtus")
    figure = style.new_figure()
    best = max(result.wire, key=lambda each: each.mtu_bytes)
    percents = {
        each.mtu_bytes: 100 * statistics.median(each.goodput_mb_per_s) * 8 / each.rate_mbit
        for each in result.wire
    }
    shares = [
        f"{percent:.1f}\N{NO-BREAK SPACE}% are data with MTU {mtu}"
        for mtu, percent in percents.items()
    ]
    finding = f"Of {best.rate_mbit:g} Mbit/s, {', '.join(shares)}"
    style.title(figure, finding)
    axes = figure.add_axes((0.09, 0.12, 0.88, 0.71))
    sizes = sorted({round(10 ** (step / 40)) for step in range(159)} | {1, 536, 1448, 8948})
    sizes = [size for size in sizes if size <= 8948]
    curve = [100 * (1 - header_share(size, 9000, TCP_ON_ETHERNET)) for size in sizes]
    label = "derived: data / (data + 90 bytes of headers and framing)"
    axes.plot(sizes, curve, color=style.BLACK, lw=2.6, label=label)
    for row in result.wire:
        size, percent = row.mtu_bytes - 52, percents[row.mtu_bytes]
        axes.plot(
            size,
            percent,
            "D",
            ms=12,
            mfc=style.ORANGE,
            mec=style.BLACK,
            label="measured" if row is result.wire[0] else None,
            zorder=4,
        )
        axes.annotate(
            f"MTU {row.mtu_bytes}:\n{percent:.1f} %",
            (size, percent),
            xytext=(0, -16),
            textcoords="offset points",
            ha="center",
            va="top",
            fontsize=TEXT,
        )
    axes.annotate(
        f"1 byte: {curve[0]:.1f} %",
        (1, curve[0]),
        xytext=(10, 14),
        textcoords="offset points",
        fontsize=TEXT,
    )
    axes.set_xscale("log")
    axes.set_xticks([1, 10, 100, 1000, 8948], ["1", "10", "100", "1000", "8948"])
    axes.set_xlim(0.9, 14_000)
    axes.set_ylim(0, 104)
    axes.set_xlabel("data in a segment (bytes)", fontsize=TEXT)
    axes.set_ylabel("data, of what occupies the wire (%)", fontsize=TEXT)
    axes.legend(loc="upper left", fontsize=TEXT, framealpha=0.95)
    _frame(axes)
    alt = (
        f"A curve that rises from {curve[0]:.1f} % at one byte a segment towards 100 %, with the"
        f" measured points on it. {finding}."
    )
    return Picture(figure, finding, alt, result.tables()[1])


def segment_sizes(result: Mtu, mtu_bytes: int = 1500) -> Picture:
    """The packets of the same data as a capture shows them, with and without offload.

    Args:
        result: of experiments.mtu.measure, with offload on and off.
        mtu_bytes: one of the MTUs.

    Raises:
        KeyError: this MTU was not measured with and without offload.
    """
    rows = {offload: result.of(mtu_bytes, offload=offload) for offload in (False, True)}
    figure = style.new_figure()
    total = int(rows[False].captured_bytes.sum())
    without, together = rows[False], rows[True]
    finding = (
        f"The same {total:,} bytes: {count(len(without.captured_bytes), 'packet')} of at most"
        f" {without.largest_captured_bytes:,} bytes without offload,"
        f" {len(together.captured_bytes):,} of up to {together.largest_captured_bytes:,} with it"
    )
    style.title(figure, finding)
    axes = figure.add_axes((0.09, 0.12, 0.88, 0.71))
    for offload, row in rows.items():
        _line, _marker, colour = _LOOKS[offload]
        ends = row.captured_bytes.cumsum() / 1000
        starts = ends - row.captured_bytes / 1000
        axes.hlines(
            row.captured_bytes,
            starts,
            ends,
            color=colour,
            lw=5,
            label=f"offload {'on' if offload else 'off'}",
        )
        if offload:  # too many to be told apart without
            axes.plot(starts, row.captured_bytes, "|", ms=14, mew=1.2, color=style.BLACK)
    axes.axhline(mtu_bytes, color=style.GREY, ls=":", lw=2)
    axes.text(
        total / 1000, mtu_bytes * 1.06, f"MTU {mtu_bytes}", ha="right", va="bottom", fontsize=TEXT
    )
    axes.set_yscale("log")
    axes.set_ylim(100, 200_000)
    ticks = [100, 1000, 1448, 10_000, 65_536]
    axes.set_yticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.set_yticks([], minor=True)
    axes.set_xlabel("place in the stream (kB); offload on: a stroke at each packet", fontsize=TEXT)
    axes.set_ylabel("data in the packet (bytes)", fontsize=TEXT)
    axes.legend(loc="lower right", fontsize=TEXT, framealpha=0.95)
    _frame(axes)
    alt = f"Packets of a capture as strokes at the height of their size. {finding}."
    columns = (
        Column("variant", "capture"),
        Column("captured_packets", "packets", ",d"),
        Column("largest_captured_bytes", "largest (bytes)", ",d"),
        Column("captured_payload_bytes", "data in all (bytes)", ",d"),
        Column("mss_bytes", "MSS (bytes)", ",d"),
    )
    return Picture(figure, finding, alt, Table(columns, [each.row() for each in rows.values()]))


def path_mtu(result: PathMtu) -> Picture:
    """Each segment that left, when, and whether it fitted the path: a lane a case.

    Args:
        result: of experiments.path_mtu.measure.
    """
    from matplotlib.ticker import FuncFormatter

    figure = style.new_figure()
    finding = _path_finding(result)
    style.title(figure, finding)
    axes = figure.add_axes((0.185, 0.2, 0.79, 0.62))
    first_ms, last_ms = 0.01, max([100.0, *(each.ms for each in result.variants)]) * 2.2
    for y, case in enumerate(reversed(result.variants)):
        axes.axhline(y, color="#B0B0B0", lw=1, zorder=1)
        for fits, marker, colour, label in (
            (True, "o", style.BLUE, f"segment that fits MTU {result.path_mtu_bytes}"),
            (False, "X", style.VERMILION, "segment that is too long: dropped"),
        ):
            times = [max(each.ms, first_ms) for each in case.sent if each.fits is fits]
            axes.plot(
                times,
                [y] * len(times),
                marker,
                ms=11,
                mfc=colour,
                mec=style.BLACK,
                label=label if y == 0 else None,
                alpha=0.9,
                zorder=3 + (not fits),
            )
        axes.plot(
            [max(each, first_ms) for each in case.icmp_ms],
            [y + 0.2] * len(case.icmp_ms),
            "v",
            ms=12,
            mfc=style.YELLOW,
            mec=style.BLACK,
            label="ICMP: fragmentation needed" if y == 0 else None,
            zorder=6,
        )
        words = f"done after {ms(case.ms)}" if case.finished else f"gave up after {ms(case.ms)}"
        axes.text(last_ms * 0.9, y + 0.22, words, ha="right", va="bottom", fontsize=SMALL)
    axes.set_xscale("log")
    axes.set_xlim(first_ms / 1.6, last_ms)
    axes.set_ylim(-0.5, len(result.variants) - 0.3)
    names = [_case_name(each) for each in reversed(result.variants)]
    axes.set_yticks(range(len(names)), names, fontsize=SMALL)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _at: f"{value:g}"))
    axes.set_xlabel(
        f"time after the first segment with data (ms), logarithmic; the first stands at {first_ms}",
        fontsize=SMALL,
    )
    _frame(axes)
    axes.grid(visible=False, axis="y")
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=3, fontsize=SMALL, frameon=False)
    alt = f"A lane for each case, marks where segments left. {finding}."
    return Picture(figure, finding, alt, Table(result.columns, result.rows(), finding))


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
    text = "; ".join(words)
    return text[0].upper() + text[1:]
