"""What a slow program does to the wire, packet by packet, and what names the cause: lesson 08."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any, Final

from tcplab.experiments.diagnosis import LINE_BYTES, line_of
from tcplab.figures import style
from tcplab.figures.bars import beside, look_of, no_box
from tcplab.figures.lanes import timeline
from tcplab.figures.style import SMALL, TEXT, TITLE, Picture, Style, count, ms
from tcplab.segments import FROM_SERVER, SYN

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tcplab.experiments.diagnosis import Diagnosis
    from tcplab.segments import SegmentArray

__all__ = ["cause", "symptom"]

#: So many requests, round trips or lines are shown.
_UNITS: Final = {"request": 3, "backup": 4, "ticker": 4}
_GAP_SHARE: Final = 0.07
_MOST_GAPS: Final = 8
_HERE, _NEEDED = Style(style.VERMILION, "//", ""), Style(style.GREEN, "..", "")
_BARE_ACK: Final = 0.35  # height of a packet without data; one byte has 1


def symptom(case: Diagnosis) -> Picture:
    """Some packets at the sender, the gaps between them, what is taken and what is needed.

    Nothing of why: that is :func:`cause`.

    Raises:
        ValueError: nothing was sent.
    """
    if not len(case.sent):
        raise ValueError("no data segment was recorded")
    title = _finding(case)
    figure = style.new_figure()
    style.title(figure, title)
    rows = _part(case)
    gaps = _draw_packets(figure.add_axes((0.085, 0.37, 0.9, 0.49)), case, rows)
    _draw_excess(figure.add_axes((0.085, 0.075, 0.9, 0.155)), case)
    what, taken, needed = case.excess
    data = rows.data("client")
    shown = ", ".join(ms(each) for each in gaps)
    alt = (
        f"Packets of {case.program} at the sender over time, {count(len(rows), 'packet')} from the"
        f" middle of the run, {len(data)} of them with data from the client."
        f"{f' Long gaps: {shown}.' if gaps else ''}"
        f" Bars: {what}, here {_digits(taken)}, needed {_digits(needed)}."
    )
    return Picture(figure, title, alt, case.symptoms())


def _finding(case: Diagnosis) -> str:
    what, taken, needed = case.excess
    unit = " ms" if what.endswith("(ms)") else ""
    words = (
        f"{case.program}, {case.rtt_ms:g} ms away: {what.removesuffix(' (ms)')}"
        f" {_digits(taken)}{unit}, needed {_digits(needed)}: {case.excess.times:.3g} times"
    )
    if case.program == "ticker":  # it has nothing to send most of the time
        return words
    return f"{words}; up to {ms(case.longest_gap_ms)} without a packet"


def _digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _part(case: Diagnosis) -> SegmentArray:
    """Rows from the middle of the run, so many units of them."""
    import numpy as np

    rows = case.segments
    units = _UNITS[case.program]
    times = rows["time_ns"].astype("int64")
    if case.program == "request":
        answers = np.flatnonzero(rows.from_server & rows.carries_data)
        begin = max(len(answers) // 2 - 1, 0)
        end = min(begin + units, len(answers) - 1)
        return _slice(rows, answers[begin], answers[end] + 1)
    if case.program == "ticker":
        data = rows.from_client * rows["payload_bytes"].astype("int64")
        sent = data.cumsum()
        first = case.units // 2 * LINE_BYTES
        inside = np.flatnonzero((sent > first) & (sent <= first + units * LINE_BYTES))
        if len(inside):
            return _slice(rows, int(inside[0]), int(inside[-1]) + 1)
    middle = len(rows) // 2
    if case.rtt_ms < 1 or case.program == "ticker":
        return _slice(rows, middle, middle + 60)
    # From the end of a gap on, if there is one: then a burst is seen whole.
    near = range(middle, min(middle + len(rows) // 8 + 2, len(rows)))
    begin = max(near, key=lambda i: times[i] - times[i - 1])
    until = times[begin] + units * case.rtt_ms * 1e6
    return _slice(rows, begin, int(np.searchsorted(times, until, "right")))


def _slice(rows: SegmentArray, begin: int, end: int) -> SegmentArray:
    part: SegmentArray = rows[begin:end]
    return part


def _draw_packets(axes: Axes, case: Diagnosis, rows: SegmentArray) -> list[float]:
    """A stem a packet, up from the client and down from the server; the long gaps in ms."""
    start = rows.first_time_ns
    kinds: dict[str, list[tuple[float, float]]] = {}
    times: list[float] = []
    for row in rows:
        at, size = (int(row["time_ns"]) - start) / 1e6, int(row["payload_bytes"])
        height = 1 + math.log10(size) if size else _BARE_ACK
        sender = "server" if row["direction"] == FROM_SERVER else "client"
        kind = f"data from the {sender}" if size else f"bare ACK from the {sender}"
        kinds.setdefault(kind, []).append((at, height if sender == "client" else -height))
        times.append(at)
    for kind, look in _LOOKS.items():
        if kind in kinds:
            at_ms, heights = zip(*kinds[kind], strict=True)
            axes.vlines(at_ms, 0, heights, color=look["color"], lw=2)
            axes.plot(at_ms, heights, label=kind, ls="", **look)
    width = times[-1] or 1.0
    gaps = _mark_gaps(axes, times, width) if case.program != "ticker" else []
    axes.axhline(0, color="black", lw=1.2)
    axes.set_xlim(-0.015 * width, 1.015 * width)
    axes.set_ylim(-2.6, 5.3)
    ticks = {-2: "10", -1: "1", 1: "1", 2: "10", 3: "100", 4: "1000"}
    axes.set_yticks(list(ticks), list(ticks.values()))
    axes.set_ylabel("data (bytes)", fontsize=TEXT)
    axes.set_xlabel(f"time (ms), a part of the run; captured at the {_sender(case)}", fontsize=TEXT)
    axes.grid(axis="y", color="#D8D8D8", lw=0.8)
    axes.set_axisbelow(True)
    no_box(axes)
    axes.legend(loc="lower right", ncols=4, fontsize=SMALL, framealpha=0.95)
    return gaps


_LOOKS: Final[dict[str, dict[str, Any]]] = {
    "data from the client": {"marker": "o", "color": style.BLUE, "ms": 7},
    "bare ACK from the client": {"marker": "x", "color": style.GREY, "ms": 7},
    "data from the server": {"marker": "D", "color": style.GREEN, "ms": 7},
    "bare ACK from the server": {
        "marker": "s",
        "color": style.VERMILION,
        "mfc": "white",
        "ms": 7,
    },
}


def _sender(case: Diagnosis) -> str:
    return "client, who sends" if case.program == "backup" else "client"


def _mark_gaps(axes: Axes, times: list[float], width: float) -> list[float]:
    pairs = [(b - a, a, b) for a, b in itertools.pairwise(times) if b - a > _GAP_SHARE * width]
    longest = sorted(pairs, reverse=True)[:_MOST_GAPS]
    for gap, begin, end in longest:
        axes.annotate(
            "",
            (begin, 4.55),
            (end, 4.55),
            arrowprops={
                "arrowstyle": "<->",
                "color": "black",
                "lw": 1.6,
                "shrinkA": 0,
                "shrinkB": 0,
            },
        )
        axes.text((begin + end) / 2, 4.68, ms(gap), ha="center", fontsize=SMALL)
    return [gap for gap, _begin, _end in sorted(longest, key=lambda each: each[1])]


def _draw_excess(axes: Axes, case: Diagnosis) -> None:
    what, taken, needed = case.excess
    for y, (value, look) in enumerate(((taken, _HERE), (needed, _NEEDED))):
        axes.barh(y, value, 0.62, **look_of(look))
        axes.annotate(
            _digits(value),
            (value, y),
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
            fontsize=TEXT,
        )
    axes.set_yticks([0, 1], ["here", "needed"])
    axes.set_ylim(1.5, -0.5)
    axes.set_xlim(0, 1.12 * max(taken, needed))
    no_box(axes)
    axes.tick_params(axis="y", labelsize=TEXT)
    axes.set_xlabel(what, fontsize=TEXT)


# ---- the cause -----------------------------------------------------------------------------------


def cause(case: Diagnosis) -> Picture:
    """What names the cause, for each program another picture.

    A request's time line with the kernel's reasons; the bytes under way in a backup, with what the
    receiver allows and what the wire holds; a line of the ticker, cut into its segments.

    Raises:
        ValueError: nothing was sent.
    """
    if not len(case.sent):
        raise ValueError("no data segment was recorded")
    if case.program == "request":
        return timeline(case.timeline())
    return _under_way(case) if case.program == "backup" else _one_line(case)


def _under_way(case: Diagnosis) -> Picture:
    rows = case.segments
    start = rows.first_time_ns
    sent = acked = 1
    flying: list[tuple[float, int]] = []
    offered: list[tuple[float, int]] = []
    for row in rows:
        at_ms = (int(row["time_ns"]) - start) / 1e6
        if row["direction"] == FROM_SERVER:
            acked = max(acked, int(row["ack"]))
            if not row["flags"] & SYN:  # its window is not scaled
                offered.append((at_ms, int(row["window"])))
        elif row["payload_bytes"]:
            sent = max(sent, int(row["seq"]) + int(row["payload_bytes"]))
        flying.append((at_ms, sent - acked))
    window, holds = case.window_bytes, case.bdp_bytes or 0
    most = max(bytes_ for _ms, bytes_ in flying)
    title = f"backup, {case.rtt_ms:g} ms away: the wire holds {holds:,} bytes, "
    if window < holds:
        title += f"but the receiver allows only {window:,.0f} under way: each round trip they wait"
    else:
        title += f"the receiver allows {window:,.0f}: the wire is the limit"
    figure = style.new_figure()
    style.title(figure, title)
    axes = figure.add_axes((0.095, 0.105, 0.885, 0.76))
    axes.step(*zip(*flying, strict=True), where="post", color=style.BLUE, lw=2, label="under way")
    axes.step(
        *zip(*offered, strict=True),
        where="post",
        color=style.VERMILION,
        lw=2.4,
        ls="--",
        label="the receiver's window",
    )
    axes.axhline(holds, color="black", ls=":", lw=2.4)
    words = f"what the wire holds: rate × RTT = {holds:,} bytes"
    axes.annotate(words, (0.99, holds), **_ABOVE_RIGHT)
    axes.set_ylim(0, 1.2 * max(holds, most, min(window, 2 * most)))
    axes.set_xlim(0, flying[-1][0])
    axes.set_xlabel("time (ms), the whole run", fontsize=TEXT)
    axes.set_ylabel("bytes", fontsize=TEXT)
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.grid(color="#D8D8D8", lw=0.8)
    no_box(axes)
    axes.legend(loc="center right", fontsize=TEXT, framealpha=0.95)
    alt = f"Bytes under way over time, at most {most:,}. {title}."
    return Picture(figure, title, alt, case.evidence())


_ABOVE_RIGHT: Final[dict[str, Any]] = {
    "xycoords": ("axes fraction", "data"),
    "xytext": (0, 6),
    "textcoords": "offset points",
    "ha": "right",
    "fontsize": TEXT,
}


def _one_line(case: Diagnosis) -> Picture:
    """A line from the middle of the run: each character, and the segment it travelled in."""
    number = case.units // 2
    text = line_of(number)
    first = 1 + number * LINE_BYTES
    pieces: list[tuple[int, int]] = []
    for row in case.sent:
        begin = int(row["seq"]) - first
        end = begin + int(row["payload_bytes"])
        if end > 0 and begin < LINE_BYTES:
            pieces.append((max(begin, 0), min(end, LINE_BYTES)))
    calls = case.report.get("system_calls", 0) / case.units
    title = (
        f"ticker, {case.rtt_ms:g} ms away: a line is {calls:.3g} calls of send and"
        f" {count(len(pieces), 'segment')} on the wire"
    )
    figure = style.new_figure()
    style.title(figure, title)
    axes = figure.add_axes((0.02, 0.46, 0.96, 0.42))
    axes.set_axis_off()
    axes.set_xlim(-0.2, LINE_BYTES + 0.2)
    axes.set_ylim(0, 1)
    nodelay = "on" if case.report.get("options", {}).get("nodelay") else "off"
    words = f"line {number}, {LINE_BYTES} bytes; a box is a segment. TCP_NODELAY is {nodelay}."
    axes.text(0, 0.82, words, fontsize=TEXT)
    for at, character in enumerate(text):
        shown = {"\n": "↵", " ": "␣"}.get(character, character)
        axes.text(
            at + 0.5, 0.42, shown, fontsize=TITLE, ha="center", va="center", family="monospace"
        )
    for begin, end in pieces:
        style.fill(axes, _PIECE, begin + 0.06, 0.24, end - begin - 0.12, 0.36)
    text_bytes = case.payload_bytes / case.units
    _draw_headers(
        figure.add_axes((0.12, 0.11, 0.86, 0.25)), text_bytes, case.segments_per_unit * _HEADERS
    )
    alt = f"The text of a line, cut into {count(len(pieces), 'piece')}. {title}."
    return Picture(figure, title, alt, case.evidence())


def _draw_headers(axes: Axes, text_bytes: float, header_bytes: float) -> None:
    """What passes for a line, here and in one segment: text, and headers."""
    for y, headers in ((0, header_bytes), (1, float(_HEADERS))):
        first = y == 0
        axes.barh(y, text_bytes, 0.6, label="text" if first else None, **look_of(_PIECE))
        axes.barh(
            *(y, headers, 0.6),
            left=text_bytes,
            label="headers" if first else None,
            **look_of(_HERE),
        )
        words = f"{text_bytes:.0f} + {headers:,.0f}"
        beside(axes, words, text_bytes + headers, y)
    axes.set_yticks([0, 1], ["here", "needed"])
    axes.set_ylim(1.5, -0.5)
    axes.set_xlim(0, 1.13 * (text_bytes + max(header_bytes, _HEADERS)))
    no_box(axes)
    axes.tick_params(axis="y", labelsize=TEXT)
    axes.set_xlabel("bytes on the wire for a line (mean of the run)", fontsize=TEXT)
    axes.legend(loc="lower right", ncols=2, fontsize=SMALL)


_PIECE: Final = Style(style.BLUE, "", "")
_HEADERS: Final = 66  # Ethernet 14, IPv4 20, TCP 20, time stamps 12
