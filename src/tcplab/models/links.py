"""Compute properties of links: headers, segment sizes, goodput, windows and loss.

Rates are in Mbit/s (10^6 bits per second) or MB/s (10^6 bytes per second), sizes in bytes and times
in milliseconds.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tcplab.checks import choice, number, whole
from tcplab.errors import ParameterError

IP_HEADER_BYTES: Final = 20  # RFC 791
TCP_HEADER_BYTES: Final = 20  # RFC 9293
UDP_HEADER_BYTES: Final = 8  # RFC 768
TIMESTAMPS_OPTION_BYTES: Final = 12  # RFC 7323: 10 bytes and two of padding
ETHERNET_HEADER_BYTES: Final = 14
#: Bytes that Ethernet adds around the header and the packet (IEEE 802.3): 8 for preamble and start
#: delimiter, 4 for the frame check sequence and 12 for the gap between frames.
ETHERNET_FRAMING_BYTES: Final = 8 + 4 + 12
ETHERNET_MIN_PACKET_BYTES: Final = 46  # a shorter packet is padded
INITIAL_CWND_SEGMENTS: Final = 10  # RFC 6928


@dataclass(frozen=True, slots=True)
class Encapsulation:
    """The headers and framing that are added to each piece of the application's data."""

    transport: str = "tcp"  #: The transport protocol, "tcp" or "udp"
    #: True if segments carry the TCP timestamps option, which Linux and most other systems, but not
    #: Windows, request by default.
    timestamps: bool = True
    #: "ethernet" counts everything that occupies the cable. "frame" counts what a capture shows,
    #: which includes the Ethernet header but no framing. "none" counts only the IP packet, as on
    #: loopback.
    link: str = "ethernet"

    def __post_init__(self) -> None:
        choice("transport", self.transport, ("tcp", "udp"))
        choice("link", self.link, ("ethernet", "frame", "none"))

    @property
    def packet_header_bytes(self) -> int:
        """Size of the IPv4 and transport headers with options, which count towards the MTU."""
        if self.transport == "udp":
            return IP_HEADER_BYTES + UDP_HEADER_BYTES
        timestamps = TIMESTAMPS_OPTION_BYTES if self.timestamps else 0
        return IP_HEADER_BYTES + TCP_HEADER_BYTES + timestamps

    def wire_bytes(self, payload_bytes: int) -> int:
        """Return the size of a packet with this payload, including all that `link` counts."""
        packet = self.packet_header_bytes + payload_bytes
        if self.link == "none":
            return packet
        if self.link == "frame":
            return ETHERNET_HEADER_BYTES + packet
        padded = max(packet, ETHERNET_MIN_PACKET_BYTES)
        return ETHERNET_HEADER_BYTES + padded + ETHERNET_FRAMING_BYTES


TCP_ON_ETHERNET: Final = Encapsulation()


def mss_bytes(mtu_bytes: int, around: Encapsulation = TCP_ON_ETHERNET) -> int:
    """Return the most data that one packet carries, such as 1500 - 20 - 20 - 12 = 1448 bytes.

    For TCP this is the payload of a full segment. The MSS option in the SYN does not account for
    other TCP options (RFC 9293, 3.7.1). See :func:`announced_mss_bytes`.
    """
    least = around.packet_header_bytes + 1
    whole("mtu_bytes", mtu_bytes, least, 65536, fix=f"the headers alone take {least - 1} bytes")
    return mtu_bytes - around.packet_header_bytes


def announced_mss_bytes(mtu_bytes: int) -> int:
    """Return the MSS option of a SYN, the MTU minus headers without options (RFC 9293, 3.7.1)."""
    return min(mss_bytes(mtu_bytes, Encapsulation(timestamps=False)), 65535)


def goodput_mbyte_s(
    rate_mbit: float,
    mtu_bytes: int = 1500,
    around: Encapsulation = TCP_ON_ETHERNET,
    payload_bytes: int | None = None,
) -> float:
    """Return the application's data rate in MB/s over a link that is always busy.

    A 1000 Mbit/s link with MTU 1500 gives 125 × 1448 / 1538 = 117.68 MB/s (Chen Shuo, "Network
    programming in practice"), and jumbo frames (9000) give 123.76. Packets are full by default.
    """
    number("rate_mbit", rate_mbit, 0, fix="give the link's rate in 10^6 bit/s")
    payload = _payload(payload_bytes, mtu_bytes, around)
    return rate_mbit / 8 * payload / around.wire_bytes(payload)


def header_share(
    payload_bytes: int, mtu_bytes: int = 1500, around: Encapsulation = TCP_ON_ETHERNET
) -> float:
    """Return the share of the link, from 0 to 1, that carries headers instead of the payload.

    RFC 896 counts "4000 % overhead" for one byte, because 40 bytes of headers carry one byte of
    data. As a share of the link this is 0.976, or 0.989 with everything that Ethernet adds today.
    """
    payload = _payload(payload_bytes, mtu_bytes, around)
    return 1 - payload / around.wire_bytes(payload)


def packet_count(data_bytes: int, mtu_bytes: int, around: Encapsulation = TCP_ON_ETHERNET) -> int:
    """Return the number of packets of a bulk transfer, such as 46 for 65536 bytes (MTU 1500)."""
    whole("data_bytes", data_bytes, 0, fix="give the number of bytes to send")
    return -(-data_bytes // mss_bytes(mtu_bytes, around))


def serialisation_ms(payload_bytes: int, rate_mbit: float) -> float:
    """Return how long one packet of TCP occupies an Ethernet link, in ms."""
    number("rate_mbit", rate_mbit, 1e-6, fix="give the link's rate in 10^6 bit/s")
    whole("payload_bytes", payload_bytes, 0, 65535, fix="an IP packet is at most 65535 bytes")
    return TCP_ON_ETHERNET.wire_bytes(payload_bytes) * 8 / (rate_mbit * 1000)


# ---- windows -------------------------------------------------------------------------------------


def bdp_bytes(rate_mbit: float, rtt_ms: float) -> float:
    """Return the bandwidth-delay product, the bytes in flight that keep a link busy (RFC 7323)."""
    number("rate_mbit", rate_mbit, 0, fix="give the link's rate in 10^6 bit/s")
    number("rtt_ms", rtt_ms, 0, fix="give the round-trip time in ms")
    return rate_mbit * 1e6 / 8 * rtt_ms / 1e3


def window_limit_mbit(window_bytes: float, rtt_ms: float) -> float:
    """Return window / RTT, the upper limit of throughput (RFC 7323, section 1.1)."""
    number("window_bytes", window_bytes, 0, fix="give the window in bytes")
    number("rtt_ms", rtt_ms, 1e-6, fix="without a round-trip time there is no limit")
    return window_bytes * 8 / (rtt_ms * 1000)


def throughput_mbit(window_bytes: float, rtt_ms: float, rate_mbit: float) -> float:
    """Return the rate of a long transfer, the smaller of window / RTT and the link's goodput.

    The MTU is 1500 and the framing is Ethernet's. The two limits meet where the window equals
    the bandwidth-delay product of the goodput. The time for which a full segment and its
    acknowledgement occupy the link is added to `rtt_ms`.
    """
    goodput = goodput_mbyte_s(rate_mbit) * 8
    number("rtt_ms", rtt_ms, 0, fix="give the round-trip time in ms")
    if rate_mbit == 0:
        return 0.0
    busy_ms = serialisation_ms(mss_bytes(1500), rate_mbit) + serialisation_ms(0, rate_mbit)
    return min(goodput, window_limit_mbit(window_bytes, rtt_ms + busy_ms))


#: Constants of the Mathis formula for different assumptions about losses and ACKs.
MATHIS_CONSTANTS: Final = {
    "periodic": math.sqrt(3 / 2),  # one loss every 1/p packets, one ACK per packet: 1.22
    "periodic, delayed ack": math.sqrt(3 / 4),  # one ACK every two packets: 0.87
    "random": 1.31,
    "random, delayed ack": 0.93,
}


def mathis_mbit(
    mss: int, rtt_ms: float, loss: float, assume: str = "periodic, delayed ack"
) -> float:
    """Return the rate of Reno's congestion avoidance with loss rate p, MSS/RTT × C/√p.

    Mathis, Semke, Mahdavi, Ott, "The macroscopic behavior of the TCP congestion avoidance
    algorithm", CCR 27(3), 1997 (table 1 has the constants, MATHIS_CONSTANTS here). The formula
    holds for small loss rates, no timeouts, and a window that nothing else limits. With random loss
    of 5 to 10 %, the most allowed here, Linux reaches 0.56 to 0.79 of it. cubic is faster if
    RTT × rate is large (RFC 9438, section 5).
    """
    choice("assume", assume, tuple(MATHIS_CONSTANTS))
    whole("mss", mss, 1, 65535, fix="give the full segment's size in bytes")
    number("loss", loss, 1e-12, 0.1, fix="beyond it timeouts rule, which the formula ignores")
    return window_limit_mbit(mss * MATHIS_CONSTANTS[assume] / math.sqrt(loss), rtt_ms)


def sawtooth_share(buffer_bdps: float) -> float:
    """Return the share of a link, 0.75 to 1, that one Reno flow uses with this router buffer.

    The window climbs by one segment per round trip from (1 + b)/2 to 1 + b bandwidth-delay
    products, where the buffer of b BDPs overflows (RFC 5681, section 3.1). With less than one BDP
    of buffer the link is idle part of the time, and with more the round trip grows with the queue.
    Such a sawtooth uses ¾ (1 + b)² / (1 + b + b²) of the link, and all of it if b ≥ 1, the rule of
    Villamizar and Song (1994). Flows that lose packets at the same time act like one large flow,
    and desynchronized flows use more (Appenzeller and others, 2004).
    """
    number("buffer_bdps", buffer_bdps, 0, fix="give the buffer as a multiple of rate × RTT")
    b = min(buffer_bdps, 1.0)
    return 0.75 * (1 + b) ** 2 / (1 + b + b * b)


def jain_index(rates: Sequence[float]) -> float:
    """Return the fairness of rates: 1 if all are equal, 1/n if one of n gets everything.

    R. Jain, D. Chiu, W. Hawe, "A quantitative measure of fairness and discrimination for resource
    allocation in shared computer systems", DEC TR-301, 1984: (Σx)² / (n Σx²).
    """
    whole("number of rates", len(rates), 1, fix="give one rate for each who shares")
    for rate in rates:
        number("rates", rate, 0)
    squares = sum(rate * rate for rate in rates)
    if not squares:
        raise ParameterError("rates are all 0; there is nothing to share")
    return sum(rates) ** 2 / (len(rates) * squares)


def slow_start_flights(segments: int) -> list[int]:
    """Return how many segments slow start sends in each round trip, such as [10, 20, 20] for 50.

    The window starts with 10 segments (RFC 6928) and grows by one per acknowledged segment (RFC
    5681, section 3.1). No segment is lost, and the link is never the limit.
    """
    whole("segments", segments, 0, fix="give the number of full segments")
    flights, cwnd = [], INITIAL_CWND_SEGMENTS
    while segments > 0:
        flights.append(min(cwnd, segments))
        segments -= cwnd
        cwnd *= 2
    return flights


def transfer_ms(data_bytes: int, rtt_ms: float, rate_mbit: float) -> float:
    """Return the time from the first byte sent to the last byte received, without loss.

    The MTU is 1500 and the framing is Ethernet's. The congestion window doubles every round
    trip (RFC 5681) until the link is busy, and the receive window is never smaller, although
    autotuning may enlarge the default one more slowly. The three-way handshake, which adds one RTT,
    is not included.
    """
    number("rtt_ms", rtt_ms, 0, fix="give the round-trip time in ms")
    full = mss_bytes(1500)
    per_segment_ms = serialisation_ms(full, rate_mbit)
    segments = packet_count(data_bytes, 1500)
    waits, left = _waits(segments, rtt_ms, per_segment_ms)
    last_ms = serialisation_ms(data_bytes - (segments - 1) * full, rate_mbit)
    busy_ms = (left - 1) * per_segment_ms + last_ms if segments else 0.0
    return waits * (rtt_ms + per_segment_ms) + busy_ms + rtt_ms / 2


def transfer_flights(data_bytes: int, rtt_ms: float, rate_mbit: float) -> int:
    """Return the number of flights in transfer_ms(), one more than the waits for ACKs."""
    per_segment_ms = serialisation_ms(mss_bytes(1500), rate_mbit)
    return 1 + _waits(packet_count(data_bytes, 1500), rtt_ms, per_segment_ms)[0]


def _waits(segments: int, rtt_ms: float, per_segment_ms: float) -> tuple[int, int]:
    waits = 0
    for cwnd in slow_start_flights(segments)[:-1]:
        if cwnd * per_segment_ms >= rtt_ms + per_segment_ms:
            break
        waits += 1
        segments -= cwnd
    return waits, segments


def _payload(payload_bytes: int | None, mtu_bytes: int, around: Encapsulation) -> int:
    most = mss_bytes(mtu_bytes, around)
    if payload_bytes is None:
        return most
    return whole("payload_bytes", payload_bytes, 1, most, fix=f"MTU {mtu_bytes} has no room")
