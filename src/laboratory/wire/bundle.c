/* bundle.c - see bundle.h. */
#define _GNU_SOURCE
#include "bundle.h"

#include <linux/if_ether.h>
#include <netinet/in.h>
#include <string.h>

/* Where things are in a plain segment: Ethernet 14, IPv4 20, TCP 20 and options. */
enum {
    AT_IP = ETH_HLEN,
    AT_IP_LENGTH = AT_IP + 2,
    AT_IP_ID = AT_IP + 4,
    AT_IP_CHECKSUM = AT_IP + 10,
    AT_IP_ADDRESSES = AT_IP + 12,
    AT_TCP = AT_IP + 20,
    AT_TCP_SEQ = AT_TCP + 4,
    AT_TCP_ACK = AT_TCP + 8,
    AT_TCP_FLAGS = AT_TCP + 13,
    AT_TCP_WINDOW = AT_TCP + 14,
    AT_TCP_CHECKSUM = AT_TCP + 16,
    AT_TCP_URGENT = AT_TCP + 18,
    MAX_BUNDLE = 65535 + AT_IP,
};

uint16_t bundle_payload_at(const uint8_t *data, const struct headers *h,
                           const struct virtio_net_hdr *offload) {
    bool plain = h->plain && h->protocol == IPPROTO_TCP && h->payload_at &&
                 h->payload_at < h->end && offload->gso_type == VIRTIO_NET_HDR_GSO_NONE &&
                 !(offload->flags & VIRTIO_NET_HDR_F_NEEDS_CSUM);
    if (!plain || !(h->tcp_flags & TCP_ACK) || h->tcp_flags & ~(TCP_ACK | TCP_PSH | TCP_FIN) ||
        data[AT_TCP + 12] & 0x0f)
        return 0;
    return (uint16_t)h->payload_at;
}

static uint64_t pseudo_header_sum(const uint8_t *data, size_t tcp_bytes) {
    uint8_t rest[4] = {0, IPPROTO_TCP};
    put16(rest + 2, (uint32_t)tcp_bytes);
    return sum_bytes(sum_bytes(0, data + AT_IP_ADDRESSES, 8), rest, sizeof rest);
}

/* Zero has two representations in this arithmetic; the kernel might choose the other. */
static bool is_ambiguous(const uint8_t *checksum) {
    return get16(checksum) == 0 || get16(checksum) == 0xffff;
}

static bool checksums_are_right(const struct frame *frame) {
    const uint8_t *data = frame->data;
    if (is_ambiguous(data + AT_IP_CHECKSUM) || fold(sum_bytes(0, data + AT_IP, 20)) != 0xffff)
        return false;
    size_t tcp_bytes = frame->length - AT_TCP;
    uint64_t sum = sum_bytes(pseudo_header_sum(data, tcp_bytes), data + AT_TCP, tcp_bytes);
    return !is_ambiguous(data + AT_TCP_CHECKSUM) && fold(sum) == 0xffff;
}

static bool same(const uint8_t *a, const uint8_t *b, size_t from, size_t to) {
    return memcmp(a + from, b + from, to - from) == 0;
}

/* May `next` follow `last` in a bundle of segments as long as `first`? */
static bool continues(const struct frame *first, const struct frame *last,
                      const struct frame *next) {
    const uint8_t *a = last->data, *b = next->data;
    uint16_t payload_at = first->payload_at;
    return next->payload_at == payload_at && !next->more && last->length == first->length &&
           next->length <= first->length && !(a[AT_TCP_FLAGS] & (TCP_PSH | TCP_FIN)) &&
           get32(b + AT_TCP_SEQ) == get32(a + AT_TCP_SEQ) + last->length - payload_at &&
           get16(b + AT_IP_ID) == (uint16_t)(get16(a + AT_IP_ID) + 1) &&
           same(a, b, 0, AT_IP_LENGTH) && same(a, b, AT_IP_ID + 2, AT_IP_CHECKSUM) &&
           same(a, b, AT_IP_ADDRESSES, AT_TCP_SEQ) && same(a, b, AT_TCP_ACK, AT_TCP_FLAGS) &&
           same(a, b, AT_TCP_WINDOW, AT_TCP_CHECKSUM) && same(a, b, AT_TCP_URGENT, payload_at);
}

unsigned bundle_size(struct frame *const *frames, unsigned count) {
    const struct frame *first = frames[0];
    size_t total = first->length;
    unsigned size = 1;
    if (!first->payload_at || first->more)
        return 1;
    while (size < count && continues(first, frames[size - 1], frames[size]) &&
           total + frames[size]->length - first->payload_at <= MAX_BUNDLE &&
           checksums_are_right(frames[size]))
        total += frames[size++]->length - first->payload_at;
    return size > 1 && checksums_are_right(first) ? size : 1;
}

unsigned bundle_message(struct frame *const *frames, unsigned size, uint8_t headers[BUNDLE_HEADERS],
                        struct iovec *pieces) {
    uint16_t payload_at = frames[0]->payload_at;
    uint8_t *data = headers + sizeof(struct virtio_net_hdr);
    size_t total = payload_at;
    for (unsigned i = 0; i < size; i++) {
        size_t payload = frames[i]->length - payload_at;
        pieces[1 + i] = (struct iovec){frames[i]->data + payload_at, payload};
        total += payload;
    }
    struct virtio_net_hdr offload = {
        .flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
        .gso_type = VIRTIO_NET_HDR_GSO_TCPV4,
        .hdr_len = payload_at,
        .gso_size = (uint16_t)(frames[0]->length - payload_at),
        .csum_start = AT_TCP,
        .csum_offset = AT_TCP_CHECKSUM - AT_TCP,
    };
    memcpy(headers, &offload, sizeof offload);
    memcpy(data, frames[0]->data, payload_at);
    put16(data + AT_IP_LENGTH, (uint32_t)total - AT_IP);
    /* The kernel clears PSH and FIN in all but the last segment. */
    data[AT_TCP_FLAGS] = frames[size - 1]->data[AT_TCP_FLAGS];
    uint16_t sum = fold(pseudo_header_sum(data, total - AT_TCP));
    memcpy(data + AT_TCP_CHECKSUM, &sum, sizeof sum);
    pieces[0] = (struct iovec){headers, sizeof offload + payload_at};
    return size + 1;
}
