/*
 * link.h - the arithmetic of a link, which computes when a frame leaves or that it is dropped, and
 * the counters of each direction. It never waits, and does I/O only for the recording; time is an
 * argument.
 */
#pragma once

#include "ports.h"
#include "queue.h"

/* Reasons why a frame did not leave. */
enum reason { STAYS = -1, QUEUE, AQM, LOSS, SCRIPT, MTU, OVERSIZE, MEMORY, DEVICE, REASONS };

extern const char *const reason_names[REASONS];

/* Lateness in 1/16ths of powers of two: 6 % resolution from nanoseconds to centuries. */
enum { SUB_BUCKETS = 16, BUCKETS = 61 * SUB_BUCKETS, LATE_NS = 1000000 };

/*
 * in + duplicated + icmp + (fragments - fragmented)
 *     = out + dropped for all reasons + in the queue, the transmitter, on the line
 */
struct counters {
    uint64_t packets_in, bytes_in, packets_out, bytes_out;
    uint64_t dropped[REASONS];
    uint64_t marked, duplicated, reordered, fragmented, fragments, icmp;
    uint64_t queue_packets_max, queue_bytes_max;
    int64_t late_ns_max;
    uint64_t late_packets; /* late by more than LATE_NS */
    uint64_t late[BUCKETS];
};

/* Counts a frame that left late by this time. */
void count_lateness(struct counters *n, int64_t late_ns);

/* Writes the percentiles as an object, and the number of late frames. */
void lateness_write(struct json *j, const struct counters *n);

/* Frames in flight that do not overtake each other. */
struct lane {
    struct fifo fifo;
    int64_t last_departure_ns;
};

struct direction {
    uint32_t index; /* 0 for ab, 1 for ba */
    struct side *from, *to;
    struct settings set;
    uint64_t numbered; /* number of frames subject to chance since the seed was set */
    uint64_t offered;  /* number of frames that reached the queue since then */
    struct script script;

    struct queue queue;
    struct frame *sending;            /* the frame in the transmitter */
    int64_t finish_ns;                /* end of its transmission, or of the last one */
    struct lane lanes[MAX_PORTS + 1]; /* one per port of side a or b, then one for held frames */
    unsigned lane_count;
    uint64_t line_packets; /* total of all lanes */
    int64_t last_arrival_ns;
    int64_t settled_ns; /* all arrivals before this time have been taken */

    struct frame *outbox[BATCH + MAX_PORTS]; /* due frames that the kernel has not taken yet */
    unsigned outbox_count;
    bool blocked; /* the socket's send buffer is full */
    struct counters n;
};

/* Both directions, ab and ba, and the sides that they come from. */
extern struct direction directions[2];
extern struct side sides[2];

/* Opens the interfaces named in "a:b"; splits the string in place. */
void link_open(char *names, bool offload);

/* Enters a frame from port's ring. With `lend` it may stay in the ring; returns whether it does. */
bool link_enter(struct direction *d, struct frame *in_ring, const struct port *port, bool lend);

/* Drops a frame that was truncated on arrival from `length` bytes. */
void link_refuse(struct direction *d, struct frame *cut_short, uint32_t length);

/* Advances transmitter and queue to time t. */
void link_advance(struct direction *d, int64_t t);

/* Returns a frame that is due at time t, or NULL. */
struct frame *link_take_due(struct direction *d, int64_t t);

/* Returns the time of the next event in this direction. */
int64_t link_next_event_ns(const struct direction *d);

/* Returns whether a frame that comes now would leave immediately. */
bool link_is_transparent(const struct direction *d);

/* Changes the settings. A new rate also applies to the rest of the frame in the transmitter, and a
   seed restarts its sequence. */
void link_change(struct direction *d, const struct settings *set, bool seeded);
