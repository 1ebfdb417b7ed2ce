"""Draw the strips of a live run, one below the other, during the run and after it."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tcplab.figures import Picture, canvas, style
from tcplab.figures.picture import drawn
from tcplab.tables import Table, digits
from tcplab.widgets.spec import Lane

#: The strips show this many seconds during a run.
LONG_S: Final = 20.0
#: Marks that are closer than this are merged, because a slider passes many stops.
APART_S: Final = 0.5
_COLOURS: Final = (style.BLUE, style.GREEN, style.ORANGE, style.PURPLE)


class Strip:
    """The last readings of a run, and marks for the changes that the user made during it."""

    def __init__(self) -> None:
        self._samples: deque[Mapping[str, float]] = deque()
        self._marks: list[tuple[float, str]] = []

    def add(self, sample: Mapping[str, float]) -> None:
        """Add a reading. Its "t" is the time in seconds."""
        self._samples.append(sample)
        while self._samples[0]["t"] < sample["t"] - LONG_S:
            self._samples.popleft()

    def mark(self, text: str) -> None:
        """Add a mark at the time of the last reading. It replaces marks up to APART_S old."""
        if self._samples:
            now = self._samples[-1]["t"]
            self._marks = [mark for mark in self._marks if now - mark[0] > APART_S]
            self._marks.append((now, text))

    def picture(self, lanes: Sequence[Lane], levels: Mapping[str, float | None]) -> Picture:
        """Draw the last LONG_S seconds. `levels` maps a lane's key to the model's level."""
        now = self._samples[-1] if self._samples else {}
        end = max(now.get("t", 0.0), LONG_S)
        marks = [mark for mark in self._marks if mark[0] >= end - LONG_S]
        title = f"{now.get('t', 0.0):.0f} s"
        values = [digits(now[lane.key]) if now else "–" for lane in lanes]
        table = Table.of([lane.label for lane in lanes], [values], title)
        limits = end - LONG_S, end
        return strips(lanes, self._samples, title, table, marks=marks, levels=levels, limits=limits)


@drawn
def strips(
    lanes: Sequence[Lane],
    samples: Sequence[Mapping[str, float]],
    title: str,
    table: Table,
    *,
    note: str = "",
    marks: Sequence[tuple[float, str]] = (),
    levels: Mapping[str, float | None] | None = None,
    limits: tuple[float, float] | None = None,
) -> Picture:
    """Draw each lane of the readings over time, from top to bottom.

    The "t" of a sample is its time in seconds. A mark has the time and the text of a change.
    `levels` are the model's levels, by the keys of their lanes. The time axis covers the readings
    unless limits are given.
    """
    figure = canvas.new_figure()
    low, high = canvas.body(figure)
    room: dict[str, Any] = {"left": 0.08, "right": 0.97, "bottom": low + 0.1, "top": high - 0.055}
    grid = {**room, "hspace": 0.85}
    strips = figure.subplots(len(lanes), 1, sharex=True, squeeze=False, gridspec_kw=grid)[:, 0]
    times = [sample["t"] for sample in samples]
    for lane, axes, colour in zip(lanes, strips, _COLOURS, strict=False):
        values = [sample[lane.key] for sample in samples]
        level = (levels or {}).get(lane.key)
        axes.plot(times, values, color=colour)
        name = f"{lane.label}: {digits(values[-1])}" if limits and values else lane.label
        if level is not None:
            axes.axhline(level, color=style.BLACK, ls=":", lw=1.5)
            name += f"; the model, dotted: {digits(level)}"
        axes.set_title(name, fontsize=style.SMALL)
        axes.set_ylim(0, 1.1 * max([lane.top if limits else 0, level or 0, *values]) or 1)
        axes.locator_params(axis="y", nbins=2)
        axes.grid()
        for at, _words in marks:
            axes.axvline(at, color=style.GREY, ls="--", lw=1.5)
    first, last = limits or (0, times[-1])
    for at, text in marks:
        right = at > (first + last) / 2
        place: dict[str, Any] = {"ha": "right" if right else "left", "bbox": style.ON_WHITE}
        offset = (-4 if right else 4, 2)
        strips[0].annotate(text, (at, 0), offset, textcoords="offset points", **place)
    strips[-1].set_xlim(first, last)
    strips[-1].set_xlabel("time (s); dashed: a change of the settings" if marks else "time (s)")
    return Picture(figure, title, table, note)
