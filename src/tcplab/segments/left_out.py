"""Name the kinds of packets that produce no row, by link type, EtherType or protocol.

Sources: draft-ietf-opsawg-pcaplinktype, and IANA's IEEE 802 Numbers and Protocol Numbers.
"""

from collections.abc import Mapping
from typing import Final

#: Packets whose header is incomplete, because of the snaplen or damage.
CUT: Final = "packets with too little of a header"
LATER_FRAGMENTS: Final = "later fragments of IP packets"

_IP: Final = {1: "ICMP", 4: "IPv4 in IP", 41: "IPv6 in IP", 47: "GRE", 50: "ESP", 58: "ICMPv6"}
_NAMES: Final = {
    "link type": {51: "PPPoE", 105: "IEEE 802.11", 127: "IEEE 802.11 with radiotap"},
    "EtherType": {0: "neither IPv4 nor IPv6", 0x0806: "ARP", 0x8847: "MPLS", 0x8864: "PPPoE"},
    "IP protocol": _IP,
}

#: Kinds that may hide TCP segments. opaque() adds the link types.
_OPAQUE: Final = (CUT, LATER_FRAGMENTS, "MPLS", "PPPoE", "IPv4 in IP", "IPv6 in IP", "GRE", "ESP")

#: An EtherType field with a value up to this limit holds a length, and LLC follows (IEEE 802.3).
_LONGEST_LENGTH: Final = 1500


def kind(field: str, number: int) -> str:
    """Return the name of a link type, EtherType or IP protocol, such as "ARP" for 0x0806."""
    if field == "EtherType" and 0 < number <= _LONGEST_LENGTH:
        return "LLC"
    return _NAMES.get(field, {}).get(number, f"{field} {number}")


def opaque(left_out: Mapping[str, int]) -> dict[str, int]:
    """Return the kinds that may hide segments of a connection. ARP, for example, cannot."""
    return {
        what: count
        for what, count in left_out.items()
        if what in _OPAQUE or what.startswith(("link type", "IEEE 802.11", "VXLAN-GPE", "Geneve"))
    }


def in_words(left_out: Mapping[str, int]) -> str:
    """Format the counts as a phrase, such as "left out: 12 packets (10 ARP, 2 ICMP)"."""
    total = sum(left_out.values())
    kinds = ", ".join(f"{count} {what}" for what, count in left_out.items())
    return f"left out: {total} packet{'s' * (total != 1)} ({kinds or 'none'})"
