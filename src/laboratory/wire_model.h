/*
 * wire_model.h - the link of wire.c as arithmetic: a frame that arrives at one
 * time leaves at another, or is dropped. Nothing in here waits or does I/O but
 * for the recording; time is an argument.
 */
#ifndef WIRE_MODEL_H
#define WIRE_MODEL_H

#include "wire_bundle.h"
#include "wire_frame.h"
#include "wire_mtu.h"
#include "wire_record.h"

#include <math.h>
#include <net/if.h>

#define SECOND_NS INT64_C(1000000000)
#define NEVER INT64_MAX

enum {
    MAX_LINKS = 64,
    MAX_PORTS = 128, /* of all links together */
    MAX_STATIONS = 256,
    MAX_RULES = 32,
    MAX_RANGES = 16,
    BATCH = 128,     /* frames taken or sent in one go */
    MAX_PIECES = 48, /* cells of the longest frame: 64 KiB and its headers */
    VLAN_BYTES = 4,
    MIN_FRAME_BYTES = 60,    /* Ethernet pads shorter frames to this (64 with the FCS) */
    MAX_FRAME = 65536 + 256, /* a super-segment; or the largest MTU, headers and tags */
    COMMAND_BYTES = 8192,
    MAX_WORDS = 64,
};

/* ---- what a link is ---- */

/* An interface: a packet socket with a ring that the kernel fills with arrivals. */
struct port {
    char name[IF_NAMESIZE];
    int index;
    uint32_t mtu;
    bool bundles; /* the kernel cuts up super-segments on the way out: see wire_bundle.h */
    bool down;
    int socket;
    uint8_t *ring;
    unsigned slot_bytes, block_bytes, slots_per_block, blocks;
    unsigned block, slot; /* where the next arrival will be */
    int64_t seen_ns;      /* everything that came before this has been taken */
};

/* The kernel's counts of frames; missed: the ring was full. */
struct counts {
    uint64_t received, missed;
};

/* One end of a link: usually one port. With several, we learn who is behind which. */
struct side {
    char name[128];
    uint32_t interface; /* in the recording */
    struct port *ports;
    unsigned port_count;
    struct counts counts, counted_from, recorded_from; /* now, at the reset, at the capture */
    struct station {
        uint8_t address[ETH_ALEN];
        struct port *port;
    } stations[MAX_STATIONS];
    unsigned station_count;
};

struct settings {
    int64_t delay_ns, jitter_ns, reorder_ns;
    int64_t rate_bps, framing_bytes;
    int64_t queue_packets, queue_bytes;
    double loss, duplicate, reorder;
    int64_t seed;
    int64_t mtu, icmp, router;
};

static const struct settings default_settings = {
    .framing_bytes = 24,
    .queue_packets = 1000,
    .reorder_ns = 1000000,
    .icmp = 1,
};

/* Why a frame did not leave. */
enum reason { STAYS = -1, QUEUE, LOSS, SCRIPT, MTU, OVERSIZE, MEMORY, DEVICE, REASONS };

static const char *const reason_names[REASONS] = {
    [QUEUE] = "queue",       /* the queue was full */
    [LOSS] = "loss",         /* chance */
    [SCRIPT] = "script",     /* a rule of the script */
    [MTU] = "mtu",           /* longer than the hop's MTU, and DF set */
    [OVERSIZE] = "oversize", /* longer than the interface's MTU: super-segments need --offload */
    [MEMORY] = "memory",     /* the frames in flight filled --memory */
    [DEVICE] = "device",     /* the kernel refused it on the way out: the interface is down */
};

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

/* ---- scripted rules ---- */

enum action { DROP, DUPLICATE, HOLD, ACTIONS };
static const char *const action_names[ACTIONS + 1] = {"drop", "duplicate", "hold", NULL};

enum what { ANY, IP, TCP, DATA, ACK, SYN, FIN, RST, UDP, ICMP, WHATS };
static const char *const what_names[WHATS + 1] = {"any", "ip",  "tcp", "data", "ack", "syn",
                                                  "fin", "rst", "udp", "icmp", NULL};

/* A rule sees the frames that match, numbers them from 1, and strikes those it is to. */
struct rule {
    enum action action;
    enum what what;
    uint16_t port; /* TCP or UDP, either end; 0: all */
    struct range {
        uint64_t first, last;
    } nth[MAX_RANGES];
    unsigned nth_count;     /* 0: all */
    uint64_t every, limit;  /* 0: no such condition */
    int64_t from_ns, to_ns; /* since the first frame it saw */
    uint64_t seen, struck;
    int64_t first_ns;
};

/* ---- a direction ---- */

struct direction {
    struct side *from, *to;
    struct direction *back;
    struct settings set;
    uint64_t stream; /* which of the seed's random streams: 0 for ab, 4 for ba */
    uint64_t numbered;
    struct rule rules[MAX_RULES];
    unsigned rule_count;

    struct fifo queue;
    struct frame *sending; /* in the transmitter */
    int64_t finish_ns;     /* when the transmitter is done with it, or was with the last one */
    struct fifo line;      /* on their way, in order */
    struct fifo held;      /* on their way, to be overtaken; in order among themselves */
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

static struct link links[MAX_LINKS];
static unsigned link_count;
static struct port ports[MAX_PORTS];
static unsigned port_count;
static bool offload;

/* The i-th of all directions, and the side that it comes from. */
static struct direction *direction_at(unsigned i) {
    return i % 2 ? &links[i / 2].ba : &links[i / 2].ab;
}

static struct side *side_at(unsigned i) {
    return i % 2 ? &links[i / 2].b : &links[i / 2].a;
}

/* ---- clocks ---- */

/* Arrivals are stamped with CLOCK_REALTIME, which may be set; the model runs on CLOCK_MONOTONIC. */
static int64_t real_minus_monotonic_ns;
static uint64_t clock_steps; /* how often CLOCK_REALTIME was set */

static int64_t now_ns(void) {
    return clock_ns(CLOCK_MONOTONIC);
}

static int64_t max_ns(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static int64_t min_ns(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static void compare_clocks(void) {
    for (int attempt = 0; attempt < 10; attempt++) {
        int64_t before = now_ns();
        int64_t real = clock_ns(CLOCK_REALTIME);
        int64_t after = now_ns();
        /* Interrupted between the readings: they don't belong together. */
        if (after - before > 2000)
            continue;
        int64_t difference = real - (before + (after - before) / 2);
        if (real_minus_monotonic_ns && llabs(difference - real_minus_monotonic_ns) > 10000000)
            clock_steps++;
        real_minus_monotonic_ns = difference;
        return;
    }
}

/* ---- chance: splitmix64, addressed by number so that one effect never shifts another ---- */

enum effect { BY_LOSS, BY_DUPLICATE, BY_REORDER, BY_JITTER };

/* Uniform in [0, 1): the same for the same seed, direction, effect and frame number. */
static double chance(const struct direction *d, enum effect effect, uint64_t number) {
    uint64_t element = 8 * number + d->stream + effect + 1;
    uint64_t x = (uint64_t)d->set.seed + element * UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    x ^= x >> 31;
    return (double)(x >> 11) * 0x1p-53;
}

static bool happens(const struct direction *d, enum effect effect, double probability,
                    uint64_t number) {
    return probability > 0 && number && chance(d, effect, number) < probability;
}

/* ---- the script ---- */

static bool matches(const struct rule *rule, const struct headers *h) {
    bool whole_tcp = h->protocol == IPPROTO_TCP && h->payload_at;
    bool has_payload = whole_tcp && h->payload_at < h->ip_at + h->ip_bytes;
    if (rule->port && rule->port != h->source_port && rule->port != h->dest_port)
        return false;
    if (rule->what == ANY)
        return true;
    if (h->version == 0)
        return false;
    switch (rule->what) {
    case IP:
        return true;
    case TCP:
        return h->protocol == IPPROTO_TCP;
    case DATA:
        return has_payload;
    case ACK: /* and nothing else */
        return whole_tcp && !has_payload &&
               (h->tcp_flags & (TCP_ACK | TCP_SYN | TCP_FIN | TCP_RST)) == TCP_ACK;
    case SYN:
        return whole_tcp && h->tcp_flags & TCP_SYN;
    case FIN:
        return whole_tcp && h->tcp_flags & TCP_FIN;
    case RST:
        return whole_tcp && h->tcp_flags & TCP_RST;
    case UDP:
        return h->protocol == IPPROTO_UDP;
    default:
        return h->protocol == (h->version == 4 ? IPPROTO_ICMP : IPPROTO_ICMPV6);
    }
}

static bool is_nth(const struct rule *rule) {
    for (unsigned i = 0; i < rule->nth_count; i++)
        if (rule->seen >= rule->nth[i].first && rule->seen <= rule->nth[i].last)
            return true;
    return rule->nth_count == 0;
}

/* Does the rule strike this frame? Counts it if it matches. */
static bool strikes(struct rule *rule, const struct headers *h, int64_t t) {
    if (!matches(rule, h))
        return false;
    if (rule->seen++ == 0)
        rule->first_ns = t;
    int64_t since_ns = t - rule->first_ns;
    bool strike = is_nth(rule) && (!rule->every || rule->seen % rule->every == 0) &&
                  (!rule->limit || rule->struck < rule->limit) && since_ns >= rule->from_ns &&
                  since_ns < rule->to_ns;
    rule->struck += strike;
    return strike;
}

struct fate {
    bool actions[ACTIONS];
};

static struct fate scripted(struct direction *d, const struct headers *h, int64_t t) {
    struct fate fate = {0};
    for (unsigned i = 0; i < d->rule_count; i++)
        if (strikes(&d->rules[i], h, t))
            fate.actions[d->rules[i].action] = true;
    return fate;
}

/* ---- the model: queue, transmitter, line ---- */

static int64_t transmission_ns(const struct direction *d, const struct frame *frame) {
    if (d->set.rate_bps == 0)
        return 0;
    uint64_t rate = (uint64_t)d->set.rate_bps;
    return (int64_t)((UINT64_C(8) * SECOND_NS * frame->wire_bytes + rate / 2) / rate);
}

/* The frame has left the transmitter: when will it arrive at the other end? */
static void put_on_line(struct direction *d, struct frame *frame) {
    int64_t delay = d->set.delay_ns;
    if (d->set.jitter_ns && frame->number)
        delay += llrint((2 * chance(d, BY_JITTER, frame->number) - 1) * (double)d->set.jitter_ns);
    int64_t departure = d->finish_ns + max_ns(delay, 0);
    if (frame->held) {
        departure = max_ns(departure + d->set.reorder_ns, d->last_held_ns);
        frame->departure_ns = d->last_held_ns = departure;
        fifo_push(&d->held, frame);
        return;
    }
    /* Neither jitter nor a shorter delay set meanwhile lets frames pass each other. */
    frame->departure_ns = d->last_departure_ns = max_ns(departure, d->last_departure_ns);
    fifo_push(&d->line, frame);
}

static void start_sending(struct direction *d, struct frame *frame) {
    d->sending = frame;
    d->finish_ns = max_ns(frame->arrival_ns, d->finish_ns) + transmission_ns(d, frame);
}

/* Brings transmitter and queue to where they stand at time t. */
static void advance(struct direction *d, int64_t t) {
    while (d->sending && d->finish_ns <= t) {
        put_on_line(d, d->sending);
        d->sending = NULL;
        struct frame *next = fifo_pop(&d->queue);
        if (next)
            start_sending(d, next);
    }
}

/* Would a frame that comes now find no place? */
static bool queue_is_full(const struct direction *d, uint32_t length) {
    const struct settings *set = &d->set;
    if (!d->sending)
        return false;
    return (set->queue_packets && d->queue.packets >= (uint64_t)set->queue_packets) ||
           (set->queue_bytes && d->queue.bytes + length > (uint64_t)set->queue_bytes);
}

/* Offers the frame a place, at the time of its arrival. */
static void enqueue(struct direction *d, struct frame *frame) {
    /* Without a rate, what came just before is on the line already. */
    advance(d, frame->arrival_ns);
    if (queue_is_full(d, frame->length)) {
        d->n.dropped[QUEUE]++;
        frame_free(frame);
        return;
    }
    if (!d->sending) {
        start_sending(d, frame);
        return;
    }
    fifo_push(&d->queue, frame);
    if (d->queue.packets > d->n.queue_packets_max)
        d->n.queue_packets_max = d->queue.packets;
    if (d->queue.bytes > d->n.queue_bytes_max)
        d->n.queue_bytes_max = d->queue.bytes;
}

/* A frame that is due at time t, or NULL. */
static struct frame *take_due(struct direction *d, int64_t t) {
    struct fifo *first = &d->line;
    if (!first->head || (d->held.head && d->held.head->departure_ns < first->head->departure_ns))
        first = &d->held;
    return first->head && first->head->departure_ns <= t ? fifo_pop(first) : NULL;
}

/* When there will next be something to do in this direction. */
static int64_t next_event_ns(const struct direction *d) {
    int64_t next = NEVER;
    if (d->outbox_count)
        return d->blocked ? NEVER : 0;
    if (d->sending)
        next = d->finish_ns + max_ns(d->set.delay_ns - d->set.jitter_ns, 0);
    if (d->line.head)
        next = min_ns(next, d->line.head->departure_ns);
    if (d->held.head)
        next = min_ns(next, d->held.head->departure_ns);
    return next;
}

/* ---- what goes into the recording ---- */

static struct comment entry_comment(const struct direction *d, enum reason reason) {
    struct comment comment = {.used = 0};
    add_text(&comment, "in; ");
    if (reason != STAYS) {
        add_text(&comment, "dropped=");
        add_text(&comment, reason_names[reason]);
        add_text(&comment, "; ");
    }
    add_number(&comment, "queue_packets=", (int64_t)d->queue.packets);
    add_number(&comment, " queue_bytes=", (int64_t)d->queue.bytes);
    return comment;
}

static void record_entry(struct direction *d, struct frame *frame, uint32_t length,
                         enum reason reason, const char *note) {
    if (!record.on)
        return;
    frame->id = ++record.last_id;
    struct comment comment = entry_comment(d, reason);
    if (note) {
        add_text(&comment, "; ");
        add_text(&comment, note);
    }
    record_packet(d->from->interface, INBOUND, frame->arrival_ns, frame, length, &comment);
}

static void record_departure(const struct direction *d, const struct frame *frame, int64_t t,
                             bool refused) {
    if (!record.on || frame->extra)
        return;
    struct comment comment = {.used = 0};
    add_text(&comment, refused ? "out; dropped=device; " : "out; ");
    add_number(&comment, "due_ns=", record_time(frame->departure_ns));
    add_number(&comment, " late_ns=", t - frame->departure_ns);
    record_packet(d->to->interface, OUTBOUND, t, frame, frame->length, &comment);
}

/* ---- a frame enters the link ---- */

/* What the frame takes on the wire. A super-segment counts as the segments it stands for. */
static uint32_t wire_bytes(const struct direction *d, const struct frame *frame) {
    uint32_t length = frame->length, segments = 1, framing = (uint32_t)d->set.framing_bytes;
    const struct virtio_net_hdr *o = offload_of(frame);
    if (o->gso_type != VIRTIO_NET_HDR_GSO_NONE && o->gso_size && o->hdr_len < length) {
        segments = (length - o->hdr_len + o->gso_size - 1U) / o->gso_size;
        length += (segments - 1) * o->hdr_len;
    }
    if (framing && length < MIN_FRAME_BYTES)
        length = MIN_FRAME_BYTES;
    return length + segments * framing;
}

/* The sender of a packet that is too long for the hop learns of it, on the way back. */
static void send_too_big(struct direction *d, const struct frame *frame, const struct headers *h) {
    struct direction *back = d->back;
    struct frame *message = NULL;
    if (d->set.icmp)
        message = too_big_message(frame->data, h, (uint32_t)d->set.mtu, (uint32_t)d->set.router);
    if (!message)
        return;
    message->arrival_ns = frame->arrival_ns;
    message->id = frame->id;
    message->wire_bytes = wire_bytes(back, message);
    back->n.icmp++;
    enqueue(back, message);
}

static void enqueue_fragments(struct direction *d, const struct frame *original,
                              struct frame *fragments) {
    d->n.fragmented++;
    for (struct frame *next; fragments; fragments = next) {
        next = fragments->next;
        fragments->arrival_ns = original->arrival_ns;
        fragments->id = original->id;
        fragments->number = original->number;
        fragments->held = original->held;
        fragments->wire_bytes = wire_bytes(d, fragments);
        d->n.fragments++;
        enqueue(d, fragments);
    }
}

/* The frame gets cells of its own, or with `lend` stays in the ring until it has left. */
static struct frame *keep(const struct frame *view, bool lend) {
    struct frame *frame = lend ? cell_take() : frame_copy(view);
    if (frame && lend)
        memcpy(frame, view, offsetof(struct frame, offload));
    if (frame)
        frame->held = view->held;
    return frame;
}

/* Enters a frame that still lies in the ring; true if it stays there. */
static bool enter(struct direction *d, struct frame *view, bool lend) {
    struct headers h = parse(view->data, view->length);
    struct virtio_net_hdr *o = offload_of(view);
    struct frame *fragments = NULL, *frame = NULL, *duplicate = NULL;
    enum reason reason = STAYS;

    advance(d, view->arrival_ns);
    /* What keeps a link alive (ARP, neighbour discovery) is not subject to chance: when the
     * hosts send it depends on their clocks, and the same experiment should stay the same. */
    view->number = h.version && !h.neighbours ? ++d->numbered : 0;
    view->wire_bytes = wire_bytes(d, view);
    view->payload_at = bundle_payload_at(view->data, &h, o);
    struct fate fate = scripted(d, &h, view->arrival_ns);
    view->held = fate.actions[HOLD] || happens(d, BY_REORDER, d->set.reorder, view->number);
    bool twice =
        fate.actions[DUPLICATE] || happens(d, BY_DUPLICATE, d->set.duplicate, view->number);
    uint32_t mtu = (uint32_t)d->set.mtu;
    bool too_long = mtu && h.version && packet_bytes(&h, o) > mtu;

    if (fate.actions[DROP])
        reason = SCRIPT;
    else if (happens(d, BY_LOSS, d->set.loss, view->number))
        reason = LOSS;
    else if (too_long && !may_fragment(view->data, &h, o, mtu))
        reason = MTU;
    else if (too_long)
        reason = (fragments = fragment(view->data, &h, o, mtu)) ? STAYS : MEMORY;
    else if (queue_is_full(d, view->length))
        reason = QUEUE;
    else if (!(frame = keep(view, lend)))
        reason = MEMORY;

    record_entry(d, view, view->length, reason, fragments ? "fragmented" : NULL);
    if (reason != STAYS)
        d->n.dropped[reason]++;
    if (reason == MTU)
        send_too_big(d, view, &h);
    if (fragments)
        enqueue_fragments(d, view, fragments);
    if (!frame)
        return false;
    frame->id = view->id;
    d->n.reordered += frame->held;
    if (twice && (duplicate = frame_copy(view)))
        d->n.duplicated++;
    enqueue(d, frame);
    if (duplicate)
        enqueue(d, duplicate);
    return lend;
}

#endif
