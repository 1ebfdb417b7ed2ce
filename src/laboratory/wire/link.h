/*
 * link.h - a link as arithmetic: a frame that arrives at one time leaves at another, or is dropped.
 * Nothing in here waits or does I/O but for the recording; time is an argument.
 */
#pragma once

#include "counters.h"
#include "frame.h"
#include "ports.h"
#include "script.h"
#include "settings.h"

enum { MAX_LINKS = 64 };

struct direction {
    struct side *from, *to;
    struct direction *back;
    struct settings set;
    uint64_t stream;   /* which of the seed's random streams */
    uint64_t numbered; /* frames that chance may touch, since the seed was set */
    struct script script;

    struct fifo queue;
    struct frame *sending; /* in the transmitter */
    int64_t finish_ns;     /* when the transmitter is done with it, or was with the last one */
    struct fifo line;      /* in flight, in order */
    struct fifo held;      /* in flight, to be overtaken; in order among themselves */
    int64_t last_arrival_ns, last_departure_ns, last_held_ns;
    int64_t settled_ns; /* all that came before this has been taken: no further is known */

    struct frame *outbox[BATCH + MAX_PORTS]; /* due; the kernel has yet to take them */
    unsigned outbox_count;
    bool blocked; /* the socket's send buffer is full */
    struct counters n;
};

struct link {
    struct side a, b;
    struct direction ab, ba;
};

extern struct link links[MAX_LINKS];
extern unsigned link_count;

/* The i-th of all directions, and the side that it comes from; there are twice as many as links. */
struct direction *direction_at(unsigned i);
struct side *side_at(unsigned i);

/* Opens the interfaces that "a:b" names; the names are cut apart in place. */
void link_open(char *names, bool offload);

/* Enters a frame that still lies in the ring; with `lend` it may stay there: true if it does. */
bool link_enter(struct direction *d, struct frame *in_ring, bool lend);

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
