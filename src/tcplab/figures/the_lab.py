"""Draw a connection as a sequence diagram, with packets as arrows and time running down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

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


class _Packet(NamedTuple):
    """A packet, with its times in ms since the first packet left."""

    client_ms: float
    server_ms: float
    sender: Literal["client", "server"]
    kind: str
    text: str

    @property
    def sent_ms(self) -> float:
        return self.client_ms if self.sender == "client" else self.server_ms

    @property
    def label(self) -> str:
        first, *more = self.text.split("\n")
        at = f" · {self.client_ms:.1f} ms" if self.sender == "client" else ""
        return "\n".join([first + at, *more])

    def __str__(self) -> str:
        """Return a sentence, which a page shows when a reader points at the packet."""
        ends = [("client", self.client_ms), ("server", self.server_ms)]
        (sender, sent), (other, arrived) = ends if self.sender == "client" else ends[::-1]
        text = self.text.replace("\n", ", ")
        return f"{sent:.2f} ms, from the {sender}: {text}; at the {other} {arrived:.2f} ms"


@drawn
def handshake(tour: ShortConnection) -> Picture:
    """Draw the packets of a connection as arrows between client and server."""
    packets = some(_packets(tour), "the recording has no packets to draw")
    data_ms = next((packet.sent_ms for packet in packets if packet.kind == "data"), 0)
    title = (
        f"Ten bytes take {count(len(packets), 'packet')}, and the first byte leaves"
        f" {data_ms:.0f} ms after the SYN"
    )
    figure = canvas.new_figure()
    low, high = canvas.body(figure)
    axes = figure.add_axes((0.01, low, 0.98, high - low))
    axes.set(xlim=(0, 1), ylim=(0, 1))
    axes.axis("off")
    for x, name in ((_CLIENT, "client"), (_SERVER, "server")):
        axes.plot([x, x], [0.005, _TOP], color="black", lw=2)
        style.write(axes, x, 0.965, name, TEXT)
    _draw_arrows(axes, packets)
    parts = {f"packet-{i}": str(packet) for i, packet in enumerate(packets)}
    return Picture(figure, title, table(tour), parts=parts)


def _draw_arrows(axes: Axes, packets: list[_Packet]) -> None:
    """Draw the packets with their labels, each of which is below the earlier ones of its host."""
    took_ms = max(*(time for packet in packets for time in packet[:2]), 1e-6)
    last = {"client": (1.0, 1.0), "server": (1.0, 1.0)}  # heights of each host's last arrow
    free = dict.fromkeys(last, _TOP + 0.02)  # where the next label of each host may begin
    for number, packet in enumerate(packets):
        sender, look = packet.sender, _LOOKS[packet.kind]
        wanted = [_TOP - 0.02 - (_TOP - 0.05) * time / took_ms for time in packet[:2]]
        ys = [min(y, above - _APART) for y, above in zip(wanted, last[sender], strict=True)]
        last[sender] = ys[0], ys[1]
        ends, out = [(_CLIENT, ys[0]), (_SERVER, ys[1])], -1
        if sender == "server":
            ends, out = ends[::-1], 1
        (x, y), end = ends
        gid = f"packet-{number}"
        style.arrow(axes, (x, y), end, look, gid=gid)
        half = _ROW * (packet.label.count("\n") + 1) / 2
        middle = min(y + half, free[sender]) - half
        free[sender] = middle - half
        near, far = x + 0.005 * out, x + 0.027 * out
        axes.plot([far, near], [middle, y], color=style.FAINT, lw=0.8, zorder=1)
        align = "right" if out < 0 else "left"
        at = x + 0.03 * out
        style.write(axes, at, middle, packet.label, color=look.colour, ha=align, gid=gid)


def _packets(tour: ShortConnection) -> list[_Packet]:
    """Return the packets in the order in which they left."""
    assert tour.exchange.peer_segments is not None
    packets = []
    start_ns = min(rows.first_time_ns for rows in (tour.segments, tour.exchange.peer_segments))
    senders: tuple[Literal["client", "server"], ...] = ("client", "server")
    for sender in senders:
        both = tour.segments.sent_by(sender), tour.exchange.peer_segments.sent_by(sender)
        for rows in zip(*both, strict=False):
            client_ms, server_ms = ((int(row["time_ns"]) - start_ns) / 1e6 for row in rows)
            packets.append(_Packet(client_ms, server_ms, sender, *_words(rows[0])))
    return sorted(packets, key=lambda packet: packet.sent_ms)


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
