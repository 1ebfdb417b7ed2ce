/*
 * packet.h - the contents of a frame (numbers, checksums, headers), and a router's treatment of a
 * packet that is too long for the next hop: fragment it (IPv4 without DF or options), or drop it
 * and notify the sender by ICMP.
 *
 * IPv4 and IPv6 in untagged Ethernet frames are examined; all other frames pass unchanged. So do
 * ARP and its counterparts in IPv6, neighbour discovery and multicast listener reports. Their
 * timing depends on the hosts' clocks, but an experiment must be repeatable.
 *
 * Sources: RFC 791 (fragmentation), RFC 792 and 1191 (fragmentation needed), RFC 1812 4.3.2.7
 * (packets that cause no ICMP error); for IPv6 RFC 8200 (extension headers) and 4443 (ICMPv6).
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

/* Returns a pseudo-random number that depends only on x, by the last step of splitmix64. */
static inline uint64_t mix64(uint64_t x) {
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 31;
}

/* Adds `length` bytes to a sum of the Internet checksum (RFC 1071). */
uint64_t sum_bytes(uint64_t sum, const uint8_t *bytes, size_t length);

/* Folds the sum to 16 bits in the machine's byte order; it is not complemented yet. */
uint16_t fold(uint64_t sum);

enum { TCP_FIN = 0x01, TCP_SYN = 0x02, TCP_RST = 0x04, TCP_PSH = 0x08, TCP_ACK = 0x10 };

struct headers {
    uint8_t ip;       /* version of well-formed IP, or 0; then the rest is not filled in */
    bool fragment;    /* not the first fragment, so without the protocol's header */
    bool plain;       /* no IP options or extensions, DF set, no bytes after the IP packet */
    uint8_t protocol; /* IPPROTO_TCP, ... */
    uint8_t tcp_flags;
    uint16_t source_port, dest_port; /* ports of TCP and UDP */
    uint32_t transport_at;           /* start of the TCP, UDP or ICMP header */
    uint32_t payload_at;             /* start of TCP's payload; 0 if its header is malformed */
    uint32_t end;                    /* end of the IP packet according to its header */
};

/* Parses the headers; never reads beyond `length` bytes, whatever they contain. */
struct headers parse_headers(const uint8_t *data, uint32_t length);

/* Returns an IP packet's source address, which its destination follows; sets the length of both. */
const uint8_t *ip_addresses(const uint8_t *data, size_t *both);

/* Returns the sum of the pseudo-header over which TCP and ICMPv6 compute their checksums. */
uint64_t pseudo_header_sum(const uint8_t *data, uint8_t protocol, size_t length);

/* Returns the start of the payload if the frame is a segment that can be bundled (see transfer.c),
   or 0. */
uint16_t bundle_payload_at(const uint8_t *data, const struct headers *h,
                           const struct virtio_net_hdr *offload);

/* Returns whether the frame is an IP packet that allows ECN marks (RFC 3168). */
bool allows_marking(const struct frame *frame);

/* Sets the codepoint CE ("congestion experienced"); returns false if that is not allowed. */
bool mark_congestion(struct frame *frame);

/* Returns the length of the frame's longest IP packet after segmentation. */
uint32_t packet_bytes(const struct headers *h, const struct virtio_net_hdr *offload);

/* Returns whether a packet can be fragmented. A fragment has at least 8 bytes after its header. TCP
   or UDP made a super-segment, so it is never fragmented, even without DF. */
bool may_fragment(const uint8_t *data, const struct headers *h,
                  const struct virtio_net_hdr *offload, uint32_t mtu);

/* Returns the packet as a chain of fragments of up to `mtu` bytes, or NULL if the store is full. */
struct frame *fragment(uint8_t *data, const struct headers *h, struct virtio_net_hdr *offload,
                       uint32_t mtu);

/* Returns ICMP "fragmentation needed" or ICMPv6 "packet too big" about a packet, or NULL if none
   may be sent or the store is full. */
struct frame *too_big_message(const uint8_t *data, const struct headers *h, uint32_t mtu);
