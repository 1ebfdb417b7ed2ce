"""Draw the figures for the slow-start and loss lessons."""

from __future__ import annotations

import math
from typing import Any, Final

from tcplab.experiments import table
from tcplab.experiments.loss_rate import LossRates
from tcplab.experiments.lost_segment import Loss, Losses
from tcplab.experiments.short_transfer import Sizes
from tcplab.figures import bars, canvas, style
from tcplab.figures.bars import named_once
from tcplab.figures.generic import Panel, draw_rows
from tcplab.figures.picture import Picture, drawn, some
from tcplab.figures.style import Style
from tcplab.models import goodput_mbyte_s
from tcplab.tables import count, grouped, plain

__all__ = ["loss_rates", "lost_segments", "transfer_sizes"]

_NOTHING: Final = Style(style.GREY, "", "nothing lost")
_SACK: Final = Style(style.BLUE, "", "sent again after SACKs")
_PROBE: Final = Style(style.ORANGE, "//", "after a probe of the tail")
_TIMEOUT: Final = Style(style.VERMILION, "xx", "after a timeout")


@drawn
def transfer_sizes(result: Sizes) -> Picture:
    """Draw the rate of transfers against their size, with the model's rate and the link's."""
    rows = some(result.rows())
    figure, axes = canvas.new_axes("y")
    sizes = [row["data_bytes"] for row in rows]
    model = [row["data_bytes"] * 8 / 1e3 / row["model_ms"] for row in rows]
    whole = 8 * goodput_mbyte_s(result.rate_mbit)
    axes.axhline(whole, color=style.VERMILION, ls="--", lw=1.4, label=f"the wire: {whole:.1f}")
    axes.plot(sizes, model, "-", color="black", lw=1.2, label="model: doubling from 10 segments")
    rates = [row["mbit"] for row in rows]
    axes.plot(sizes, rates, "o", color=style.BLUE, ms=8, mec="white", zorder=4, label="measured")
    for number, row in enumerate(rows):
        text = f"{row['mbit']:.3g}, {row['round_trips']} RTT"
        # Labels are to the left of the rising curve, at two heights to separate neighbours.
        at, above = (row["data_bytes"], row["mbit"]), (2, 12 + 21 * (number % 2))
        place: dict[str, Any] = {"textcoords": "offset points", "ha": "right", "zorder": 5}
        axes.annotate(text, at, above, arrowprops={"arrowstyle": "-", "lw": 0.6}, **place)
    axes.set(xscale="log", xlim=(min(sizes) / 9, max(sizes) * 3), ylim=(-0.03 * whole, 1.2 * whole))
    bars.tick_decades(axes)
    axes.set(xlabel="data (bytes, logarithmic)", ylabel="Mbit/s")
    canvas.legend(figure)
    middle = rows[len(rows) // 2]
    fast = [row["data_bytes"] for row in rows if row["mbit"] >= whole / 2]
    title = "Each of these transfers gets less than half of the link's rate"
    if fast:
        size = plain(min(fast))
        title = f"The smallest transfer that gets half of the link's rate has {size} bytes"
    note = grouped(
        f"{middle['data_bytes']:,} bytes: {middle['mbit']:.3g} of {result.rate_mbit:g} Mbit/s,"
        f" {count(middle['round_trips'], 'round trip')} of {result.rtt_ms:g} ms"
    )
    return Picture(figure, title, table(result), note)


@drawn
def lost_segments(result: Losses) -> Picture:
    """Draw how long a transfer takes and how it recovers, depending on the lost segments."""
    rows = some(result.variants)
    panel = Panel(
        "ms until all is acknowledged",
        bars=[[(_way_out(row), row.took_ms)] for row in rows],
        words=[f"{row.took_ms:.0f} ms" for row in rows],
    )
    figure = draw_rows([row.lost for row in rows], panel, characters=12)
    slowest = max(rows, key=lambda row: row.took_ms)
    fastest = min(rows, key=lambda row: row.took_ms)
    title = f"The transfer takes {slowest.took_ms:.0f} ms"
    ends = [fastest]
    if slowest is not fastest:
        ends.append(slowest)
        title = (
            f"The transfer takes up to {slowest.took_ms / fastest.took_ms:.1f} times as long,"
            " depending on which segments are lost"
        )
    note = f"{result.provenance['segments']} segments · " + ", ".join(
        f"{row.took_ms:.0f} ms (lost: {row.lost})" for row in ends
    )
    return Picture(figure, title, table(result), note)


def _way_out(loss: Loss) -> Style:
    if loss.timeouts:
        return _TIMEOUT
    if loss.probes:
        return _PROBE
    return _SACK if loss.sent_again else _NOTHING


@drawn
def loss_rates(result: LossRates) -> Picture:
    """Draw measured rates against those of Mathis's formula, both on logarithmic axes."""
    rows = some(result.rows())
    figure, axes = canvas.new_axes("both")
    formula = [row["formula_mbit"] for row in rows]
    measured = [row["mbit"] for row in rows]
    ends = [min(formula + measured) / 1.7, max(formula + measured) * 2.2]
    axes.plot(ends, ends, "-", color="black", lw=1.2, label="as the formula says")
    axes.fill_between(
        ends,
        [end / 2 for end in ends],
        [end * 2 for end in ends],
        color=style.PALE,
        label="within a factor of 2",
        zorder=0,
    )
    marks = {"cubic": ("o", style.BLUE), "reno": ("s", style.ORANGE), "bbr": ("^", style.GREEN)}
    for row in rows:
        name = row["congestion"]
        mark, colour = marks.get(name, ("D", style.PURPLE))
        look: dict[str, Any] = {"color": colour, "ms": 8, "mec": "white", "ls": "none"}
        at = row["formula_mbit"], row["mbit"]
        axes.plot(*at, mark, label=named_once(axes, name), zorder=4, **look)
        if name == rows[0]["congestion"]:
            text = f"{row['rtt_ms']:g} ms, {row['loss_percent']:g} %"
            where, align = (12, -14), "left"
            if row["formula_mbit"] < 2 * ends[0]:  # the label must not cover the axis
                where, align = (-4, 12), "left"
            elif row["loss_percent"] < 1:
                where, align = (-10, 6), "right"
            elif row["times_formula"] > 1.3:  # the label must not cover the line below
                where, align = (0, 10), "center"
            look = {"textcoords": "offset points", "ha": align, "linespacing": 1.0}
            axes.annotate(text, at, where, **look)
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=(ends[0], 2 * ends[1]))
    bars.tick_decades(axes)
    bars.tick_decades(axes, "y")
    axes.set(xlabel="the formula (Mbit/s, logarithmic)", ylabel="measured (Mbit/s, logarithmic)")
    canvas.legend(figure)
    apart = [row["times_formula"] for row in rows]
    factor = math.ceil(10 * max(*apart, *(1 / times for times in apart))) / 10
    title = f"With random loss, the rate is within a factor of {factor:g} of the formula"
    note = f"{len(rows)} paths: {min(apart):.2f} to {max(apart):.2f} times the formula of 1997"
    return Picture(figure, title, table(result), note)
