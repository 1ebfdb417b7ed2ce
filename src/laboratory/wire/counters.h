/*
 * counters.h - what happened in one direction of a link.
 */
#pragma once

#include "json.h"

/* Why a frame did not leave. */
enum reason { STAYS = -1, QUEUE, LOSS, SCRIPT, MTU, OVERSIZE, MEMORY, DEVICE, REASONS };

extern const char *const reason_names[REASONS];

/* Lateness in 1/16ths of powers of two: 6 % resolution from nanoseconds to centuries. */
enum { SUB_BUCKETS = 16, BUCKETS = 61 * SUB_BUCKETS };

/*
 * in + duplicated + icmp + (fragments - fragmented)
 *     = out + dropped for all reasons + in the queue, the transmitter, on the line
 */
struct counters {
    uint64_t packets_in, bytes_in, packets_out, bytes_out;
    uint64_t dropped[REASONS];
    uint64_t duplicated, reordered, fragmented, fragments, icmp;
    uint64_t queue_packets_max, queue_bytes_max;
    int64_t late_ns_max;
    uint64_t late[BUCKETS];
};

/* Counts a frame that left this much later than it was due. */
void count_lateness(struct counters *n, int64_t late_ns);

/* The percentiles, as an object. */
void lateness_write(struct json *j, const struct counters *n);
