"""A tour of the laboratory: a watched connection, a recorder that loses, a full link.

Three small experiments of lesson 00. :func:`measure` lets two hosts exchange ten bytes, with scapy
watching packet by packet and a lossless recorder at either end. :func:`measure_loss` asks scapy to
watch faster and faster, and counts what it missed. :func:`measure_goodput` fills links of known
rates and compares the bytes that come out with those that the headers leave room for.
"""

from __future__ import annotations

import socket
import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from tcplab.capture import CaptureLossWarning, sniff_live
from tcplab.experiments import provenance
from tcplab.experiments.declaration import experiment
from tcplab.experiments.progress import Rounds
from tcplab.lab import Lab
from tcplab.models import goodput_mbyte_s
from tcplab.programs import Event, tcp_bulk, udp_bulk
from tcplab.tables import Column
from tcplab.timeline.sockets import read_tcp_info

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from scapy.packet import Packet

    from tcplab.timeline import Timeline

__all__ = [
    "Goodput",
    "LabTour",
    "SniffingLoss",
    "converse",
    "describe",
    "measure",
    "measure_goodput",
    "measure_loss",
    "watch",
]

QUESTION: Final = b"hello"
ANSWER: Final = b"HELLO"


# ---- a connection, watched by hand ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LabTour:
    """One short connection, as scapy saw it and as the recorders did.

    Attributes:
        lines: what :func:`describe` made of each packet on the client's interface, as it passed.
        dissected: the first packet with all its fields, as scapy's ``show()`` prints them.
        sniffed: packets that scapy was shown.
        sniff_drops: packets that it missed.
        log: what the client's application did.
        tcp_info: what the client's kernel said of the connection, before its end.
        segments: recorded on the client's interface (see tcplab.segments).
        server_segments: the same on the server's interface.
        provenance: the laboratory and what the numbers depend on.
    """

    experiment: ClassVar[str] = "connection"
    columns: ClassVar[Sequence[Column]] = (
        Column("time_ms", "time (ms)", ".2f"),
        Column("from", "from"),
        Column("variant", "what"),
        Column("seq", "seq", "d"),
        Column("ack", "ack", "d"),
        Column("payload_bytes", "data (bytes)", "d"),
        Column("frame_bytes", "frame (bytes)", "d"),
    )

    lines: Sequence[str]
    dissected: str
    sniffed: int
    sniff_drops: int
    log: Sequence[Event]
    tcp_info: Mapping[str, Any]
    segments: npt.NDArray[np.void]
    server_segments: npt.NDArray[np.void]
    provenance: Mapping[str, Any]

    def rows(self) -> list[dict[str, Any]]:
        """One row a packet on the client's interface, in order; times from the first on."""
        from tcplab.segments import flag_names

        start_ns = int(self.segments["time_ns"][0])
        return [
            {
                "variant": flag_names(int(row["flags"])),
                "time_ms": (int(row["time_ns"]) - start_ns) / 1e6,
                "from": "client" if row["direction"] == 0 else "server",
                "seq": int(row["seq"]),
                "ack": int(row["ack"]),
                "payload_bytes": int(row["payload_bytes"]),
                "frame_bytes": int(row["wire_bytes"]),
            }
            for row in self.segments
        ]

    def timeline(self) -> Timeline:
        """Writes, segments and ACKs on one clock."""
        from tcplab.timeline import explain

        return explain(
            self.log,
            self.segments,
            peer_segments=self.server_segments,
            tcp_info=self.tcp_info,
            nodelay=False,
        )


def converse(lab: Lab) -> tuple[list[Event], dict[str, Any]]:
    """Client asks, server answers, both hang up; the client's log and its TCP_INFO."""
    log: list[Event] = []
    with lab.server.socket() as listener, lab.client.socket() as client:
        listener.bind((lab.server.address, 9000))
        listener.listen()
        client.connect((lab.server.address, 9000))
        log.append(Event(time.time_ns(), "write", len(QUESTION)))
        client.sendall(QUESTION)
        server, _ = listener.accept()
        with server:
            server.sendall(server.recv(100).upper())
            answer = client.recv(100)
            log.append(Event(time.time_ns(), "reply", len(answer)))
            info = read_tcp_info(client)
            client.shutdown(socket.SHUT_WR)
            server.recv(100)
        client.recv(100)
    return log, info


def describe(packet: Packet) -> str:
    """The fields of a TCP segment that matter most, on one line."""
    ip, tcp = packet["IP"], packet["TCP"]
    line = f"{ip.src}:{tcp.sport} > {ip.dst}:{tcp.dport}  {tcp.flags!s:2}"
    line += f"  seq {tcp.seq}  ack {tcp.ack}  window {tcp.window}"
    return f"{line}  {len(tcp.payload)} bytes: {bytes(tcp.payload)!r}" if tcp.payload else line


def watch(lab: Lab) -> list[str]:
    """A conversation, and each packet of it that passes the client's interface."""
    seen: list[str] = []
    with sniff_live(lab.client, prn=lambda packet: seen.append(describe(packet))):
        converse(lab)
    return seen


@experiment("connection")
def measure(rtt_ms: float = 20.0, network: Lab | None = None) -> LabTour:
    """Ten bytes there and back, watched with scapy and recorded at both ends.

    Args:
        rtt_ms: round-trip time of the laboratory that is made when no network is given.
        network: where to run; a Lab of its own unless given.

    Raises:
        LabError: no laboratory can be made here.
    """
    with ExitStack() as stack:
        lab = network or stack.enter_context(Lab(rtt_ms=rtt_ms))
        lines: list[str] = []
        with (
            lab.client.capture(snaplen=2048) as near,
            lab.server.capture() as far,
            sniff_live(lab.client, prn=lambda packet: lines.append(describe(packet))) as live,
        ):
            log, info = converse(lab)
            _await_last_ack(rtt_ms)
        with near, far:
            return LabTour(
                lines=lines,
                dissected=str(near.packets[0].show(dump=True)),
                sniffed=live.received,
                sniff_drops=live.drops,
                log=log,
                tcp_info=info,
                segments=near.segments,
                server_segments=far.segments,
                provenance=provenance(
                    lab, capture_drops=(near.drops or 0) + (far.drops or 0), snaplen=2048
                ),
            )


def _await_last_ack(rtt_ms: float) -> None:
    """The ACK of the server's FIN is under way when both programs have gone home."""
    time.sleep((rtt_ms + 20) / 1e3)


# ---- what scapy misses ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Watched:
    """Scapy beside the recorder, at one rate.

    Attributes:
        packets_per_s: that were asked for; None for as fast as the machine can.
        sent: datagrams.
        passed: packets on the interface, by the recorder's count.
        scapy_kept: packets that scapy handed to us.
        scapy_drops: packets that the kernel had to drop since scapy was too slow.
        recorder_drops: the same of the recorder.
        scapy_s: how long scapy was busy, from the first packet to the last that it handed over.
        sent_s: how long the sending took.
        warning: what tcplab says of the loss; empty without.
    """

    packets_per_s: int | None
    sent: int
    passed: int
    scapy_kept: int
    scapy_drops: int
    recorder_drops: int
    scapy_s: float
    sent_s: float
    warning: str


@dataclass(frozen=True, slots=True)
class SniffingLoss:
    """Scapy and the recorder side by side, at rising rates."""

    experiment: ClassVar[str] = "capture-loss"
    columns: ClassVar[Sequence[Column]] = (
        Column("variant", "packets/s"),
        Column("sent_per_s", "reached", ",.0f"),
        Column("passed", "passed", ",d"),
        Column("scapy_kept", "scapy has", ",d"),
        Column("scapy_drops", "scapy's drops", ",d"),
        Column("scapy_share", "share", ".0%"),
        Column("recorder_kept", "recorder has", ",d"),
        Column("recorder_drops", "recorder's drops", ",d"),
    )

    watched: Sequence[Watched]
    provenance: Mapping[str, Any]

    def rows(self) -> list[dict[str, Any]]:
        """One row a rate."""
        return [
            {
                "variant": f"{each.packets_per_s:,}" if each.packets_per_s else "no limit",
                "sent": each.sent,
                "sent_per_s": each.sent / each.sent_s,
                "passed": each.passed,
                "scapy_kept": each.scapy_kept,
                "scapy_drops": each.scapy_drops,
                "scapy_share": each.scapy_kept / each.passed,
                "recorder_kept": each.passed - each.recorder_drops,
                "recorder_drops": each.recorder_drops,
                "scapy_s": each.scapy_s,
            }
            for each in self.watched
        ]


_DATAGRAM_BYTES: Final = 58  # a frame of 100 bytes


@experiment("capture-loss")
def measure_loss(
    packets_per_s: Sequence[int | None] = (500, 2000, 20_000, None),
    most: int = 20_000,
    network: Lab | None = None,
) -> SniffingLoss:
    """Datagrams at rising rates for a second each, with scapy and a recorder watching.

    Args:
        packets_per_s: rates, 10 to 1 000 000; None sends as fast as the machine can.
        most: datagrams at the most, 100 to 1 000 000; as many without a rate.
        network: where to run; a Lab of its own unless given.

    Raises:
        ValueError: a number is out of range.
        LabError: no laboratory can be made here.
    """
    if not 100 <= most <= 1_000_000:
        raise ValueError(f"most={most} must be from 100 to 1000000")
    for rate in packets_per_s:
        if rate is not None and not 10 <= rate <= 1_000_000:
            raise ValueError(f"packets_per_s={rate} must be from 10 to 1000000, or None")
    if not packets_per_s:
        raise ValueError("packets_per_s is empty; give at least one rate")
    with ExitStack() as stack:
        lab = network or stack.enter_context(Lab())
        watched: list[Watched] = []
        with Rounds(len(packets_per_s), "sniffing-loss") as rounds:
            for number in rounds:
                rate = packets_per_s[number]
                watched.append(_watch_rate(lab, rate, min(rate or most, most)))
        return SniffingLoss(
            watched,
            provenance(
                lab,
                datagram_bytes=_DATAGRAM_BYTES,
                capture_drops=sum(each.recorder_drops for each in watched),
                runs=rounds.done,
                interrupted=rounds.interrupted,
            ),
        )


def _watch_rate(lab: Lab, rate: int | None, count: int) -> Watched:
    pace_mbit = None if rate is None else rate * _DATAGRAM_BYTES * 8 / 1e6
    # The warning is kept with the result: a lesson shows it where it belongs.
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", CaptureLossWarning)
        with lab.client.capture() as recorded, sniff_live(lab.client) as live:
            start = time.perf_counter()
            sent = udp_bulk(
                lab,
                datagram_bytes=_DATAGRAM_BYTES,
                count=count,
                pace_mbit=pace_mbit,
                rcvbuf_bytes=4 << 20,
            ).source
        busy_s = time.perf_counter() - start
    with recorded:
        return Watched(
            packets_per_s=rate,
            sent=sent.datagrams,
            passed=len(recorded) + (recorded.drops or 0),
            scapy_kept=len(live.packets),
            scapy_drops=live.drops,
            recorder_drops=recorded.drops or 0,
            scapy_s=busy_s,
            sent_s=sent.usage.wall_s,
            warning=next(
                (str(each.message) for each in said if issubclass(each.category, UserWarning)), ""
            ),
        )


# ---- the goodput of a full link ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FullLink:
    """A link of one rate, filled for about a second.

    Attributes:
        rate_mbit: of the wire.
        bytes: payload that was transferred.
        mb_per_s: payload over time, in 10^6 bytes/s.
        model_mb_per_s: what the headers leave room for.
        wire_packets: packets that the wire forwarded from client to server.
        queue_drops: packets that its queue had no room for.
        retransmissions: segments that were sent again.
    """

    rate_mbit: float
    bytes: int
    mb_per_s: float
    model_mb_per_s: float
    wire_packets: int
    queue_drops: int
    retransmissions: int

    @property
    def share(self) -> float:
        """Measured over predicted."""
        return self.mb_per_s / self.model_mb_per_s


@dataclass(frozen=True, slots=True)
class Goodput:
    """Full links of several rates."""

    experiment: ClassVar[str] = "goodput"
    columns: ClassVar[Sequence[Column]] = (
        Column("variant", "link"),
        Column("model_mb_per_s", "computed (MB/s)", ".2f"),
        Column("mb_per_s", "measured (MB/s)", ".2f"),
        Column("share", "measured / computed", ".1%"),
        Column("mib_per_s", "measured (MiB/s)", ".2f"),
        Column("wire_packets", "packets", ",d"),
        Column("verdict", "the machine"),
    )

    links: Sequence[FullLink]
    provenance: Mapping[str, Any]

    def rows(self) -> list[dict[str, Any]]:
        """One row a rate."""
        return [
            {
                "variant": f"{each.rate_mbit:g} Mbit/s",
                "rate_mbit": each.rate_mbit,
                "bytes": each.bytes,
                "model_mb_per_s": each.model_mb_per_s,
                "mb_per_s": each.mb_per_s,
                "mib_per_s": each.mb_per_s * 1e6 / 2**20,
                "share": each.share,
                "wire_packets": each.wire_packets,
                "queue_drops": each.queue_drops,
                "retransmissions": each.retransmissions,
                "verdict": "carries it" if each.share >= 0.95 else "is too slow, or busy",
            }
            for each in self.links
        ]


@experiment("goodput")
def measure_goodput(
    rates_mbit: Sequence[float] = (10, 100, 1000), seconds: float = 1.0, mtu: int = 1500
) -> Goodput:
    """Fills a link of each rate, in a laboratory of its own.

    Args:
        rates_mbit: 1 to 10 000.
        seconds: how long each should take, 0.1 to 60.
        mtu: of every interface, 576 to 9000 bytes.

    Raises:
        ValueError: a number is out of range.
        LabError: no laboratory can be made here, or a program failed.
    """
    for rate in rates_mbit:
        if not 1 <= rate <= 10_000:
            raise ValueError(f"rates_mbit: {rate:g} must be from 1 to 10000 Mbit/s")
    if not rates_mbit:
        raise ValueError("rates_mbit is empty; give at least one rate")
    if not 0.1 <= seconds <= 60:
        raise ValueError(f"seconds={seconds:g} must be from 0.1 to 60")
    if not 576 <= mtu <= 9000:
        raise ValueError(f"mtu={mtu} must be from 576 to 9000 bytes")
    links: list[FullLink] = []
    origin: dict[str, Any] = {}
    with Rounds(len(rates_mbit), "goodput") as rounds:
        for number in rounds:
            rate = rates_mbit[number]
            with Lab(rate_mbit=rate, mtu=mtu) as lab:
                links.append(_fill(lab, rate, seconds))
                origin = provenance(lab, congestion=lab.congestion, seconds=seconds)
    origin |= {"runs": rounds.done, "interrupted": rounds.interrupted}
    return Goodput(links, origin)


_WRITE_BYTES: Final = 65536


def _fill(lab: Lab, rate_mbit: float, seconds: float) -> FullLink:
    computed = goodput_mbyte_s(rate_mbit, lab.mtu)
    count = max(4, round(computed * 1e6 * seconds / _WRITE_BYTES))
    sent = tcp_bulk(
        lab, write_bytes=_WRITE_BYTES, count=count, sndbuf_bytes=None, rcvbuf_bytes=None
    ).source
    counted = lab.link.counters()["client->server"]
    return FullLink(
        rate_mbit=rate_mbit,
        bytes=sent.bytes,
        mb_per_s=sent.mb_per_s,
        model_mb_per_s=computed,
        wire_packets=counted["packets_out"],
        queue_drops=counted["dropped"]["queue"],
        retransmissions=sent.tcp_info["total_retrans"],
    )
