"""Draw the figures for the diagnosis lesson: a slow program's packets, and the cause."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any, Final

from tcplab.experiments.diagnosis import LINE_BYTES
from tcplab.figures import canvas, style
from tcplab.figures.curves import in_flight
from tcplab.figures.generic import Subplot, draw_rows
from tcplab.figures.picture import Picture, drawn, some
from tcplab.figures.style import Style
from tcplab.figures.timeline_figure.paint import timeline
from tcplab.segments import FROM_SERVER
from tcplab.tables import count, digits, ms

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tcplab.experiments.diagnosis import Diagnosis
    from tcplab.segments import SegmentArray


_HEADER_BYTES: Final = 66  # Ethernet 14, IPv4 20, TCP 20, timestamps 12
_TEXT: Final = Style(style.BLUE, "", "text")
_HEADERS: Final = Style(style.VERMILION, "//", "headers")
_NOTHING_SENT: Final = "no data segment was recorded"


# ---- the symptom ---------------------------------------------------------------------------------

#: How many requests, round trips or lines are drawn for each program.
_UNITS: Final = {"request": 3, "backup": 4, "ticker": 4}
_GAP_SHARE: Final = 0.07
_MOST_GAPS: Final = 8
_BARE_ACK: Final = 0.35  # height of a packet without data; one byte has the height 1
_LOOKS: Final[dict[str, dict[str, Any]]] = {
    "data from the client": {"marker": "o", "color": style.BLUE},
    "bare ACK from the client": {"marker": "x", "color": style.GREY},
    "data from the server": {"marker": "D", "color": style.GREEN},
    "bare ACK from the server": {"marker": "s", "color": style.VERMILION, "mfc": "white"},
}


@drawn
def symptom(case: Diagnosis) -> Picture:
    """Draw the client's packets, but not the cause (see `cause`)."""
    some(case.sent, _NOTHING_SENT)
    figure, packets = canvas.new_axes()
    _draw_packets(packets, case, case.segments[_part(case)])
    canvas.legend(figure)
    quantity, taken, needed = case.excess
    unit = " ms" if quantity.endswith("(ms)") else ""
    quantity = quantity.removesuffix(" (ms)")
    title = f"The {quantity} is {case.excess.times:.3g} times what is needed"
    note = f"{case.program}, RTT {case.rtt_ms:g} ms · {quantity} {digits(taken)}{unit}"
    note += f", needed {digits(needed)}{unit}"
    if case.program != "ticker":  # the ticker has nothing to send most of the time
        note += f" · up to {ms(case.longest_gap_ms)} without a packet"
    return Picture(figure, title, case.symptoms(), note)


def _part(case: Diagnosis) -> slice:
    import numpy as np

    rows = case.segments
    units = _UNITS[case.program]
    times = rows["time_ns"].astype("int64")
    if case.program == "request":
        answers = np.flatnonzero(rows.from_server & rows.carries_data)
        begin = max(len(answers) // 2 - 1, 0)
        end = min(begin + units, len(answers) - 1)
        return slice(answers[begin], answers[end] + 1)
    if case.program == "ticker":
        data = rows.from_client * rows["payload_bytes"].astype("int64")
        sent = data.cumsum()
        first = case.units // 2 * LINE_BYTES
        inside = np.flatnonzero((sent > first) & (sent <= first + units * LINE_BYTES))
        if len(inside):
            return slice(int(inside[0]), int(inside[-1]) + 1)
    middle = len(rows) // 2
    if case.rtt_ms < 1 or case.program == "ticker":
        return slice(middle, middle + 60)
    # The part starts after the longest gap nearby, so that its first burst is complete.
    near = range(middle, min(middle + len(rows) // 8 + 2, len(rows)))
    begin = max(near, key=lambda i: times[i] - times[i - 1])
    until = times[begin] + units * case.rtt_ms * 1e6
    return slice(begin, int(np.searchsorted(times, until, "right")))


def _draw_packets(axes: Axes, case: Diagnosis, rows: SegmentArray) -> None:
    """Draw a stem per packet, upwards for the client. Mark long gaps, except for the ticker."""
    start = rows.first_time_ns
    kinds: dict[str, list[tuple[float, float]]] = {}
    times: list[float] = []
    for row in rows:
        at, size = (int(row["time_ns"]) - start) / 1e6, int(row["payload_bytes"])
        height = 1 + math.log10(size) if size else _BARE_ACK
        end = "server" if row["direction"] == FROM_SERVER else "client"
        kind = f"data from the {end}" if size else f"bare ACK from the {end}"
        kinds.setdefault(kind, []).append((at, height if end == "client" else -height))
        times.append(at)
    for kind, look in _LOOKS.items():
        if kind in kinds:
            at_ms, heights = zip(*kinds[kind], strict=True)
            axes.vlines(at_ms, 0, heights, color=look["color"], lw=1.4)
            axes.plot(at_ms, heights, label=kind, ls="", ms=5, **look)
    width = times[-1] or 1.0
    if case.program != "ticker":
        _mark_gaps(axes, times, width)
    axes.axhline(0, color="black", lw=1.2)
    axes.set(xlim=(-0.015 * width, 1.015 * width), ylim=(-2.6, 5.6))
    ticks = {-2: "10", -1: "1", 1: "1", 2: "10", 3: "100", 4: "1000"}
    axes.set_yticks(list(ticks), list(ticks.values()))
    axes.set_ylabel("data (bytes)")
    sender = "client, which sends" if case.program == "backup" else "client"
    axes.set_xlabel(f"time (ms), a part of the run; captured at the {sender}")
    axes.grid(axis="y")


def _mark_gaps(axes: Axes, times: list[float], width: float) -> None:
    pairs = [(b - a, a, b) for a, b in itertools.pairwise(times) if b - a > _GAP_SHARE * width]
    longest = sorted(pairs, reverse=True)[:_MOST_GAPS]
    for gap, begin, end in longest:
        style.extent(axes, begin, end, 4.4, "black")
        room = (end - begin) / width * 560
        if style.text_width_px(ms(gap), style.SMALL) < room:
            axes.text((begin + end) / 2, 4.5, ms(gap), ha="center", va="bottom")


# ---- the cause -----------------------------------------------------------------------------------


def cause(case: Diagnosis) -> Picture:
    """Draw the figure that shows the cause, which depends on the program."""
    some(case.sent, _NOTHING_SENT)
    if case.program == "request":
        return timeline(case.timeline())
    if case.program == "backup":
        return in_flight(case.timeline(), bdp_bytes=case.bdp_bytes)
    return _one_line(case)


@drawn
def _one_line(case: Diagnosis) -> Picture:
    """Draw the bytes of text and headers per line, as measured and for one segment per line."""
    calls = case.report.get("system_calls", 0) / case.units
    text_bytes = case.payload_bytes / case.units
    headers = [case.segments_per_unit * _HEADER_BYTES, float(_HEADER_BYTES)]
    panel = Subplot(
        "bytes on the link per line (mean of the run)",
        bars=[[(_TEXT, text_bytes), (_HEADERS, size)] for size in headers],
        words=[f"{text_bytes:.0f} + {size:,.0f}" for size in headers],
    )
    title = f"The program sends a line of text with {count(round(calls), 'call')} of send"
    nodelay = "on" if case.report.get("options", {}).get("nodelay") else "off"
    note = f"ticker, RTT {case.rtt_ms:g} ms · TCP_NODELAY is {nodelay}"
    return Picture(draw_rows(["here", "needed"], panel), title, case.evidence(), note)
