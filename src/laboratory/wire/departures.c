/* departures.c - see departures.h. */
#define _GNU_SOURCE
#include "departures.h"

#include "bundle.h"
#include "clocks.h"
#include "pcapng.h"
#include "recording.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

static void record_departure(const struct direction *d, const struct frame *frame, int64_t t,
                             bool refused) {
    if (!recording_is_on() || frame->extra)
        return;
    struct comment comment = {.used = 0};
    add_text(&comment, refused ? "out; dropped=device; " : "out; ");
    add_number(&comment, "due_ns=", recording_time(frame->departure_ns));
    add_number(&comment, " late_ns=", t - frame->departure_ns);
    record_packet(d->to->interface, PCAPNG_OUTBOUND, t, frame, frame->length, &comment);
}

/* The frame left between t and the moment that `late_ns` after its departure is. */
static void departed(struct direction *d, struct frame *frame, int64_t t, int64_t late_ns) {
    record_departure(d, frame, t, false);
    if (!frame->extra) {
        count_lateness(&d->n, late_ns);
        d->n.packets_out++;
        d->n.bytes_out += frame->length;
    }
    frame_free(frame);
}

/* To the port behind which the receiver is; to all ports if that isn't known. */
static void address_frame(struct direction *d, struct frame *frame) {
    struct side *side = d->to;
    struct port *known = NULL;
    if (side->port_count > 1 && !(frame->data[0] & 1))
        known = side_find(side, frame->data);
    frame->to = known ? known : &side->ports[0];
    d->outbox[d->outbox_count++] = frame;
    for (unsigned i = 1; !known && i < side->port_count; i++) {
        struct frame *copy = frame_copy(frame);
        if (!copy)
            return;
        copy->departure_ns = frame->departure_ns;
        copy->extra = true;
        copy->to = &side->ports[i];
        d->outbox[d->outbox_count++] = copy;
    }
}

/* What sendmmsg() takes: messages of pieces, and how many frames each message is. */
static struct mmsghdr messages[BATCH];
static unsigned message_frames[BATCH];
static struct iovec pieces[BATCH * (MAX_PIECES + 1)];
static uint8_t bundle_headers[BATCH][BUNDLE_HEADERS];

/* Messages for the first frames of the outbox, all for the same port. */
static unsigned fill_messages(struct direction *d) {
    struct iovec *piece = pieces;
    struct port *port = d->outbox[0]->to;
    unsigned count = 0, run = 0;
    while (run < d->outbox_count && run < BATCH && d->outbox[run]->to == port)
        run++;
    for (unsigned i = 0; i < run; i += message_frames[count++]) {
        struct frame **frames = d->outbox + i;
        bool may_bundle = port->bundles && frames[0]->length <= port->mtu + ETH_HLEN;
        unsigned size = may_bundle ? bundle_size(frames, run - i) : 1;
        unsigned used = size > 1 ? bundle_message(frames, size, bundle_headers[count], piece)
                                 : frame_pieces(frames[0], piece);
        messages[count].msg_hdr = (struct msghdr){.msg_iov = piece, .msg_iovlen = used};
        message_frames[count] = size;
        piece += used;
    }
    return count;
}

static void outbox_remove(struct direction *d, unsigned count) {
    d->outbox_count -= count;
    memmove(d->outbox, d->outbox + count, d->outbox_count * sizeof(struct frame *));
}

/* The first message didn't leave: later, or never? */
static void take_refusal(struct direction *d, int64_t now) {
    d->blocked = errno == EAGAIN || errno == EINTR;
    if (d->blocked)
        return;
    /* The interface is down, or its neighbour's backlog is full: the frames are lost. */
    d->outbox[0]->to->down |= errno == ENETDOWN || errno == ENXIO;
    for (unsigned i = 0; i < message_frames[0]; i++) {
        record_departure(d, d->outbox[i], now, true);
        d->n.dropped[DEVICE] += !d->outbox[i]->extra;
        frame_free(d->outbox[i]);
    }
    outbox_remove(d, message_frames[0]);
}

unsigned send_due(struct direction *d, int64_t now) {
    struct frame *frame;
    while (d->outbox_count < BATCH && (frame = link_take_due(d, now)))
        address_frame(d, frame);
    if (d->outbox_count == 0)
        return 0;
    unsigned count = fill_messages(d), left = 0;
    int64_t before = now_ns();
    int sent = sendmmsg(d->outbox[0]->to->socket, messages, count, MSG_DONTWAIT);
    if (sent <= 0) {
        take_refusal(d, before);
        return 0;
    }
    d->blocked = false;
    for (int i = 0; i < sent; i++)
        left += message_frames[i];
    /* One after the other between the two readings of the clock; we don't know it closer. The
     * recording has the earlier end, so that no answer precedes its question. */
    int64_t each = (now_ns() - before) / left;
    for (unsigned i = 0; i < left; i++) {
        int64_t t = before + i * each;
        departed(d, d->outbox[i], t, t + each - d->outbox[i]->departure_ns);
    }
    outbox_remove(d, left);
    return left;
}
