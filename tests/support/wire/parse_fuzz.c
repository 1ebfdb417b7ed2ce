/*
 * Feeds damaged frames to all of the wire that reads what is in them. Each lies in
 * a heap block of exactly its length, so that the sanitizers see one byte too far;
 * in the wire's own ring such a read would hit the next frame and go unnoticed.
 *
 *     parse_fuzz SEED ROUNDS
 */
#define _GNU_SOURCE
#include "command_line.h"
#include "process.h"
#include "settings.h"

#include <linux/if_ether.h>
#include <stdlib.h>

static uint64_t state;

/* xorshift64: the same frames for the same seed, everywhere. */
static uint32_t draw(uint32_t below) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 32) % below;
}

/* Bytes that lead the parser on, or away: types, and lengths of the IP header. */
static const uint8_t starts[][3] = {{0x08, 0x00, 0x45}, {0x08, 0x00, 0x46}, {0x08, 0x00, 0x4f},
                                    {0x81, 0x00, 0x00}, {0x86, 0xdd, 0x60}, {0x08, 0x06, 0x00}};

static void make_frame(uint8_t *data, uint32_t length) {
    static const uint8_t protocols[] = {1, 6, 17, 47};
    for (uint32_t i = 0; i < length; i++)
        data[i] = (uint8_t)(draw(2) ? draw(256) : 0);
    const uint8_t *start = starts[draw(sizeof starts / sizeof starts[0])];
    for (uint32_t i = 0; i < sizeof starts[0] && 12 + i < length; i++)
        data[12 + i] = start[i];
    if (ETH_HLEN + 20 >= length)
        return;
    /* Mostly true lengths, sometimes a little off, and protocols that are looked into. */
    if (start[0] != 0x86 || length < ETH_HLEN + 40) {
        put16(data + ETH_HLEN + 2, length - ETH_HLEN + draw(3) - draw(3));
        data[ETH_HLEN + 9] = protocols[draw(sizeof protocols)];
        return;
    }
    /* IPv6, with a chain of extension headers. */
    static const uint8_t following[] = {0, 43, 44, 51, 60, 0, 6, 17, 58};
    put16(data + ETH_HLEN + 4, length - ETH_HLEN - 40 + draw(3) - draw(3));
    data[ETH_HLEN + 6] = following[draw(sizeof following)];
    for (uint32_t at = ETH_HLEN + 40; at + 8 <= length; at += 8U * (1 + data[at + 1])) {
        data[at] = following[draw(sizeof following)];
        data[at + 1] = (uint8_t)(draw(8) ? draw(3) : draw(256));
    }
}

static void free_chain(struct frame *chain) {
    for (struct frame *next; chain; chain = next) {
        next = chain->next;
        if (chain->length < ETH_HLEN || chain->length > MAX_FRAME)
            abort();
        frame_free(chain);
    }
}

static void look_at(uint8_t *data, uint32_t length, struct virtio_net_hdr *offloaded) {
    struct headers h = parse_headers(data, length);
    uint32_t mtu = 20 + draw(200);
    bundle_payload_at(data, &h, offloaded);
    for (enum what what = ANY; what < WHATS; what++)
        rule_matches(&(struct rule){.what = what, .port = (uint16_t)draw(2)}, &h);
    if (!h.ip || packet_bytes(&h, offloaded) <= mtu)
        return;
    free_chain(too_big_message(data, &h, mtu));
    if (may_fragment(data, &h, offloaded, mtu))
        free_chain(fragment(data, &h, offloaded, mtu));
}

int main(int argc, char **argv) {
    if (argc != 3)
        usage_error("wants SEED and ROUNDS");
    state = (uint64_t)whole_number("SEED", argv[1], 1, INT64_MAX);
    store_open(1 << 20);
    for (int64_t left = whole_number("ROUNDS", argv[2], 1, INT64_MAX); left > 0; left--) {
        uint32_t length = ETH_HLEN + draw(draw(4) ? 120 : 1600);
        uint8_t *block = malloc(sizeof(struct virtio_net_hdr) + length);
        if (!block)
            fail("malloc");
        struct virtio_net_hdr offloaded = {.flags = (uint8_t)draw(2),
                                           .csum_start = (uint16_t)draw(length + 4),
                                           .csum_offset = (uint16_t)draw(20)};
        make_frame(block + sizeof offloaded, length);
        look_at(block + sizeof offloaded, length, &offloaded);
        free(block);
    }
    printf("%zu bytes\n", store_bytes());
    return 0;
}
