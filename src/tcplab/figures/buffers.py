"""Draw the figures for the buffers lesson, on throughput and closed windows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tcplab.experiments import table
from tcplab.experiments.buffers import Limits, Sweep, ZeroWindow
from tcplab.figures import bars, canvas, style
from tcplab.figures.bars import beside, named_once
from tcplab.figures.picture import Picture, drawn, some
from tcplab.figures.style import Style
from tcplab.models import throughput_mbit
from tcplab.tables import count, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

__all__ = ["buffer_limits", "buffer_sweep", "zero_window"]

_MARKERS: Final = ("o", "s", "^", "D")
_HELD: Final = "data that the send buffer holds"
_LIMITS: Final = (
    ("in_flight_bytes", Style(style.BLUE, "", "in flight")),
    ("peer_window_bytes", Style(style.VERMILION, "//", "receiver's window")),
    ("cwnd_bytes", Style(style.GREEN, "--", "congestion window")),
    ("unsent_bytes", Style(style.GREY, "xx", "written, not sent yet")),
)


@drawn
def buffer_sweep(result: Sweep) -> Picture:
    """Draw measured and modelled throughput against the window, with the BDP of each path."""
    import numpy as np

    windows: list[float] = [variant.model_window_bytes for variant in some(result.variants)]
    windows += [variant.window_bytes for variant in result.variants]
    windows += map(result.knee_bytes, result.rtts_ms)
    figure, axes = canvas.new_axes(grid="both")
    xs = np.geomspace(min(windows) / 1.5, max(windows) * 1.5, 120).tolist()
    for number, rtt_ms in enumerate(result.rtts_ms):
        colour, marker, line = style.CURVES[number % len(style.CURVES)]
        ys = [throughput_mbit(x, rtt_ms, result.rate_mbit) for x in xs]
        axes.plot(xs, ys, line, color=colour, label=f"model, {rtt_ms:g} ms")
        points = [(variant.window_bytes, variant.mbit) for variant in result.of(rtt_ms)]
        look: dict[str, Any] = {"color": colour, "ms": 8, "mec": "white", "zorder": 4}
        label = f"measured, {rtt_ms:g} ms"
        axes.plot(*zip(*points, strict=True), marker, label=label, **look)
        knee = result.knee_bytes(rtt_ms)
        axes.axvline(knee, color=colour, ls=(0, (1, 3)), lw=1.8)
        _note(axes, f"BDP {_size(knee)}", knee, 0.03 + 0.07 * number, colour)
    axes.set(xscale="log", yscale="log")
    rates = [variant.mbit for variant in result.variants]
    axes.set_ylim(min([*rates, *(variant.model_mbit for variant in result.variants)]) / 1.6, 110)
    axes.set_ylim(top=result.goodput_mbit * 1.5)
    axes.set_xlim(xs[0], xs[-1])
    window_name = "receive window" if result.side == "receive" else _HELD
    axes.set(xlabel=f"{window_name} (bytes, logarithmic)", ylabel="Mbit/s (logarithmic)")
    _plain_ticks(axes)
    _byte_ticks(axes.xaxis)
    canvas.legend(figure, ncols=min(len(result.rtts_ms), 3))
    bound = "window" if result.side == "receive" else "what the buffer holds of full segments"
    knees = (f"{_size(result.knee_bytes(rtt))} at {rtt:g} ms" for rtt in result.rtts_ms)
    title = f"Throughput is {bound} / RTT until the link is full"
    return Picture(figure, title, table(result), f"the link is full from {', '.join(knees)}")


@drawn
def buffer_limits(result: Limits, *, reveal: bool = True) -> Picture:
    """Draw each transfer's data in flight and its possible limits. `reveal` adds the verdicts."""
    transfers = some(result.variants)
    figure, axes = canvas.new_axes(grid="x")
    for row, transfer in enumerate(transfers):
        for number, (name, look) in enumerate(_LIMITS):
            value = max(getattr(transfer, name), 1100)
            y = row + (number - 1.5) * 0.19
            # The line is thin, because a bar's length has no meaning on a logarithmic axis.
            axes.plot([1000, value], [y, y], color=look.colour, lw=1, zorder=2)
            marker, label = _MARKERS[number], named_once(axes, look.name)
            axes.plot(value, y, marker, color=look.colour, label=label, ls="", zorder=4)
            beside(axes, f"{getattr(transfer, name):,.0f}", value, y, mark=True)
        verdict = f"\n→ {transfer.verdict.replace(' or ', chr(10) + 'or ')}" if reveal else ""
        text = f"{transfer.mbit:.1f} Mbit/s" + verdict
        place: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "bbox": style.ON_WHITE}
        axes.text(1, row, text, fontweight="bold", ha="right", va="center", **place)
    axes.set_xscale("log")
    # This leaves room for the verdicts to the right of all dots.
    axes.set_xlim(1000, 3e9)
    bars.name_rows(axes, [transfer.case for transfer in transfers], characters=12)
    axes.set_xlabel("bytes, median of the second half (logarithmic)")
    _byte_ticks(axes.xaxis)
    axes.set_xticks([1e3, 1e4, 1e5, 1e6, 1e7])
    axes.set_xticks([], minor=True)
    canvas.legend(figure)
    right = sum(_agrees(variant.case, variant.verdict) for variant in result.variants)
    title = "Which bound does the data in flight meet?"
    if reveal:
        many = len(result.variants)
        which = "each slow transfer" if right == many else f"{right} of {many} slow transfers"
        title = f"The kernel's numbers name the limit of {which}"
    numbers = table(result)
    if not reveal:
        numbers = replace(numbers, columns=[c for c in numbers.columns if c.key != "verdict"])
    return Picture(figure, title, numbers)


def _agrees(case: str, verdict: str) -> bool:
    meant = {"receive buffer": "receive window", "network": "congestion window"}
    return meant.get(case, case) in verdict


@drawn
def zero_window(result: ZeroWindow) -> Picture:
    """Draw the window that the receiver advertises over time, with the sender's window probes."""
    rows, probes = result.segments, result.probes_ms()
    closed = some(
        [result.time_ms(row["time_ns"]) for row in rows if row["is_zero_window"]],
        "the window never closed: give a longer pause_ms or fewer rcvbuf_bytes",
    )
    figure, axes = canvas.new_axes(grid="both")
    offers = rows[rows.from_server & ~rows.is_syn]
    times = [result.time_ms(offer["time_ns"]) for offer in offers]
    windows: dict[str, Any] = {"color": style.PURPLE, "label": "the receiver's window"}
    axes.step(times, offers["window"], where="post", **windows)
    data = rows.data("client")
    sent = [result.time_ms(segment["time_ns"]) for segment in data]
    axes.plot(sent, [0] * len(sent), "|", color=style.BLUE, ms=12, mew=1.6, label="data segments")
    look: dict[str, Any] = {"color": style.VERMILION, "label": "window probe"}
    axes.plot(probes, [0] * len(probes), "v", ms=9, zorder=5, **look)
    for number, when in enumerate(probes):
        height = 0.12 + 0.08 * (number % 2)
        _note(axes, f"{when - closed[0]:.0f} ms after", when, height, style.VERMILION)
    top = float(offers["window"].max()) * 1.25
    reopened = min(result.reopened_ms, times[-1])
    # A hatched band shows how long the window was closed.
    band: dict[str, Any] = {"facecolor": style.PALE, "hatch": "\\\\", "edgecolor": "white"}
    axes.axvspan(closed[0], reopened, zorder=0, **band)
    middle, text = (closed[0] + reopened) / 2, f"closed for {reopened - closed[0]:.0f} ms"
    axes.text(middle, 0.55 * top, text, ha="center", bbox=style.ON_WHITE)
    axes.set(ylim=(-0.06 * top, top), xlim=(-20, times[-1] + 60))
    axes.set(xlabel="time since the connection began (ms)", ylabel="window (bytes)")
    _byte_ticks(axes.yaxis)
    canvas.legend(figure)
    title = (
        "A receiver that does not read closes its window, and the sender"
        f" {'keeps asking' if probes else 'waits'} until it opens"
    )
    note = (
        f"closed after {plain(result.accepted_bytes)} bytes · {count(len(probes), 'window probe')}"
    )
    return Picture(figure, title, table(result), note)


# ---- drawing -------------------------------------------------------------------------------------


def _note(axes: Axes, words: str, x: float, height: float, colour: str) -> None:
    at: dict[str, Any] = {"xycoords": axes.get_xaxis_transform(), "textcoords": "offset points"}
    axes.annotate(words, (x, height), (6, 0), color=colour, bbox=style.ON_WHITE, zorder=6, **at)


def _size(value: float) -> str:
    return f"{value / 1e6:.3g} MB" if value >= 1e6 else f"{value / 1e3:.3g} kB"


def _byte_ticks(axis: Axis) -> None:
    axis.set_major_formatter(lambda value, _at: _size(value) if value >= 1000 else f"{value:g}")
    axis.set_minor_formatter("")


def _plain_ticks(axes: Axes) -> None:
    """Put ticks at 1, 2, 5, 10, … on both axes, with plain numbers on the y axis."""
    from matplotlib.ticker import LogLocator

    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=99))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("")
