/*
 * event_log.h - a record of what the program did and when, kept in memory until the end.
 *
 * The file has a line of "#" comment, then lines of CLOCK_REALTIME ns, event, bytes.
 */
#pragma once

#include <stddef.h>
#include <stdio.h>

struct event_log {
    FILE *file; /* NULL without --log: log_event then costs one comparison */
    struct event *events;
    size_t count, capacity;
};

struct event_log open_log(const char *path);
void append_event(struct event_log *events, const char *event, size_t bytes);
void close_log(struct event_log *events);

static inline void log_event(struct event_log *events, const char *event, size_t bytes) {
    if (events->file)
        append_event(events, event, bytes);
}
