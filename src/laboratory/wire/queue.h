/*
 * queue.h - the queue before the transmitter: which frame is sent next, which are dropped for it,
 * which are marked. Time is an argument; nothing in here does I/O.
 *
 *     tail_drop   what comes when the queue is full is dropped
 *     codel       RFC 8289: drops, when it sends, while frames have waited too long for a while
 *     fq_codel    RFC 8290: a queue for each flow, all served in turn, CoDel in each
 *     pie         RFC 8033: drops by chance when a frame comes, the likelier the longer the wait
 *
 * With ECN on, codel, fq_codel and pie mark a packet that allows it where they would drop it.
 */
#pragma once

#include "settings.h"

enum { FLOWS = 1024 };

/* The names of RFC 8289's pseudocode. */
struct codel {
    int64_t first_above_ns; /* when the wait may be called persistent; 0: it is short */
    int64_t drop_next_ns;
    uint32_t count, last_count;
    bool dropping;
};

struct pie {
    double probability;   /* of a drop */
    double accumulated;   /* since the last one: spreads them evenly */
    int64_t delay_ns;     /* the wait of the frame that was sent last */
    int64_t old_delay_ns; /* the same at the last update */
    int64_t burst_ns;     /* so long nothing is dropped yet */
    int64_t update_ns;    /* when the probability is reckoned next */
};

struct flow {
    struct fifo fifo;
    struct codel codel;
    int64_t credit; /* bytes that it may send before it is the next one's turn */
    struct flow *next;
    bool listed;
};

struct flow_list {
    struct flow *head, *tail;
};

struct queue {
    uint64_t packets, bytes;
    uint32_t longest; /* frame, in bytes */
    struct pie pie;
    struct flow_list new_flows, old_flows; /* of fq_codel */
    struct flow flows[FLOWS];              /* all but fq_codel use the first only */
};

/* The fate of a frame that comes. */
enum admission { ADMIT, ADMIT_MARKED, REFUSE_FULL, REFUSE_EARLY };

/* `chance` is uniform in [0, 1); `busy`: a frame is being sent, so this one has to wait. */
enum admission queue_admits(struct queue *queue, const struct settings *set, int64_t now,
                            const struct frame *frame, bool busy, double chance);

/* Takes an admitted frame. Those that go for it when the queue is full are put into *dropped. */
void queue_put(struct queue *queue, const struct settings *set, struct frame *frame, bool busy,
               struct fifo *dropped);

/* The frame to be sent next, or NULL; those that are dropped instead are put into *dropped. */
struct frame *queue_take(struct queue *queue, const struct settings *set, int64_t now,
                         struct fifo *dropped);

/* From here on it works by these settings: what waits is queued anew. */
void queue_change(struct queue *queue, const struct settings *set);

/* Sets "congestion experienced", where the packet allows it. */
bool queue_mark(struct frame *frame);
