/*
 * settings.h - the parameters of one direction of a link.
 */
#pragma once

#include "json.h"

struct settings {
    int64_t delay_ns, rate_bps, queue_packets, hold_ns, seed, mtu, icmp;
    double loss;
};

extern const struct settings default_settings;

/* Applies "key=value"; false, with the answer given, if it is no good. */
bool settings_assign(struct settings *set, const char *assignment);

/* As members of an object. */
void settings_write(struct json *j, const struct settings *set);

/* A line for each key. */
void settings_print_help(void);

/* A whole number from 0 to max, with nothing behind it. */
bool parse_whole(const char *text, int64_t max, int64_t *value);
