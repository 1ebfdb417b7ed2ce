/* clocks.c - see clocks.h. */
#define _GNU_SOURCE
#include "clocks.h"

#include "result.h"

#include <stdlib.h>

enum { MAX_COMPARISON_NS = 2000, CLOCK_STEP_NS = 10000000 };

int64_t real_minus_monotonic_ns;
uint64_t clock_steps;

int64_t now_ns(void) {
    return clock_ns(CLOCK_MONOTONIC);
}

void compare_clocks(void) {
    for (int attempt = 0; attempt < 10; attempt++) {
        int64_t before = now_ns();
        int64_t real = clock_ns(CLOCK_REALTIME);
        int64_t after = now_ns();
        /* Interrupted between the readings: they don't belong together. */
        if (after - before > MAX_COMPARISON_NS)
            continue;
        int64_t difference = real - (before + (after - before) / 2);
        if (real_minus_monotonic_ns && llabs(difference - real_minus_monotonic_ns) > CLOCK_STEP_NS)
            clock_steps++;
        real_minus_monotonic_ns = difference;
        return;
    }
}
