"""Draw transfers that share a bottleneck, with windows, RTTs, queue and rates over time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any, Final

from tcplab.experiments import Result, table
from tcplab.experiments.bottleneck import Bloat, Flow, Race
from tcplab.figures import canvas, style
from tcplab.figures.picture import Picture, drawn, some
from tcplab.tables import grouped

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_RATE_WINDOW_S: Final = 0.5
#: Drops and marks are thinned to fewer than twice this number, because thousands would overlap.
_MOST_TICKS: Final = 400
_MARKERS: Final = 9


@drawn
def bottleneck(result: Result[Bloat] | Result[Race], key: Any = None) -> Picture:
    """Draw congestion window, round-trip time, queue and rate over time, each in its own strip.

    The key selects a variant, by default the last one. Each of its transfers gets a curve.
    """
    variant = some(result.variants)[-1] if key is None else result[key]
    run = variant.run
    figure, strips = canvas.new_panels([1, 1, 1, 1], stacked=True)
    windows, rtts, queue, rates = strips
    for flow, look in zip(run.flows, cycle(style.CURVES)):
        name = "the transfer" if len(run.flows) == 1 else f"{flow.rtt_ms:g} ms"
        moments = flow.moments
        _draw(windows, [(moment.time_s, moment.cwnd_segments) for moment in moments], look, name)
        _draw(rtts, [(moment.time_s, moment.rtt_ms) for moment in moments], look)
        _draw(rates, _rates(flow), look)
    _draw(queue, run.queue, (style.BLACK, "", "-"))
    for strip, name in zip(strips, ("cwnd", "RTT (ms)", "queue", "Mbit/s"), strict=True):
        strip.set_ylabel(name)
        strip.set_ylim(0, 1.12 * strip.get_ylim()[1])
        strip.set_xlim(0, 1.01 * max(flow.moments[-1].time_s for flow in run.flows))
        strip.tick_params(labelbottom=strip is rates)
        strip.grid()
    rates.set_xlabel("time (s)")
    if run.probes and len(run.flows) == 1:
        ping: dict[str, Any] = {"color": style.VERMILION, "ms": 3, "label": "a bystander's ping"}
        rtts.plot(*zip(*run.probes, strict=True), ".", **ping)
    _draw_signs(queue, "|", 0.93, run.drops_s, "packet dropped")
    _draw_signs(queue, "+", 0.79, run.marks_s, "packet marked")
    canvas.legend(figure, windows, rtts, queue)
    title, note = _finding(variant)
    return Picture(figure, title, table(result), note)


def _finding(variant: Bloat | Race) -> tuple[str, str]:
    if isinstance(variant, Race):
        title = "The flow with the longest round trip gets nothing"
        if variant.far_mbit:
            title = (
                f"The flow with the shortest round trip gets {variant.ratio:.1f} times the rate of"
                " the flow with the longest"
            )
        return title, (
            f"{variant.label} · {variant.near_mbit:.1f} and {variant.far_mbit:.1f} Mbit/s · the"
            f" longest RTT, with the queue, is {variant.model_ratio:.1f} times the shortest"
        )
    empty_ms = variant.run.flows[0].rtt_ms
    title = f"Next to the transfer, a ping takes {variant.probe_ms:,.0f} ms instead of {empty_ms:g}"
    return grouped(title), f"{variant.label}: {variant.mbit:.1f} Mbit/s"


def _draw(
    axes: Axes,
    points: Sequence[tuple[float, float]],
    look: tuple[str, str, str],
    name: str | None = None,
) -> None:
    every = max(len(points) // _MARKERS, 1)
    keys: dict[str, Any] = dict(zip(("color", "marker", "ls"), look, strict=True))
    axes.plot(*zip(*points, strict=True), lw=1.3, ms=5, markevery=every, label=name, **keys)


def _draw_signs(axes: Axes, sign: str, height: float, times_s: Sequence[float], name: str) -> None:
    if times_s:
        thinned = times_s[:: max(len(times_s) // _MOST_TICKS, 1)]
        look: dict[str, Any] = {"transform": axes.get_xaxis_transform(), "color": style.BLACK}
        heights = [height] * len(thinned)
        axes.plot(thinned, heights, sign, ms=6, mew=0.9, label=name, **look)


def _rates(flow: Flow) -> list[tuple[float, float]]:
    """Return (end, Mbit/s) for each interval of 0.5 s or more, or 0 Mbit/s if there is none."""
    points: list[tuple[float, float]] = []
    before = flow.moments[0]
    for moment in flow.moments:
        took_s = moment.time_s - before.time_s
        if took_s >= _RATE_WINDOW_S:
            points.append(
                (moment.time_s, 8 * (moment.acked_bytes - before.acked_bytes) / took_s / 1e6)
            )
            before = moment
    return points or [(before.time_s, 0.0)]
