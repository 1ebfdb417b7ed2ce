/*
 * link.h - a link as arithmetic: a frame that arrives at one time leaves at another, or is dropped.
 * Nothing in here waits or does I/O but for the recording; time is an argument. And what happened
 * in each of its directions.
 */
#pragma once

#include "ports.h"
#include "queue.h"

/* Why a frame did not leave. */
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
    uint64_t late_packets; /* by more than LATE_NS */
    uint64_t late[BUCKETS];
};

/* Counts a frame that left this much later than it was due. */
void count_lateness(struct counters *n, int64_t late_ns);

/* The percentiles, as an object, and how many were late. */
void lateness_write(struct json *j, const struct counters *n);

/* Frames in flight that don't overtake each other. */
struct lane {
    struct fifo fifo;
    int64_t last_departure_ns;
};

struct direction {
    uint32_t index; /* 0: ab, 1: ba */
    struct side *from, *to;
    struct settings set;
    uint64_t numbered; /* frames that chance may touch, since the seed was set */
    uint64_t offered;  /* frames that came to the queue, since then */
    struct script script;

    struct queue queue;
    struct frame *sending; /* in the transmitter */
    int64_t finish_ns;     /* when the transmitter is done with it, or was with the last one */
    struct lane lanes[MAX_PORTS + 1]; /* one for each port of side a or b; then that of the held */
    unsigned lane_count;
    uint64_t line_packets; /* in all lanes */
    int64_t last_arrival_ns;
    int64_t settled_ns; /* all that came before this has been taken: no further is known */

    struct frame *outbox[BATCH + MAX_PORTS]; /* due; the kernel has yet to take them */
    unsigned outbox_count;
    bool blocked; /* the socket's send buffer is full */
    struct counters n;
};

/* Both, ab and ba; and the sides that they come from. */
extern struct direction directions[2];
extern struct side sides[2];

/* Opens the interfaces that "a:b" names; the names are cut apart in place. */
void link_open(char *names, bool offload);

/* Enters a frame that still lies in the ring; with `lend` it may stay there: true if it does.
   `port` is where it came from. */
bool link_enter(struct direction *d, struct frame *in_ring, const struct port *port, bool lend);

/* Drops a frame that came cut short: it was `length` bytes long. */
void link_refuse(struct direction *d, struct frame *cut_short, uint32_t length);

/* Brings transmitter and queue to where they stand at time t. */
void link_advance(struct direction *d, int64_t t);

/* A frame that is due at time t, or NULL. */
struct frame *link_take_due(struct direction *d, int64_t t);

/* When there will next be something to do in this direction. */
int64_t link_next_event_ns(const struct direction *d);

/* Will whatever comes now leave at once? */
bool link_is_transparent(const struct direction *d);

/* A new rate also holds for the rest of the frame in the transmitter; a seed begins its sequence.
 */
void link_change(struct direction *d, const struct settings *set, bool seeded);
