/*
 * Feeds damaged frames to all of the wire that reads what is in them. Each lies in
 * a heap block of exactly its length, so that the sanitizers see one byte too far;
 * in the wire's own ring a neighbour would be there, and nobody would notice.
 *
 *     parse_fuzz SEED ROUNDS
 */
#define _GNU_SOURCE
#include "bundle.h"
#include "command_line.h"
#include "mtu.h"
#include "process.h"
#include "script.h"

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

/* Bytes that lead the parser on: types, protocols and lengths it knows. */
static const uint8_t starts[][12] = {
    {0x08, 0x00, 0x45},
    {0x08, 0x00, 0x4f},
    {0x86, 0xdd, 0x60},
    {0x81, 0x00, 0, 1, 0x08, 0x00, 0x46},
    {0x88, 0xa8, 0, 1, 0x81, 0x00, 0, 2, 0x86, 0xdd, 0x60},
    {0x81, 0x00, 0, 1, 0x81, 0x00},
    {0x08, 0x06},
};

static void make_frame(uint8_t *data, uint32_t length) {
    static const uint8_t protocols[] = {0, 1, 6, 17, 43, 44, 58, 60};
    for (uint32_t i = 0; i < length; i++)
        data[i] = (uint8_t)(draw(2) ? draw(256) : 0);
    const uint8_t *start = starts[draw(sizeof starts / sizeof starts[0])];
    for (uint32_t i = 0; i < 12 && 12 + i < length; i++)
        if (start[i])
            data[12 + i] = start[i];
    struct headers h = {0};
    h.ip_at = 14 + (data[12] == 0x81 ? 4 : data[12] == 0x88 ? 8 : 0);
    if (h.ip_at + 20 >= length)
        return;
    /* Mostly true lengths, sometimes a little off, and protocols that are looked into. */
    uint32_t said = length - h.ip_at + draw(3) - draw(3);
    put16(data + h.ip_at + (data[h.ip_at] >> 4 == 4 ? 2 : 4),
          data[h.ip_at] >> 4 == 4 ? said : said - 40);
    data[h.ip_at + (data[h.ip_at] >> 4 == 4 ? 9 : 6)] = protocols[draw(sizeof protocols)];
    for (uint32_t at = h.ip_at + 40; at + 8 < length && draw(3); at += 8)
        data[at] = protocols[draw(sizeof protocols)];
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
    if (h.version == 0 || packet_bytes(&h, offloaded) <= mtu)
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
