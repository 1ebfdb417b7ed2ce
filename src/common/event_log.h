/*
 * event_log.h - a record of what the program did and when (--log).
 *
 * The file has a line of "#" comment, then lines of CLOCK_REALTIME ns, event, bytes.
 */
#pragma once

#include <stddef.h>

/* A path of NULL means none: log_event() then does nothing. */
void open_log(const char *path);
void log_event(const char *event, size_t bytes);
void close_log(void);
