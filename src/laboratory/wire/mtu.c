/* mtu.c - see mtu.h. */
#define _GNU_SOURCE
#include "mtu.h"

#include <linux/if_ether.h>
#include <netinet/in.h>
#include <string.h>

enum {
    IPV4_DF = 0x4000,
    IPV4_MF = 0x2000,
    IPV4_OFFSET = 0x1fff, /* in units of 8 bytes */
    IP_HEADER = 20,
    ICMP_HEADER = 8,
    MAX_QUOTE = 576 - IP_HEADER - ICMP_HEADER, /* of the dropped packet, in the message */
};

uint32_t packet_bytes(const struct headers *h, const struct virtio_net_hdr *offload) {
    if (offload->gso_type == VIRTIO_NET_HDR_GSO_NONE || offload->hdr_len < h->ip_at)
        return h->ip_bytes;
    return offload->hdr_len - h->ip_at + offload->gso_size;
}

bool may_fragment(const uint8_t *data, const struct headers *h,
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

struct frame *fragment(uint8_t *data, const struct headers *h, struct virtio_net_hdr *offload,
                       uint32_t mtu) {
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
    bool icmp_error =
        h->protocol == IPPROTO_ICMP && type != 0 && type != 8 && (type < 13 || type > 18);
    return h->version == 4 && !h->fragment && !(data[0] & 1) && ip[16] < 224 && ip[12] < 224 &&
           ip[12] != 0 && ip[12] != 127 && !icmp_error;
}

/* The message's Ethernet header: back to the sender, with the tags that the frame had. */
static void turn_around(uint8_t *to, const uint8_t *data, uint32_t ip_at) {
    const uint32_t type_at = 2 * ETH_ALEN; /* and tags, if there are any */
    memcpy(to, data + ETH_ALEN, ETH_ALEN);
    memcpy(to + ETH_ALEN, data, ETH_ALEN);
    memcpy(to + type_at, data + type_at, ip_at - type_at);
}

struct frame *too_big_message(const uint8_t *data, const struct headers *h, uint32_t mtu) {
    const uint8_t *quoted = data + h->ip_at;
    uint32_t quote = h->ip_bytes < MAX_QUOTE ? h->ip_bytes : MAX_QUOTE;
    uint32_t length = IP_HEADER + ICMP_HEADER + quote;
    struct frame *frame = deserves_icmp(data, h) ? frame_new(h->ip_at + length) : NULL;
    if (!frame)
        return NULL;
    uint8_t *ip = frame->bytes + h->ip_at, *icmp = ip + IP_HEADER;
    turn_around(frame->bytes, data, h->ip_at);
    memset(ip, 0, IP_HEADER + ICMP_HEADER);
    ip[0] = 0x45;
    ip[1] = 0xc0; /* precedence: internetwork control */
    put16(ip + 2, length);
    ip[8] = 64;
    ip[9] = IPPROTO_ICMP;
    memcpy(ip + 12, quoted + 16, 4); /* the hop has no address: the packet's destination answers */
    memcpy(ip + 16, quoted + 12, 4);
    put_checksum(ip + 10, sum_bytes(0, ip, IP_HEADER));
    icmp[0] = 3; /* destination unreachable: */
    icmp[1] = 4; /* fragmentation needed */
    put16(icmp + 6, mtu);
    memcpy(icmp + ICMP_HEADER, quoted, quote);
    put_checksum(icmp + 2, sum_bytes(0, icmp, ICMP_HEADER + quote));
    return frame;
}
