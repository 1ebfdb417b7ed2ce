"""The pictures of lesson 00: a handshake as a ladder, and what a slow recorder misses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tcplab.experiments import table
from tcplab.figures import style
from tcplab.figures.style import SMALL, TEXT, Line, Picture
from tcplab.segments import ACK, FIN, SYN, flag_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tcplab.experiments.capture_loss import CaptureLoss
    from tcplab.experiments.connection import Connection
    from tcplab.segments import Sender

__all__ = ["handshake", "sniffing_loss"]

_CLIENT, _SERVER = 0.36, 0.66  # where the posts stand

_OPENING: Final = Line("-", style.VERMILION, 2.6)
_DATA: Final = Line("-", style.BLUE, 3.0)
_PURE_ACK: Final = Line("--", style.GREY, 2.0)
_CLOSING: Final = Line("-.", style.PURPLE, 2.6)


def handshake(tour: Connection) -> Picture:
    """Every packet of a connection as an arrow between client and server, time downwards.

    Raises:
        ValueError: the recording has no packets.
    """
    rungs = _rungs(tour)
    if not rungs:
        raise ValueError("the recording has no packets to draw")
    start_ns = min(min(rung.left_ns, rung.right_ns) for rung in rungs)
    end_ns = max(max(rung.left_ns, rung.right_ns) for rung in rungs)
    opened_ms = next(
        ((rung.right_ns - start_ns) / 1e6 for rung in rungs if rung.kind == "opens"), 0.0
    )
    data_ms = next(((rung.sent_ns - start_ns) / 1e6 for rung in rungs if rung.payload_bytes), 0.0)
    title = (
        f"{len(rungs)} packets for ten bytes; the first byte leaves {data_ms:.0f} ms after the"
        " SYN, when the SYN ACK is here"
    )
    figure = style.new_figure()
    style.title(figure, title)
    axes = figure.add_axes((0.01, 0.03, 0.98, 0.84))
    axes.set(xlim=(0, 1), ylim=(1.02, -0.05))
    axes.axis("off")
    for x, name in ((_CLIENT, "client"), (_SERVER, "server")):
        axes.plot([x, x], [-0.01, 1.0], color="black", lw=2.5)
        axes.text(x, -0.02, name, ha="center", fontsize=TEXT, fontweight="bold")
    _Ladder(axes, start_ns, end_ns).paint(rungs)
    listed = "; ".join(
        f"{(rung.sent_ns - start_ns) / 1e6:.0f} ms {rung.sender} {rung.text}".replace("\n", ", ")
        for rung in rungs
    )
    alt = f"Ladder diagram of a TCP connection, {opened_ms:.0f} ms to the SYN's arrival. {listed}."
    return Picture(figure, title, alt, table(tour))


@dataclass(frozen=True, slots=True)
class _Rung:
    """A packet: where it was when, and what it says."""

    left_ns: int  # at the client
    right_ns: int  # at the server
    from_client: bool
    payload_bytes: int
    kind: str
    text: str

    @property
    def sent_ns(self) -> int:
        return self.left_ns if self.from_client else self.right_ns

    @property
    def sender(self) -> str:
        return "client" if self.from_client else "server"


def _rungs(tour: Connection) -> list[_Rung]:
    """The packets that both recorders saw, matched by direction and order."""
    rungs = []
    senders: tuple[Sender, Sender] = ("client", "server")
    assert tour.exchange.peer_segments is not None
    for sender in senders:
        near, far = tour.segments.sent_by(sender), tour.exchange.peer_segments.sent_by(sender)
        for here, there in zip(near, far, strict=False):
            kind, text = _words(here)
            times = int(here["time_ns"]), int(there["time_ns"])
            rungs.append(_Rung(*times, sender == "client", int(here["payload_bytes"]), kind, text))
    return sorted(rungs, key=lambda rung: rung.sent_ns)


def _words(row: Any) -> tuple[str, str]:
    flags, size = int(row["flags"]), int(row["payload_bytes"])
    numbers = f"seq {row['seq']}" + (f", ack {row['ack']}" if flags & ACK else "")
    if flags & SYN:
        options = f"MSS {row['mss']}, window scale {row['wscale']}"
        return "opens", f"{flag_names(flags)}  {numbers}\n{options}"
    if size:
        return "data", f"{size} bytes  {numbers}"
    if flags & FIN:
        return "closes", f"{flag_names(flags)}  {numbers}"
    return "acks", f"ACK  {numbers}"


class _Ladder:
    """Draws rungs into axes whose y runs downwards from 0 to 1."""

    _LOOKS: Final = {"opens": _OPENING, "data": _DATA, "acks": _PURE_ACK, "closes": _CLOSING}
    _ROW: Final = 0.052

    def __init__(self, axes: Axes, start_ns: int, end_ns: int) -> None:
        self.axes = axes
        self.start_ns = start_ns
        self.span_ns = max(end_ns - start_ns, 1)

    def y(self, time_ns: int) -> float:
        return 0.03 + 0.93 * (time_ns - self.start_ns) / self.span_ns

    def paint(self, rungs: list[_Rung]) -> None:
        lowest = {"client": -1.0, "server": -1.0}
        for rung in rungs:
            left, right = (_CLIENT, self.y(rung.left_ns)), (_SERVER, self.y(rung.right_ns))
            look = self._LOOKS[rung.kind]
            start, end = (left, right) if rung.from_client else (right, left)
            style.arrow(self.axes, start, end, look)
            # Labels of packets that left together stand below each other.
            y = max(start[1], lowest[rung.sender] + self._ROW)
            lowest[rung.sender] = y
            self._label(rung, y, start[1], look)

    def _label(self, rung: _Rung, y: float, at: float, look: Line) -> None:
        when = f"{(rung.sent_ns - self.start_ns) / 1e6:.1f} ms"
        first, *more = rung.text.split("\n")
        words = f"{first}   {when}" if rung.from_client else f"{when}   {first}"
        x, align = (_CLIENT - 0.03, "right") if rung.from_client else (_SERVER + 0.03, "left")
        post = _CLIENT - 0.004 if rung.from_client else _SERVER + 0.004
        near = x + 0.004 if rung.from_client else x - 0.004
        self.axes.plot([near, post], [y, at], color="#B0B0B0", lw=0.8, zorder=1)
        colour = style.ink(look.colour)
        for i, line in enumerate([words, *more]):
            height = y + i * self._ROW * 0.8
            self.axes.text(x, height, line, ha=align, va="center", fontsize=SMALL, color=colour)


# ---- what scapy misses ---------------------------------------------------------------------------


def sniffing_loss(result: CaptureLoss) -> Picture:
    """The share of packets that scapy and the recorder have, at each rate."""
    rows = result.rows()
    worst = min(rows, key=lambda row: float(row["scapy_share"]))
    recorded = worst["recorder_kept"] / worst["passed"]
    title = (
        f"At {_digits(worst['sent_per_s'])} packets a second scapy has"
        f" {worst['scapy_share']:.0%} of them, the recorder {recorded:.0%}"
    )
    figure = style.new_figure()
    style.title(figure, title)
    axes = figure.add_axes((0.09, 0.13, 0.89, 0.66))
    for place, row in enumerate(rows):
        scapy = 100 * row["scapy_share"]
        recorder = 100 * row["recorder_kept"] / row["passed"]
        _share(axes, place - 0.2, scapy, row["scapy_drops"], style.ORANGE, "///")
        _share(axes, place + 0.2, recorder, row["recorder_drops"], style.SKY, "")
    axes.set_xticks(
        range(len(rows)),
        [f"{_digits(row['sent_per_s'])} packets/s" for row in rows],
        fontsize=TEXT,
    )
    axes.set_ylim(0, 122)
    axes.set_yticks(range(0, 101, 25), [f"{each} %" for each in range(0, 101, 25)], fontsize=SMALL)
    axes.set_ylabel("of the packets that passed", fontsize=TEXT)
    axes.grid(axis="y", color="#D8D8D8", lw=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    from matplotlib.patches import Patch

    figure.legend(
        handles=[
            Patch(facecolor=style.ORANGE, hatch="///", edgecolor="black", label="scapy has"),
            Patch(facecolor=style.SKY, edgecolor="black", label="the recorder has"),
        ],
        loc="upper right",
        bbox_to_anchor=(0.98, 0.9),
        ncols=2,
        fontsize=TEXT,
        frameon=False,
    )
    listed = "; ".join(
        f"{_digits(row['sent_per_s'])} packets a second: scapy {row['scapy_share']:.0%}, recorder"
        f" {row['recorder_kept'] / row['passed']:.0%}"
        for row in rows
    )
    alt = f"Pairs of bars, the share of packets that scapy and the recorder have. {listed}."
    return Picture(figure, title, alt, table(result))


def _share(axes: Axes, x: float, percent: float, drops: int, colour: str, hatch: str) -> None:
    axes.bar(x, percent, 0.36, color=colour, edgecolor="black", hatch=hatch)
    words = f"{percent:.0f} %\n{drops:,} lost" if drops else f"{percent:.0f} %"
    axes.text(x, percent + 1.5, words, ha="center", va="bottom", fontsize=SMALL)


def _digits(number: float) -> str:
    """Two digits that count."""
    return f"{float(f'{number:.2g}'):,.0f}"
