/* link.c - see link.h. */
#define _GNU_SOURCE
#include "link.h"

#include "pcapng.h"
#include "process.h"
#include "recording.h"

#include <math.h>
#include <string.h>

enum {
    FRAMING_BYTES = 24,   /* preamble, FCS, gap */
    MIN_FRAME_BYTES = 60, /* Ethernet pads shorter frames to this (64 with the FCS) */
};

const char *const reason_names[REASONS] = {
    [QUEUE] = "queue",       /* the queue was full */
    [LOSS] = "loss",         /* chance */
    [SCRIPT] = "script",     /* a rule of the script */
    [MTU] = "mtu",           /* longer than the hop's MTU, and DF set */
    [OVERSIZE] = "oversize", /* longer than the interface's MTU: super-segments need --offload */
    [MEMORY] = "memory",     /* the frames in flight filled --memory */
    [DEVICE] = "device",     /* the kernel refused it on the way out: nobody listens */
};

struct direction directions[2];
struct side sides[2];

void link_open(char *names, bool offload) {
    char *b = strchr(names, ':');
    if (!b)
        usage_error("'%s' is not a pair of interfaces like eth0:eth1", names);
    *b++ = '\0';
    side_open(&sides[0], names, offload);
    side_open(&sides[1], b, offload);
    for (uint32_t i = 0; i < 2; i++) {
        directions[i].index = i;
        directions[i].from = &sides[i];
        directions[i].to = &sides[1 - i];
        directions[i].set = default_settings;
    }
}

void link_change(struct direction *d, const struct settings *set, bool seeded) {
    int64_t now = d->settled_ns;
    link_advance(d, now);
    int64_t old_rate = d->set.rate_bps;
    d->set = *set;
    if (seeded)
        d->numbered = 0;
    if (!d->sending || set->rate_bps == old_rate || d->finish_ns <= now)
        return;
    double left_bits = (double)(d->finish_ns - now) * (double)old_rate;
    d->finish_ns = now + (set->rate_bps ? llrint(left_bits / (double)set->rate_bps) : 0);
}

/*
 * Is the frame of this number lost? splitmix64, addressed by number: the same for the same seed,
 * direction and number, whatever else happens. Eight elements belong to each frame, four of them to
 * each direction.
 */
static bool is_lost(const struct direction *d, uint64_t number) {
    if (d->set.loss == 0)
        return false;
    uint64_t element = 8 * number + UINT64_C(4) * d->index + 1;
    uint64_t x = (uint64_t)d->set.seed + element * UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    x ^= x >> 31;
    return (double)(x >> 11) * 0x1p-53 < d->set.loss; /* uniform in [0, 1) */
}

/* ---- queue, transmitter, line ---- */

static int64_t transmission_ns(const struct direction *d, const struct frame *frame) {
    if (d->set.rate_bps == 0)
        return 0;
    uint64_t rate = (uint64_t)d->set.rate_bps;
    return (int64_t)((UINT64_C(8) * SECOND_NS * frame->wire_bytes + rate / 2) / rate);
}

/* The frame has left the transmitter: when will it arrive at the other end? */
static void put_on_line(struct direction *d, struct frame *frame) {
    int64_t departure = d->finish_ns + d->set.delay_ns;
    if (frame->held) {
        departure = max_ns(departure + d->set.hold_ns, d->last_held_ns);
        frame->departure_ns = d->last_held_ns = departure;
        fifo_push(&d->held, frame);
        return;
    }
    /* Nor does a shorter delay, set meanwhile, let frames pass each other. */
    frame->departure_ns = d->last_departure_ns = max_ns(departure, d->last_departure_ns);
    fifo_push(&d->line, frame);
}

static void start_sending(struct direction *d, struct frame *frame) {
    d->sending = frame;
    d->finish_ns = max_ns(frame->arrival_ns, d->finish_ns) + transmission_ns(d, frame);
}

void link_advance(struct direction *d, int64_t t) {
    while (d->sending && d->finish_ns <= t) {
        put_on_line(d, d->sending);
        d->sending = NULL;
        struct frame *next = fifo_pop(&d->queue);
        if (next)
            start_sending(d, next);
    }
}

/* Would a frame that comes now be dropped? */
static bool queue_is_full(const struct direction *d) {
    uint64_t limit = (uint64_t)d->set.queue_packets;
    return d->sending && limit && d->queue.packets >= limit;
}

/* Offers the frame a place, at the time of its arrival. */
static void enqueue(struct direction *d, struct frame *frame) {
    /* Without a rate, what came just before is on the line already. */
    link_advance(d, frame->arrival_ns);
    if (queue_is_full(d)) {
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

struct frame *link_take_due(struct direction *d, int64_t t) {
    struct fifo *first = &d->line;
    if (!first->head || (d->held.head && d->held.head->departure_ns < first->head->departure_ns))
        first = &d->held;
    return first->head && first->head->departure_ns <= t ? fifo_pop(first) : NULL;
}

int64_t link_next_event_ns(const struct direction *d) {
    int64_t next = NEVER;
    if (d->outbox_count)
        return d->blocked ? NEVER : 0;
    if (d->sending)
        next = d->finish_ns + d->set.delay_ns;
    if (d->line.head)
        next = min_ns(next, d->line.head->departure_ns);
    if (d->held.head)
        next = min_ns(next, d->held.head->departure_ns);
    return next;
}

bool link_is_transparent(const struct direction *d) {
    return d->set.rate_bps == 0 && d->set.delay_ns == 0 && d->script.count == 0 && !d->sending &&
           !d->line.head && !d->outbox_count;
}

/* ---- the recording of a frame's entry ---- */

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
    if (!recording.on)
        return;
    frame->id = ++recording.last_id;
    struct comment comment = entry_comment(d, reason);
    if (note) {
        add_text(&comment, "; ");
        add_text(&comment, note);
    }
    record_packet(d->index, PCAPNG_INBOUND, frame->arrival_ns, frame, length, &comment);
}

/* ---- a frame enters the link ---- */

/* What the frame takes on the wire. A super-segment counts as the segments it stands for. */
static uint32_t wire_bytes(const struct frame *frame) {
    uint32_t length = frame->length, segments = 1;
    const struct virtio_net_hdr *o = offload_of(frame);
    if (o->gso_type != VIRTIO_NET_HDR_GSO_NONE && o->gso_size && o->hdr_len < length) {
        segments = (length - o->hdr_len + o->gso_size - 1U) / o->gso_size;
        length += (segments - 1) * o->hdr_len;
    }
    if (length < MIN_FRAME_BYTES)
        length = MIN_FRAME_BYTES;
    return length + segments * FRAMING_BYTES;
}

/* Tells the sender of a packet that is too long for the hop, over the reverse direction. */
static void send_too_big(struct direction *d, const struct frame *frame, const struct headers *h) {
    struct frame *message = NULL;
    if (d->set.icmp)
        message = too_big_message(frame->data, h, (uint32_t)d->set.mtu);
    if (!message)
        return;
    message->arrival_ns = frame->arrival_ns;
    message->id = frame->id;
    message->wire_bytes = wire_bytes(message);
    struct direction *back = &directions[1 - d->index];
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
        fragments->held = original->held;
        fragments->wire_bytes = wire_bytes(fragments);
        d->n.fragments++;
        enqueue(d, fragments);
    }
}

/*
 * Why the frame does not enter; STAYS if it does, as *fragments if it has to be cut up. What keeps
 * a link alive (ARP) is never lost by chance: when the hosts send it depends on their clocks, and
 * the same experiment should stay the same.
 */
static enum reason admit(struct direction *d, const struct frame *view, const struct headers *h,
                         unsigned struck, struct frame **fragments) {
    uint32_t mtu = (uint32_t)d->set.mtu;
    struct virtio_net_hdr *o = offload_of(view);
    bool lost = h->ip && is_lost(d, ++d->numbered);
    if (struck & 1U << DROP)
        return SCRIPT;
    if (lost)
        return LOSS;
    if (!mtu || !h->ip || packet_bytes(h, o) <= mtu)
        return queue_is_full(d) ? QUEUE : STAYS;
    if (!may_fragment(view->data, h, o, mtu))
        return MTU;
    *fragments = fragment(view->data, h, o, mtu);
    return *fragments ? STAYS : MEMORY;
}

bool link_enter(struct direction *d, struct frame *in_ring, bool lend) {
    struct headers h = parse_headers(in_ring->data, in_ring->length);
    struct frame *frame = NULL, *fragments = NULL, *duplicate = NULL;

    link_advance(d, in_ring->arrival_ns);
    in_ring->wire_bytes = wire_bytes(in_ring);
    in_ring->payload_at = bundle_payload_at(in_ring->data, &h, offload_of(in_ring));
    unsigned struck = script_strikes(&d->script, &h);
    in_ring->held = struck & 1U << HOLD;
    enum reason reason = admit(d, in_ring, &h, struck, &fragments);
    if (reason == STAYS && !fragments &&
        !(frame = lend ? frame_lend(in_ring) : frame_copy(in_ring)))
        reason = MEMORY;

    record_entry(d, in_ring, in_ring->length, reason, fragments ? "fragmented" : NULL);
    if (reason != STAYS)
        d->n.dropped[reason]++;
    if (reason == MTU)
        send_too_big(d, in_ring, &h);
    if (fragments)
        enqueue_fragments(d, in_ring, fragments);
    if (!frame)
        return false;
    frame->id = in_ring->id;
    frame->held = in_ring->held;
    d->n.reordered += frame->held;
    if (struck & 1U << DUPLICATE && (duplicate = frame_copy(in_ring)))
        d->n.duplicated++;
    enqueue(d, frame);
    if (duplicate)
        enqueue(d, duplicate);
    return lend;
}

void link_refuse(struct direction *d, struct frame *cut_short, uint32_t length) {
    link_advance(d, cut_short->arrival_ns);
    d->n.dropped[OVERSIZE]++;
    record_entry(d, cut_short, length, OVERSIZE, NULL);
}

/* ---- lateness ---- */

static unsigned bucket_of(int64_t ns) {
    uint64_t value = ns > 0 ? (uint64_t)ns : 0;
    if (value < SUB_BUCKETS)
        return (unsigned)value;
    unsigned power = 63 - (unsigned)__builtin_clzll(value);
    return (power - 3) * SUB_BUCKETS + (unsigned)(value >> (power - 4) & (SUB_BUCKETS - 1));
}

/* The largest value that falls into the bucket. */
static int64_t bucket_top_ns(unsigned bucket) {
    if (bucket < SUB_BUCKETS)
        return bucket;
    unsigned power = bucket / SUB_BUCKETS + 3;
    uint64_t step = UINT64_C(1) << (power - 4);
    return (int64_t)((SUB_BUCKETS + bucket % SUB_BUCKETS + 1) * step - 1);
}

void count_lateness(struct counters *n, int64_t late_ns) {
    n->late_ns_max = max_ns(n->late_ns_max, late_ns);
    n->late[bucket_of(late_ns)]++;
}

static int64_t late_percentile_ns(const struct counters *n, double share) {
    uint64_t wanted = (uint64_t)ceil(share * (double)n->packets_out), seen = 0;
    for (unsigned i = 0; i < BUCKETS && n->packets_out; i++)
        if ((seen += n->late[i]) >= wanted)
            return min_ns(bucket_top_ns(i), n->late_ns_max);
    return 0;
}

void lateness_write(struct json *j, const struct counters *n) {
    json_object(j, "late_ns");
    json_int(j, "p50", late_percentile_ns(n, 0.5));
    json_int(j, "p99", late_percentile_ns(n, 0.99));
    json_int(j, "max", n->late_ns_max);
    json_end_object(j);
}
