/*
 * queue.h - the queue before the transmitter, which decides the frame to send next and the frames
 * to drop or mark. Time is an argument, and there is no I/O.
 *
 *     tail_drop   drops arrivals while the queue is full
 *     codel       RFC 8289: drops on sending if frames have waited too long for an interval
 *     fq_codel    RFC 8290: a queue with CoDel for each flow, served in turn
 *     pie         RFC 8033: drops arrivals at random, more likely with a longer wait
 *
 * With ECN on, codel, fq_codel and pie mark a packet instead of dropping it, if it allows that.
 */
#pragma once

#include "settings.h"

enum { FLOWS = 1024 };

/* The names are those of RFC 8289's pseudocode. */
struct codel {
    int64_t first_above_ns; /* time from which the wait is persistent; 0 if it is short */
    int64_t drop_next_ns;
    uint32_t count, last_count;
    bool dropping;
};

struct pie {
    double probability;   /* drop probability */
    double accumulated;   /* sum since the last drop, which spreads drops evenly */
    int64_t delay_ns;     /* wait of the frame that was sent last */
    int64_t old_delay_ns; /* delay_ns at the last update */
    int64_t burst_ns;     /* remaining time without drops */
    int64_t update_ns;    /* time of the next update */
};

struct flow {
    struct fifo fifo;
    struct codel codel;
    int64_t credit; /* bytes that it may send in this turn */
    struct flow *next;
    bool listed;
};

struct flow_list {
    struct flow *head, *tail;
};

struct queue {
    uint64_t packets, bytes;
    uint32_t longest; /* bytes of the longest frame */
    struct pie pie;
    struct flow_list new_flows, old_flows; /* lists of fq_codel */
    struct flow flows[FLOWS];              /* all others use only the first */
};

/* The fate of an arriving frame. */
enum admission { ADMIT, ADMIT_MARKED, REFUSE_FULL, REFUSE_EARLY };

/* Decides on an arriving frame. `chance` is uniform in [0, 1); if `busy`, a frame is being sent, so
   this one has to wait. */
enum admission queue_admits(struct queue *queue, const struct settings *set, int64_t now,
                            const struct frame *frame, bool busy, double chance);

/* Queues an admitted frame; moves frames that a full queue drops for it to *dropped. */
void queue_put(struct queue *queue, const struct settings *set, struct frame *frame, bool busy,
               struct fifo *dropped);

/* Returns the frame to send next, or NULL; moves frames that are dropped to *dropped. */
struct frame *queue_take(struct queue *queue, const struct settings *set, int64_t now,
                         struct fifo *dropped);

/* Applies new settings, and requeues the waiting frames. */
void queue_change(struct queue *queue, const struct settings *set);
