/*
 * event_log.h - a record of what the program did and when (--log), kept in memory until the end.
 *
 * The file has a line of "#" comment, then lines of CLOCK_REALTIME ns, event, bytes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

extern bool logging;

/* A path of NULL means none. */
void open_log(const char *path);
void append_event(const char *event, size_t bytes);
void close_log(void);

/* Costs one comparison without --log. */
static inline void log_event(const char *event, size_t bytes) {
    if (logging)
        append_event(event, bytes);
}
