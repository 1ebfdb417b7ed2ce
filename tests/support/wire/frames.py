"""Ethernet frames made by hand, to send through the wire."""

import struct

CLIENT = bytes.fromhex("0200000000aa")
SERVER = bytes.fromhex("0200000000bb")
A, B = bytes([192, 0, 2, 1]), bytes([192, 0, 2, 2])
A6, B6 = bytes.fromhex("20010db8" + "0" * 23 + "1"), bytes.fromhex("20010db8" + "0" * 23 + "2")

FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16


def checksum(data: bytes | bytearray) -> int:
    """Compute the checksum of RFC 1071."""
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return int(total) ^ 0xFFFF


def ethernet(
    payload: bytes, kind: int = 0x0800, to: bytes = SERVER, source: bytes = CLIENT
) -> bytes:
    return to + source + struct.pack(">H", kind) + payload


def ipv4(
    payload: bytes,
    protocol: int,
    identification: int = 0,
    flags_and_offset: int = 0x4000,
    options: bytes = b"",
    source: bytes = A,
    to: bytes = B,
    checksum_added: int = 0,
) -> bytes:
    header = 20 + len(options)
    first = (0x40 | header // 4, 0, header + len(payload), identification, flags_and_offset)
    head = struct.pack(">BBHHHBBH4s4s", *first, 64, protocol, 0, source, to) + options
    total = checksum(head) + checksum_added & 0xFFFF
    return head[:10] + struct.pack(">H", total) + head[12:] + payload


def ipv6(
    payload: bytes,
    protocol: int,
    traffic_class: int = 0,
    flow_label: int = 0,
    hop_limit: int = 64,
    source: bytes = A6,
    to: bytes = B6,
) -> bytes:
    first = 6 << 28 | traffic_class << 20 | flow_label
    head = struct.pack(">IHBB16s16s", first, len(payload), protocol, hop_limit, source, to)
    return head + payload


def extension(following: int, units: int = 1, field: int = 0) -> bytes:
    """Return an IPv6 extension header of `units` times 8 bytes, such as a fragment header."""
    return struct.pack(">BBH", following, units - 1, field) + bytes(8 * units - 4)


def packet(version: int, payload: bytes, protocol: int, **ip: int | bytes) -> bytes:
    """Return a frame with an IPv4 or IPv6 packet."""
    if version == 4:
        return ethernet(ipv4(payload, protocol, **ip))  # type: ignore[arg-type]
    return ethernet(ipv6(payload, protocol, **ip), kind=0x86DD)  # type: ignore[arg-type]


def udp(payload: bytes, port: int = 7, version: int = 4, **ip: int | bytes) -> bytes:
    """Return a frame with a UDP datagram, without its checksum, which is optional in IPv4."""
    datagram = struct.pack(">HHHH", 4000, port, 8 + len(payload), 0) + payload
    return packet(version, datagram, 17, **ip)


def tcp(
    payload: bytes = b"",
    seq: int = 0,
    flags: int = ACK,
    ack: int = 1,
    port: int = 5001,
    options: bytes = b"",
    checksum_added: int = 0,
    window: int = 1000,
    version: int = 4,
    ip_options: bytes = b"",
    **ip: int | bytes,
) -> bytes:
    """Return a frame with a TCP segment."""
    fields = (4000, port, seq & 0xFFFFFFFF, ack, (20 + len(options)) // 4 << 4, flags, window)
    segment = struct.pack(">HHIIBBHHH", *fields, 0, 0) + options + payload
    pseudo = (A + B if version == 4 else A6 + B6) + struct.pack(">BBH", 0, 6, len(segment))
    total = checksum(pseudo + segment) + checksum_added & 0xFFFF
    segment = segment[:16] + struct.pack(">H", total) + segment[18:]
    return packet(version, segment, 6, **({"options": ip_options} if ip_options else {}), **ip)


def numbered(length: int, number: int, version: int = 4) -> bytes:
    """Return a UDP frame of this many bytes (at least 46 or 66) that carries its number."""
    least = 46 if version == 4 else 66
    return udp(struct.pack(">I", number) + bytes(max(length - least, 0)), version=version)


def number_of(frame: bytes) -> int:
    """Return the number in a frame made by `numbered`."""
    return int(struct.unpack_from(">I", frame, 42 if frame[12:14] == b"\x08\x00" else 62)[0])


def arp(number: int) -> bytes:
    """Return an ARP frame with a number, as an example of a frame that is not IP."""
    return ethernet(struct.pack(">I", number) + bytes(42), kind=0x0806)
