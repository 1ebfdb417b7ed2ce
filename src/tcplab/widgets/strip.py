"""Draw the strips of a live run, one below the other, during the run and after it."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tcplab.figures import Picture, canvas, style
from tcplab.figures.picture import drawn
from tcplab.tables import Table, digits

#: The strips show this many seconds during a run.
LONG_S: Final = 20.0
#: The smallest upper end of an axis during a run.
_TOP: Final = 10
_COLOURS: Final = (style.BLUE, style.GREEN, style.ORANGE, style.PURPLE)

Samples = Sequence[Mapping[str, float]]


def live(lanes: Mapping[str, str], samples: Samples, marks: Sequence[float]) -> Picture:
    """Draw the last LONG_S seconds of a run that goes on."""
    now = samples[-1]
    end = max(now["t"], LONG_S)
    limits = end - LONG_S, end
    recent = [sample for sample in samples if sample["t"] >= limits[0]]
    seen = [mark for mark in marks if mark >= limits[0]]
    return strips(lanes, recent, f"{now['t']:.0f} s", Table([], []), marks=seen, limits=limits)


@drawn
def strips(
    lanes: Mapping[str, str],
    samples: Samples,
    title: str,
    table: Table,
    *,
    note: str = "",
    marks: Sequence[float] = (),
    limits: tuple[float, float] | None = None,
) -> Picture:
    """Draw each lane of the readings over time, from top to bottom.

    The "t" of a sample is its time in seconds, and a mark is the time of a change. The time axis
    covers the readings unless limits are given.
    """
    figure = canvas.new_figure()
    low, high = canvas.body(figure)
    room: dict[str, Any] = {"left": 0.08, "right": 0.97, "bottom": low + 0.1, "top": high - 0.055}
    grid = {**room, "hspace": 0.85}
    strips = figure.subplots(len(lanes), 1, sharex=True, squeeze=False, gridspec_kw=grid)[:, 0]
    times = [sample["t"] for sample in samples]
    for (key, label), axes, colour in zip(lanes.items(), strips, _COLOURS, strict=False):
        values = [sample[key] for sample in samples]
        axes.plot(times, values, color=colour)
        last = f": {digits(values[-1])}" if limits else ""
        axes.set_title(label + last, fontsize=style.SMALL)
        axes.set_ylim(0, 1.1 * max([_TOP if limits else 0, *values]) or 1)
        axes.locator_params(axis="y", nbins=2)
        axes.grid()
        for at in marks:
            axes.axvline(at, color=style.GREY, ls="--", lw=1.5)
    strips[-1].set_xlim(limits or (0, times[-1]))
    strips[-1].set_xlabel("time (s); dashed: a change of the settings" if marks else "time (s)")
    return Picture(figure, title, table, note)
