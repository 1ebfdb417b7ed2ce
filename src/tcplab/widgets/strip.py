"""The strip chart of a live run: its readings of the last seconds, as HTML."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

from tcplab.tables import digits
from tcplab.widgets import plot
from tcplab.widgets.spec import Lane

#: Seconds that are seen.
LONG_S: Final = 20.0
#: Marks that follow each other faster are one: a slider passes many stops.
APART_S: Final = 0.5


class Strip:
    """The readings of one run, and the changes that the user has made meanwhile."""

    def __init__(self) -> None:
        self._samples: deque[Mapping[str, float]] = deque()
        self._marks: list[tuple[float, str]] = []

    def add(self, sample: Mapping[str, float]) -> None:
        """A reading, whose "t" is its time in seconds."""
        self._samples.append(sample)
        while self._samples[0]["t"] < sample["t"] - LONG_S:
            self._samples.popleft()

    def mark(self, text: str) -> None:
        """Words at the last reading."""
        if self._samples:
            now = self._samples[-1]["t"]
            self._marks = [each for each in self._marks if now - each[0] > APART_S]
            self._marks.append((now, text))

    def html(self, lanes: Sequence[Lane], levels: Mapping[str, float | None]) -> str:
        """The chart for the page, with the model's levels by the keys of their lanes."""
        end = max(self._samples[-1]["t"] if self._samples else 0.0, LONG_S)
        time = plot.Axis(end - LONG_S, end)
        marks = [{"x": at, "label": text} for at, text in self._marks if at >= time.low]
        drawn = []
        for number, lane in enumerate(lanes):
            points = [(each["t"], each[lane.key]) for each in self._samples]
            values = [value for _t, value in points]
            level = levels.get(lane.key)
            data = {
                "x": time,
                "y": plot.Axis(0, 1.05 * max(lane.top, level or 0, *values)),
                "lines": [{"kind": f"lane{number}", "points": points}],
                "marks": [{**each, "label": "" if number else each["label"]} for each in marks],
                "level": level and {"y": level, "label": f"the model: {digits(level)}"},
            }
            now = digits(values[-1]) if values else "–"
            drawn.append(f'<p class="y-label">{escape(lane.label)}: {now}</p>')
            drawn.append(plot.area(plot.upright(data)))
        alt = f"Strip chart of {', '.join(lane.label for lane in lanes)}"
        return plot.framed("strip", alt, *drawn)
