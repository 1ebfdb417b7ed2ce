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
    IPV6_HEADER = 40,
    IPV6_EXTENSION = 8, /* length of the shortest, and of the fragment header */
    IPV6_OFFSET = 0xfff8,
    ICMP_HEADER = 8,
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

/* Returns the IP version of a frame that has room for the header, or 0. */
static uint8_t ip_version(const uint8_t *data, uint32_t length) {
    if (length < ETH_HLEN + IP_HEADER)
        return 0;
    uint16_t type = get16(data + 2L * ETH_ALEN);
    uint8_t version = data[ETH_HLEN] >> 4;
    if (type == ETH_P_IP && version == 4)
        return 4;
    return type == ETH_P_IPV6 && version == 6 && length >= ETH_HLEN + IPV6_HEADER ? 6 : 0;
}

static void parse_ipv4(struct headers *h, const uint8_t *data, uint32_t length) {
    const uint8_t *ip = data + ETH_HLEN;
    uint32_t header = (ip[0] & 15) * 4U, packet = get16(ip + 2), field = get16(ip + 6);
    if (header < IP_HEADER || packet < header || packet > length - ETH_HLEN)
        return;
    h->ip = 4;
    h->end = ETH_HLEN + packet;
    h->protocol = ip[9];
    h->fragment = field & IPV4_OFFSET;
    h->plain = header == IP_HEADER && field == IPV4_DF && h->end == length;
    h->transport_at = ETH_HLEN + header;
}

/* Returns the length of the IPv6 extension header at `at`, or 0 if the protocol is another one. */
static uint32_t extension_bytes(uint8_t protocol, const uint8_t *at) {
    switch (protocol) {
    case IPPROTO_FRAGMENT:
        return IPV6_EXTENSION;
    case IPPROTO_AH:
        return (at[1] + 2U) * 4;
    case IPPROTO_HOPOPTS:
    case IPPROTO_ROUTING:
    case IPPROTO_DSTOPTS:
        return (at[1] + 1U) * 8;
    default:
        return 0;
    }
}

static void parse_ipv6(struct headers *h, const uint8_t *data, uint32_t length) {
    const uint8_t *ip = data + ETH_HLEN;
    uint32_t at = ETH_HLEN + IPV6_HEADER, end = at + get16(ip + 4);
    if (end > length)
        return;
    h->ip = 6;
    h->end = end;
    h->protocol = ip[6];
    for (uint32_t size; !h->fragment && at + IPV6_EXTENSION <= end; at += size) {
        size = extension_bytes(h->protocol, data + at);
        if (size == 0)
            break;
        h->fragment = h->protocol == IPPROTO_FRAGMENT && get16(data + at + 2) & IPV6_OFFSET;
        h->protocol = data[at];
    }
    h->plain = at == ETH_HLEN + IPV6_HEADER && end == length;
    h->transport_at = at < end ? at : end;
}

/* Returns whether the packet is neighbour discovery (RFC 4861), or concerns multicast listeners. */
static bool is_housekeeping(const struct headers *h, const uint8_t *data) {
    uint8_t type = h->end > h->transport_at ? data[h->transport_at] : 0;
    return h->ip == 6 && h->protocol == IPPROTO_ICMPV6 && !h->fragment &&
           ((type >= 130 && type <= 137) || type == 143);
}

struct headers parse_headers(const uint8_t *data, uint32_t length) {
    struct headers h = {0};
    uint8_t version = ip_version(data, length);
    if (version == 4)
        parse_ipv4(&h, data, length);
    else if (version == 6)
        parse_ipv6(&h, data, length);
    if (is_housekeeping(&h, data))
        return (struct headers){0};
    if (h.ip && !h.fragment)
        parse_transport(&h, data);
    return h;
}

const uint8_t *ip_addresses(const uint8_t *data, size_t *both) {
    bool is_v4 = data[ETH_HLEN] >> 4 == 4;
    *both = is_v4 ? 8 : 32;
    return data + ETH_HLEN + (is_v4 ? 12 : 8);
}

uint64_t pseudo_header_sum(const uint8_t *data, uint8_t protocol, size_t length) {
    size_t both;
    const uint8_t *addresses = ip_addresses(data, &both);
    uint8_t rest[4] = {0, protocol};
    put16(rest + 2, (uint32_t)length);
    return sum_bytes(sum_bytes(0, addresses, both), rest, sizeof rest);
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

/* ---- ECN: the two lowest bits of the second byte, or of IPv6's traffic class ---- */

enum { ECN_CE = 3, IPV6_ECN_CE = 0x30 };

bool allows_marking(const struct frame *frame) {
    uint8_t version = ip_version(frame->data, frame->length);
    return version && frame->data[ETH_HLEN + 1] & (version == 4 ? ECN_CE : IPV6_ECN_CE);
}

bool mark_congestion(struct frame *frame) {
    uint8_t *ip = frame->data + ETH_HLEN;
    if (!allows_marking(frame))
        return false;
    frame->marked = true;
    if (ip[0] >> 4 == 6) {
        ip[1] |= IPV6_ECN_CE;
        return true;
    }
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
    return h->ip == 4 && !(get16(data + ETH_HLEN + 6) & IPV4_DF) &&
           h->transport_at == ETH_HLEN + IP_HEADER &&
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

/* Returns whether both addresses can be those of single hosts (RFC 1812, RFC 4443 2.4). */
static bool are_hosts(const uint8_t *data, const struct headers *h) {
    static const uint8_t unspecified[16];
    const uint8_t *ip = data + ETH_HLEN;
    if (h->ip == 6)
        return ip[8] != 0xff && ip[24] != 0xff && memcmp(ip + 8, unspecified, 16) != 0;
    return ip[16] < 224 && ip[12] < 224 && ip[12] != 0 && ip[12] != 127;
}

/* Returns false for an error, a later fragment, and a packet for or from more than one host. */
static bool deserves_icmp(const uint8_t *data, const struct headers *h) {
    uint8_t type = h->end > h->transport_at ? data[h->transport_at] : 0;
    bool icmp_error = h->ip == 6 ? h->protocol == IPPROTO_ICMPV6 && type < 128
                                 : h->protocol == IPPROTO_ICMP && type != 0 && type != 8 &&
                                       (type < 13 || type > 18);
    return !h->fragment && !(data[0] & 1) && are_hosts(data, h) && !icmp_error;
}

/* Writes an IPv4 header and ICMP "fragmentation needed" before the quoted bytes. */
static void write_icmp(uint8_t *ip, const uint8_t *quoted, uint32_t icmp_bytes) {
    uint8_t *icmp = ip + IP_HEADER;
    ip[0] = 0x45;
    ip[1] = 0xc0; /* precedence "internetwork control" */
    put16(ip + 2, IP_HEADER + icmp_bytes);
    ip[8] = 64;
    ip[9] = IPPROTO_ICMP;
    memcpy(ip + 12, quoted + 16, 4); /* the hop has no address, so use the packet's destination */
    memcpy(ip + 16, quoted + 12, 4);
    put_checksum(ip + 10, sum_bytes(0, ip, IP_HEADER));
    icmp[0] = 3; /* destination unreachable */
    icmp[1] = 4; /* fragmentation needed */
    put_checksum(icmp + 2, sum_bytes(0, icmp, icmp_bytes));
}

/* Writes an IPv6 header and ICMPv6 "packet too big" before the quoted bytes. */
static void write_icmpv6(uint8_t *ip, const uint8_t *quoted, uint32_t icmp_bytes) {
    uint8_t *icmp = ip + IPV6_HEADER;
    ip[0] = 0x60;
    put16(ip + 4, icmp_bytes);
    ip[6] = IPPROTO_ICMPV6;
    ip[7] = 64;
    memcpy(ip + 8, quoted + 24, 16); /* as in IPv4, use the packet's destination */
    memcpy(ip + 24, quoted + 8, 16);
    icmp[0] = 2; /* packet too big */
    uint64_t sum = pseudo_header_sum(ip - ETH_HLEN, IPPROTO_ICMPV6, icmp_bytes);
    put_checksum(icmp + 2, sum_bytes(sum, icmp, icmp_bytes));
}

struct frame *too_big_message(const uint8_t *data, const struct headers *h, uint32_t mtu) {
    /* The message may be as long as a packet that every network carries. */
    uint32_t header = h->ip == 6 ? IPV6_HEADER : IP_HEADER;
    uint32_t most = (h->ip == 6 ? 1280U : 576U) - header - ICMP_HEADER;
    uint32_t quote = h->end - ETH_HLEN < most ? h->end - ETH_HLEN : most;
    uint32_t length = ETH_HLEN + header + ICMP_HEADER + quote;
    struct frame *frame = deserves_icmp(data, h) ? frame_new(length) : NULL;
    if (!frame)
        return NULL;
    uint8_t *ip = frame->bytes + ETH_HLEN, *icmp = ip + header;
    memcpy(frame->bytes, data + ETH_ALEN, ETH_ALEN); /* back to the sender */
    memcpy(frame->bytes + ETH_ALEN, data, ETH_ALEN);
    memcpy(frame->bytes + 2L * ETH_ALEN, data + 2L * ETH_ALEN, 2);
    memset(ip, 0, header + ICMP_HEADER);
    put16(icmp + 6, mtu);
    memcpy(icmp + ICMP_HEADER, data + ETH_HLEN, quote);
    (h->ip == 6 ? write_icmpv6 : write_icmp)(ip, data + ETH_HLEN, ICMP_HEADER + quote);
    return frame;
}
