"""A smaller MTU in the middle of the path: discovery, the black hole, and the cures.

The interface knows its own MTU and not the path's. A router that can't forward a packet drops it
and says so (RFC 1191); where the message is lost, nothing but time tells the sender (RFC 2923). The
cures are to announce a smaller MSS, or to probe (RFC 4821).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from tcplab.checks import choice, whole
from tcplab.errors import LabError
from tcplab.experiments import provenance
from tcplab.experiments.declaration import experiment
from tcplab.experiments.progress import Rounds
from tcplab.lab import Lab
from tcplab.models import announced_mss_bytes
from tcplab.programs import RunOptions, tcp_bulk
from tcplab.tables import Column

if TYPE_CHECKING:
    from tcplab.capture import Capture
    from tcplab.segments import SegmentArray

__all__ = ["CASES", "PATH_MTU", "PathMtu", "PathMtuCase", "SentSegment", "measure"]

PATH_MTU: Final = 1200
_PATH_WRITES: Final = 20
_PATH_WRITE_BYTES: Final = 1440
_PATIENCE_S: Final = 5.0
_HOLE_PATIENCE_S: Final = 2.0
#: Until Linux doubts the MTU: after three retransmissions (tcp_retries1), each wait twice as long
#: as the one before, so 0.2 + 0.4 + 0.8 + 1.6 + 3.2 s.
_PROBING_PATIENCE_S: Final = 20.0


@dataclass(frozen=True, slots=True)
class SentSegment:
    """A segment with data that left the client.

    Attributes:
        ms: after the first of them.
        bytes: data in it.
        packet_bytes: length of its IP packet.
        fits: whether its packet is no longer than the narrowest MTU of the path.
        again: sent before.
    """

    ms: float
    bytes: int
    packet_bytes: int
    fits: bool
    again: bool


@dataclass(frozen=True, slots=True)
class PathMtuCase:
    """A transfer over a path whose MTU is smaller in the middle.

    Attributes:
        name: what was special.
        cure: what was done about it, as a command; empty for nothing.
        finished: whether all data arrived in time.
        complaint: of the program, when it did not.
        ms: from the first segment to the last ACK, or as long as the program had patience.
        sent: every segment with data, in order.
        acked_bytes: data that the server acknowledged.
        icmp_ms: when ICMP messages "fragmentation needed" came to the client.
        icmp_mtu_bytes: the MTU that they told; None when there was none.
        dropped: packets that the path dropped as too long, by its own account.
    """

    name: str
    cure: str
    finished: bool
    complaint: str
    ms: float
    sent: Sequence[SentSegment]
    acked_bytes: int
    icmp_ms: Sequence[float]
    icmp_mtu_bytes: int | None
    dropped: int

    @property
    def largest_arrived_bytes(self) -> int | None:
        """The most data in a segment that fits the path; None when none did."""
        return max((each.bytes for each in self.sent if each.fits), default=None)

    @property
    def largest_packet_bytes(self) -> int:
        """The longest packet that left."""
        return max(each.packet_bytes for each in self.sent)


@dataclass(frozen=True, slots=True)
class PathMtu:
    """All cases, over the same path."""

    experiment: ClassVar[str] = "path-mtu"
    columns: ClassVar[Sequence[Column]] = (
        Column("variant", "case"),
        Column("outcome", "outcome"),
        Column("ms", "after (ms)", ".1f"),
        Column("first_bytes", "first segment", "d"),
        Column("largest_arrived_bytes", "largest that arrived", "d"),
        Column("icmp", "ICMP messages", "d"),
        Column("icmp_mtu_bytes", "MTU told", "d"),
        Column("dropped", "too long, dropped", "d"),
        Column("again", "sent again", "d"),
        Column("cure", "cure"),
    )

    mtu_bytes: int
    path_mtu_bytes: int
    cases: Sequence[PathMtuCase]
    provenance: Mapping[str, Any]

    def __getitem__(self, name: str) -> PathMtuCase:
        for each in self.cases:
            if each.name == name:
                return each
        raise KeyError(name)

    def rows(self) -> list[dict[str, Any]]:
        """One row a case."""
        return [
            {
                "variant": each.name,
                "outcome": "all arrived" if each.finished else "gave up",
                "ms": each.ms,
                "first_bytes": each.sent[0].bytes if each.sent else None,
                "largest_arrived_bytes": each.largest_arrived_bytes,
                "icmp": len(each.icmp_ms),
                "icmp_mtu_bytes": each.icmp_mtu_bytes,
                "dropped": each.dropped,
                "again": sum(segment.again for segment in each.sent),
                "acked_bytes": each.acked_bytes,
                "cure": each.cure or None,
                "complaint": each.complaint or None,
            }
            for each in self.cases
        ]


@dataclass(frozen=True, slots=True)
class _Case:
    name: str
    icmp: bool = False
    probing: int = 0
    maxseg_bytes: int | None = None
    cure: str = ""
    patience_s: float = _PATIENCE_S


def _cases(announced: int, most: int) -> list[_Case]:
    fits = announced <= most
    sysctl = "sysctl net.ipv4.tcp_mtu_probing"
    late = _PROBING_PATIENCE_S
    return [
        _Case("ICMP tells", icmp=True),
        _Case("black hole", patience_s=_HOLE_PATIENCE_S),
        _Case(
            "TCP_MAXSEG",
            maxseg_bytes=announced,
            cure=f"setsockopt TCP_MAXSEG {announced}",
            patience_s=_PATIENCE_S if fits else _HOLE_PATIENCE_S,
        ),
        _Case("always probe", probing=2, cure=f"{sysctl}=2"),
        _Case("probe in doubt", probing=1, cure=f"{sysctl}=1", patience_s=late),
    ]


#: The cases of measure, in this order.
CASES: Final = tuple(case.name for case in _cases(PATH_MTU - 40, PATH_MTU - 40))


@experiment("path-mtu")
def measure(
    path_mtu: int = PATH_MTU, cases: Sequence[str] = CASES, maxseg_bytes: int | None = None
) -> PathMtu:
    """Sends 28 800 bytes from an Ethernet over a path with a smaller MTU in the middle.

    Args:
        path_mtu: of the narrow part, 576 to 1499.
        cases: some of CASES.
        maxseg_bytes: what the case "TCP_MAXSEG" sets, 88 to 1460; as much as fits unless given.

    Raises:
        ValueError: a number is out of range, or no such case.
        LabError: no laboratory can be made here.
    """
    whole("path_mtu", path_mtu, 576, 1499, fix="it is the narrow part of a path of 1500 bytes")
    for name in cases:
        choice("case", name, CASES)
    if not cases:
        raise ValueError(f"no case is given; give some of {', '.join(CASES)}")
    if maxseg_bytes is not None:
        whole("maxseg_bytes", maxseg_bytes, 88, 1460, fix="an Ethernet's MSS is 1460")
    most = announced_mss_bytes(path_mtu)
    known = _cases(most if maxseg_bytes is None else maxseg_bytes, most)
    chosen = [case for case in known if case.name in cases]
    measured: list[PathMtuCase] = []
    origin: dict[str, Any] = {}
    lost = 0
    with Rounds(len(chosen), "path MTU") as rounds:
        for index in rounds:
            # A laboratory each: the kernel remembers what it has learned of a path.
            sysctls = {"net.ipv4.tcp_mtu_probing": str(chosen[index].probing)}
            with Lab(sysctls=sysctls) as lab:
                done, drops = _run_case(lab, chosen[index], path_mtu)
                origin = provenance(lab, congestion=lab.congestion, path_mtu_bytes=path_mtu)
            measured.append(done)
            lost += drops
    ends = {"interrupted": rounds.interrupted, "capture_drops": lost}
    return PathMtu(1500, path_mtu, measured, {**origin, **ends})


def _run_case(lab: Lab, case: _Case, path_mtu: int) -> tuple[PathMtuCase, int]:
    """The case, and how many packets the recorder lost."""
    lab.link.update("client->server", mtu=path_mtu, icmp="on" if case.icmp else "off")
    complaint = ""
    with lab.client.capture() as capture:
        try:
            tcp_bulk(
                lab,
                write_bytes=_PATH_WRITE_BYTES,
                count=_PATH_WRITES,
                mss_bytes=case.maxseg_bytes,
                run=RunOptions(deadline_s=case.patience_s),
            )
        except LabError as error:
            complaint = str(error)
    with capture:
        segments = capture.segments
        start_ns, sent = _sent_segments(segments, path_mtu)
        acks = segments[segments.from_server & ~segments.carries_data]
        acked = max(0, int(acks["ack"].max()) - 1) if len(acks) else 0
        icmp = _fragmentation_needed(capture, start_ns)
        ends = [(int(time_ns) - start_ns) / 1e6 for time_ns in acks["time_ns"]]
    total = _PATH_WRITES * _PATH_WRITE_BYTES
    if complaint and acked >= total:
        raise LabError(complaint)  # something else than this experiment is about
    done = PathMtuCase(
        name=case.name,
        cure=case.cure,
        finished=not complaint,
        complaint=complaint,
        ms=case.patience_s * 1e3 if complaint else max(ends),
        sent=sent,
        # The server's FIN and what acknowledges ours count one more than there are bytes.
        acked_bytes=min(acked, total),
        icmp_ms=[time_ms for time_ms, _mtu in icmp],
        icmp_mtu_bytes=icmp[0][1] if icmp else None,
        dropped=lab.link.counters()["client->server"]["dropped"]["mtu"],
    )
    return done, capture.drops or 0


def _sent_segments(segments: SegmentArray, path_mtu: int) -> tuple[int, list[SentSegment]]:
    """When the first of the client's segments with data left, and all of them."""
    data = segments.data("client")
    if not len(data):
        raise LabError("the capture has no data: the connection was not made; run it again")
    ethernet_header = 14
    start_ns = data.first_time_ns
    sent = [
        SentSegment(
            ms=(int(each["time_ns"]) - start_ns) / 1e6,
            bytes=int(each["payload_bytes"]),
            packet_bytes=int(each["wire_bytes"]) - ethernet_header,
            fits=int(each["wire_bytes"]) - ethernet_header <= path_mtu,
            again=bool(each["is_retransmission"]),
        )
        for each in data
    ]
    return start_ns, sent


def _fragmentation_needed(capture: Capture, start_ns: int) -> list[tuple[float, int]]:
    """Time in ms and the MTU told, of each ICMP message of type 3, code 4 (RFC 1191)."""
    from scapy.layers.inet import ICMP

    found = []
    for packet in capture.packets:
        if ICMP in packet and (packet[ICMP].type, packet[ICMP].code) == (3, 4):
            time_ms = (int(packet.time * 1_000_000_000) - start_ns) / 1e6
            found.append((time_ms, int(packet[ICMP].nexthopmtu)))
    return found
