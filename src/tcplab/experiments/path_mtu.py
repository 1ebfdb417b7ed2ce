"""Compare path MTU discovery, the black hole and its fixes, on a path with a narrower hop.

A host knows the MTU of its interface but not the path's. A router drops a packet that is too
long, and reports this by ICMP (RFC 1191). If the report is lost, the router is a black hole, which
only a timer reveals (RFC 2923). The fixes are to announce a smaller MSS, or to probe (RFC 4821).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, NamedTuple, get_args

from tcplab.capture import Capture
from tcplab.errors import LabError
from tcplab.experiments import Between, Result, experiment, provenance
from tcplab.experiments.progress import one_by_one
from tcplab.experiments.quantities import Variant, column, computed, derived, on_off
from tcplab.lab import Lab
from tcplab.models import announced_mss_bytes
from tcplab.programs import RunOptions, tcp_bulk
from tcplab.segments import SegmentArray

_PATH_WRITES: Final = 20
_PATH_WRITE_BYTES: Final = 1440
_PATIENCE_S: Final = 5.0
_HOLE_PATIENCE_S: Final = 2.0
#: Time limit with probing. Linux doubts the MTU only after several timeouts (tcp_retries1), which
#: take 0.2 + 0.4 + 0.8 + 1.6 + 3.2 s.
_PROBING_PATIENCE_S: Final = 20.0


@dataclass(frozen=True, slots=True)
class SentSegment:
    """A data segment that left the client."""

    ms: float  #: time since the first segment
    bytes: int
    packet_bytes: int  #: length of the IP packet
    fits: bool  #: True if the packet is no longer than the smallest MTU of the path
    again: bool  #: True for a retransmission


class PathMtuVariant(Variant, heading="variant"):
    """A transfer over a path whose MTU is smaller in the middle."""

    name: str
    finished: bool  #: True if all data arrived in time
    complaint: str  #: error message of the program, or empty
    sent: Sequence[SentSegment]  #: all data segments, in order
    acked_bytes: int
    outcome = computed(lambda case: "all arrived" if case.finished else "gave up", "outcome")
    ms: float = column("took (ms)", ".1f")  #: time until the last ACK, or the time limit
    first_bytes = computed(
        lambda case: case.sent[0].bytes if case.sent else None, "first segment (bytes)", "d"
    )

    @derived("largest arrived (bytes)", "d")
    def largest_arrived_bytes(self) -> int | None:
        return max((segment.bytes for segment in self.sent if segment.fits), default=None)

    @property
    def largest_packet_bytes(self) -> int:
        return max(segment.packet_bytes for segment in self.sent)

    icmp_ms: Sequence[float]  #: times at which "fragmentation needed" arrived at the client
    icmp = computed(lambda case: len(case.icmp_ms), "ICMP messages", "d")
    icmp_mtu_bytes: int | None = column("MTU in ICMP", "d")
    dropped: int = column("dropped (too long)", "d")  #: number of packets, counted by the link
    again = computed(
        lambda case: sum(segment.again for segment in case.sent), "retransmissions", "d"
    )
    fix: str = column("fix", show=lambda fix: fix or None)  #: the fix as a command, or empty


Name = Literal["ICMP arrives", "black hole", "TCP_MAXSEG", "always probe", "probe after timeouts"]


class _Plan(NamedTuple):
    patience_s: float
    probing: int = 0
    fix: str = ""


def _plans(announced: int, most: int) -> Mapping[Name, _Plan]:
    sysctl, patience_s = "sysctl net.ipv4.tcp_mtu_probing", _PATIENCE_S
    return {
        "ICMP arrives": _Plan(patience_s),
        "black hole": _Plan(_HOLE_PATIENCE_S),
        "TCP_MAXSEG": _Plan(
            patience_s if announced <= most else _HOLE_PATIENCE_S,
            fix=f"setsockopt TCP_MAXSEG {announced}",
        ),
        "always probe": _Plan(patience_s, 2, f"{sysctl}=2"),
        "probe after timeouts": _Plan(_PROBING_PATIENCE_S, 1, f"{sysctl}=1"),
    }


@experiment(
    "path-mtu",
    figure=("dropped", "ms", "icmp"),
    finding="In the case '{most}', {high} packets are too long and dropped,"
    " in the case '{least}' {low}",
)
def measure(
    path_mtu: Annotated[int, Between(576, 1499, "bytes"), "MTU of the hop in the middle"] = 1200,
    variants: Annotated[Sequence[Name], "cases to compare"] = get_args(Name),
    maxseg_bytes: Annotated[int | None, Between(88, 1460, "bytes"), "MSS of TCP_MAXSEG"] = None,
) -> Result[PathMtuVariant]:
    """Send over a hop with a smaller MTU, with and without ICMP, and with each fix."""
    most = announced_mss_bytes(path_mtu)
    announced = maxseg_bytes or most
    plans = _plans(announced, most)
    origin: dict[str, Any] = {}

    def run(name: Name) -> PathMtuVariant:
        # Each variant has its own laboratory, because the kernel remembers the MTU of a path.
        with Lab(sysctls={"net.ipv4.tcp_mtu_probing": str(plans[name].probing)}) as lab:
            result = _run(lab, name, plans[name], path_mtu, announced)
            drops = (origin.get("capture_drops") or 0) + (lab.capture_drops or 0)
            origin.update(provenance(lab, path_mtu_bytes=path_mtu, capture_drops=drops))
        return result

    measured, done = one_by_one(variants, run)
    return Result(measured, origin | done)


def _run(lab: Lab, name: Name, plan: _Plan, path_mtu: int, announced: int) -> PathMtuVariant:
    lab.link.update("client->server", mtu=path_mtu, icmp=on_off(name == "ICMP arrives"))
    complaint = ""
    with lab.client.capture() as capture:
        try:
            tcp_bulk(
                lab,
                write_bytes=_PATH_WRITE_BYTES,
                count=_PATH_WRITES,
                mss_bytes=announced if name == "TCP_MAXSEG" else None,
                run=RunOptions(deadline_s=plan.patience_s),
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
        raise LabError(complaint)  # all data arrived, so the path is not the cause
    return PathMtuVariant(
        name=name,
        fix=plan.fix,
        finished=not complaint,
        complaint=complaint,
        ms=plan.patience_s * 1e3 if complaint else max(ends),
        sent=sent,
        # The ACK of our FIN exceeds the number of bytes by one.
        acked_bytes=min(acked, total),
        icmp_ms=[time_ms for time_ms, _mtu in icmp],
        icmp_mtu_bytes=icmp[0][1] if icmp else None,
        dropped=lab.link.counters()["client->server"]["dropped"]["mtu"],
    )


def _sent_segments(segments: SegmentArray, path_mtu: int) -> tuple[int, list[SentSegment]]:
    data = segments.data("client")
    if not len(data):
        raise LabError("the capture has no data, because the connection was not made; run it again")
    start_ns, sent = data.first_time_ns, []
    for row in data:
        packet_bytes = int(row["wire_bytes"]) - 14  # without the Ethernet header
        sent.append(
            SentSegment(
                ms=(int(row["time_ns"]) - start_ns) / 1e6,
                bytes=int(row["payload_bytes"]),
                packet_bytes=packet_bytes,
                fits=packet_bytes <= path_mtu,
                again=bool(row["is_retransmission"]),
            )
        )
    return start_ns, sent


def _fragmentation_needed(capture: Capture, start_ns: int) -> list[tuple[float, int]]:
    """Return (time in ms, next hop's MTU) of each ICMP message of type 3, code 4 (RFC 1191)."""
    from scapy.layers.inet import ICMP

    messages = []
    for packet in capture.packets():
        if ICMP in packet and (packet[ICMP].type, packet[ICMP].code) == (3, 4):
            time_ms = (int(packet.time * 1_000_000_000) - start_ns) / 1e6
            messages.append((time_ms, int(packet[ICMP].nexthopmtu)))
    return messages
