/*
 * mtu.h - what a router does with a packet too long for the next hop: fragment it (IPv4 without
 * DF), or drop it and tell the sender by ICMP.
 *
 * Sources: RFC 791 (fragmentation), RFC 792 and 1191 (fragmentation needed), RFC 1812 4.3.2.7 (what
 * no ICMP error is sent about).
 */
#pragma once

#include "frame.h"
#include "packet.h"

/* The longest IP packet that the frame stands for: super-segments get cut up before the hop. */
uint32_t packet_bytes(const struct headers *h, const struct virtio_net_hdr *offload);

/*
 * A fragment has at least 8 bytes behind its header. A super-segment is TCP's or
 * UDP's own doing and is not fragmented, DF or not.
 */
bool may_fragment(const uint8_t *data, const struct headers *h,
                  const struct virtio_net_hdr *offload, uint32_t mtu);

/* The IPv4 packet as a chain of fragments of at most `mtu` bytes; NULL if the store is full. */
struct frame *fragment(uint8_t *data, const struct headers *h, struct virtio_net_hdr *offload,
                       uint32_t mtu);

/* ICMP "fragmentation needed" about an IPv4 packet; NULL if none is to be sent, or the store full.
 */
struct frame *too_big_message(const uint8_t *data, const struct headers *h, uint32_t mtu);
