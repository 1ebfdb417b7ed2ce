/*
 * Feeds the wire's link with frames at given times, as arithmetic: nothing is sent or waited for.
 *
 *     queue_run KEY=VALUE... <FRAMES
 *
 * A frame per line: its time in ns, then its bytes in hexadecimal and its length (what the bytes
 * lack is zero). For each frame that leaves, one line: its number, its departure in ns, and whether
 * it was marked; then how many were dropped for "queue" and for "aqm".
 */
#define _GNU_SOURCE
#include "command_line.h"
#include "link.h"
#include "process.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 2048 };

static uint8_t block[sizeof(struct virtio_net_hdr) + MOST];

static void read_bytes(uint8_t *data, const char *hex) {
    memset(data, 0, MOST);
    for (unsigned byte; sscanf(hex, "%2x", &byte) == 1; hex += 2)
        *data++ = (uint8_t)byte;
}

int main(int argc, char **argv) {
    struct direction *d = &directions[0];
    struct settings set = default_settings;
    char hex[512];
    long long time_ns;
    unsigned length;
    store_open(64 << 20);
    for (unsigned i = 0; i < 2; i++) {
        sides[i].ports = &ports[i];
        sides[i].port_count = 1;
    }
    d->from = &sides[0];
    d->to = &sides[1];
    d->lane_count = 2;
    for (int i = 1; i < argc; i++)
        if (!settings_assign(&set, argv[i]))
            return 2;
    link_change(d, &set, true);
    for (uint64_t number = 0; scanf("%lld %511s %u", &time_ns, hex, &length) == 3; number++) {
        struct frame view = {.data = block + sizeof(struct virtio_net_hdr),
                             .length = length,
                             .arrival_ns = time_ns,
                             .id = number};
        read_bytes(view.data, hex);
        link_enter(d, &view, &ports[0], false);
    }
    link_advance(d, NEVER / 2);
    for (struct frame *frame; (frame = link_take_due(d, NEVER)); frame_free(frame))
        printf("%llu %lld %d\n", (unsigned long long)frame->id, (long long)frame->departure_ns,
               frame->marked);
    printf("%llu %llu\n", (unsigned long long)d->n.dropped[QUEUE],
           (unsigned long long)d->n.dropped[AQM]);
    return 0;
}
