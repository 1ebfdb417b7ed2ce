"""Draw the figures for the tcp-vs-udp lesson, on rates, lost datagrams and batching."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from tcplab.experiments.tcp_vs_udp import PUBLISHED, Server, TableRow, TcpVsUdp, published_ratio
from tcplab.experiments.udp_batching import Batching
from tcplab.experiments.udp_receive_buffers import ReceiveBuffer, ReceiveBuffers
from tcplab.figures import bars, canvas, style
from tcplab.figures.bars import beside, named_once
from tcplab.figures.generic import draw_bars
from tcplab.figures.picture import Picture, drawn
from tcplab.figures.style import Style
from tcplab.tables import Column, Table, digits

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["batching", "receive_buffers", "tcp_vs_udp"]

_LOOKS: Final = {"tcp": Style(style.BLUE, "", "TCP"), "udp": Style(style.VERMILION, "//", "UDP")}
_MARKERS: Final = {"tcp": "o", "udp": "s"}
_PATHS: Final[Mapping[Server, str]] = {
    "bsd": "On one machine (MTU 1500)",
    "localhost": "On one machine (MTU 16384)",
    "sparc": "Over a wire of 10 Mbit/s",
    "router": "Through a router to a wire of 10 Mbit/s",
}


@drawn
def tcp_vs_udp(result: TcpVsUdp) -> Picture:
    """Draw published and measured MB/s on a logarithmic axis, with a row per variant."""
    finding = _tables_finding(result)
    sizes = list(dict.fromkeys(variant.write_bytes for variant in result.variants))
    drawn_rows = [[e for e in result.variants if e.write_bytes == size] for size in sizes]
    figure, panels = canvas.new_panels([1] * len(sizes))
    for number, (axes, rows) in enumerate(zip(panels, drawn_rows, strict=True)):
        _draw_rates(axes, rows, named=number == 0)
        axes.set_title(f"blocks of {sizes[number]} bytes")
    canvas.legend(figure, panels[0])
    columns = (
        Column("protocol", "protocol"),
        Column("write_bytes", "bytes", "d"),
        Column("server", "server"),
        Column("published_mb_per_s", "published (MB/s)", ".4g"),
        Column("mb_per_s", "measured (MB/s)", ".4g"),
        Column("mb_per_s_min", "min", ".4g"),
        Column("mb_per_s_max", "max", ".4g"),
    )
    table = Table(columns, result.rows(), finding)
    return Picture(figure, finding, table)


def _tables_finding(result: TcpVsUdp) -> str:
    size = max(variant.write_bytes for variant in result.variants)
    parts: list[str] = []
    for protocol in ("tcp", "udp"):
        over, under = ("localhost", protocol, size), ("bsd", protocol, size)
        try:
            ratio = result.ratio(over, under)
        except KeyError:
            continue
        text = f" (published: {published_ratio(over, under):.1f})" if over in PUBLISHED else ""
        places = "" if parts else " as fast to localhost as to bsd"
        parts.append(f"{protocol.upper()} is {ratio:.1f} times{places}{text}")
    return ", ".join(parts) or _pair_finding(result, size)


def _pair_finding(result: TcpVsUdp, write_bytes: int) -> str:
    """Compare the protocols on the fastest variant's server, or report only that variant."""
    best = max(result.variants, key=lambda variant: variant.mb_per_s)
    blocks = f"blocks of {write_bytes:,} bytes"
    try:
        tcp, udp = (result[best.server, protocol, write_bytes] for protocol in ("tcp", "udp"))
    except KeyError:
        return (
            f"{_PATHS[best.server]} {best.protocol.upper()} hands over blocks of"
            f" {best.write_bytes:,} bytes at {digits(best.mb_per_s)} MB/s"
        )
    fast, slow = (udp, tcp) if udp.mb_per_s >= tcp.mb_per_s else (tcp, udp)
    times = fast.mb_per_s / slow.mb_per_s
    keys = [(variant.server, variant.protocol, write_bytes) for variant in (fast, slow)]
    rates = f"{digits(fast.mb_per_s)} and {digits(slow.mb_per_s)} MB/s"
    names = [variant.protocol.upper() for variant in (fast, slow)]
    text = published_ratio(*keys) if set(keys) <= set(PUBLISHED) else None
    if f"{times:.1f}" == "1.0":
        published = f" (published: {names[0]} {text:.2g} times as fast)" if text else ""
        return f"{_PATHS[fast.server]} both hand over {blocks} equally fast{published}: {rates}"
    published = f" (published: {text:.2g} times)" if text else ""
    return (
        f"{_PATHS[fast.server]} {names[0]} hands over {blocks} {times:.1f} times as fast as"
        f" {names[1]}{published}: {rates}"
    )


def _draw_rates(axes: Axes, series: Sequence[TableRow], named: bool) -> None:
    for y, variant in enumerate(series):
        colour, marker = _LOOKS[variant.protocol].colour, _MARKERS[variant.protocol]
        rates = [run.sent_mb_per_s for run in variant.runs]
        axes.plot([min(rates), max(rates)], [y, y], color=colour, lw=3, alpha=0.55, zorder=2)
        name = named_once(axes, f"{variant.protocol.upper()}, this run: median, min to max")
        axes.plot(variant.mb_per_s, y, marker, ms=8, color=colour, label=name, zorder=4)
        beside(axes, digits(variant.mb_per_s), max(rates), y, mark=True)
        published = PUBLISHED.get((variant.server, variant.protocol, variant.write_bytes))
        if published is None:
            continue
        rate, name = published.mb_per_s, named_once(axes, "published: mean of 50")
        axes.plot(rate, y, "D", ms=9, mfc="white", mec="black", mew=1.5, label=name, zorder=3)
        left: dict[str, Any] = {"textcoords": "offset points", "ha": "right", "va": "center"}
        axes.annotate(f"{rate:.3g}", (rate, y), (-7, 0), **left)
    axes.set_xscale("log")
    rates = [run.sent_mb_per_s for variant in series for run in variant.runs]
    rates += [figures.mb_per_s for figures in PUBLISHED.values()]
    axes.set_xlim(min(rates) / 6, 10 * max(rates))  # room for the numbers
    names = [f"{variant.protocol.upper()} {variant.server}" if named else "" for variant in series]
    bars.name_rows(axes, names)
    bars.tick_decades(axes)
    axes.set_xlabel("MB/s (logarithmic)")
    axes.grid(axis="x")


def receive_buffers(result: ReceiveBuffers) -> Picture:
    """Draw how many datagrams are lost for each size of the receive buffer."""
    buffers = result.variants
    smallest, largest = buffers[0], buffers[-1]
    finding = (
        f"Lost on one machine: {_worst(smallest)} of the datagrams if the buffer has room for"
        f" {smallest.room_datagrams:,}, {_worst(largest)} if it has room for"
        f" {largest.room_datagrams:,}"
    )
    return draw_bars(result, "lost", "drops", title=finding)


def _worst(buffer: ReceiveBuffer) -> str:
    if not any(buffer.lost):
        return "none"
    return f"up to {100 * max(buffer.lost) / buffer.sent:.3g}\N{NO-BREAK SPACE}%"


def batching(result: Batching) -> Picture:
    """Draw the MB/s that arrived and the CPU time per GB, for each method of sending."""
    rows = result.rows()
    best = max(
        (row for row in rows if row["variant"].startswith("udp")), key=lambda row: row["mb_per_s"]
    )
    finding = (
        f"UDP with {best['bytes_per_call']:,} bytes per call carries {best['times_plain']:.1f}"
        f" times what it carries with {rows[0]['bytes_per_call']:,}"
    )
    return draw_bars(result, "mb_per_s", "cpu_s_per_gb", title=finding)
