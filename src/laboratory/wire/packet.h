/*
 * packet.h - what is in a frame: numbers, checksums, headers; and what a router does with a packet
 * too long for the next hop: fragment it (IPv4 without DF or options), or drop it and tell the
 * sender by ICMP.
 *
 * Only IPv4 in untagged Ethernet frames is looked into; all else passes untouched.
 *
 * Sources: RFC 791 (fragmentation), RFC 792 and 1191 (fragmentation needed), RFC 1812 4.3.2.7 (what
 * no ICMP error is sent about).
 */
#pragma once

#include "frame.h"

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

/* Numbers that look like chance, the same for the same x: the last step of splitmix64. */
static inline uint64_t mix64(uint64_t x) {
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 31;
}

/* The Internet checksum's sum (RFC 1071) of `length` bytes, added to an earlier one. */
uint64_t sum_bytes(uint64_t sum, const uint8_t *bytes, size_t length);

/* The sum as it stands in a header, still to be complemented; in the machine's byte order. */
uint16_t fold(uint64_t sum);

enum { TCP_FIN = 0x01, TCP_SYN = 0x02, TCP_RST = 0x04, TCP_PSH = 0x08, TCP_ACK = 0x10 };

struct headers {
    bool ip;          /* IPv4, well-formed; if not, the rest is not filled in */
    bool fragment;    /* any but the first: no header of the protocol in it */
    bool plain;       /* no IP options, DF set, nothing behind the IP packet */
    uint8_t protocol; /* IPPROTO_TCP, ... */
    uint8_t tcp_flags;
    uint16_t source_port, dest_port; /* TCP and UDP */
    uint32_t transport_at;           /* the TCP, UDP or ICMP header */
    uint32_t payload_at;             /* TCP: the payload; 0 if its header is malformed */
    uint32_t end;                    /* of the IP packet, by its own account */
};

/* Never reads past `length` bytes, whatever they say. */
struct headers parse_headers(const uint8_t *data, uint32_t length);

/* Where the payload begins if the frame is a segment that might be bundled (see transfer.c); or 0.
 */
uint16_t bundle_payload_at(const uint8_t *data, const struct headers *h,
                           const struct virtio_net_hdr *offload);

/* Does the IPv4 packet say that its ends understand ECN (RFC 3168)? */
bool allows_marking(const uint8_t *data, uint32_t length);

/* Sets its codepoint CE ("congestion experienced"); false if it doesn't allow that. */
bool mark_congestion(uint8_t *data, uint32_t length);

/* The longest IP packet that the frame stands for: super-segments get cut up before the hop. */
uint32_t packet_bytes(const struct headers *h, const struct virtio_net_hdr *offload);

/* A fragment has at least 8 bytes behind its header. A super-segment is TCP's or UDP's own doing
   and is not fragmented, DF or not. */
bool may_fragment(const uint8_t *data, const struct headers *h,
                  const struct virtio_net_hdr *offload, uint32_t mtu);

/* The packet as a chain of fragments of at most `mtu` bytes; NULL if the store is full. */
struct frame *fragment(uint8_t *data, const struct headers *h, struct virtio_net_hdr *offload,
                       uint32_t mtu);

/* ICMP "fragmentation needed" about a packet; NULL if none is to be sent, or the store is full. */
struct frame *too_big_message(const uint8_t *data, const struct headers *h, uint32_t mtu);
