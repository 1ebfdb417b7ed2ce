/*
 * event_log.h - a log of the program's actions and their times (--log).
 *
 * The file has one line of "#" comment, then lines of CLOCK_REALTIME ns, event, bytes.
 */
#pragma once

#include <stddef.h>

/* Opens the log; if the path is NULL, log_event() does nothing. */
void open_log(const char *path);
void log_event(const char *event, size_t bytes);
void close_log(void);
