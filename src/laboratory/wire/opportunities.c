/* opportunities.c - see opportunities.h. */
#define _GNU_SOURCE
#include "opportunities.h"

#include "settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPPORTUNITY_BYTES = 1500, MOST_OPPORTUNITIES = 1 << 22 };

#define MILLISECOND_NS INT64_C(1000000)

void opportunities_end(struct opportunities *o) {
    free(o->times_ms);
    *o = (struct opportunities){0};
}

/* Adds the time on the line; false if it isn't one, or earlier than the one before. */
static bool add_line(struct opportunities *o, char *line) {
    int64_t time_ms;
    line[strcspn(line, "\r\n")] = '\0';
    int64_t last_ms = o->count ? o->times_ms[o->count - 1] : 0;
    if (!parse_whole(line, UINT32_MAX, &time_ms) || time_ms < last_ms ||
        o->count == MOST_OPPORTUNITIES)
        return false;
    o->times_ms[o->count++] = (uint32_t)time_ms;
    return true;
}

bool opportunities_read(struct opportunities *o, const char *path, int64_t start_ns) {
    char line[64];
    FILE *file = fopen(path, "re");
    if (!file)
        return answer_error("trace: %s: %s", path, strerror(errno));
    struct opportunities read = {.round_ns = start_ns};
    read.times_ms = malloc(MOST_OPPORTUNITIES * sizeof *read.times_ms);
    bool good = read.times_ms;
    while (good && fgets(line, sizeof line, file))
        good = add_line(&read, line);
    fclose(file);
    if (!good || read.count == 0 || read.times_ms[read.count - 1] == 0) {
        size_t number = read.count + 1;
        opportunities_end(&read);
        return answer_error("trace: %s, line %zu: wants whole milliseconds, none less than the "
                            "one before, at most %d of them, the last more than 0",
                            path, number, MOST_OPPORTUNITIES);
    }
    uint32_t *shorter = realloc(read.times_ms, read.count * sizeof *read.times_ms);
    read.times_ms = shorter ? shorter : read.times_ms;
    opportunities_end(o);
    *o = read;
    return true;
}

static void take_next(struct opportunities *o) {
    if (o->next == o->count) {
        o->next = 0;
        o->round_ns += o->times_ms[o->count - 1] * MILLISECOND_NS;
    }
    o->current_ns = o->round_ns + o->times_ms[o->next++] * MILLISECOND_NS;
    o->left_bytes = OPPORTUNITY_BYTES;
}

int64_t opportunities_finish_ns(struct opportunities *o, int64_t start_ns, uint32_t bytes) {
    /* Whole rounds without a packet are skipped at once. */
    int64_t length_ns = o->times_ms[o->count - 1] * MILLISECOND_NS;
    if (start_ns - o->round_ns > 2 * length_ns) {
        o->round_ns += ((start_ns - o->round_ns) / length_ns - 1) * length_ns;
        o->next = 0;
        o->left_bytes = 0;
    }
    if (o->current_ns < start_ns)
        o->left_bytes = 0;
    while (bytes > 0) {
        while (o->left_bytes == 0 || o->current_ns < start_ns)
            take_next(o);
        uint32_t part = bytes < o->left_bytes ? bytes : o->left_bytes;
        bytes -= part;
        o->left_bytes -= part;
    }
    return o->current_ns;
}
