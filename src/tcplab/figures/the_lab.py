"""Draw a connection as a sequence diagram, with packets as arrows and time running down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tcplab.experiments import table
from tcplab.figures import canvas, style
from tcplab.figures.picture import Picture, drawn, some
from tcplab.figures.style import TEXT, Line
from tcplab.segments import ACK, FIN, SYN, flag_names
from tcplab.tables import count

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tcplab.experiments.connection import ShortConnection


_LOOKS: Final = {
    "opens": Line("-", style.VERMILION, 2.6),
    "data": Line("-", style.BLUE, 3.0),
    "acks": Line("--", style.GREY, 2.0),
    "closes": Line("-.", style.PURPLE, 2.6),
}
#: The x coordinates of the hosts' lines, and the y coordinate at which the lines begin.
_CLIENT, _SERVER, _TOP = 0.36, 0.64, 0.93
_ROW: Final = 0.047  # height of a line of a label
_APART: Final = 0.012  # distance between arrows that would otherwise cover each other


@drawn
def handshake(tour: ShortConnection) -> Picture:
    """Draw the packets of a connection as arrows between client and server."""
    packets = some(_packets(tour), "the recording has no packets to draw")
    start_ns = min(min(packet.left_ns, packet.right_ns) for packet in packets)
    end_ns = max(max(packet.left_ns, packet.right_ns) for packet in packets)
    data_ns = next((packet.sent_ns for packet in packets if packet.payload_bytes), start_ns)
    title = (
        f"Ten bytes take {count(len(packets), 'packet')}, and the first byte leaves"
        f" {(data_ns - start_ns) / 1e6:.0f} ms after the SYN"
    )
    figure = canvas.new_figure()
    low, high = canvas.body(figure)
    axes = figure.add_axes((0.01, low, 0.98, high - low))
    axes.set(xlim=(0, 1), ylim=(0, 1))
    axes.axis("off")
    for x, name in ((_CLIENT, "client"), (_SERVER, "server")):
        axes.plot([x, x], [0.005, _TOP], color="black", lw=2)
        style.write(axes, x, 0.965, name, TEXT)
    _draw_arrows(axes, packets, start_ns, max(end_ns - start_ns, 1))
    parts = {f"packet-{i}": packet.sentence(start_ns) for i, packet in enumerate(packets)}
    return Picture(figure, title, table(tour), parts=parts)


def _draw_arrows(axes: Axes, packets: list[_Packet], start_ns: int, took_ns: int) -> None:
    """Draw the packets with their labels, each of which is below the earlier ones of its host."""
    last = {True: (1.0, 1.0), False: (1.0, 1.0)}  # heights of the last arrow in each direction
    free = {True: _TOP + 0.02, False: _TOP + 0.02}  # where the next label of each host may begin
    for number, packet in enumerate(packets):
        side, gid, look = packet.from_client, f"packet-{number}", _LOOKS[packet.kind]
        wanted = (
            _TOP - 0.02 - (_TOP - 0.05) * (time_ns - start_ns) / took_ns
            for time_ns in (packet.left_ns, packet.right_ns)
        )
        ys = [min(y, above - _APART) for y, above in zip(wanted, last[side], strict=True)]
        last[side] = ys[0], ys[1]
        ends = (_CLIENT, ys[0]), (_SERVER, ys[1])
        (x, y), end = ends if side else ends[::-1]
        style.arrow(axes, (x, y), end, look, gid=gid)
        text = packet.label(start_ns)
        half = _ROW * (text.count("\n") + 1) / 2
        middle = min(y + half, free[side]) - half
        free[side] = middle - half
        out = -1 if side else 1
        near, far = x + 0.005 * out, x + 0.027 * out
        axes.plot([far, near], [middle, y], color=style.FAINT, lw=0.8, zorder=1)
        align = "right" if side else "left"
        style.write(axes, x + 0.03 * out, middle, text, color=look.colour, ha=align, gid=gid)


@dataclass(frozen=True, slots=True)
class _Packet:
    left_ns: int  #: time at the client
    right_ns: int  #: time at the server
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
        if not self.from_client:
            return self.text
        first, *more = self.text.split("\n")
        return "\n".join([f"{first} · {(self.left_ns - start_ns) / 1e6:.1f} ms", *more])

    def sentence(self, start_ns: int) -> str:
        here, there = ((ns - start_ns) / 1e6 for ns in (self.left_ns, self.right_ns))
        sent, arrived = (here, there) if self.from_client else (there, here)
        text = self.text.replace("\n", ", ")
        other = "server" if self.from_client else "client"
        return f"{sent:.2f} ms, from the {self.sender}: {text}; at the {other} {arrived:.2f} ms"


def _packets(tour: ShortConnection) -> list[_Packet]:
    assert tour.exchange.peer_segments is not None
    packets = []
    senders: tuple[str, str] = ("client", "server")
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
        return "opens", f"{flag_names(flags)} {numbers}\n{options}"
    if size:
        return "data", f"{size} bytes, {numbers}"
    if flags & FIN:
        return "closes", f"{flag_names(flags)} {numbers}"
    return "acks", f"ACK {numbers}"
