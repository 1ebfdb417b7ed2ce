/* packet.c - see packet.h. */
#include "packet.h"

#include <linux/if_ether.h>
#include <netinet/in.h>
#include <string.h>

enum {
    IPV4_DF = 0x4000,
    IPV4_MF = 0x2000,
    IPV4_OFFSET = 0x1fff, /* counts units of 8 bytes */
    IP_HEADER = 20,
    ICMP_HEADER = 8,
    MAX_QUOTE = 576 - IP_HEADER - ICMP_HEADER, /* most quoted bytes of the dropped packet */
};

uint64_t sum_bytes(uint64_t sum, const uint8_t *bytes, size_t length) {
    /* Summing 32 bits at a time in the machine's byte order gives the same carries. */
    for (; length >= 4; bytes += 4, length -= 4) {
        uint32_t word;
        memcpy(&word, bytes, 4);
        sum += word;
    }
    uint8_t rest[4] = {0};
    memcpy(rest, bytes, length);
    uint32_t word;
    memcpy(&word, rest, 4);
    return sum + word;
}

uint16_t fold(uint64_t sum) {
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)sum;
}

static void put_checksum(uint8_t *p, uint64_t sum) {
    uint16_t checksum = (uint16_t)~fold(sum);
    memcpy(p, &checksum, sizeof checksum);
}

static void parse_transport(struct headers *h, const uint8_t *data) {
    uint32_t at = h->transport_at, end = h->end;
    bool has_ports = h->protocol == IPPROTO_TCP || h->protocol == IPPROTO_UDP;
    if (has_ports && end >= at + 4) {
        h->source_port = get16(data + at);
        h->dest_port = get16(data + at + 2);
    }
    if (h->protocol == IPPROTO_TCP && end >= at + 20) {
        h->tcp_flags = data[at + 13];
        uint32_t payload_at = at + (data[at + 12] >> 4) * 4U;
        if (payload_at >= at + 20 && payload_at <= end)
            h->payload_at = payload_at;
    }
}

struct headers parse_headers(const uint8_t *data, uint32_t length) {
    struct headers h = {0};
    const uint8_t *ip = data + ETH_HLEN;
    if (length < ETH_HLEN + IP_HEADER || get16(data + 2L * ETH_ALEN) != ETH_P_IP || ip[0] >> 4 != 4)
        return h;
    uint32_t header = (ip[0] & 15) * 4U, packet = get16(ip + 2), field = get16(ip + 6);
    if (header < IP_HEADER || packet < header || packet > length - ETH_HLEN)
        return h;
    h.ip = true;
    h.end = ETH_HLEN + packet;
    h.protocol = ip[9];
    h.fragment = field & IPV4_OFFSET;
    h.plain = header == IP_HEADER && field == IPV4_DF && h.end == length;
    h.transport_at = ETH_HLEN + header;
    if (!h.fragment)
        parse_transport(&h, data);
    return h;
}

uint16_t bundle_payload_at(const uint8_t *data, const struct headers *h,
                           const struct virtio_net_hdr *offload) {
    bool plain = h->plain && h->protocol == IPPROTO_TCP && h->payload_at &&
                 h->payload_at < h->end && offload->gso_type == VIRTIO_NET_HDR_GSO_NONE &&
                 !(offload->flags & VIRTIO_NET_HDR_F_NEEDS_CSUM);
    if (!plain || !(h->tcp_flags & TCP_ACK) || h->tcp_flags & ~(TCP_ACK | TCP_PSH | TCP_FIN) ||
        data[h->transport_at + 12] & 0x0f)
        return 0;
    return (uint16_t)h->payload_at;
}

/* ---- ECN: the two lowest bits of the second byte ---- */

enum { ECN_MASK = 3, ECN_CE = 3 };

bool allows_marking(const struct frame *frame) {
    const uint8_t *data = frame->data;
    return frame->length >= ETH_HLEN + IP_HEADER && get16(data + 2L * ETH_ALEN) == ETH_P_IP &&
           data[ETH_HLEN] >> 4 == 4 && data[ETH_HLEN + 1] & ECN_MASK;
}

bool mark_congestion(struct frame *frame) {
    uint8_t *ip = frame->data + ETH_HLEN;
    if (!allows_marking(frame))
        return false;
    frame->marked = true;
    /* Adapt the checksum as in RFC 1624, so that a wrong one stays wrong. */
    uint32_t sum = (uint16_t)~get16(ip + 10) + (uint32_t)(uint16_t)~get16(ip);
    ip[1] |= ECN_CE;
    put16(ip + 10, (uint16_t)~fold(sum + get16(ip)));
    return true;
}

/* ---- packets that are too long ---- */

uint32_t packet_bytes(const struct headers *h, const struct virtio_net_hdr *offload) {
    if (offload->gso_type == VIRTIO_NET_HDR_GSO_NONE || offload->hdr_len < ETH_HLEN)
        return h->end - ETH_HLEN;
    return offload->hdr_len - ETH_HLEN + offload->gso_size;
}

bool may_fragment(const uint8_t *data, const struct headers *h,
                  const struct virtio_net_hdr *offload, uint32_t mtu) {
    return !(get16(data + ETH_HLEN + 6) & IPV4_DF) && h->transport_at == ETH_HLEN + IP_HEADER &&
           offload->gso_type == VIRTIO_NET_HDR_GSO_NONE && mtu >= IP_HEADER + 8;
}

/* ---- fragments ---- */

/* Computes a checksum that the sender left to the card, which requires the whole packet. */
static void finish_checksum(uint8_t *data, uint32_t end, struct virtio_net_hdr *offload) {
    uint32_t start = offload->csum_start, at = start + offload->csum_offset;
    if (!(offload->flags & VIRTIO_NET_HDR_F_NEEDS_CSUM) || start >= end || at + 2 > end)
        return;
    put_checksum(data + at, sum_bytes(0, data + start, end - start));
    offload->flags = 0;
}

struct frame *fragment(uint8_t *data, const struct headers *h, struct virtio_net_hdr *offload,
                       uint32_t mtu) {
    uint32_t payload = h->end - h->transport_at, step = (mtu - IP_HEADER) & ~7U;
    uint16_t field = get16(data + ETH_HLEN + 6);
    struct frame *first = NULL, **end = &first;
    finish_checksum(data, h->end, offload);
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
        uint8_t *ip = frame->bytes + ETH_HLEN;
        memcpy(frame->bytes, data, h->transport_at);
        frame_write(frame, h->transport_at, data + h->transport_at + done, part);
        bool more = done + part < payload || field & IPV4_MF;
        uint16_t offset = (uint16_t)((field & IPV4_OFFSET) + done / 8);
        put16(ip + 2, IP_HEADER + part);
        put16(ip + 6, (offset & IPV4_OFFSET) | (more ? IPV4_MF : 0));
        put16(ip + 10, 0);
        put_checksum(ip + 10, sum_bytes(0, ip, IP_HEADER));
        *end = frame;
        end = &frame->next;
    }
    return first;
}

/* ---- ICMP ---- */

/* Returns false for an error, a later fragment, and a packet for or from more than one host. */
static bool deserves_icmp(const uint8_t *data, const struct headers *h) {
    const uint8_t *ip = data + ETH_HLEN;
    uint8_t type = h->end > h->transport_at ? data[h->transport_at] : 0;
    bool icmp_error =
        h->protocol == IPPROTO_ICMP && type != 0 && type != 8 && (type < 13 || type > 18);
    return !h->fragment && !(data[0] & 1) && ip[16] < 224 && ip[12] < 224 && ip[12] != 0 &&
           ip[12] != 127 && !icmp_error;
}

struct frame *too_big_message(const uint8_t *data, const struct headers *h, uint32_t mtu) {
    const uint8_t *quoted = data + ETH_HLEN;
    uint32_t quote = h->end - ETH_HLEN < MAX_QUOTE ? h->end - ETH_HLEN : MAX_QUOTE;
    uint32_t length = IP_HEADER + ICMP_HEADER + quote;
    struct frame *frame = deserves_icmp(data, h) ? frame_new(ETH_HLEN + length) : NULL;
    if (!frame)
        return NULL;
    uint8_t *ip = frame->bytes + ETH_HLEN, *icmp = ip + IP_HEADER;
    memcpy(frame->bytes, data + ETH_ALEN, ETH_ALEN); /* back to the sender */
    memcpy(frame->bytes + ETH_ALEN, data, ETH_ALEN);
    put16(frame->bytes + 2L * ETH_ALEN, ETH_P_IP);
    memset(ip, 0, IP_HEADER + ICMP_HEADER);
    ip[0] = 0x45;
    ip[1] = 0xc0; /* precedence "internetwork control" */
    put16(ip + 2, length);
    ip[8] = 64;
    ip[9] = IPPROTO_ICMP;
    memcpy(ip + 12, quoted + 16, 4); /* the hop has no address, so use the packet's destination */
    memcpy(ip + 16, quoted + 12, 4);
    put_checksum(ip + 10, sum_bytes(0, ip, IP_HEADER));
    icmp[0] = 3; /* destination unreachable */
    icmp[1] = 4; /* fragmentation needed */
    put16(icmp + 6, mtu);
    memcpy(icmp + ICMP_HEADER, quoted, quote);
    put_checksum(icmp + 2, sum_bytes(0, icmp, ICMP_HEADER + quote));
    return frame;
}
