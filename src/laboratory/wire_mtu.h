/*
 * wire_mtu.h - what a router does with a packet too long for the next hop, for
 * wire.c: fragment it (IPv4 without DF), or drop it and say so with ICMP.
 *
 * Sources: RFC 791 (fragmentation), RFC 792 and 1191 (fragmentation needed),
 * RFC 1812 4.3.2.7 (about what no ICMP error is sent), RFC 8200 and 4443 (IPv6).
 */
#ifndef WIRE_MTU_H
#define WIRE_MTU_H

#include "wire_frame.h"

enum {
    IPV4_DF = 0x4000,
    IPV4_MF = 0x2000,
    IPV4_OFFSET = 0x1fff, /* in units of 8 bytes */
    ICMP_HEADER = 8,
    QUOTE_V4 = 576 - 20 - ICMP_HEADER, /* of the dropped packet, in the ICMP message */
    QUOTE_V6 = 1280 - 40 - ICMP_HEADER,
};

/* The longest IP packet that the frame stands for: super-segments get cut up before the hop. */
static uint32_t packet_bytes(const struct headers *h, const struct virtio_net_hdr *offload) {
    if (offload->gso_type == VIRTIO_NET_HDR_GSO_NONE || offload->hdr_len < h->ip_at)
        return h->ip_bytes;
    return offload->hdr_len - h->ip_at + offload->gso_size;
}

/*
 * A fragment has at least 8 bytes behind its header. A super-segment is TCP's or
 * UDP's own doing and is not fragmented, DF or not.
 */
static bool may_fragment(const uint8_t *data, const struct headers *h,
                         const struct virtio_net_hdr *offload, uint32_t mtu) {
    return h->version == 4 && !(get16(data + h->ip_at + 6) & IPV4_DF) &&
           offload->gso_type == VIRTIO_NET_HDR_GSO_NONE && mtu >= h->transport_at - h->ip_at + 8;
}

/* ---- fragments ---- */

/* The checksum that the sender left to the card must be made while the packet is whole. */
static void finish_checksum(uint8_t *data, uint32_t end, struct virtio_net_hdr *offload) {
    uint32_t start = offload->csum_start, at = start + offload->csum_offset;
    if (!(offload->flags & VIRTIO_NET_HDR_F_NEEDS_CSUM) || start >= end || at + 2 > end)
        return;
    put_checksum(data + at, sum_bytes(0, data + start, end - start));
    offload->flags = 0;
}

/* Options without the copy bit are only in the first fragment: NOP takes their place. */
static void blank_uncopied_options(uint8_t *option, const uint8_t *end) {
    while (option < end && *option != 0) {
        size_t length = *option == 1 || option + 1 == end ? 1 : option[1];
        if (length == 0 || option + length > end)
            return;
        if (!(*option & 0x80))
            memset(option, 1, length);
        option += length;
    }
}

/* The IPv4 packet as a chain of fragments of at most `mtu` bytes; NULL if the store is full. */
static struct frame *fragment(uint8_t *data, const struct headers *h,
                              struct virtio_net_hdr *offload, uint32_t mtu) {
    uint32_t header = h->transport_at - h->ip_at, payload = h->ip_bytes - header;
    uint32_t step = (mtu - header) & ~7U;
    uint16_t field = get16(data + h->ip_at + 6);
    struct frame *first = NULL, **end = &first;
    finish_checksum(data, h->ip_at + h->ip_bytes, offload);
    for (uint32_t done = 0; done < payload; done += step) {
        uint32_t part = payload - done < step ? payload - done : step;
        struct frame *frame = frame_new(h->transport_at + part);
        if (!frame) {
            for (struct frame *next; first; first = next) {
                next = first->next;
                frame_free(first);
            }
            return NULL;
        }
        uint8_t *ip = frame->bytes + h->ip_at;
        memcpy(frame->bytes, data, h->transport_at);
        frame_write(frame, h->transport_at, data + h->transport_at + done, part);
        bool more = done + part < payload || field & IPV4_MF;
        uint16_t offset = (uint16_t)((field & IPV4_OFFSET) + done / 8);
        if (offset)
            blank_uncopied_options(ip + 20, ip + header);
        put16(ip + 2, header + part);
        put16(ip + 6, (offset & IPV4_OFFSET) | (more ? IPV4_MF : 0));
        put16(ip + 10, 0);
        put_checksum(ip + 10, sum_bytes(0, ip, header));
        *end = frame;
        end = &frame->next;
    }
    return first;
}

/* ---- ICMP ---- */

/* No error about an error, a later fragment, or what was for or from more than one host. */
static bool deserves_icmp(const uint8_t *data, const struct headers *h) {
    const uint8_t *ip = data + h->ip_at;
    uint8_t type = h->ip_bytes > h->transport_at - h->ip_at ? data[h->transport_at] : 0;
    if (h->fragment || (data[0] & 1))
        return false;
    if (h->version == 6)
        return ip[24] != 0xff && ip[8] != 0xff && get32(ip + 8) != 0 &&
               !(h->protocol == IPPROTO_ICMPV6 && type < 128);
    bool icmp_error =
        h->protocol == IPPROTO_ICMP && type != 0 && type != 8 && (type < 13 || type > 18);
    return ip[16] < 224 && ip[12] < 224 && ip[12] != 0 && ip[12] != 127 && !icmp_error;
}

/* The frame turned around: to its sender, from its receiver, room for `ip_bytes` of IP. */
static struct frame *reply_frame(const uint8_t *data, const struct headers *h, uint32_t ip_bytes) {
    struct frame *frame = frame_new(h->ip_at + ip_bytes);
    if (!frame)
        return NULL;
    const uint32_t type_at = 2 * ETH_ALEN; /* and tags, if there are any */
    memcpy(frame->bytes, data + ETH_ALEN, ETH_ALEN);
    memcpy(frame->bytes + ETH_ALEN, data, ETH_ALEN);
    memcpy(frame->bytes + type_at, data + type_at, h->ip_at - type_at);
    memset(frame->bytes + h->ip_at, 0, ip_bytes);
    return frame;
}

/* Destination unreachable (3), fragmentation needed (4). */
static struct frame *fragmentation_needed(const uint8_t *data, const struct headers *h,
                                          uint32_t mtu, uint32_t router) {
    const uint8_t *quoted = data + h->ip_at;
    uint32_t quote = h->ip_bytes < QUOTE_V4 ? h->ip_bytes : QUOTE_V4;
    uint32_t length = 20 + ICMP_HEADER + quote;
    struct frame *frame = reply_frame(data, h, length);
    if (!frame)
        return NULL;
    uint8_t *ip = frame->bytes + h->ip_at, *icmp = ip + 20;
    ip[0] = 0x45;
    ip[1] = 0xc0; /* precedence: internetwork control */
    put16(ip + 2, length);
    ip[8] = 64;
    ip[9] = IPPROTO_ICMP;
    put32(ip + 12, router ? router : get32(quoted + 16));
    memcpy(ip + 16, quoted + 12, 4);
    put_checksum(ip + 10, sum_bytes(0, ip, 20));
    icmp[0] = 3;
    icmp[1] = 4;
    put16(icmp + 6, mtu);
    memcpy(icmp + ICMP_HEADER, quoted, quote);
    put_checksum(icmp + 2, sum_bytes(0, icmp, ICMP_HEADER + quote));
    return frame;
}

/* ICMPv6 packet too big (2). */
static struct frame *packet_too_big(const uint8_t *data, const struct headers *h, uint32_t mtu) {
    const uint8_t *quoted = data + h->ip_at;
    uint32_t quote = h->ip_bytes < QUOTE_V6 ? h->ip_bytes : QUOTE_V6;
    struct frame *frame = reply_frame(data, h, 40 + ICMP_HEADER + quote);
    if (!frame)
        return NULL;
    uint8_t *ip = frame->bytes + h->ip_at, *icmp = ip + 40;
    ip[0] = 0x60;
    put16(ip + 4, ICMP_HEADER + quote);
    ip[6] = IPPROTO_ICMPV6;
    ip[7] = 64;
    memcpy(ip + 8, quoted + 24, 16);
    memcpy(ip + 24, quoted + 8, 16);
    icmp[0] = 2;
    put32(icmp + 4, mtu);
    memcpy(icmp + ICMP_HEADER, quoted, quote);
    uint8_t pseudo[8] = {0};
    put32(pseudo, ICMP_HEADER + quote);
    pseudo[7] = IPPROTO_ICMPV6;
    uint64_t sum = sum_bytes(sum_bytes(0, pseudo, sizeof pseudo), ip + 8, 32);
    put_checksum(icmp + 2, sum_bytes(sum, icmp, ICMP_HEADER + quote));
    return frame;
}

/* The ICMP message about a packet too long for the hop, or NULL if there is to be none. */
static struct frame *too_big_message(const uint8_t *data, const struct headers *h, uint32_t mtu,
                                     uint32_t router) {
    if (!deserves_icmp(data, h))
        return NULL;
    return h->version == 4 ? fragmentation_needed(data, h, mtu, router)
                           : packet_too_big(data, h, mtu);
}

#endif
