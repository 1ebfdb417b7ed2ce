/*
 * clocks.h - the wire runs on CLOCK_MONOTONIC; the kernel stamps arrivals with CLOCK_REALTIME,
 * which may be set meanwhile.
 */
#pragma once

#include <stdint.h>

#define SECOND_NS INT64_C(1000000000)
#define NEVER INT64_MAX

extern int64_t real_minus_monotonic_ns; /* as compare_clocks() found it last */
extern uint64_t clock_steps;            /* how often CLOCK_REALTIME was set */

int64_t now_ns(void);
void compare_clocks(void);

static inline int64_t max_ns(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static inline int64_t min_ns(int64_t a, int64_t b) {
    return a < b ? a : b;
}
