"""Draw the answers of real programs, with the segments of each write."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Final

from tcplab.experiments import table
from tcplab.experiments.any_command import Commands, Explained
from tcplab.figures import bars, canvas, style
from tcplab.figures.bars import beside, within
from tcplab.figures.picture import Picture, drawn, some
from tcplab.figures.style import Style
from tcplab.tables import ms

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["answers"]

#: The styles of an answer's writes in order. The last one is for all later writes.
_WRITES: Final = (
    Style(style.BLUE, "", "first write"),
    Style(style.ORANGE, "//", "second write"),
    Style(style.GREEN, "--", "later writes"),
)


@drawn
def answers(result: Commands) -> Picture:
    """Draw a typical answer of each run, with a box per segment. Styles distinguish the writes."""
    runs = some(
        [variant for variant in result.variants if variant.answer()[1]], "no answer was recorded"
    )
    figure, axes = canvas.new_axes(height=bars.height_of(len(runs)))
    widest = max(sum(run.answer()[1]) for run in runs)
    for row, run in enumerate(runs):
        _draw_answer(axes, run, row, widest)
        held_ms = run.held_ms / max(run.messages, 1)
        beside(axes, f"{ms(held_ms)} held" if held_ms > 1 else "at once", 1.02 * widest, row)
    bars.name_rows(axes, [run.case for run in runs])
    axes.set(xlim=(0, 1.3 * widest), xlabel="bytes of an answer; a box is a segment")
    axes.set_xticks([tick for tick in axes.get_xticks() if tick <= widest])
    canvas.legend(figure)
    counts = sorted({len(run.answer()[1]) for run in runs})
    many = f"{' or '.join(map(str, counts))} segment{'s' * (counts != [1])}"
    title, note = f"The same answer leaves in {many}", ""
    slow = max(runs, key=lambda run: run.held_ms)
    if slow.held_ms > 1:
        title = f"'{slow.case}' holds the answer back for {ms(slow.held_ms / slow.messages)}"
        note = f"the same answer in {many}"
    return Picture(figure, title, table(result), note)


def _draw_answer(axes: Axes, run: Explained, row: int, widest: float) -> None:
    writes, parts = run.answer()
    gap = 0.004 * widest
    begin = 0.0
    for size in parts:
        end = begin + size
        for number, (start, stop) in enumerate(pairwise(accumulate(writes, initial=0))):
            left, right = max(begin, float(start)), min(end, float(stop))
            if right > left:
                look = _WRITES[min(number, len(_WRITES) - 1)]
                left += gap if left == begin else 0.0
                right -= gap if right == end else 0.0
                bars.bar(axes, row, (look, right - left), left=left)
        room = size / (1.3 * widest) * 430
        within(axes, str(size), begin + size / 2, row, room)
        begin = end
