"""Decode a capture into a numpy structured array with one row per TCP or UDP segment.

Rows are selected by methods (`rows.data("client")`, `rows.acks()`) and by masks
(`rows[rows.is_syn]`); see SegmentArray. The columns (`rows["seq"]`), in the order of the array's
dtype, are the following. Times are ns since 1970-01-01 UTC.

=====================  ===========================================================================
packet                 index in the capture, as in ``capture.packets()[row["packet"]]`` for scapy
interface              index of the interface in the capture (``capture.table.interfaces``)
outbound               1 if it left through that interface, 0 if it came in, -1 if unknown
time_ns                time at which it passed the interface
connection             number of the connection, in order of appearance
protocol               6 for TCP, 17 for UDP
direction              0 from client to server, 1 from server to client
src_port, dst_port     as on the wire
payload_bytes          data in the segment according to the headers, even if the snaplen cut it
wire_bytes             length of the packet with all headers, as it passed the interface
ip_id                  identification of the IPv4 packet, 0 in IPv6
seq, ack               relative as in Wireshark: the SYN is 0 and the first byte 1. They do not
                       wrap around at 2^32. ack is 0 if the ACK flag is not set
flags                  FIN 1, SYN 2, RST 4, PSH 8, ACK 16, URG 32, ECE 64, CWR 128, AE 256
window                 the receive window in bytes, scaled if the shift is known
window_shift           the shift applied, or -1 if no captured SYN shows it (window is unscaled)
sack_blocks            number of blocks in the SACK option
sack_permitted         true if there is a SACK-permitted option, which only a SYN has
mss                    the MSS option, or 0
wscale                 the window scale option, at most 14 (RFC 7323, section 2.3), or -1
has_timestamps         true if there is a timestamps option, with ts_val and ts_ecr (otherwise 0)
gso_count              number of segments on the wire, each with at most one MSS of data. A
                       super-segment (TSO, GSO, GRO) holds several. It is 1 without data, and 0
                       with data if no SYN with an MSS option was captured
is_retransmission      true if it carries a byte (or SYN, FIN) that passed here before, was
                       acknowledged before, or was lost on its way here. The last case shows only
                       if newer data passed before the retransmission. In a capture at several
                       interfaces, "here" is the interface of the row
is_out_of_order        true if it fills a gap too soon to be a retransmission, so it was overtaken
is_pure_ack            true for a TCP ACK that carries neither data nor SYN, FIN or RST
is_zero_window         true if the receiver has no room; never true for SYN, FIN and RST
=====================  ===========================================================================

The client is the sender of the SYN or the receiver of the SYN-ACK. If a TCP connection has neither,
the client is the end with the larger port number, because ephemeral ports are large. With equal
ports, and for UDP, it is the end that sends first in the capture.

Four kinds of link headers are decoded: Ethernet with or without VLAN tags, both cooked headers of
Linux, BSD loopback, and raw IP. Packets with any other link header, or inside a tunnel, produce no
row. Nor do packets that are neither TCP nor UDP, fragments other than the first, and packets whose
headers were cut off by the snaplen. The array's `left_out` counts each kind.

The columns agree with the Wireshark fields of the same meaning, except for the two that are
judgements (is_retransmission, is_out_of_order).

Sources: RFC 9293 (TCP), RFC 7323 (window scale, timestamps), RFC 2018 (SACK), RFC 768 (UDP),
RFC 791, RFC 8200, RFC 2675 (IP), IEEE 802.1Q.
"""

import os
from collections import Counter
from typing import Final

import numpy as np

from tcplab.segments.connections import Connections
from tcplab.segments.headers import Decoded, LeftOut, decode
from tcplab.segments.pcap import PacketTable, read_packets, warn_of_gaps
from tcplab.segments.plain import decode_plain, ends_in
from tcplab.segments.table import (
    ACK,
    DTYPE,
    FIN,
    FROM_CLIENT,
    FROM_SERVER,
    PSH,
    RST,
    SYN,
    TCP,
    UDP,
    Array,
    Connection,
    SegmentArray,
    flag_names,
    uncollected,
)
from tcplab.segments.tcp import analyse

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
    "flag_names",
    "from_file",
    "from_packets",
]
__dir__ = __all__.copy


_BATCH: Final = 16_384  # packets that are decoded together, to limit the memory that these need


def from_file(path: str | os.PathLike[str]) -> SegmentArray:
    """Read the segments of a capture file; warn of lost packets and of a damaged end."""
    packets = read_packets(path)
    warn_of_gaps(packets, path, stacklevel=2)
    return from_packets(packets)


@uncollected()
def from_packets(packets: PacketTable) -> SegmentArray:
    """Return the TCP and UDP segments among the packets, one row per segment."""
    batches = [np.zeros(0, DTYPE)]
    connections = Connections()
    left_out: Counter[str] = Counter()
    for start in range(0, len(packets), _BATCH):
        batches.append(_batch(packets, start, connections, left_out))
    rows = np.concatenate(batches).view(SegmentArray)
    rows.connections = connections.all()
    rows.left_out = dict(left_out.most_common())
    for column in "interface", "outbound", "time_ns":
        rows[column] = getattr(packets, column)[rows["packet"]]
    rows["wire_bytes"] = packets.original_bytes[rows["packet"]]
    if len(rows):
        rows["direction"] ^= np.array(connections.server_first())[rows["connection"]]
        analyse(rows)
    return rows


def _batch(
    packets: PacketTable, start: int, connections: Connections, left_out: Counter[str]
) -> Array:
    """Return the rows of a batch of packets, with their connections and directions."""
    stop = min(start + _BATCH, len(packets))
    is_row, batch, addresses = decode_plain(packets, start, stop)
    link_types = packets.link_types()
    plain = np.flatnonzero(is_row)
    decoded: dict[int, Decoded] = {}
    for place in np.flatnonzero(~is_row).tolist():
        packet = start + place
        wire_bytes, link_type = int(packets.original_bytes[packet]), int(link_types[packet])
        try:
            decoded[place] = decode(packets.bytes_of(packet), wire_bytes, link_type)
        except LeftOut as kind:
            left_out[str(kind)] += 1
    found, first, way = np.unique(addresses[plain], return_index=True, return_inverse=True)
    ends = list(map(ends_in, found.tolist()))
    # A packet continues the connection of the previous packet between its ends unless there was a
    # SYN. So without a SYN in the batch, the first and the last packet of each way are enough.
    opened = {frozenset(ends[i]) for i in way[batch["flags"][plain] & SYN != 0].tolist()}
    opened |= {frozenset(one[:2]) for one in decoded.values() if one[2].get("flags", 0) & SYN}
    entered = np.array([frozenset(pair) in opened for pair in ends], np.bool_)[way]
    entered[first] = True
    entered[len(way) - 1 - np.unique(way[::-1], return_index=True)[1]] = True
    for place, i in zip(plain[entered].tolist(), way[entered].tolist(), strict=True):
        columns = {name: int(batch[name][place]) for name in ("protocol", "seq", "ack", "flags")}
        decoded[place] = (*ends[i], columns)
    for place in sorted(decoded):
        connections.enter(*decoded[place])
        if not is_row[place]:
            batch[place] = 0
            decoded[place][2]["packet"] = start + place
        for name, value in decoded[place][2].items():
            batch[name][place] = value
    for name in "connection", "direction":
        batch[name][plain[~entered]] = batch[name][plain[first]][way[~entered]]
    is_row[[*decoded]] = True
    return batch[is_row]
