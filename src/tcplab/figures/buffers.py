"""Draw throughput against the size of a buffer."""

from __future__ import annotations

from typing import Any, Final

from tcplab.experiments import table
from tcplab.experiments.buffers import Sweep
from tcplab.figures import canvas, style
from tcplab.figures.generic import tick_decades
from tcplab.figures.picture import Picture, drawn, some
from tcplab.models import throughput_mbit

__all__ = ["buffer_sweep"]

_HELD: Final = "data that the send buffer holds"
#: A measurement above this share of the model agrees with it.
_NEAR: Final = 0.85


@drawn
def buffer_sweep(result: Sweep) -> Picture:
    """Draw measured and modelled throughput against the window, with the BDP of each path."""
    import numpy as np

    windows: list[float] = [variant.window_bytes for variant in some(result.variants)]
    windows += map(result.knee_bytes, result.rtts_ms)
    figure, axes = canvas.new_axes(grid="both")
    xs = np.geomspace(min(windows) / 1.5, max(windows) * 1.5, 120).tolist()
    for number, rtt_ms in enumerate(result.rtts_ms):
        colour, marker, line = style.CURVES[number % len(style.CURVES)]
        ys = [throughput_mbit(x, rtt_ms, result.rate_mbit) for x in xs]
        axes.plot(xs, ys, line, color=colour, label=f"model, {rtt_ms:g} ms")
        points = [(variant.window_bytes, variant.mbit) for variant in result.of(rtt_ms)]
        look: dict[str, Any] = {"color": colour, "ms": 8, "mec": "white", "zorder": 4}
        axes.plot(*zip(*points, strict=True), marker, label=f"measured, {rtt_ms:g} ms", **look)
        knee = result.knee_bytes(rtt_ms)
        axes.axvline(knee, color=colour, ls=(0, (1, 3)), lw=1.8)
        at: dict[str, Any] = {"transform": axes.get_xaxis_transform(), "bbox": style.ON_WHITE}
        axes.text(1.03 * knee, 0.03 + 0.07 * number, f"BDP {_size(knee)}", color=colour, **at)
    axes.set(xscale="log", yscale="log", xlim=(xs[0], xs[-1]))
    rates = [*(v.mbit for v in result.variants), *(v.model_mbit for v in result.variants)]
    axes.set_ylim(min(rates) / 1.6, result.goodput_mbit * 1.5)
    window_name = "receive window" if result.side == "receive" else _HELD
    axes.set(xlabel=f"{window_name} (bytes, logarithmic)", ylabel="Mbit/s (logarithmic)")
    for axis in "xy":
        tick_decades(axes, axis)
    canvas.legend(figure, ncols=min(len(result.rtts_ms), 3))
    bound = "window" if result.side == "receive" else "what the buffer holds of full segments"
    knees = (f"{_size(result.knee_bytes(rtt))} at {rtt:g} ms" for rtt in result.rtts_ms)
    share = min(variant.mbit / variant.model_mbit for variant in result.variants)
    title = f"Throughput is {bound} / RTT until the link is full"
    if share < _NEAR:
        title = f"Throughput is down to {share:.0%} of {bound} / RTT in this run"
    return Picture(figure, title, table(result), f"the link is full from {', '.join(knees)}")


def _size(value: float) -> str:
    return f"{value / 1e6:.3g} MB" if value >= 1e6 else f"{value / 1e3:.3g} kB"
