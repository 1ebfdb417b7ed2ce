"""A capture as one numpy structured array: one row per TCP or UDP segment.

The array selects by verbs (`rows.data("client")`, `rows.acks()`, `rows[rows.is_syn]`: see
SegmentArray) and has columns (`rows["seq"]`). The columns, in the order of the array's dtype (bytes
are bytes, times are ns since 1970-01-01 UTC):

=====================  ===========================================================================
packet                 its index in the capture: ``capture.packets()[row["packet"]]`` is for scapy
interface              index of the interface in the capture (``capture.interfaces``)
outbound               1 when it left through that interface, 0 when it came in, -1 unknown
time_ns                when it passed
connection             number of the connection, in order of appearance
protocol               6 for TCP, 17 for UDP
direction              0 from client to server, 1 from server to client
src_port, dst_port     as on the wire
payload_bytes          data in the segment, by the lengths in the headers, whatever the snaplen
wire_bytes             length of the packet with all its headers, as it passed the interface
ip_id                  identification of the IPv4 packet, 0 in IPv6
seq, ack               relative as in Wireshark: the SYN is 0, the first byte 1; they don't wrap
                       around at 2^32. ack is 0 when the ACK flag is not set
flags                  FIN 1, SYN 2, RST 4, PSH 8, ACK 16, URG 32, ECE 64, CWR 128, AE 256
window                 the receive window in bytes, scaled when the SYNs say how
window_shift           the shift that was applied, -1 when no SYN was seen (window is then unscaled)
sack_blocks            how many blocks the SACK option holds
sack_permitted         whether there is a SACK-permitted option, which only a SYN has
mss                    the MSS option, 0 without
wscale                 the window scale option, at most 14 (RFC 7323, section 2.3), -1 without
has_timestamps         whether there is a timestamps option; its ts_val and ts_ecr, 0 without
gso_count              how many segments of at most one MSS this was or will be on the wire: a
                       super-segment (TSO, GSO, GRO) holds several. 1 without data, 0 when no SYN
                       told the MSS
is_retransmission      carries a byte (or SYN, FIN) that passed here before, or was acknowledged
                       before, or was lost on its first way here. The last shows only when newer
                       data passed meanwhile: the end of a window sent again looks like new
                       (In a capture at several interfaces, "here" is one of them)
is_out_of_order        fills a gap too soon to be a retransmission: it was overtaken on its way
is_pure_ack            TCP, acknowledges, and carries neither data nor SYN, FIN or RST
is_zero_window         says that the receiver has no room; not in SYN, FIN and RST
=====================  ===========================================================================

The client is the sender of the SYN. In a TCP connection whose SYN is missing it is the end with the
larger port number (ephemeral ports are large); with equal ports, and for UDP, who is seen to send
first.

These link headers are read: Ethernet with or without VLAN tags, both cooked headers of Linux, BSD
loopback, and raw IP. Packets behind any other link header or in a tunnel make no row. Neither do
packets that are neither TCP nor UDP, fragments other than the first, and packets whose headers the
snaplen cut. The array's `left_out` counts each kind.

The columns agree with the fields of Wireshark of the same meaning, except the two that judge
(is_retransmission, is_out_of_order). Wireshark's out-of-order is any segment less than a round-trip
time behind the newest data, even if the same bytes passed before; tests/fast/segments explains each
difference.

Sources: RFC 9293 (TCP), RFC 7323 (window scale, timestamps), RFC 2018 (SACK), RFC 768 (UDP),
RFC 791, RFC 8200, RFC 2675 (IP), IEEE 802.1Q.
"""

from __future__ import annotations

import os
from typing import Final

import numpy as np

from tcplab.segments.connections import EndpointTable, number_connections
from tcplab.segments.headers import Decoder
from tcplab.segments.pcap import PacketTable, read_packets, warn_of_gaps
from tcplab.segments.summary import Summary, summary
from tcplab.segments.table import (
    ACK,
    DTYPE,
    FIN,
    FROM_CLIENT,
    FROM_SERVER,
    PSH,
    ROW_BYTES,
    RST,
    SYN,
    TCP,
    UDP,
    Connection,
    SegmentArray,
    Sender,
)
from tcplab.segments.tcp import analyse
from tcplab.segments.text import flag_names, write_csv, write_json

__all__ = [
    "ACK",
    "DTYPE",
    "FIN",
    "FROM_CLIENT",
    "FROM_SERVER",
    "PSH",
    "RST",
    "SYN",
    "TCP",
    "UDP",
    "Connection",
    "SegmentArray",
    "Sender",
    "Summary",
    "flag_names",
    "from_file",
    "from_packets",
    "summary",
    "write_csv",
    "write_json",
]

_BATCH: Final = 1 << 14  # packets looked at together: few enough for the processor's cache


def from_file(path: str | os.PathLike[str]) -> SegmentArray:
    """The segments of a capture file. Warns of lost packets and of a damaged end.

    Raises:
        CaptureError: no such file, or it is not a capture.
    """
    packets = read_packets(path)
    warn_of_gaps(packets, path, stacklevel=2)
    return from_packets(packets)


def from_packets(packets: PacketTable) -> SegmentArray:
    """The segments among the packets that read_packets found."""
    return _analyse(*_decode(packets))


def _decode(packets: PacketTable) -> tuple[SegmentArray, EndpointTable]:
    """The columns that each packet gives by itself."""
    endpoints = EndpointTable()
    rows = np.empty(len(packets), DTYPE)
    count = 0
    decoder = Decoder(packets)
    for start in range(0, len(packets), _BATCH):
        batch = decoder.decode(start, min(start + _BATCH, len(packets)), endpoints)
        rows[count : count + len(batch)].view(ROW_BYTES)[:] = batch.view(ROW_BYTES)
        count += len(batch)
    if count < len(rows) // 2:
        rows = rows[:count].copy()
    made = rows[:count].view(SegmentArray)
    made.left_out = dict(decoder.left_out.most_common())
    return made, endpoints


def _analyse(rows: SegmentArray, endpoints: EndpointTable) -> SegmentArray:
    """The columns that the packets give together."""
    rows.connections = number_connections(rows, endpoints)
    analyse(rows, np.flatnonzero(rows["protocol"] == TCP))
    return rows
