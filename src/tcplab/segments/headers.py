"""Decode the headers of many packets at once, layer by layer."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

import numpy as np

from tcplab.segments import left_out, pcap
from tcplab.segments.pcap import PacketTable
from tcplab.segments.table import (
    ACK,
    DTYPE,
    FIN,
    ROW_BYTES,
    RST,
    SYN,
    TCP,
    UDP,
    Array,
    BoolArray,
    Int64Array,
)

if TYPE_CHECKING:
    from tcplab.segments.connections import EndpointTable


@dataclasses.dataclass(slots=True)
class Positions:
    """The place of each packet in the file, at the layer that is being decoded."""

    index: Int64Array  # index in the capture
    at: Int64Array  # offset in the file of the current layer's header
    end: Int64Array  # offset of the end of the captured bytes
    wire_end: Int64Array  # offset of the packet's end if all of it had been captured

    def keep(self, which: BoolArray) -> Positions:
        """Return the packets that the mask selects."""
        return self if which.all() else self.take(np.flatnonzero(which))

    def take(self, which: Int64Array) -> Positions:
        """Return the packets at these indices, in this order."""
        return Positions(self.index[which], self.at[which], self.end[which], self.wire_end[which])


class Decoder:
    """Decode the headers of many packets at once, and count the packets that produce no row."""

    def __init__(self, packets: PacketTable) -> None:
        self.packets = packets
        self.left_out: Counter[str] = Counter()
        self.u8 = packets.data
        self.u16 = pcap.integers(packets.data, ">u2")
        self.u32 = pcap.integers(packets.data, ">u4")
        self.link_types = packets.link_types()

    def decode(self, start: int, stop: int, endpoints: EndpointTable) -> Array:
        """Return the rows of packets `start` to `stop`; `endpoints` numbers their connections."""
        offset = self.packets.offset[start:stop]
        packets = Positions(
            index=np.arange(start, stop),
            at=offset,
            end=offset + self.packets.captured_bytes[start:stop],
            wire_end=offset + self.packets.original_bytes[start:stop],
        )
        parts = []
        for version, network, transport, protocol in self._transports(
            packets, self.link_types[start:stop]
        ):
            for number, decode in ((TCP, self._tcp), (UDP, self._udp)):
                ours = protocol == number
                rows, headers = decode(transport.keep(ours), network.keep(ours))
                endpoints.enter(rows, version, self.u32, headers.at)
                if version == 4:
                    rows["ip_id"] = self.u16[headers.at + 4]
                parts.append(rows)
        parts = [part for part in parts if len(part)]
        if len(parts) == 1:
            return parts[0]
        # Join the rows as plain bytes, because numpy would change the layout of the columns.
        joined = np.concatenate([np.empty(0, ROW_BYTES), *(part.view(ROW_BYTES) for part in parts)])
        order = np.argsort(joined.view(DTYPE)["packet"], kind="stable")
        return joined[order].view(DTYPE)

    def _keep(self, packets: Positions, which: BoolArray, what: str) -> Positions:
        """Return the packets that the mask selects, and count the others as left out."""
        if lost := len(which) - int(np.count_nonzero(which)):
            self.left_out[what] += lost
        return packets.keep(which)

    def _leave(self, kinds: Array, name: Callable[[int], str]) -> None:
        """Count packets as left out, each under the name that `name` gives its kind."""
        for kind, count in zip(*np.unique(kinds, return_counts=True), strict=True):
            self.left_out[name(int(kind))] += int(count)

    def _transports(
        self, packets: Positions, link_types: Int64Array
    ) -> Iterator[tuple[int, Positions, Positions, Array]]:
        """Yield, for each IP version, positions of IP and transport headers, and the protocols."""
        for version, parts in self._networks(packets, link_types).items():
            if not sum(len(part.index) for part in parts):
                continue
            read = self._ipv4 if version == 4 else self._ipv6
            transport, protocol, network = read(_join(parts))
            other = (protocol != TCP) & (protocol != UDP)
            self._leave(protocol[other], left_out.ip_protocol)
            yield version, network, transport, protocol

    # -- link --

    def _networks(self, packets: Positions, link_types: Int64Array) -> dict[int, list[Positions]]:
        by_version: dict[int, list[Positions]] = {4: [], 6: []}
        for link_type in np.unique(link_types):
            same_link = packets.keep(link_types == link_type)
            read = _LINKS.get(int(link_type))
            if read is None:
                self.left_out[left_out.link_type(int(link_type))] += len(same_link.index)
                continue
            inner, ethertype = read(self, same_link)
            is_ipv4, is_ipv6 = ethertype == _IPV4, ethertype == _IPV6
            by_version[4].append(inner.keep(is_ipv4))
            by_version[6].append(inner.keep(is_ipv6))
            self._leave(ethertype[~(is_ipv4 | is_ipv6)], left_out.ethertype)
        return by_version

    def _tagged(
        self, packets: Positions, header: int, type_at: int
    ) -> tuple[Positions, Int64Array]:
        """Skip a link header and its VLAN tags (IEEE 802.1Q); return packets and EtherTypes."""
        packets = self._keep(packets, packets.end - packets.at >= header, left_out.CUT)
        ethertype = self.u16[packets.at + type_at].astype(np.int64)
        at = packets.at + header
        # Skip at most eight tags, because a hostile packet may consist of nothing but tags.
        for _ in range(8):
            tagged = np.flatnonzero(
                ((ethertype == 0x8100) | (ethertype == 0x88A8) | (ethertype == 0x9100))
                & (at + 4 <= packets.end)
            )
            if not len(tagged):
                break
            ethertype[tagged] = self.u16[at[tagged] + 2]
            at[tagged] += 4
        return dataclasses.replace(packets, at=at), ethertype

    def _ethernet(self, packets: Positions) -> tuple[Positions, Int64Array]:
        return self._tagged(packets, 14, 12)

    def _sll(self, packets: Positions) -> tuple[Positions, Int64Array]:
        return self._tagged(packets, 16, 14)

    def _sll2(self, packets: Positions) -> tuple[Positions, Int64Array]:
        return self._tagged(packets, 20, 0)

    def _raw(self, packets: Positions) -> tuple[Positions, Int64Array]:
        """Return the packets, and the EtherType that fits the version in each IP header, or 0."""
        packets = self._keep(packets, packets.end > packets.at, left_out.CUT)
        version = self.u8[packets.at] >> 4
        return packets, np.select([version == 4, version == 6], [_IPV4, _IPV6], 0)

    def _loopback(self, packets: Positions) -> tuple[Positions, Int64Array]:
        """Skip the address family, whose values differ by system; the IP header has the version."""
        packets = self._keep(packets, packets.end - packets.at > 4, left_out.CUT)
        return self._raw(dataclasses.replace(packets, at=packets.at + 4))

    # -- network --

    def _ipv4(self, packets: Positions) -> tuple[Positions, Array, Positions]:
        """Return positions of transport headers, their protocols, and positions of IP headers."""
        packets = self._keep(packets, packets.end - packets.at >= 20, left_out.CUT)
        # Only the first fragment has a transport header.
        first_part = self.u16[packets.at + 6] & 0x1FFF == 0
        packets = self._keep(packets, first_part, left_out.LATER_FRAGMENTS)
        first = self.u8[packets.at]
        header = (first & 15).astype(np.int64) * 4
        whole = (first >> 4 == 4) & (header >= 20)
        packets, header = self._keep(packets, whole, left_out.CUT), header[whole]
        total = self.u16[packets.at + 2].astype(np.int64)
        # Linux captures a super-segment of more than 65,535 bytes with the length 0.
        wire_end = np.where(
            total == 0, packets.wire_end, np.minimum(packets.wire_end, packets.at + total)
        )
        transport = dataclasses.replace(packets, at=packets.at + header, wire_end=wire_end)
        return transport, self.u8[packets.at + 9], packets

    def _ipv6(self, packets: Positions) -> tuple[Positions, Array, Positions]:
        """Return the same as _ipv4, after skipping extension headers (RFC 8200, section 4)."""
        packets = self._keep(packets, packets.end - packets.at >= 40, left_out.CUT)
        packets = self._keep(packets, self.u8[packets.at] >> 4 == 6, left_out.CUT)
        length = self.u16[packets.at + 4].astype(np.int64)
        # The length 0 means that a jumbo payload option holds the length (RFC 2675).
        wire_end = np.where(
            length == 0, packets.wire_end, np.minimum(packets.wire_end, packets.at + 40 + length)
        )
        protocol, at = self.u8[packets.at + 6], packets.at + 40
        first_part = np.ones(len(at), np.bool_)
        for _ in range(8):
            extended = np.flatnonzero(_IS_EXTENSION[protocol] & (at + 8 <= packets.end))
            if not len(extended):
                break
            here, kind = at[extended], protocol[extended]
            length = self.u8[here + 1].astype(np.int64)
            at[extended] += np.select([kind == 44, kind == 51], [8, 4 * length + 8], 8 * length + 8)
            first_part[extended] &= (kind != 44) | (self.u16[here + 2] >> 3 == 0)
            protocol[extended] = np.where(first_part[extended], self.u8[here], _NO_NEXT_HEADER)
        transport = dataclasses.replace(packets, at=at, wire_end=wire_end)
        transport = self._keep(transport, first_part, left_out.LATER_FRAGMENTS)
        return transport, protocol[first_part], packets.keep(first_part)

    # -- transport --

    def _rows(self, packets: Positions, protocol: int) -> Array:
        rows = np.zeros(len(packets.index), DTYPE)
        rows["packet"] = packets.index
        rows["interface"] = self.packets.interface[packets.index]
        rows["outbound"] = self.packets.outbound[packets.index]
        rows["time_ns"] = self.packets.time_ns[packets.index]
        rows["protocol"] = protocol
        rows["src_port"] = self.u16[packets.at]
        rows["dst_port"] = self.u16[packets.at + 2]
        rows["wire_bytes"] = self.packets.original_bytes[packets.index]
        rows["wscale"] = rows["window_shift"] = -1
        return rows

    def _udp(self, packets: Positions, network: Positions) -> tuple[Array, Positions]:
        fits = packets.end - packets.at >= 8
        packets, network = self._keep(packets, fits, left_out.CUT), network.keep(fits)
        length = self.u16[packets.at + 4].astype(np.int64)
        # The length 0 means a jumbogram (RFC 2675).
        length = np.where(length == 0, packets.wire_end - packets.at, length)
        good = length >= 8
        packets, network = self._keep(packets, good, left_out.CUT), network.keep(good)
        length = length[good]
        rows = self._rows(packets, UDP)
        # The length in a first fragment covers the whole datagram.
        rows["payload_bytes"] = length - 8
        rows["gso_count"] = length == 8
        return rows, network

    def _tcp(self, packets: Positions, network: Positions) -> tuple[Array, Positions]:
        fits = packets.end - packets.at >= 20
        packets, network = self._keep(packets, fits, left_out.CUT), network.keep(fits)
        header = (self.u8[packets.at + 12] >> 4).astype(np.int64) * 4
        payload = packets.wire_end - packets.at - header
        good = (header >= 20) & (payload >= 0)
        packets, network = self._keep(packets, good, left_out.CUT), network.keep(good)
        header, payload = header[good], payload[good]
        rows = self._rows(packets, TCP)
        flags = self.u16[packets.at + 12] & 0x1FF
        rows["payload_bytes"] = payload
        rows["flags"] = flags
        rows["seq"] = self.u32[packets.at + 4]
        rows["ack"] = self.u32[packets.at + 8]
        rows["window"] = window = self.u16[packets.at + 14]
        quiet = flags & (SYN | FIN | RST) == 0
        rows["is_pure_ack"] = quiet & (flags & ACK != 0) & (payload == 0)
        rows["is_zero_window"] = quiet & (window == 0)
        rows["gso_count"] = payload == 0
        with_options = np.flatnonzero(header > 20)
        stop = np.minimum(packets.at + header, packets.end)[with_options]
        self._options(rows, with_options, packets.at[with_options] + 20, stop)
        return rows, network

    def _options(self, rows: Array, row: Int64Array, at: Int64Array, stop: Int64Array) -> None:
        """Decode the options of all rows in parallel, one option per row in each pass."""
        for _ in range(40):  # 40 bytes of options hold at most 40 no-ops
            alive = at < stop
            alive[alive] = self.u8[at[alive]] != 0  # 0 ends the list
            row, at, stop = row[alive], at[alive], stop[alive]
            if not len(row):
                return
            kind = self.u8[at]
            has_length = (kind != 1) & (at + 1 < stop)
            length = np.where(has_length, self.u8[np.where(has_length, at + 1, at)], 1)
            good = (kind == 1) | (has_length & (length >= 2) & (at + length <= stop))
            row, at, stop = row[good], at[good], stop[good]
            kind, length = kind[good], length[good]
            self._take_options(rows, row, at, kind, length)
            at = at + length

    def _take_options(
        self, rows: Array, row: Int64Array, at: Int64Array, kind: Array, length: Array
    ) -> None:
        if (mss := (kind == 2) & (length == 4)).any():
            rows["mss"][row[mss]] = self.u16[at[mss] + 2]
        if (scale := (kind == 3) & (length == 3)).any():
            rows["wscale"][row[scale]] = np.minimum(self.u8[at[scale] + 2], 14)
        if (permitted := (kind == 4) & (length == 2)).any():
            rows["sack_permitted"][row[permitted]] = True
        if (sack := kind == 5).any():
            rows["sack_blocks"][row[sack]] = (length[sack] - 2) // 8
        if (stamps := (kind == 8) & (length == 10)).any():
            rows["has_timestamps"][row[stamps]] = True
            rows["ts_val"][row[stamps]] = self.u32[at[stamps] + 2]
            rows["ts_ecr"][row[stamps]] = self.u32[at[stamps] + 6]


_IPV4, _IPV6, _NO_NEXT_HEADER = 0x0800, 0x86DD, 59
_IS_EXTENSION: Final = np.isin(np.arange(256), (0, 43, 44, 51, 60, 135, 139, 140))

_LINKS: Final = {
    pcap.NULL: Decoder._loopback,
    pcap.LOOP: Decoder._loopback,
    pcap.ETHERNET: Decoder._ethernet,
    pcap.SLL: Decoder._sll,
    pcap.SLL2: Decoder._sll2,
    pcap.RAW: Decoder._raw,
    pcap.IPV4: Decoder._raw,
    pcap.IPV6: Decoder._raw,
}


def _join(parts: list[Positions]) -> Positions:
    parts = [part for part in parts if len(part.index)]
    if len(parts) == 1:
        return parts[0]
    fields = zip(*((p.index, p.at, p.end, p.wire_end) for p in parts), strict=True)
    joined = Positions(*map(np.concatenate, fields))
    return joined.take(np.argsort(joined.index, kind="stable"))
