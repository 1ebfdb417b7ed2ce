"""Lesson 00: a connection as a sequence diagram, and the packets that a slow recorder misses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tcplab.experiments import table
from tcplab.figures import style
from tcplab.figures.bars import named_once
from tcplab.figures.picture import Picture, old, some
from tcplab.figures.sequence_diagram import AXES, LEFT, RIGHT, Diagram
from tcplab.figures.style import TEXT, Line, Style, look_of
from tcplab.segments import ACK, FIN, SYN, flag_names
from tcplab.tables import digits

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tcplab.experiments.capture_loss import CaptureLoss
    from tcplab.experiments.connection import Connection
    from tcplab.segments import Sender

__all__ = ["capture_loss", "handshake"]

_LOOKS: Final = {
    "opens": Line("-", style.VERMILION, 2.6),
    "data": Line("-", style.BLUE, 3.0),
    "acks": Line("--", style.GREY, 2.0),
    "closes": Line("-.", style.PURPLE, 2.6),
}
_SCAPY: Final = Style(style.ORANGE, "///", "scapy has")
_RECORDER: Final = Style(style.BLUE, "", "the recorder has")


@old
def handshake(tour: Connection) -> Picture:
    """Every packet of a connection as an arrow between client and server, time downwards."""
    packets = some(_packets(tour), "the recording has no packets to draw")
    start_ns = min(min(each.left_ns, each.right_ns) for each in packets)
    end_ns = max(max(each.left_ns, each.right_ns) for each in packets)
    opened_ns = next((each.right_ns for each in packets if each.kind == "opens"), start_ns)
    data_ns = next((each.sent_ns for each in packets if each.payload_bytes), start_ns)
    title = (
        f"{len(packets)} packets for ten bytes; the first byte leaves"
        f" {(data_ns - start_ns) / 1e6:.0f} ms after the SYN, when the SYN ACK is here"
    )
    figure, axes = style.new_axes(AXES)
    diagram = Diagram(axes, "client", "server")
    for each in packets:
        left, right = (
            (x, diagram.y((time_ns - start_ns) / max(end_ns - start_ns, 1)))
            for x, time_ns in ((LEFT, each.left_ns), (RIGHT, each.right_ns))
        )
        start, end = (left, right) if each.from_client else (right, left)
        diagram.packet(start, end, _LOOKS[each.kind], each.label(start_ns))
    diagram.write_labels()
    listed = "; ".join(
        f"{(each.sent_ns - start_ns) / 1e6:.0f} ms {each.sender} {each.text}".replace("\n", ", ")
        for each in packets
    )
    alt = (
        f"Sequence diagram of a TCP connection, {(opened_ns - start_ns) / 1e6:.0f} ms to the SYN's"
        f" arrival. {listed}."
    )
    return Picture(figure, title, alt, table(tour))


@dataclass(frozen=True, slots=True)
class _Packet:
    """A packet with its two times, its kind and its label."""

    left_ns: int  #: at the client
    right_ns: int  #: at the server
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

    def label(self, start_ns: int) -> str:
        """The text with the time, which stands next to the host's line."""
        when = f"{(self.sent_ns - start_ns) / 1e6:.1f} ms"
        first, *more = self.text.split("\n")
        return "\n".join([f"{first}   {when}" if self.from_client else f"{when}   {first}", *more])


def _packets(tour: Connection) -> list[_Packet]:
    """The packets that both recorders saw, matched by direction and order."""
    assert tour.exchange.peer_segments is not None
    packets = []
    senders: tuple[Sender, Sender] = ("client", "server")
    for sender in senders:
        near, far = tour.segments.sent_by(sender), tour.exchange.peer_segments.sent_by(sender)
        for here, there in zip(near, far, strict=False):
            kind, text = _words(here)
            times = int(here["time_ns"]), int(there["time_ns"])
            size = int(here["payload_bytes"])
            packets.append(_Packet(*times, sender == "client", size, kind, text))
    return sorted(packets, key=lambda packet: packet.sent_ns)


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


# ---- the packets that scapy misses ---------------------------------------------------------------


@old
def capture_loss(result: CaptureLoss) -> Picture:
    """The share of packets that scapy and the recorder have, at each rate."""
    rows = result.rows()
    worst = min(rows, key=lambda row: float(row["scapy_share"]))
    recorded = worst["recorder_kept"] / worst["passed"]
    title = (
        f"At {digits(worst['sent_per_s'], 2)} packets per second scapy has"
        f" {worst['scapy_share']:.0%} of them, the recorder {recorded:.0%}"
    )
    figure, axes = style.new_axes((0.09, 0.13, 0.89, 0.66), grid="y")
    for x, row in enumerate(rows):
        recorded = row["recorder_kept"] / row["passed"]
        _share(axes, x - 0.2, row["scapy_share"], row["scapy_drops"], _SCAPY)
        _share(axes, x + 0.2, recorded, row["recorder_drops"], _RECORDER)
    rates = [f"{digits(row['sent_per_s'], 2)} packets/s" for row in rows]
    axes.set_xticks(range(len(rows)), rates, fontsize=TEXT)
    axes.set_ylim(0, 122)
    axes.set_yticks(range(0, 101, 25), [f"{each} %" for each in range(0, 101, 25)])
    axes.set_ylabel("of the packets that passed")
    figure.legend(loc="upper right", bbox_to_anchor=(0.98, 0.9), ncols=2, frameon=False)
    listed = "; ".join(
        f"{digits(row['sent_per_s'], 2)} packets per second: scapy {row['scapy_share']:.0%},"
        f" recorder {row['recorder_kept'] / row['passed']:.0%}"
        for row in rows
    )
    alt = f"Pairs of bars, the share of packets that scapy and the recorder have. {listed}."
    return Picture(figure, title, alt, table(result))


def _share(axes: Axes, x: float, share: float, drops: int, look: Style) -> None:
    percent = 100 * share
    axes.bar(x, percent, 0.36, label=named_once(axes, look.name), **look_of(look))
    words = f"{percent:.0f} %\n{drops:,} lost" if drops else f"{percent:.0f} %"
    axes.text(x, percent + 1.5, words, ha="center")
