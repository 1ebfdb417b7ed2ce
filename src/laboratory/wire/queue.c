/* queue.c - see queue.h. */
#include "queue.h"

#include "ports.h"
#include "process.h"

#include <math.h>
#include <string.h>

#define MS INT64_C(1000000)

enum { DROP_BATCH = 64, QUANTUM_BYTES = 1514 };

/* The RFCs' defaults; PIE's interval is T_UPDATE and its target is QDELAY_REF. */
static const struct {
    int64_t target_ns, interval_ns;
} recommended[] = {
    [CODEL] = {5 * MS, 100 * MS},
    [FQ_CODEL] = {5 * MS, 100 * MS},
    [PIE] = {15 * MS, 15 * MS},
};

static int64_t target_ns(const struct settings *set) {
    return set->target_ns ? set->target_ns : recommended[set->aqm].target_ns;
}

static int64_t interval_ns(const struct settings *set) {
    return set->interval_ns ? set->interval_ns : recommended[set->aqm].interval_ns;
}

/* ---- one flow's frames ---- */

static void flow_push(struct queue *q, struct flow *flow, struct frame *frame) {
    fifo_push(&flow->fifo, frame);
    q->packets++;
    q->bytes += frame->length;
    if (frame->length > q->longest)
        q->longest = frame->length;
}

static struct frame *flow_pop(struct queue *q, struct flow *flow) {
    struct frame *frame = fifo_pop(&flow->fifo);
    if (frame) {
        q->packets--;
        q->bytes -= frame->length;
    }
    return frame;
}

static bool mark(const struct settings *set, struct frame *frame) {
    return set->ecn && frame && mark_congestion(frame);
}

/* ---- CoDel: RFC 8289, section 5 ---- */

/* Returns the next frame; sets *late if waits have been too long for an interval. */
static struct frame *codel_next(struct queue *q, struct flow *flow, const struct settings *set,
                                int64_t now, bool *late) {
    struct codel *c = &flow->codel;
    struct frame *frame = flow_pop(q, flow);
    *late = false;
    if (!frame || now - frame->arrival_ns < target_ns(set) || flow->fifo.bytes <= q->longest)
        c->first_above_ns = 0;
    else if (c->first_above_ns == 0)
        c->first_above_ns = now + interval_ns(set);
    else
        *late = now >= c->first_above_ns;
    return frame;
}

static int64_t control_law(const struct settings *set, int64_t t, uint32_t count) {
    return t + llrint((double)interval_ns(set) / sqrt(count));
}

static struct frame *codel_take(struct queue *q, struct flow *flow, const struct settings *set,
                                int64_t now, struct fifo *dropped) {
    struct codel *c = &flow->codel;
    bool late;
    struct frame *frame = codel_next(q, flow, set, now, &late);
    if (c->dropping) {
        c->dropping = late;
        while (c->dropping && now >= c->drop_next_ns) {
            c->count++;
            if (mark(set, frame)) {
                c->drop_next_ns = control_law(set, c->drop_next_ns, c->count);
                break;
            }
            fifo_push(dropped, frame);
            frame = codel_next(q, flow, set, now, &late);
            c->dropping = late;
            if (late)
                c->drop_next_ns = control_law(set, c->drop_next_ns, c->count);
        }
    } else if (late) {
        if (!mark(set, frame)) {
            fifo_push(dropped, frame);
            frame = codel_next(q, flow, set, now, &late);
        }
        c->dropping = true;
        /* If it dropped frames recently, resume near the last drop rate. */
        uint32_t delta = c->count - c->last_count;
        bool recently = now - c->drop_next_ns < 16 * interval_ns(set);
        c->count = delta > 1 && recently ? delta : 1;
        c->drop_next_ns = control_law(set, now, c->count);
        c->last_count = c->count;
    }
    return frame;
}

/* ---- flow queueing: RFC 8290, section 4 ---- */

/* Returns the flow by hash of addresses, protocol and ports; other frames get the first flow. */
static struct flow *flow_of(struct queue *q, const struct settings *set,
                            const struct frame *frame) {
    uint64_t x = 0;
    size_t left;
    if (set->aqm != FQ_CODEL)
        return &q->flows[0];
    struct headers h = parse_headers(frame->data, frame->length);
    if (!h.ip)
        return &q->flows[0];
    for (const uint8_t *at = ip_addresses(frame->data, &left); left > 0; at += 8, left -= 8)
        x = mix64(x ^ ((uint64_t)get32(at) << 32 | get32(at + 4)));
    x = mix64(x ^ ((uint64_t)h.protocol << 32 | (uint32_t)h.source_port << 16 | h.dest_port));
    return &q->flows[mix64(x ^ (uint64_t)set->seed) % FLOWS];
}

static void list_push(struct flow_list *list, struct flow *flow) {
    flow->next = NULL;
    if (list->head)
        list->tail->next = flow;
    else
        list->head = flow;
    list->tail = flow;
}

/* Like Linux, drops up to half of the bytes of the largest flow, so that a flood costs one search
 * for many frames. */
static void drop_from_fattest(struct queue *q, struct fifo *dropped) {
    struct flow *fattest = &q->flows[0];
    for (struct flow *flow = q->flows; flow < q->flows + FLOWS; flow++)
        if (flow->fifo.bytes > fattest->fifo.bytes)
            fattest = flow;
    uint64_t half = fattest->fifo.bytes / 2, left = fattest->fifo.bytes;
    for (int i = 0; i < DROP_BATCH && left - fattest->fifo.bytes < half; i++)
        fifo_push(dropped, flow_pop(q, fattest));
}

static struct frame *fair_take(struct queue *q, const struct settings *set, int64_t now,
                               struct fifo *dropped) {
    for (;;) {
        struct flow_list *list = q->new_flows.head ? &q->new_flows : &q->old_flows;
        struct flow *flow = list->head;
        if (!flow)
            return NULL;
        if (flow->credit > 0) {
            struct frame *frame = codel_take(q, flow, set, now, dropped);
            if (frame) {
                flow->credit -= frame->length;
                return frame;
            }
            list->head = flow->next;
            flow->listed = list == &q->new_flows; /* a new flow waits for one more turn */
        } else {
            flow->credit += QUANTUM_BYTES;
            list->head = flow->next;
        }
        if (flow->listed)
            list_push(&q->old_flows, flow);
    }
}

/* ---- PIE: RFC 8033, sections 4 and 5 ---- */

static const int64_t max_burst_ns = 150 * MS;

/* Scales a step, since a low probability must change in small steps. */
static double pie_step(double probability, double step) {
    static const struct {
        double below, divisor;
    } scales[] = {{1e-6, 2048}, {1e-5, 512}, {1e-4, 128}, {1e-3, 32}, {1e-2, 8}, {1e-1, 2}};
    for (size_t i = 0; i < COUNT(scales); i++)
        if (probability < scales[i].below)
            return step / scales[i].divisor;
    return fmin(step, 0.02);
}

static void pie_update(struct pie *pie, int64_t delay_ns, int64_t target, int64_t period_ns) {
    double step = 0.125 * ((double)(delay_ns - target) / 1e9) +
                  1.25 * ((double)(delay_ns - pie->old_delay_ns) / 1e9);
    double probability = pie->probability + pie_step(pie->probability, step);
    if (delay_ns == 0 && pie->old_delay_ns == 0)
        probability *= 0.98;
    pie->probability = fmin(fmax(probability, 0), 1);
    pie->old_delay_ns = delay_ns;
    pie->burst_ns = max_ns(pie->burst_ns - period_ns, 0);
}

/* Makes up for all updates that were due, since their input does not change between frames. */
static void pie_catch_up(struct queue *q, const struct settings *set, int64_t now) {
    struct pie *pie = &q->pie;
    int64_t period_ns = interval_ns(set);
    if (set->aqm != PIE)
        return;
    if (pie->update_ns == 0)
        pie->update_ns = now + period_ns;
    for (; pie->update_ns <= now; pie->update_ns += period_ns) {
        int64_t delay_ns = q->packets ? pie->delay_ns : 0;
        /* Skip updates that would change nothing. */
        if (pie->probability == 0 && !delay_ns && !pie->old_delay_ns && !pie->burst_ns)
            pie->update_ns += (now - pie->update_ns) / period_ns * period_ns;
        else
            pie_update(pie, delay_ns, target_ns(set), period_ns);
    }
}

static bool pie_refuses(struct queue *q, const struct settings *set, double chance) {
    struct pie *pie = &q->pie;
    int64_t half = target_ns(set) / 2, delay_ns = q->packets ? pie->delay_ns : 0;
    if (pie->probability == 0 && delay_ns < half && pie->old_delay_ns < half)
        pie->burst_ns = max_burst_ns;
    if (pie->burst_ns > 0 || (pie->old_delay_ns < half && pie->probability < 0.2) ||
        q->bytes <= UINT64_C(2) * q->longest)
        return false;
    if (pie->probability == 0)
        pie->accumulated = 0;
    pie->accumulated += pie->probability;
    if (pie->accumulated < 0.85 || (pie->accumulated < 8.5 && chance >= pie->probability))
        return false;
    pie->accumulated = 0;
    return true;
}

/* ---- all disciplines ---- */

enum admission queue_admits(struct queue *q, const struct settings *set, int64_t now,
                            const struct frame *frame, bool busy, double chance) {
    uint64_t limit = (uint64_t)set->queue_packets;
    pie_catch_up(q, set, now);
    if (busy && limit && q->packets >= limit && set->aqm != FQ_CODEL)
        return REFUSE_FULL;
    if (set->aqm != PIE || !pie_refuses(q, set, chance))
        return ADMIT;
    /* Above a tenth, drop instead of marking (RFC 8033, 5.1). */
    bool marks = set->ecn && q->pie.probability <= 0.1 && allows_marking(frame);
    return marks ? ADMIT_MARKED : REFUSE_EARLY;
}

void queue_put(struct queue *q, const struct settings *set, struct frame *frame, bool busy,
               struct fifo *dropped) {
    struct flow *flow = flow_of(q, set, frame);
    uint64_t limit = (uint64_t)set->queue_packets;
    flow_push(q, flow, frame);
    if (set->aqm != FQ_CODEL)
        return;
    if (!flow->listed) {
        flow->listed = true;
        flow->credit = QUANTUM_BYTES;
        list_push(&q->new_flows, flow);
    }
    if (busy && limit && q->packets > limit)
        drop_from_fattest(q, dropped);
}

struct frame *queue_take(struct queue *q, const struct settings *set, int64_t now,
                         struct fifo *dropped) {
    struct flow *only = &q->flows[0];
    if (set->aqm == CODEL)
        return codel_take(q, only, set, now, dropped);
    if (set->aqm == FQ_CODEL)
        return fair_take(q, set, now, dropped);
    pie_catch_up(q, set, now);
    struct frame *frame = flow_pop(q, only);
    if (frame)
        q->pie.delay_ns = now - frame->arrival_ns;
    return frame;
}

void queue_change(struct queue *q, const struct settings *set) {
    struct fifo waiting = {0};
    while (q->packets) {
        struct flow *first = NULL;
        for (struct flow *flow = q->flows; flow < q->flows + FLOWS; flow++)
            if (flow->fifo.head &&
                (!first || flow->fifo.head->arrival_ns < first->fifo.head->arrival_ns))
                first = flow;
        fifo_push(&waiting, flow_pop(q, first));
    }
    memset(q, 0, sizeof *q);
    for (struct frame *frame; (frame = fifo_pop(&waiting));)
        queue_put(q, set, frame, false, NULL);
}
