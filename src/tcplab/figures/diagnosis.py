"""Draw the figures for the diagnosis lesson: a slow program's packets, and the cause."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any, Final

from tcplab.figures import canvas, style
from tcplab.figures.curves import in_flight
from tcplab.figures.picture import Picture, drawn, some
from tcplab.figures.timeline_figure.paint import timeline
from tcplab.segments import FROM_SERVER
from tcplab.tables import digits, ms

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tcplab.experiments.diagnosis import Diagnosis
    from tcplab.segments import SegmentArray


# ---- the symptom ---------------------------------------------------------------------------------

#: How many packets are drawn, which are a few requests, round trips or lines.
_PACKETS: Final = {"request": 16, "backup": 56, "ticker": 180}
_GAP_SHARE: Final = 0.07
_MOST_GAPS: Final = 8
#: Heights of packets whose size is not drawn; one byte from the client has the height 1.
_BARE_ACK, _FROM_SERVER = 0.35, -0.65
_LOOKS: Final[dict[str, dict[str, Any]]] = {
    "data from the client": {"marker": "o", "color": style.BLUE},
    "bare ACK from the client": {"marker": "x", "color": style.GREY},
    "data from the server": {"marker": "D", "color": style.GREEN},
    "bare ACK from the server": {"marker": "s", "color": style.VERMILION, "mfc": "white"},
}


@drawn
def symptom(case: Diagnosis) -> Picture:
    """Draw the client's packets, but not the cause (see `cause`)."""
    some(case.sent, "no data segment was recorded")
    figure, packets = canvas.new_axes()
    _draw_packets(packets, case, case.segments[_part(case)])
    canvas.legend(figure)
    quantity, taken, needed = case.excess
    unit = " ms" if quantity.endswith("(ms)") else ""
    quantity = quantity.removesuffix(" (ms)")
    title = f"{quantity[:1].upper()}{quantity[1:]}: {case.excess.times:.3g} times what is needed"
    note = f"{case.program}, RTT {case.rtt_ms:g} ms · {quantity} {digits(taken)}{unit}"
    note += f", needed {digits(needed)}{unit}"
    return Picture(figure, title, case.symptoms(), note)


def _part(case: Diagnosis) -> slice:
    """Return packets from the middle of the run that follow the longest gap nearby."""
    times, middle = case.segments["time_ns"].astype("int64"), len(case.segments) // 2
    near = range(max(middle, 1), min(middle + len(times) // 8 + 2, len(times)))
    begin = max(near, key=lambda i: times[i] - times[i - 1], default=0)
    return slice(begin, begin + _PACKETS[case.program])


def _draw_packets(axes: Axes, case: Diagnosis, rows: SegmentArray) -> None:
    """Draw a stem per packet, as high as its size for the client, and below for the server.

    Long gaps are marked, except for the ticker.
    """
    start = rows.first_time_ns
    kinds: dict[str, list[tuple[float, float]]] = {}
    times: list[float] = []
    for row in rows:
        at, size = (int(row["time_ns"]) - start) / 1e6, int(row["payload_bytes"])
        height = 1 + math.log10(size) if size else _BARE_ACK
        if is_server := row["direction"] == FROM_SERVER:
            height = _FROM_SERVER - 0.15 if size else _FROM_SERVER + 0.15
        end = "server" if is_server else "client"
        kind = f"data from the {end}" if size else f"bare ACK from the {end}"
        kinds.setdefault(kind, []).append((at, height))
        times.append(at)
    for kind, look in _LOOKS.items():
        if kind in kinds:
            at_ms, heights = zip(*kinds[kind], strict=True)
            axes.vlines(at_ms, 0, heights, color=look["color"], lw=1.4)
            axes.plot(at_ms, heights, label=kind, ls="", ms=5, **look)
    width = times[-1] or 1.0
    highest = max(height for points in kinds.values() for _at, height in points)
    if case.program != "ticker":
        _mark_gaps(axes, times, width, highest + 0.4)
    axes.axhline(0, color="black", lw=1.2)
    axes.set(xlim=(-0.015 * width, 1.015 * width), ylim=(-1.1, highest + 1.2))
    ticks = [power for power in range(4) if power < highest]
    labels = ["from the server", *(str(10**power) for power in ticks)]
    axes.set_yticks([_FROM_SERVER, *(1 + power for power in ticks)], labels)
    axes.set_ylabel("data from the client (bytes)")
    axes.set_xlabel("time (ms), a part of the run; captured at the client")
    axes.grid(axis="y")


def _mark_gaps(axes: Axes, times: list[float], width: float, y: float) -> None:
    pairs = [(b - a, a, b) for a, b in itertools.pairwise(times) if b - a > _GAP_SHARE * width]
    longest = sorted(pairs, reverse=True)[:_MOST_GAPS]
    for gap, begin, end in longest:
        arrow = {"arrowstyle": "<->", "lw": 1.5, "shrinkA": 0, "shrinkB": 0}
        axes.annotate("", (begin, y), (end, y), arrowprops=arrow)
        room = (end - begin) / width * 560
        if style.text_width_px(ms(gap), style.SMALL) < room:
            axes.text((begin + end) / 2, y + 0.1, ms(gap), ha="center", va="bottom")


# ---- the cause -----------------------------------------------------------------------------------


def cause(case: Diagnosis) -> Picture:
    """Draw the figure that shows the cause, which depends on the program."""
    if case.program == "request":
        return timeline(case.timeline())
    if case.program == "backup":
        return in_flight(case.timeline(), bdp_bytes=case.bdp_bytes)
    return symptom(case)  # the sizes of the packets are the cause
