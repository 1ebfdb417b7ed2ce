/*
 * packet.h - what is in a frame: numbers, checksums, headers.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline uint16_t get16(const uint8_t *p) {
    return (uint16_t)(p[0] << 8 | p[1]);
}

static inline uint32_t get32(const uint8_t *p) {
    return (uint32_t)get16(p) << 16 | get16(p + 2);
}

static inline void put16(uint8_t *p, uint32_t value) {
    p[0] = (uint8_t)(value >> 8);
    p[1] = (uint8_t)value;
}

static inline void put32(uint8_t *p, uint32_t value) {
    put16(p, value >> 16);
    put16(p + 2, value);
}

/* The Internet checksum's sum (RFC 1071) of `length` bytes, added to an earlier one. */
uint64_t sum_bytes(uint64_t sum, const uint8_t *bytes, size_t length);

/* The sum as it stands in a header, still to be complemented; in the machine's byte order. */
uint16_t fold(uint64_t sum);

void put_checksum(uint8_t *p, uint64_t sum);

enum { TCP_FIN = 0x01, TCP_SYN = 0x02, TCP_RST = 0x04, TCP_PSH = 0x08, TCP_ACK = 0x10 };

struct headers {
    uint8_t version;  /* 4 or 6; 0: not IP, or malformed: such frames pass untouched */
    uint8_t protocol; /* IPPROTO_TCP, ... */
    bool fragment;    /* any but the first: no header of the protocol in it */
    bool neighbours;  /* IPv6 neighbour discovery or group membership: what ARP is to IPv4 */
    bool plain;       /* no VLAN tag, no IP options, DF set, nothing behind the IP packet */
    uint32_t ip_at, ip_bytes;        /* the IP packet, by its own account */
    uint32_t transport_at;           /* the TCP, UDP or ICMP header */
    uint32_t payload_at;             /* TCP: the payload */
    uint16_t source_port, dest_port; /* TCP and UDP */
    uint8_t tcp_flags;
};

/* Never reads past `length` bytes, whatever they say. */
struct headers parse_headers(const uint8_t *data, uint32_t length);
