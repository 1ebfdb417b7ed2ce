/* link.c - see link.h. */
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
    [AQM] = "aqm",           /* queue management dropped it (see queue.h) */
    [LOSS] = "loss",         /* random loss */
    [SCRIPT] = "script",     /* a rule of the script */
    [MTU] = "mtu",           /* longer than the hop's MTU, with DF set */
    [OVERSIZE] = "oversize", /* longer than the interface's MTU; super-segments need --offload */
    [MEMORY] = "memory",     /* the frames in flight filled --memory */
    [DEVICE] = "device",     /* the kernel refused it on departure, as no receiver is listening */
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
        unsigned sharing = sides[0].port_count > 1 ? sides[0].port_count : sides[1].port_count;
        directions[i].lane_count = sharing + 1;
    }
}

void link_change(struct direction *d, const struct settings *set, bool seeded) {
    int64_t now = d->settled_ns;
    link_advance(d, now);
    int64_t old_rate = d->set.rate_bps, old_aqm = d->set.aqm;
    d->set = *set;
    if (set->aqm != old_aqm)
        queue_change(&d->queue, set);
    if (seeded)
        d->numbered = d->offered = 0;
    if (!d->sending || set->rate_bps == old_rate || d->finish_ns <= now)
        return;
    double left_bits = (double)(d->finish_ns - now) * (double)old_rate;
    d->finish_ns = now + (set->rate_bps ? llrint(left_bits / (double)set->rate_bps) : 0);
}

/* Returns a uniform number in [0, 1) from splitmix64. It depends only on seed, direction, frame
   number and purpose. Each frame has eight elements of the sequence, four per direction. */
enum purpose { TO_BE_LOST = 1, TO_BE_DROPPED_EARLY };

static double chance(const struct direction *d, uint64_t number, enum purpose purpose) {
    uint64_t element = 8 * number + UINT64_C(4) * d->index + purpose;
    uint64_t x = mix64((uint64_t)d->set.seed + element * UINT64_C(0x9E3779B97F4A7C15));
    return (double)(x >> 11) * 0x1p-53;
}

/* ---- recording a frame's fate ---- */

static void add_queue(struct comment *comment, const struct direction *d) {
    add_number(comment, "queue_packets=", (int64_t)d->queue.packets);
    add_number(comment, " queue_bytes=", (int64_t)d->queue.bytes);
}

static void record_entry(struct direction *d, struct frame *frame, uint32_t length,
                         enum reason reason, const char *note) {
    if (!recording.on)
        return;
    frame->id = ++recording.last_id;
    struct comment comment = {.used = 0};
    add_text(&comment, "in; ");
    if (reason != STAYS) {
        add_text(&comment, "dropped=");
        add_text(&comment, reason_names[reason]);
        add_text(&comment, "; ");
    }
    add_queue(&comment, d);
    add_text(&comment, note);
    record_packet(d->index, PCAPNG_INBOUND, frame->arrival_ns, frame, length, &comment);
}

/* Drops frames from the queue at time t. */
static void discard(struct direction *d, struct fifo *dropped, int64_t t, enum reason reason) {
    for (struct frame *frame; (frame = fifo_pop(dropped)); frame_free(frame)) {
        d->n.dropped[reason]++;
        if (!recording.on)
            continue;
        struct comment comment = {.used = 0};
        add_text(&comment, "out; dropped=");
        add_text(&comment, reason_names[reason]);
        add_text(&comment, "; ");
        add_queue(&comment, d);
        record_packet(1 - d->index, PCAPNG_OUTBOUND, t, frame, frame->length, &comment);
    }
}

/* ---- queue, transmitter, line ---- */

static int64_t transmission_ns(const struct direction *d, const struct frame *frame) {
    if (d->set.rate_bps == 0)
        return 0;
    uint64_t rate = (uint64_t)d->set.rate_bps;
    return (int64_t)((UINT64_C(8) * SECOND_NS * frame->wire_bytes + rate / 2) / rate);
}

/* Returns the one-way delay of the line and the cables at its ends. */
static int64_t delay_ns(const struct direction *d, const struct frame *frame) {
    const struct side *shared = d->from->port_count > 1 ? d->from : d->to;
    const struct side *other = d->from->port_count > 1 ? d->to : d->from;
    return d->set.delay_ns + shared->ports[frame->lane].access_ns + other->ports[0].access_ns;
}

/* Schedules the arrival at the other end of a frame that has left the transmitter. */
static void put_on_line(struct direction *d, struct frame *frame) {
    unsigned number = frame->held ? d->lane_count - 1 : frame->lane;
    struct lane *lane = &d->lanes[number];
    int64_t departure = d->finish_ns + delay_ns(d, frame) + (frame->held ? d->set.hold_ns : 0);
    /* A shorter delay that is set meanwhile must not let frames overtake each other. */
    frame->departure_ns = lane->last_departure_ns = max_ns(departure, lane->last_departure_ns);
    fifo_push(&lane->fifo, frame);
    d->line_packets++;
    d->n.marked += frame->marked;
}

/* The transmitter takes the next frame of the queue, if there is one, at time t. */
static void send_next(struct direction *d, int64_t t) {
    struct fifo dropped = {0};
    d->sending = queue_take(&d->queue, &d->set, t, &dropped);
    discard(d, &dropped, t, AQM);
    if (d->sending)
        d->finish_ns = t + transmission_ns(d, d->sending);
}

void link_advance(struct direction *d, int64_t t) {
    while (d->sending && d->finish_ns <= t) {
        put_on_line(d, d->sending);
        send_next(d, d->finish_ns);
    }
}

/* Returns whether a frame that comes now would be dropped or marked. */
static enum admission admission(struct direction *d, const struct frame *frame) {
    double number = d->set.aqm == PIE ? chance(d, ++d->offered, TO_BE_DROPPED_EARLY) : 0;
    return queue_admits(&d->queue, &d->set, frame->arrival_ns, frame, d->sending, number);
}

/* Queues an admitted frame at the time of its arrival. */
static void enqueue_admitted(struct direction *d, struct frame *frame, enum admission admitted) {
    struct fifo dropped = {0};
    if (admitted == ADMIT_MARKED)
        mark_congestion(frame);
    queue_put(&d->queue, &d->set, frame, d->sending, &dropped);
    discard(d, &dropped, frame->arrival_ns, QUEUE);
    if (!d->sending) {
        send_next(d, max_ns(frame->arrival_ns, d->finish_ns));
        return;
    }
    if (d->queue.packets > d->n.queue_packets_max)
        d->n.queue_packets_max = d->queue.packets;
    if (d->queue.bytes > d->n.queue_bytes_max)
        d->n.queue_bytes_max = d->queue.bytes;
}

/* Queues or drops the frame at the time of its arrival. */
static void enqueue(struct direction *d, struct frame *frame) {
    /* Without a rate, earlier frames are on the line already. */
    link_advance(d, frame->arrival_ns);
    enum admission admitted = admission(d, frame);
    if (admitted == ADMIT || admitted == ADMIT_MARKED) {
        enqueue_admitted(d, frame, admitted);
        return;
    }
    d->n.dropped[admitted == REFUSE_EARLY ? AQM : QUEUE]++;
    frame_free(frame);
}

/* Returns the lane whose first frame leaves first, or NULL. */
static struct lane *first_lane(const struct direction *d) {
    const struct lane *first = NULL;
    for (const struct lane *lane = d->lanes; lane < d->lanes + d->lane_count; lane++)
        if (lane->fifo.head &&
            (!first || lane->fifo.head->departure_ns < first->fifo.head->departure_ns))
            first = lane;
    return (struct lane *)first;
}

struct frame *link_take_due(struct direction *d, int64_t t) {
    struct lane *first = d->line_packets ? first_lane(d) : NULL;
    if (!first || first->fifo.head->departure_ns > t)
        return NULL;
    d->line_packets--;
    return fifo_pop(&first->fifo);
}

int64_t link_next_event_ns(const struct direction *d) {
    int64_t next = NEVER;
    if (d->outbox_count)
        return d->blocked ? NEVER : 0;
    if (d->sending)
        next = d->finish_ns + delay_ns(d, d->sending);
    if (d->line_packets)
        next = min_ns(next, first_lane(d)->fifo.head->departure_ns);
    return next;
}

bool link_is_transparent(const struct direction *d) {
    return d->set.rate_bps == 0 && d->set.delay_ns == 0 && d->script.count == 0 && !d->sending &&
           !d->line_packets && !d->outbox_count;
}

/* ---- a frame enters the link ---- */

/* Returns the frame's bytes on the wire; a super-segment counts as its segments. */
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

/* Sends ICMP in the reverse direction, about a packet that is too long for the hop. */
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
        fragments->lane = original->lane;
        fragments->wire_bytes = wire_bytes(fragments);
        d->n.fragments++;
        enqueue(d, fragments);
    }
}

/* Returns why the frame is dropped, or STAYS; sets *fragments if it has to be split. */
static enum reason admit(struct direction *d, const struct frame *view, const struct headers *h,
                         unsigned struck, struct frame **fragments) {
    uint32_t mtu = (uint32_t)d->set.mtu;
    struct virtio_net_hdr *o = offload_of(view);
    bool lost = h->ip && chance(d, ++d->numbered, TO_BE_LOST) < d->set.loss;
    if (struck & 1U << DROP)
        return SCRIPT;
    if (lost)
        return LOSS;
    if (!mtu || !h->ip || packet_bytes(h, o) <= mtu)
        return STAYS;
    if (!may_fragment(view->data, h, o, mtu))
        return MTU;
    *fragments = fragment(view->data, h, o, mtu);
    return *fragments ? STAYS : MEMORY;
}

/* Returns which of the ports that share the link the frame comes from or goes to. */
static uint8_t lane_of(const struct direction *d, const struct frame *frame,
                       const struct port *port) {
    if (d->from->port_count == 1 && d->to->port_count > 1)
        port = side_find(d->to, frame->data);
    const struct side *side = d->from->port_count > 1 ? d->from : d->to;
    return port && d->lane_count > 2 ? (uint8_t)(port - side->ports) : 0;
}

bool link_enter(struct direction *d, struct frame *in_ring, const struct port *port, bool lend) {
    struct headers h = parse_headers(in_ring->data, in_ring->length);
    struct frame *frame = NULL, *fragments = NULL, *duplicate = NULL;
    enum admission admitted = ADMIT;

    link_advance(d, in_ring->arrival_ns);
    in_ring->wire_bytes = wire_bytes(in_ring);
    in_ring->payload_at = bundle_payload_at(in_ring->data, &h, offload_of(in_ring));
    in_ring->lane = lane_of(d, in_ring, port);
    unsigned struck = script_strikes(&d->script, &h);
    in_ring->held = struck & 1U << HOLD;
    enum reason reason = admit(d, in_ring, &h, struck, &fragments);
    if (reason == STAYS && !fragments) {
        admitted = admission(d, in_ring);
        if (admitted == REFUSE_FULL || admitted == REFUSE_EARLY)
            reason = admitted == REFUSE_EARLY ? AQM : QUEUE;
        else if (!(frame = lend ? frame_lend(in_ring) : frame_copy(in_ring)))
            reason = MEMORY;
    }

    record_entry(d, in_ring, in_ring->length, reason, fragments ? "; fragmented" : "");
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
    enqueue_admitted(d, frame, admitted);
    if (duplicate)
        enqueue(d, duplicate);
    return lend;
}

void link_refuse(struct direction *d, struct frame *cut_short, uint32_t length) {
    link_advance(d, cut_short->arrival_ns);
    d->n.dropped[OVERSIZE]++;
    record_entry(d, cut_short, length, OVERSIZE, "");
}

/* ---- lateness ---- */

static unsigned bucket_of(int64_t ns) {
    uint64_t value = ns > 0 ? (uint64_t)ns : 0;
    if (value < SUB_BUCKETS)
        return (unsigned)value;
    unsigned power = 63 - (unsigned)__builtin_clzll(value);
    return (power - 3) * SUB_BUCKETS + (unsigned)(value >> (power - 4) & (SUB_BUCKETS - 1));
}

/* Returns the largest value in the bucket. */
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
    n->late_packets += late_ns > LATE_NS;
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
    json_int(j, "late_packets", (int64_t)n->late_packets);
}
