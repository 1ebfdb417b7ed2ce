"""Draw the waits of scripts of calls around a cork."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tcplab.experiments import table
from tcplab.experiments.cork import Scenario, Scenarios
from tcplab.figures import canvas, style
from tcplab.figures.generic import beside, name_rows, named_once
from tcplab.figures.picture import Picture, drawn, some
from tcplab.figures.style import HOLD_STYLES
from tcplab.models import Reason
from tcplab.tables import count, ms

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@drawn
def cork_scenarios(result: Scenarios) -> Picture:
    """Draw for each script how long its segments waited, why, and when they left."""
    scenarios = some(result.variants)
    figure, axes = canvas.new_axes(grid="x")
    latest = 1.0
    for row, scenario in enumerate(scenarios):
        latest = max([latest, *_waits(axes, scenario, row)])
    names = [f"{row + 1} · {scenario.script}" for row, scenario in enumerate(scenarios)]
    name_rows(axes, names, characters=34)
    axes.set(xlim=(-0.02 * latest, 1.2 * latest), xlabel="ms after the first call")
    canvas.legend(figure)
    title, note = _scenarios_finding(result)
    return Picture(figure, title, table(result), note)


def _scenarios_finding(result: Scenarios) -> tuple[str, str]:
    pairs = [(variant, segment) for variant in result.variants for segment in variant.sent()]
    late = [pair for pair in pairs if pair[1].reason is Reason.CORK_TIMEOUT]
    note = f"{count(len(pairs), 'segment')} of {count(len(result.variants), 'script')}"
    if not late:
        return "No segment had to wait for the timer", note
    scenario, segment = max(late, key=lambda pair: pair[1].waited_ms or 0)
    title = f"The longest wait, {ms(segment.waited_ms or 0)}, ended with a timer"
    return title, f"{note} · the longest wait is in '{scenario.script}'"


def _waits(axes: Axes, scenario: Scenario, row: int) -> list[float]:
    left_ms = []
    start_ns = scenario.start_ns
    segments = scenario.sent()
    for number, segment in enumerate(segments):
        end = (segment.time_ns - start_ns) / 1e6
        begin = end - (segment.waited_ms or 0)
        # Segments of a script may wait at the same time, so each is drawn at its own height.
        y = row + (number - (len(segments) - 1) / 2) * 0.36
        held = segment.held_by
        if held is not None and held.reason in HOLD_STYLES:
            look = HOLD_STYLES[held.reason]
            label = named_once(axes, look.name)
            axes.barh(y, end - begin, 0.3, left=begin, label=label, **style.look_of(look))
        mark = "D" if segment.reason is Reason.CORK_TIMEOUT else "o"
        colour = style.BLACK if mark == "D" else style.BLUE
        label = named_once(axes, "left by timer" if mark == "D" else "left")
        axes.plot(end, y, mark, color=colour, ms=7, ls="none", label=label, zorder=4)
        beside(axes, f"{segment.payload_bytes} bytes", end, y)
        left_ms.append(end)
    return left_ms
