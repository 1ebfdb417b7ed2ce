"""Draw transfers that share a bottleneck, with windows, RTTs, queue and rates over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tcplab.experiments import table
from tcplab.experiments.bottleneck import (
    Bloat,
    Bufferbloat,
    Flow,
    Race,
    RttFairness,
    Shared,
)
from tcplab.figures import canvas, style
from tcplab.figures.picture import Picture, drawn, some
from tcplab.tables import digits, grouped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["bottleneck"]

_RATE_WINDOW_S: Final = 0.5
#: Drops and marks are thinned to fewer than twice this number, because thousands would overlap.
_MOST_TICKS: Final = 400
_MARKERS: Final = 9

#: A label, a transfer, and the run that the transfer was part of.
_Curve = tuple[str, Flow, Shared]
_Result: TypeAlias = Bufferbloat | RttFairness


@drawn
def bottleneck(result: _Result, key: Any = None) -> Picture:
    """Draw congestion window, round-trip time, queue and rate over time, each in its own strip.

    The key selects a variant, and each of its transfers gets a curve. Without a key, the figure
    shows all variants of bufferbloat (with one transfer each), or the last race.
    """
    some(result.variants)
    curves, title, note = _curves(result, key)
    figure, strips = canvas.new_panels([1, 1, 1, 1], stacked=True)
    windows, rtts, queue, rates = strips
    runs: list[Shared] = []
    for number, (label, flow, run) in enumerate(curves):
        samples = flow.moments
        _draw(
            windows,
            [(sample.time_s, sample.cwnd_segments) for sample in samples],
            number,
            label=label,
        )
        _draw(rtts, [(sample.time_s, sample.rtt_ms) for sample in samples], number)
        _draw(rates, _rates(flow), number)
        if run not in runs:
            runs.append(run)
    for number, run in enumerate(runs):
        _draw_queue(queue, run, number if len(runs) > 1 else None)
    for axes, name in zip(strips, ("cwnd", "RTT (ms)", "queue", "Mbit/s"), strict=True):
        axes.set_ylabel(name)
        axes.set_ylim(0, 1.12 * axes.get_ylim()[1])
        axes.set_xlim(0, 1.01 * max(flow.moments[-1].time_s for _label, flow, _run in curves))
        axes.tick_params(labelbottom=axes is strips[-1])
        axes.grid()
    strips[-1].set_xlabel("time (s)")
    if len(curves) == 1:
        _draw_probes(rtts, runs[0])
    _legend(figure, strips, any(run.drops_s for run in runs), any(run.marks_s for run in runs))
    return Picture(figure, title, table(result), note)


def _curves(result: _Result, key: Any) -> tuple[Sequence[_Curve], str, str]:
    shown = [variant for variant in result.variants if isinstance(variant, Bloat)]
    if shown and key is None:
        title, note = _finding(shown[0])
        if len(shown) > 1:
            best, worst = (pick(shown, key=lambda each: each.probe_ms) for pick in (min, max))
            title = (
                "Behind the worst of these queues, a ping takes"
                f" {digits(worst.probe_ms / best.probe_ms, 2)} times as long as behind the best"
            )
            note = " · ".join(_finding(variant)[1] for variant in (worst, best))
        return (
            [(variant.label, variant.run.flows[0], variant.run) for variant in shown],
            title,
            note,
        )
    variant = result.variants[-1] if key is None else result[key]
    curves = [(_name(flow, variant.run), flow, variant.run) for flow in variant.run.flows]
    return curves, *_finding(variant)


def _name(flow: Flow, run: Shared) -> str:
    return "the transfer" if len(run.flows) == 1 else f"{flow.rtt_ms:g} ms"


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
    title = grouped(f"Next to the transfer, a ping takes {variant.probe_ms:,.0f} ms")
    note = f"{variant.label}: {variant.mbit:.1f} Mbit/s, a ping takes {variant.probe_ms:,.0f} ms"
    return title, grouped(note)


def _draw(
    axes: Axes, points: Sequence[tuple[float, float]], number: int | None, **look: Any
) -> None:
    """Draw curve `number` in its own look, or in black without markers if number is None."""
    colour, marker, line = (
        (style.BLACK, "", "-") if number is None else style.CURVES[number % len(style.CURVES)]
    )
    every = max(len(points) // _MARKERS, 1)
    look |= {"color": colour, "marker": marker, "ls": line, "lw": 1.3, "ms": 5, "markevery": every}
    axes.plot(*zip(*points, strict=True), **look)


def _draw_probes(axes: Axes, run: Shared) -> None:
    if run.probes:
        look: dict[str, Any] = {"color": style.VERMILION, "ms": 3, "label": "a bystander's ping"}
        axes.plot(*zip(*run.probes, strict=True), ".", **look)


def _draw_queue(axes: Axes, run: Shared, number: int | None) -> None:
    """Draw the length of the queue, with signs for dropped and marked packets at the top."""
    _draw(axes, run.queue, number)
    colour = style.BLACK if number is None else style.CURVES[number % len(style.CURVES)][0]
    for mark, height, times in (("|", 0.93, run.drops_s), ("+", 0.79, run.marks_s)):
        thinned = times[:: max(len(times) // _MOST_TICKS, 1)]
        look: dict[str, Any] = {"transform": axes.get_xaxis_transform(), "ms": 6, "mew": 0.9}
        axes.plot(thinned, [height] * len(thinned), mark, color=colour, **look)


def _legend(figure: Figure, strips: Sequence[Axes], drops: bool, marks: bool) -> None:
    windows, rtts, queue, _rates = strips
    for shown, mark, name in ((drops, "|", "packet dropped"), (marks, "+", "packet marked")):
        if shown:
            queue.plot([], [], mark, ms=8, mew=1.2, color=style.BLACK, label=name)
    canvas.legend(figure, windows, rtts, queue)


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
