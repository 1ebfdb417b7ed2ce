"""Names for the packets that make no row: link types, EtherTypes, protocols.

Sources: draft-ietf-opsawg-pcaplinktype; IANA, IEEE 802 Numbers and Protocol Numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

#: The snaplen, or damage, left too little of a header.
CUT: Final = "packets with too little of a header"
LATER_FRAGMENTS: Final = "later fragments of IP packets"
TOO_DEEP: Final = "IP packets inside too many IP packets"

_LINK_TYPES: Final = {
    3: "AX.25",
    6: "Token Ring",
    7: "ARCNET",
    8: "SLIP",
    9: "PPP",
    10: "FDDI",
    50: "PPP in HDLC",
    104: "Cisco HDLC",
    105: "IEEE 802.11",
    107: "Frame Relay",
    119: "IEEE 802.11 with a Prism header",
    127: "IEEE 802.11 with radiotap",
    138: "IP over FireWire",
    163: "IEEE 802.11 with an AVS header",
    166: "PPP with its direction",
    187: "Bluetooth HCI",
    189: "USB",
    192: "PPI",
    195: "IEEE 802.15.4",
    201: "Bluetooth HCI with its direction",
    220: "USB on Linux",
    249: "USB on Windows",
    253: "Netlink",
    268: "DVB",
    277: "IPMI",
}

_ETHERTYPES: Final = {
    0x0806: "ARP",
    0x0842: "Wake-on-LAN",
    0x8035: "RARP",
    0x8100: "VLAN tags without end",
    0x8847: "MPLS",
    0x8848: "MPLS",
    0x8863: "PPPoE discovery",
    0x8864: "PPPoE other than IP",
    0x888E: "EAPOL",
    0x88CC: "LLDP",
    0x88E5: "MACsec",
    0x88F7: "PTP",
    0x8899: "Realtek's loop detection",
    0x9000: "Ethernet loopback",
}

_IP_PROTOCOLS: Final = {
    1: "ICMP",
    2: "IGMP",
    33: "DCCP",
    46: "RSVP",
    47: "GRE",
    50: "ESP",
    51: "AH",
    58: "ICMPv6",
    59: "IPv6 without a payload",
    89: "OSPF",
    103: "PIM",
    112: "VRRP",
    115: "L2TP",
    132: "SCTP",
    136: "UDP-Lite",
}

#: What may have TCP in it that is not seen, beside the link types that are not read.
_OPAQUE: Final = {CUT, LATER_FRAGMENTS, TOO_DEEP, "MPLS", "MACsec", "GRE", "ESP", "AH", "L2TP"}

#: Up to here the field is a length (IEEE 802.3), and LLC follows.
LONGEST_LENGTH: Final = 1500


def link_type(number: int) -> str:
    """A link type in words."""
    name = _LINK_TYPES.get(number)
    return f"link type {number} ({name})" if name else f"link type {number}"


def ethertype(number: int) -> str:
    """An EtherType in words; 0 stands for what is neither IPv4 nor IPv6."""
    if number == 0:
        return "neither IPv4 nor IPv6"
    if number <= LONGEST_LENGTH:
        return "LLC other than IP"
    return _ETHERTYPES.get(number, f"EtherType 0x{number:04x}")


def ip_protocol(number: int) -> str:
    """A protocol over IP in words."""
    return _IP_PROTOCOLS.get(number, f"IP protocol {number}")


def opaque(left_out: Mapping[str, int]) -> dict[str, int]:
    """Those in which segments of a connection may hide; ARP, for one, holds none."""
    return {
        what: count
        for what, count in left_out.items()
        if what in _OPAQUE or what.startswith("link type")
    }


def in_words(left_out: Mapping[str, int]) -> str:
    """One sentence: "left out: 12 packets (10 ARP, 2 ICMP)"."""
    total = sum(left_out.values())
    kinds = ", ".join(f"{count} {what}" for what, count in left_out.items())
    return f"left out: {total} packet{'s' * (total != 1)} ({kinds})"
