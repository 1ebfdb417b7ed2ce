/* settings.c - see settings.h. */
#define _GNU_SOURCE
#include "settings.h"

#include "answer.h"
#include "clocks.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

const struct settings default_settings = {.queue_packets = 1000, .hold_ns = 1000000, .icmp = 1};

enum kind { WHOLE, PROBABILITY, SWITCH };

static const struct key {
    const char *name;
    size_t offset; /* in struct settings */
    enum kind kind;
    int64_t max;
    const char *help;
} keys[] = {
#define KEY(name, kind, max, help) {#name, offsetof(struct settings, name), kind, max, help}
    KEY(delay_ns, WHOLE, 10 * SECOND_NS, "one way"),
    KEY(rate_bps, WHOLE, 1000 * SECOND_NS,
        "bit/s, framing included; 0: as fast as the machine can"),
    KEY(queue_packets, WHOLE, SECOND_NS, "waiting, besides the one being sent; 0: no limit"),
    KEY(loss, PROBABILITY, 1, "of a frame to be lost, before it takes a place in the queue"),
    KEY(seed, WHOLE, INT64_MAX, "of the losses; setting it starts the sequence again"),
    KEY(hold_ns, WHOLE, 10 * SECOND_NS, "how long the script holds a frame"),
    KEY(mtu, WHOLE, 65535, "longest IP packet, else it is fragmented or (DF) dropped; 0: any"),
    KEY(icmp, SWITCH, 1, "on: say so to the sender; off: a black hole"),
#undef KEY
};

enum { KEYS = sizeof keys / sizeof keys[0] };

bool parse_whole(const char *text, int64_t max, int64_t *value) {
    char *end;
    errno = 0;
    *value = strtoll(text, &end, 10);
    return end != text && *end == '\0' && errno == 0 && *value >= 0 && *value <= max;
}

static bool assign(const struct key *key, void *setting, const char *value) {
    int64_t *whole = setting;
    char *end;
    switch (key->kind) {
    case WHOLE:
        return parse_whole(value, key->max, whole) ||
               answer_error("%s: '%s' is not a whole number from 0 to %lld", key->name, value,
                            (long long)key->max);
    case SWITCH:
        *whole = strcmp(value, "on") == 0;
        return *whole || strcmp(value, "off") == 0 ||
               answer_error("%s: '%s' is neither on nor off", key->name, value);
    default:
        *(double *)setting = strtod(value, &end);
        return (end != value && *end == '\0' && *(double *)setting >= 0 &&
                *(double *)setting <= 1) ||
               answer_error("%s: '%s' is not a probability from 0 to 1", key->name, value);
    }
}

bool settings_assign(struct settings *set, const char *assignment) {
    const char *value = strchr(assignment, '=');
    size_t length = value ? (size_t)(value - assignment) : 0;
    for (const struct key *key = keys; value && key < keys + KEYS; key++)
        if (strlen(key->name) == length && memcmp(key->name, assignment, length) == 0)
            return assign(key, (char *)set + key->offset, value + 1);
    return answer_error("set: '%s' is not KEY=VALUE with a KEY of --help", assignment);
}

void settings_write(struct json *j, const struct settings *set) {
    for (const struct key *key = keys; key < keys + KEYS; key++) {
        const void *setting = (const char *)set + key->offset;
        if (key->kind == PROBABILITY)
            json_double(j, key->name, *(const double *)setting);
        else if (key->kind == SWITCH)
            json_bool(j, key->name, *(const int64_t *)setting);
        else
            json_int(j, key->name, *(const int64_t *)setting);
    }
}

void settings_print_help(void) {
    for (const struct key *key = keys; key < keys + KEYS; key++)
        printf("  %-14s %s\n", key->name, key->help);
}
