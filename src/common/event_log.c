/* event_log.c - see event_log.h. */
#define _GNU_SOURCE
#include "event_log.h"

#include "process.h"
#include "result.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

bool logging;

static FILE *file;
static struct event {
    int64_t time_ns;
    const char *name;
    size_t bytes;
} *events;
static size_t count, capacity;

void open_log(const char *path) {
    if (!path)
        return;
    file = fopen(path, "we");
    if (!file)
        fail("--log %s", path);
    fputs("# CLOCK_REALTIME ns, event, bytes\n", file);
    logging = true;
}

void append_event(const char *event, size_t bytes) {
    if (count == capacity) {
        capacity = capacity ? 2 * capacity : 4096;
        events = realloc(events, capacity * sizeof *events);
        if (!events)
            fail("memory for %zu log lines", capacity);
    }
    events[count++] = (struct event){clock_ns(CLOCK_REALTIME), event, bytes};
}

void close_log(void) {
    if (!logging)
        return;
    for (struct event *event = events; event < events + count; event++)
        fprintf(file, "%lld %s %zu\n", (long long)event->time_ns, event->name, event->bytes);
    if (fclose(file) == EOF)
        fail("writing the --log file");
    logging = false;
    free(events);
}
