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
from tcplab.tables import Column, Table, digits, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["batching", "receive_buffers", "tcp_vs_udp"]

_LOOKS: Final = {"tcp": Style(style.BLUE, "", "TCP"), "udp": Style(style.VERMILION, "//", "UDP")}
_MARKERS: Final = {"tcp": "o", "udp": "s"}
#: The path to each server for a title, and its figures for the note.
_PATHS: Final[Mapping[Server, tuple[str, str]]] = {
    "bsd": ("On one machine", "MTU 1500"),
    "localhost": ("On one machine", "MTU 16,384"),
    "sparc": ("Over a slow link", "10 Mbit/s"),
    "router": ("Through a router to a slow link", "10 Mbit/s"),
}


@drawn
def tcp_vs_udp(result: TcpVsUdp) -> Picture:
    """Draw published and measured MB/s on a logarithmic axis, with a row per variant."""
    finding, note = _tables_finding(result)
    sizes = list(dict.fromkeys(variant.write_bytes for variant in result.variants))
    drawn_rows = [[e for e in result.variants if e.write_bytes == size] for size in sizes]
    figure, panels = canvas.new_panels([1] * len(sizes))
    for number, (axes, rows) in enumerate(zip(panels, drawn_rows, strict=True)):
        _draw_rates(axes, rows, named=number == 0)
        axes.set_title(f"blocks of {sizes[number]} bytes")
    canvas.legend(figure, panels[0])
    columns = (
        Column("protocol", "protocol"),
        Column("write_bytes", "block (bytes)", "d"),
        Column("server", "server"),
        Column("published_mb_per_s", "published (MB/s)", ".4g"),
        Column("mb_per_s", "measured (MB/s)", ".4g"),
        Column("mb_per_s_min", "min", ".4g"),
        Column("mb_per_s_max", "max", ".4g"),
    )
    table = Table(columns, result.rows(), finding)
    return Picture(figure, finding, table, note)


def _tables_finding(result: TcpVsUdp) -> tuple[str, str]:
    """Return the title and the note of the tables' figure."""
    size = max(variant.write_bytes for variant in result.variants)
    titles: list[str] = []
    notes: list[str] = []
    for protocol in ("tcp", "udp"):
        over, under = ("localhost", protocol, size), ("bsd", protocol, size)
        try:
            times = f"{result.ratio(over, under):.1f} times"
        except KeyError:
            continue
        name = protocol.upper()
        titles.append(f"{name} is {times} as fast to localhost as to bsd")
        text = f" (published: {published_ratio(over, under):.1f})" if over in PUBLISHED else ""
        notes.append(f"{name}: {times}{text}")
    return (titles[0], " · ".join(notes)) if titles else _pair_finding(result, size)


def _pair_finding(result: TcpVsUdp, write_bytes: int) -> tuple[str, str]:
    """Compare the protocols on the fastest variant's server, or report only that variant."""
    best = max(result.variants, key=lambda variant: variant.mb_per_s)
    try:
        tcp, udp = (result[best.server, protocol, write_bytes] for protocol in ("tcp", "udp"))
    except KeyError:
        where, path = _PATHS[best.server]
        title = f"{where}, {best.protocol.upper()} hands over {digits(best.mb_per_s)} MB/s"
        return title, f"{path} · blocks of {plain(best.write_bytes)} bytes"
    where, path = _PATHS[best.server]
    fast, slow = (udp, tcp) if udp.mb_per_s >= tcp.mb_per_s else (tcp, udp)
    names = [variant.protocol.upper() for variant in (fast, slow)]
    times = digits(fast.mb_per_s / slow.mb_per_s, 2)
    title = f"{where}, {names[0]} hands over data {times} times as fast as {names[1]}"
    if times == "1":
        title = f"{where}, TCP and UDP hand over data equally fast"
    note = (
        f"{path} · blocks of {plain(write_bytes)} bytes · {names[0]}"
        f" {digits(fast.mb_per_s)} MB/s, {names[1]} {digits(slow.mb_per_s)} MB/s"
    )
    keys = [(variant.server, variant.protocol, write_bytes) for variant in (fast, slow)]
    if set(keys) <= set(PUBLISHED):
        note += f" · published: {published_ratio(*keys):.2g} times"
    return title, note


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
    finding = "None of these receive buffers lost a datagram"
    if any(any(buffer.lost) for buffer in buffers):
        worst = max(buffers, key=lambda buffer: max(buffer.lost) / buffer.sent)
        finding = f"A receive buffer that is too small loses {_worst(worst)} of the datagrams"
    note = " · ".join(
        f"room for {plain(buffer.room_datagrams)}: {_worst(buffer)} lost"
        for buffer in buffers[:: max(len(buffers) - 1, 1)]
    )
    return draw_bars(result, "lost", "drops", title=finding, note=note)


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
    finding = f"With more data per call, UDP carries {best['times_plain']:.1f} times as much"
    sizes = (plain(row["bytes_per_call"]) for row in (best, rows[0]))
    note = f"{' instead of '.join(sizes)} bytes per call"
    return draw_bars(result, "mb_per_s", "cpu_s_per_gb", title=finding, note=note)
