"""Draw the rates of congestion controls that share a link."""

from __future__ import annotations

from typing import Final

from tcplab.experiments import table
from tcplab.experiments.bottleneck import Contests
from tcplab.figures import style
from tcplab.figures.generic import Panel, draw_rows
from tcplab.figures.picture import Picture, drawn, some
from tcplab.figures.style import Style

__all__ = ["contests"]

_CONTROLS: Final = {
    "cubic": Style(style.BLUE, "", "cubic"),
    "reno": Style(style.ORANGE, "//", "reno"),
    "bbr": Style(style.GREEN, "--", "bbr"),
}


@drawn
def contests(result: Contests) -> Picture:
    """Draw the rate of each congestion control behind each queue, alone and against another."""
    rows = some(result.variants)
    rates = [
        [rate for rate in (row.first_mbit, row.second_mbit) if rate is not None] for row in rows
    ]
    looks = [[_CONTROLS[name] for name in row.controls.split(", ")] for row in rows]
    panel = Panel(
        "Mbit/s",
        bars=[list(zip(*parts, strict=True)) for parts in zip(looks, rates, strict=True)],
        inside=[[f"{rate:.1f}" for rate in pair] for pair in rates],
        words=[f"RTT {row.rtt_ms:.0f} ms" for row in rows],
        room=1.42,
    )
    figure = draw_rows([row.label for row in rows], panel, characters=36, row=23)
    title = "The shares of the link, alone and against another congestion control"
    return Picture(figure, title, table(result))
