/* packet.c - see packet.h. */
#define _GNU_SOURCE
#include "packet.h"

#include <linux/if_ether.h>
#include <netinet/in.h>
#include <string.h>

uint64_t sum_bytes(uint64_t sum, const uint8_t *bytes, size_t length) {
    /* In the machine's byte order and 32 bits at a time: the carries come out the same. */
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

void put_checksum(uint8_t *p, uint64_t sum) {
    uint16_t checksum = (uint16_t)~fold(sum);
    memcpy(p, &checksum, sizeof checksum);
}

static void parse_transport(struct headers *h, const uint8_t *data) {
    uint32_t at = h->transport_at, end = h->ip_at + h->ip_bytes;
    bool has_ports = h->protocol == IPPROTO_TCP || h->protocol == IPPROTO_UDP;
    if (h->fragment)
        return;
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
    if (h->protocol == IPPROTO_ICMPV6 && end > at) {
        uint8_t type = data[at];
        h->neighbours = (type >= 130 && type <= 137) || type == 143;
    }
}

static void parse_ipv4(struct headers *h, const uint8_t *data, uint32_t length) {
    const uint8_t *ip = data + h->ip_at;
    uint32_t room = length - h->ip_at;
    if (room < 20 || ip[0] >> 4 != 4)
        return;
    uint32_t header = (ip[0] & 15) * 4U;
    if (header < 20 || get16(ip + 2) < header || get16(ip + 2) > room)
        return;
    h->version = 4;
    h->ip_bytes = get16(ip + 2);
    h->protocol = ip[9];
    h->fragment = get16(ip + 6) & 0x1fff;
    h->plain =
        h->ip_at == ETH_HLEN && header == 20 && get16(ip + 6) == 0x4000 && h->ip_bytes == room;
    h->transport_at = h->ip_at + header;
    parse_transport(h, data);
}

static void parse_ipv6(struct headers *h, const uint8_t *data, uint32_t length) {
    const uint8_t *ip = data + h->ip_at;
    uint32_t room = length - h->ip_at;
    if (room < 40 || ip[0] >> 4 != 6 || get16(ip + 4) + 40U > room)
        return;
    h->version = 6;
    h->ip_bytes = get16(ip + 4) + 40U;
    h->protocol = ip[6];
    uint32_t at = h->ip_at + 40, end = h->ip_at + h->ip_bytes;
    while (h->protocol == IPPROTO_HOPOPTS || h->protocol == IPPROTO_ROUTING ||
           h->protocol == IPPROTO_DSTOPTS || h->protocol == IPPROTO_FRAGMENT) {
        if (at + 8 > end)
            return;
        bool is_fragment = h->protocol == IPPROTO_FRAGMENT;
        h->fragment |= is_fragment && get16(data + at + 2) >> 3;
        h->protocol = data[at];
        at += is_fragment ? 8 : 8 + data[at + 1] * 8U;
    }
    if (at > end)
        return;
    h->transport_at = at;
    parse_transport(h, data);
}

struct headers parse_headers(const uint8_t *data, uint32_t length) {
    struct headers h = {0};
    uint32_t at = 2 * ETH_ALEN;
    if (length < ETH_HLEN)
        return h;
    uint16_t type = get16(data + at);
    for (int tags = 0; tags < 2 && (type == ETH_P_8021Q || type == ETH_P_8021AD); tags++) {
        at += 4;
        if (length < at + 2)
            return h;
        type = get16(data + at);
    }
    h.ip_at = at + 2;
    if (type == ETH_P_IP)
        parse_ipv4(&h, data, length);
    else if (type == ETH_P_IPV6)
        parse_ipv6(&h, data, length);
    return h;
}
