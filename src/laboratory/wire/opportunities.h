/*
 * opportunities.h - a rate that changes, as a trace of opportunities to send: the format of
 * mahimahi (a line for each: the millisecond at which 1500 bytes may leave; the trace starts over
 * at its last one). What is not used at its time is lost; a packet may take several.
 *
 * Source: mm-link(1) of mahimahi.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct opportunities {
    uint32_t *times_ms; /* of one round, in order; NULL: there is no trace */
    size_t count, next;
    int64_t round_ns;    /* when this round began */
    int64_t current_ns;  /* the one that is used */
    uint32_t left_bytes; /* of it */
};

/* Reads the file; the trace begins at `start_ns`. False, with the answer given, if it is no good.
 */
bool opportunities_read(struct opportunities *o, const char *path, int64_t start_ns);

void opportunities_end(struct opportunities *o);

/* When a packet of so many bytes will have left, if its turn comes at `start_ns`. */
int64_t opportunities_finish_ns(struct opportunities *o, int64_t start_ns, uint32_t bytes);
