"""Decode the headers of a packet, from the link to the options of TCP."""

import struct
from contextlib import suppress
from typing import Any, Final

from tcplab.segments import left_out, pcap
from tcplab.segments.table import SYN, TCP, UDP

#: Address and port of one end of a connection.
End = tuple[bytes, int]
#: The two ends of a packet, the sender first, and the columns of its row.
Decoded = tuple[End, End, dict[str, Any]]

_IPV4, _IPV6 = 0x0800, 0x86DD
_VLAN_TAGS: Final = (0x8100, 0x88A8, 0x9100)
#: Length of a link header, and the offset of the EtherType in it.
_LINKS: Final = {pcap.ETHERNET: (14, 12), pcap.SLL: (16, 14), pcap.SLL2: (20, 0)}
#: Length of a link header that has no EtherType.
_BARE_LINKS: Final = {pcap.RAW: 0, pcap.IPV4: 0, pcap.IPV6: 0, pcap.NULL: 4, pcap.LOOP: 4}
_VXLAN, _VXLAN_GPE, _GENEVE = 4789, 4790, 6081
#: Link types of what a tunnel carries, by VXLAN-GPE's next protocol or Geneve's EtherType.
_CARRIED: Final = dict.fromkeys((1, 2, _IPV4, _IPV6), pcap.RAW) | dict.fromkeys(
    (3, 0x6558), pcap.ETHERNET
)
_FRAGMENT, _AUTHENTICATION = 44, 51
_IPV6_EXTENSIONS: Final = (0, 43, _FRAGMENT, _AUTHENTICATION, 60, 135, 139, 140)


class LeftOut(Exception):  # noqa: N818  (it ends the decoding of one packet)
    """A packet that produces no row. The message names its kind."""


def decode(frame: bytes, wire_bytes: int, link_type: int) -> Decoded:
    """Return the two ends of a TCP or UDP packet and the columns of its row, or raise LeftOut.

    `frame` may end early. `wire_bytes` is the length of the packet on the link.
    """
    try:
        version, at = _network(frame, link_type)
        read_ip = _ipv4 if version == _IPV4 else _ipv6
        protocol, addresses, ip_id, at, end = read_ip(frame, at, wire_bytes)
        if protocol not in (TCP, UDP):
            raise LeftOut(left_out.kind("IP protocol", protocol))
        if protocol == UDP and (inner := _tunnelled(frame, at)):
            with suppress(LeftOut):  # otherwise it is a UDP packet like any other
                return decode(frame[inner[0] :], wire_bytes - inner[0], inner[1])
        columns = (_tcp if protocol == TCP else _udp)(frame, at, end)
        if columns.get("flags", 0) & SYN and end > wire_bytes:  # a damaged length in the IP header
            columns["payload_bytes"] = max(columns["payload_bytes"] - (end - wire_bytes), 0)
    except (struct.error, IndexError):
        raise LeftOut(left_out.CUT) from None
    source, target = struct.unpack_from(">HH", frame, at)
    columns |= {"protocol": protocol, "ip_id": ip_id, "src_port": source, "dst_port": target}
    return (addresses[0], source), (addresses[1], target), columns


def _tunnelled(frame: bytes, at: int) -> tuple[int, int] | None:
    """Return the offset and link type of a frame in a tunnel over UDP, or None without a tunnel.

    Sources: RFC 7348 (VXLAN), draft-ietf-nvo3-vxlan-gpe, RFC 8926 (Geneve).
    """
    if len(frame) < at + 16:
        return None
    port, first, kind = struct.unpack_from(">2xH4xBxH", frame, at)
    if port == _VXLAN and first & 8:
        return at + 16, pcap.ETHERNET
    if port == _VXLAN_GPE and first & 12 == 12:
        name, number, options = "VXLAN-GPE", kind & 255, 0
    elif port == _GENEVE and first < 64:
        name, number, options = "Geneve", kind, 4 * first
    else:
        return None
    if number not in _CARRIED:
        raise LeftOut(left_out.kind(name, number))
    return at + 16 + options, _CARRIED[number]


def _network(frame: bytes, link_type: int) -> tuple[int, int]:
    """Return the EtherType of the IP header and its offset, after the VLAN tags (IEEE 802.1Q)."""
    if link_type in _BARE_LINKS:
        at = _BARE_LINKS[link_type]
        ethertype = {4: _IPV4, 6: _IPV6}.get(frame[at] >> 4, 0)
    elif link_type in _LINKS:
        at, type_at = _LINKS[link_type]
        (ethertype,) = struct.unpack_from(">H", frame, type_at)
        while ethertype in _VLAN_TAGS:
            (ethertype,) = struct.unpack_from(">H", frame, at + 2)
            at += 4
    else:
        raise LeftOut(left_out.kind("link type", link_type))
    if ethertype not in (_IPV4, _IPV6):
        raise LeftOut(left_out.kind("EtherType", ethertype))
    return ethertype, at


def _ipv4(frame: bytes, at: int, end: int) -> tuple[int, tuple[bytes, bytes], int, int, int]:
    """Return protocol, addresses and identification, and where the next header and data end."""
    first, total, ip_id, fragment, protocol, source, target = struct.unpack_from(
        ">BxHHHxB2x4s4s", frame, at
    )
    if fragment & 0x1FFF:
        raise LeftOut(left_out.LATER_FRAGMENTS)  # only the first has a transport header
    header = (first & 15) * 4
    if first >> 4 != 4 or header < 20:
        raise LeftOut(left_out.CUT)
    # Linux captures a super-segment of more than 65,535 bytes with the length 0. Some recorders cut
    # frames without saying so.
    end = at + total if total else end
    return protocol, (source, target), ip_id, at + header, end


def _ipv6(frame: bytes, at: int, end: int) -> tuple[int, tuple[bytes, bytes], int, int, int]:
    """Return the same as _ipv4, after skipping extension headers (RFC 8200, section 4)."""
    first, length, protocol, source, target = struct.unpack_from(">B3xHBx16s16s", frame, at)
    if first >> 4 != 6:
        raise LeftOut(left_out.CUT)
    at += 40
    # The length 0 means that a jumbo payload option holds the length (RFC 2675).
    end = min(end, at + length) if length else end
    while protocol in _IPV6_EXTENSIONS:
        following, length, offset = struct.unpack_from(">BBH4x", frame, at)
        if protocol == _FRAGMENT and offset >> 3:
            raise LeftOut(left_out.LATER_FRAGMENTS)
        at += {_FRAGMENT: 8, _AUTHENTICATION: 4 * length + 8}.get(protocol, 8 * length + 8)
        protocol = following
    return protocol, (source, target), 0, at, end


def _udp(frame: bytes, at: int, end: int) -> dict[str, Any]:
    (length,) = struct.unpack_from(">4xH2x", frame, at)
    length = length or end - at  # the length 0 means a jumbogram (RFC 2675)
    if length < 8:
        raise LeftOut(left_out.CUT)
    # The length in a first fragment covers the whole datagram.
    return {"payload_bytes": length - 8} | _NO_OPTIONS


def _tcp(frame: bytes, at: int, end: int) -> dict[str, Any]:
    seq, ack, flags, window = struct.unpack_from(">4xIIHH4x", frame, at)
    header = (flags >> 12) * 4
    payload = end - at - header
    if header < 20 or payload < 0:
        raise LeftOut(left_out.CUT)
    columns = {"payload_bytes": payload, "flags": flags & 0x1FF, "seq": seq, "ack": ack}
    return columns | {"window": window} | _tcp_options(frame[at + 20 : at + header])


_NO_OPTIONS: Final = {"wscale": -1, "window_shift": -1}
#: The options of almost all segments, two NOPs and timestamps (RFC 7323, appendix A).
_ONLY_TIMESTAMPS: Final = b"\x01\x01\x08\x0a"


def _stamps(options: bytes, at: int) -> dict[str, Any]:
    value, echo = struct.unpack_from(">II", options, at)
    return {"has_timestamps": True, "ts_val": value, "ts_ecr": echo}


def _tcp_options(options: bytes) -> dict[str, Any]:
    """Return the columns of the options, up to the first invalid or cut one."""
    if len(options) == 12 and options[:4] == _ONLY_TIMESTAMPS:
        return _NO_OPTIONS | _stamps(options, 4)
    columns: dict[str, Any] = dict(_NO_OPTIONS)
    at = 0
    while at < len(options) and options[at]:  # 0 ends the list
        if options[at] == 1:
            at += 1
            continue
        kind, length = (*options[at : at + 2], 0)[:2]
        if length < 2 or at + length > len(options):
            break
        match kind, length:
            case 2, 4:
                (columns["mss"],) = struct.unpack_from(">H", options, at + 2)
            case 3, 3:
                columns["wscale"] = min(options[at + 2], 14)
            case 4, 2:
                columns["sack_permitted"] = True
            case 5, _:
                columns["sack_blocks"] = (length - 2) // 8
            case 8, 10:
                columns |= _stamps(options, at + 2)
        at += length
    return columns
