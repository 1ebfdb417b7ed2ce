"""TCP against UDP: the text's tables and ours on one axis, lost datagrams, and batching."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from tcplab.experiments.tcp_vs_udp import PUBLISHED, Server, TableRow, TcpVsUdp, published_ratio
from tcplab.experiments.udp_batching import Batching
from tcplab.experiments.udp_receive_buffers import ReceiveBuffer, ReceiveBuffers
from tcplab.figures import style
from tcplab.figures.style import SMALL, Picture
from tcplab.figures.style import TEXT as TEXT_SIZE
from tcplab.tables import Column, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["batching", "receive_buffers", "tcp_vs_udp"]

_COLOURS: Final = {"tcp": style.BLUE, "udp": style.VERMILION}
_MARKERS: Final = {"tcp": "o", "udp": "s"}
_PATHS: Final[Mapping[Server, str]] = {
    "bsd": "On one machine (MTU 1500)",
    "localhost": "On one machine (MTU 16384)",
    "sparc": "Over a wire of 10 Mbit/s",
    "router": "Through a router to a wire of 10 Mbit/s",
}


def tcp_vs_udp(result: TcpVsUdp) -> Picture:
    """The text's MB/s and ours, a line a row, on a logarithmic axis.

    Args:
        result: of experiments.tcp_vs_udp.measure.
    """
    figure = style.new_figure()
    finding = _tables_finding(result)
    style.title(figure, finding)
    sizes = list(dict.fromkeys(each.write_bytes for each in result.variants))
    width = 0.86 / len(sizes)
    for number, size in enumerate(sizes):
        left = 0.13 + number * width
        axes = figure.add_axes((left, 0.17, width - 0.02, 0.65))
        _draw_rates(
            axes, [each for each in result.variants if each.write_bytes == size], number == 0
        )
        axes.set_title(f"blocks of {size} bytes", fontsize=TEXT_SIZE, loc="left")
    named = dict(zip(*reversed(figure.axes[0].get_legend_handles_labels()), strict=True))
    labels = sorted(named, key=lambda label: not label.startswith("the text"))
    figure.legend(
        [named[label] for label in labels],
        labels,
        loc="lower center",
        ncols=3,
        fontsize=SMALL,
        frameon=False,
    )
    columns = (
        Column("protocol", "protocol"),
        Column("write_bytes", "bytes", "d"),
        Column("server", "server"),
        Column("published_mb_per_s", "the text (MB/s)", ".4g"),
        Column("mb_per_s", "measured (MB/s)", ".4g"),
        Column("mb_per_s_min", "min", ".4g"),
        Column("mb_per_s_max", "max", ".4g"),
    )
    rows = result.rows()
    fastest = max(rows, key=lambda row: float(row["mb_per_s"]))
    alt = (
        f"Dot plot on a logarithmic axis, the text's rates beside those of this run. {finding}."
        f" The fastest row is {fastest['protocol']} {fastest['server']},"
        f" {fastest['write_bytes']} bytes, with {fastest['mb_per_s']:.0f} MB/s."
    )
    return Picture(figure, finding, alt, Table(columns, rows, finding))


def _tables_finding(result: TcpVsUdp) -> str:
    size = max(each.write_bytes for each in result.variants)
    found: list[str] = []
    for protocol in ("tcp", "udp"):
        over, under = ("localhost", protocol, size), ("bsd", protocol, size)
        try:
            ratio = result.ratio(over, under)
        except KeyError:
            continue
        text = f" (the text: {published_ratio(over, under):.1f} ×)" if over in PUBLISHED else ""
        places = "" if found else " as fast to localhost as to bsd"
        found.append(f"{protocol.upper()} is {ratio:.1f} ×{places}{text}")
    return ", ".join(found) or _pair_finding(result, size)


def _pair_finding(result: TcpVsUdp, write_bytes: int) -> str:
    """Of a run that does not compare two ways on one machine: the protocols on one way."""
    best = max(result.variants, key=lambda each: each.mb_per_s)
    blocks = f"blocks of {write_bytes:,} bytes"
    try:
        tcp, udp = (result[best.server, each, write_bytes] for each in ("tcp", "udp"))
    except KeyError:
        return (
            f"{_PATHS[best.server]} {best.protocol.upper()} hands over blocks of"
            f" {best.write_bytes:,} bytes at {_digits(best.mb_per_s)} MB/s"
        )
    fast, slow = (udp, tcp) if udp.mb_per_s >= tcp.mb_per_s else (tcp, udp)
    times = fast.mb_per_s / slow.mb_per_s
    keys = [(each.server, each.protocol, write_bytes) for each in (fast, slow)]
    rates = f"{_digits(fast.mb_per_s)} and {_digits(slow.mb_per_s)} MB/s"
    names = [each.protocol.upper() for each in (fast, slow)]
    text = published_ratio(*keys) if set(keys) <= set(PUBLISHED) else None
    if f"{times:.1f}" == "1.0":
        said = f" (the text: {names[0]} {text:.2g} times as fast)" if text else ""
        return f"{_PATHS[fast.server]} both hand over {blocks} equally fast{said}: {rates}"
    said = f" (the text: {text:.2g} times)" if text else ""
    return (
        f"{_PATHS[fast.server]} {names[0]} hands over {blocks} {times:.1f} times as fast as"
        f" {names[1]}{said}: {rates}"
    )


def _draw_rates(axes: Axes, series: Sequence[TableRow], named: bool) -> None:
    from matplotlib.ticker import FuncFormatter

    drawn = list(reversed(series))
    seen: set[str] = set()
    for y, each in enumerate(drawn):
        colour, rates = _COLOURS[each.protocol], [run.sent_mb_per_s for run in each.runs]
        label = f"{each.protocol.upper()}, this run: median, least to most"
        axes.plot([min(rates), max(rates)], [y, y], color=colour, lw=3, alpha=0.55, zorder=2)
        axes.plot(
            each.mb_per_s,
            y,
            _MARKERS[each.protocol],
            ms=10,
            color=colour,
            label=None if label in seen else label,
            zorder=4,
        )
        seen.add(label)
        axes.text(
            1.25 * max(rates), y, _digits(each.mb_per_s), ha="left", va="center", fontsize=SMALL
        )
        text = PUBLISHED.get((each.server, each.protocol, each.write_bytes))
        if text is None:
            continue
        label = "the text's mean of 50"
        axes.plot(
            text.mb_per_s,
            y,
            "D",
            ms=11,
            mfc="white",
            mec=style.BLACK,
            mew=2,
            label=None if label in seen else label,
            zorder=3,
        )
        seen.add(label)
        axes.text(
            text.mb_per_s / 1.25, y, f"{text.mb_per_s:g}", ha="right", va="center", fontsize=SMALL
        )
    axes.set_xscale("log")
    rates = [run.sent_mb_per_s for each in drawn for run in each.runs]
    rates += [figures.mb_per_s for figures in PUBLISHED.values()]
    axes.set_xlim(min(rates) / 6, 10 * max(rates))  # with room for the numbers
    axes.set_ylim(-0.65, len(drawn) - 0.3)
    names = [f"{each.protocol.upper()} {each.server}" if named else "" for each in drawn]
    axes.set_yticks(range(len(drawn)), names, fontsize=TEXT_SIZE)
    axes.set_xlabel("MB/s (10$^6$ bytes a second)", fontsize=TEXT_SIZE)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _at: f"{value:g}"))
    _frame(axes)


def _digits(mb_per_s: float) -> str:
    return f"{mb_per_s:,.0f}" if mb_per_s >= 100 else f"{mb_per_s:.3g}"


def _frame(axes: Axes) -> None:
    axes.tick_params(labelsize=SMALL)
    axes.grid(axis="x", color="#D8D8D8", lw=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def receive_buffers(result: ReceiveBuffers) -> Picture:
    """How many datagrams were lost with each size of the receive buffer.

    Args:
        result: of experiments.udp_receive_buffers.measure.
    """
    figure = style.new_figure()
    buffers = result.variants
    smallest, largest = buffers[0], buffers[-1]
    finding = (
        f"Lost on one machine: {_worst(smallest)} of the datagrams with room for"
        f" {smallest.room_datagrams:,} of them, {_worst(largest)} with room for"
        f" {largest.room_datagrams:,}"
    )
    style.title(figure, finding)
    axes = figure.add_axes((0.09, 0.2, 0.88, 0.62))
    for x, each in enumerate(buffers):
        shares = [100 * lost / each.sent for lost in each.lost]
        middle = statistics.median(shares)
        axes.bar(x, middle, 0.55, color=style.SKY, edgecolor=style.BLACK, hatch="//", zorder=2)
        axes.plot([x, x], [min(shares), max(shares)], color=style.BLACK, lw=3, zorder=3)
        axes.plot([x] * len(shares), shares, "_", ms=16, mew=2, color=style.BLACK, zorder=3)
        axes.text(
            x,
            max([*shares, 2.0]) + 2,
            f"median: {statistics.median(each.lost):,.0f} of {each.sent:,}",
            ha="center",
            va="bottom",
            fontsize=TEXT_SIZE,
        )
    names = [
        f"{_bytes(each.requested_bytes)} asked for\n{_bytes(each.granted_bytes)} granted\n"
        f"room for {each.room_datagrams:,}"
        for each in buffers
    ]
    axes.set_xticks(range(len(buffers)), names, fontsize=SMALL)
    axes.set_ylim(0, 112)
    axes.set_yticks(range(0, 101, 20))
    axes.set_ylabel("lost (%): median, and each run", fontsize=TEXT_SIZE)
    _frame(axes)
    axes.grid(axis="y", color="#D8D8D8", lw=0.8)
    axes.grid(visible=False, axis="x")
    elsewhere = max(row["lost_elsewhere"] for row in result.rows())
    where = (
        f"Up to {elsewhere:,} were lost elsewhere"
        if elsewhere
        else "Every loss was counted at the receive buffer"
    )
    alt = (
        f"Bars: the share of datagrams lost on one machine, for {len(buffers)} sizes of the receive"
        f" buffer. {finding}. {where}."
    )
    return Picture(figure, finding, alt, Table(result.columns, result.rows(), finding))


def _worst(each: ReceiveBuffer) -> str:
    if not any(each.lost):
        return "none"
    return f"up to {100 * max(each.lost) / each.sent:.3g}\N{NO-BREAK SPACE}%"


def _bytes(number: int) -> str:
    if number >= 1 << 20:
        return f"{number / (1 << 20):.3g} MiB"
    return f"{number / 1024:.3g} KiB" if number >= 1024 else f"{number} bytes"


def batching(result: Batching) -> Picture:
    """What arrived a second, by how much one system call hands over.

    Args:
        result: of experiments.udp_batching.measure.
    """
    figure = style.new_figure()
    rows = result.rows()
    best = max(
        (row for row in rows if row["variant"].startswith("udp")), key=lambda row: row["mb_per_s"]
    )
    finding = (
        f"UDP with {best['bytes_per_call']:,} bytes per call carries {best['times_plain']:.1f}"
        f" times what it carries with {rows[0]['bytes_per_call']:,}"
    )
    style.title(figure, finding)
    axes = figure.add_axes((0.335, 0.12, 0.62, 0.74))
    for y, row in enumerate(reversed(rows)):
        protocol = "tcp" if row["variant"].startswith("tcp") else "udp"
        colour = _COLOURS[protocol]
        axes.barh(
            y,
            row["mb_per_s"],
            0.55,
            color=colour,
            alpha=0.55,
            hatch="//" if protocol == "udp" else "",
            edgecolor=style.BLACK,
            zorder=2,
        )
        axes.plot(
            [row["mb_per_s_min"], row["mb_per_s_max"]], [y, y], color=style.BLACK, lw=3, zorder=3
        )
        axes.text(
            max(row["mb_per_s"], row["mb_per_s_max"]) * 1.01,
            y,
            f"  {row['mb_per_s']:,.0f} MB/s, {row['times_plain']:.1f} ×,\n  {row['calls']:,} calls",
            va="center",
            fontsize=SMALL,
        )
    axes.set_yticks(
        range(len(rows)),
        [row["how"].replace(" (", "\n(").replace(", ", ",\n", 1) for row in reversed(rows)],
        fontsize=SMALL,
    )
    axes.set_xlim(0, 1.32 * max(row["mb_per_s_max"] for row in rows))
    axes.set_xlabel("arrived, MB/s (10$^6$ bytes a second): median, least to most", fontsize=SMALL)
    _frame(axes)
    axes.tick_params(axis="y", labelsize=SMALL)
    alt = (
        f"Horizontal bars: MB/s that arrived through loopback. {finding}."
        f" {rows[-1]['how']}: {rows[-1]['mb_per_s']:,.0f} MB/s."
    )
    return Picture(figure, finding, alt, Table(result.columns, rows, finding))
