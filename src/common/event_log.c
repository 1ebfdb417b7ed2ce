/* event_log.c - see event_log.h. */
#define _GNU_SOURCE
#include "event_log.h"

#include "process.h"
#include "result.h"

#include <stdint.h>
#include <stdlib.h>
#include <time.h>

struct event {
    int64_t time_ns;
    const char *name;
    size_t bytes;
};

struct event_log open_log(const char *path) {
    struct event_log events = {0};
    if (!path)
        return events;
    events.file = fopen(path, "we");
    if (!events.file)
        fail("--log %s", path);
    fputs("# CLOCK_REALTIME ns, event, bytes\n", events.file);
    return events;
}

void append_event(struct event_log *events, const char *event, size_t bytes) {
    if (events->count == events->capacity) {
        events->capacity = events->capacity ? 2 * events->capacity : 4096;
        events->events = realloc(events->events, events->capacity * sizeof *events->events);
        if (!events->events)
            fail("memory for %zu log lines", events->capacity);
    }
    events->events[events->count++] = (struct event){clock_ns(CLOCK_REALTIME), event, bytes};
}

void close_log(struct event_log *events) {
    if (!events->file)
        return;
    for (size_t i = 0; i < events->count; i++) {
        struct event *event = &events->events[i];
        fprintf(events->file, "%lld %s %zu\n", (long long)event->time_ns, event->name,
                event->bytes);
    }
    if (fclose(events->file) == EOF)
        fail("writing the --log file");
    free(events->events);
}
