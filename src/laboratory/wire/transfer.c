/* transfer.c - see transfer.h. */
#include "transfer.h"

#include "pcapng.h"
#include "process.h"
#include "recording.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

/* ---- in ---- */

/* Returns the time of arrival on our clock. Even if the system's clock was set, the frame came
 * after all frames taken before, and before now. */
static int64_t arrival_ns(struct direction *d, struct port *port, const struct tpacket2_hdr *slot,
                          int64_t now) {
    int64_t t = slot->tp_sec * SECOND_NS + slot->tp_nsec - real_minus_monotonic_ns;
    if (t > now)
        t = min_ns(t, now_ns());
    t = max_ns(t, port->seen_ns);
    port->seen_ns = t;
    return d->last_arrival_ns = max_ns(t, d->last_arrival_ns);
}

/* Puts back a VLAN tag that the kernel took out, into the slack before the frame. */
static void put_tag_back(struct frame *view, const struct tpacket2_hdr *slot) {
    const size_t moved = sizeof(struct virtio_net_hdr) + 2UL * ETH_ALEN;
    uint16_t type = slot->tp_status & TP_STATUS_VLAN_TPID_VALID ? slot->tp_vlan_tpid : ETH_P_8021Q;
    uint8_t *start = (uint8_t *)offload_of(view);
    memmove(start - VLAN_BYTES, start, moved);
    put16(start + moved - VLAN_BYTES, type);
    put16(start + moved - 2, slot->tp_vlan_tci);
    view->data -= VLAN_BYTES;
    view->length += VLAN_BYTES;
    offload_of(view)->csum_start += VLAN_BYTES;
    offload_of(view)->hdr_len += VLAN_BYTES;
}

/* Takes the frame in the slot; returns true if it stays there until its departure. */
static bool take_arrival(struct direction *d, struct port *port, struct tpacket2_hdr *slot,
                         int64_t now, bool lend) {
    struct frame view = {
        .slot = slot,
        .data = (uint8_t *)slot + slot->tp_mac,
        .length = slot->tp_snaplen,
        .arrival_ns = arrival_ns(d, port, slot, now),
    };
    d->n.packets_in++;
    d->n.bytes_in += slot->tp_len;
    if (slot->tp_snaplen < slot->tp_len || slot->tp_len < ETH_HLEN) {
        link_refuse(d, &view, slot->tp_len);
        return false;
    }
    memcpy(port->speaker, view.data + ETH_ALEN, ETH_ALEN);
    if (slot->tp_status & TP_STATUS_VLAN_VALID)
        put_tag_back(&view, slot);
    return link_enter(d, &view, port, lend);
}

static bool stamped_before(const struct port *a, const struct port *b) {
    const struct tpacket2_hdr *x = port_slot(a), *y = port_slot(b);
    return x->tp_sec != y->tp_sec ? x->tp_sec < y->tp_sec : x->tp_nsec < y->tp_nsec;
}

/* Returns the port of this side whose next frame came first, or NULL. */
static struct port *earliest(struct side *side, int64_t now) {
    struct port *first = NULL;
    for (struct port *port = side->ports; port < side->ports + side->port_count; port++) {
        if (!port_has_frame(port))
            port->seen_ns = max_ns(port->seen_ns, now);
        else if (!first || stamped_before(port, first))
            first = port;
    }
    return first;
}

unsigned take_arrivals(struct direction *d, int64_t now) {
    /* Frames that leave immediately need not be copied out of the ring. */
    bool lend = link_is_transparent(d);
    unsigned taken = 0;
    struct port *port;
    for (; taken < BATCH && (port = earliest(d->from, now)); taken++) {
        struct tpacket2_hdr *slot = port_slot(port);
        port_next_slot(port);
        if (!take_arrival(d, port, slot, now, lend))
            slot_release(slot);
    }
    d->settled_ns = taken < BATCH ? now : d->last_arrival_ns;
    return taken;
}

/* ---- bundles ---- */

/*
 * Bundles are TCP segments that go to the kernel together.
 *
 * If frames are sent one by one, each runs the receiving host's whole TCP on this CPU, with cold
 * caches, before the next one leaves. That limits the wire's throughput more than this program. So
 * consecutive segments of one connection that are due together are sent as one super-segment. The
 * kernel may not pass a super-segment to this interface, since its TSO is off. So it segments it on
 * departure (GSO in Documentation/networking/segmentation-offloads.rst), and delivers the frames
 * together. On a 2-core machine the wire then carries 1.7 times as much.
 *
 * Frames are bundled only if the kernel restores each one bit for bit. That requires equal headers,
 * consecutive sequence numbers and IP identifications, full segments except for the last, and
 * correct checksums, since the kernel makes new ones. Every other frame is sent separately and
 * unchanged.
 */
/* Offsets in a plain segment: Ethernet 14, IPv4 20 or IPv6 40, TCP 20 and options. Those of TCP
   count from its own header. */
enum {
    AT_IP = ETH_HLEN,
    AT_IP_LENGTH = AT_IP + 2,
    AT_IP_ID = AT_IP + 4,
    AT_IP_CHECKSUM = AT_IP + 10,
    AT_IP_ADDRESSES = AT_IP + 12,
    AT_IPV6_LENGTH = AT_IP + 4,
    TCP_SEQ = 4,
    TCP_ACK_NUMBER = 8,
    TCP_FLAGS = 13,
    TCP_WINDOW = 14,
    TCP_CHECKSUM = 16,
    TCP_URGENT = 18,
    MAX_BUNDLE = 65535 + AT_IP,
    BUNDLE_HEADERS = sizeof(struct virtio_net_hdr) + AT_IP + 40 + 60,
};

static bool is_v4(const uint8_t *data) {
    return data[AT_IP] >> 4 == 4;
}

static uint16_t tcp_at(const uint8_t *data) {
    return AT_IP + (is_v4(data) ? 20 : 40);
}

/* Returns whether the checksum is zero, which has two representations. */
static bool is_ambiguous(const uint8_t *checksum) {
    return get16(checksum) == 0 || get16(checksum) == 0xffff;
}

static bool checksums_are_right(const struct frame *frame) {
    const uint8_t *data = frame->data, *tcp = data + tcp_at(data);
    if (is_v4(data) &&
        (is_ambiguous(data + AT_IP_CHECKSUM) || fold(sum_bytes(0, data + AT_IP, 20)) != 0xffff))
        return false;
    size_t tcp_bytes = frame->length - tcp_at(data);
    uint64_t sum = sum_bytes(pseudo_header_sum(data, IPPROTO_TCP, tcp_bytes), tcp, tcp_bytes);
    return !is_ambiguous(tcp + TCP_CHECKSUM) && fold(sum) == 0xffff;
}

static bool same(const uint8_t *a, const uint8_t *b, size_t from, size_t to) {
    return memcmp(a + from, b + from, to - from) == 0;
}

/* Returns whether the kernel would make the second IP header after the first. */
static bool ip_continues(const uint8_t *a, const uint8_t *b) {
    if (!same(a, b, 0, AT_IP_LENGTH))
        return false;
    if (!is_v4(a))
        return same(a, b, AT_IP_LENGTH, AT_IPV6_LENGTH) &&
               same(a, b, AT_IPV6_LENGTH + 2, AT_IP + 40);
    return get16(b + AT_IP_ID) == (uint16_t)(get16(a + AT_IP_ID) + 1) &&
           same(a, b, AT_IP_ID + 2, AT_IP_CHECKSUM) && same(a, b, AT_IP_ADDRESSES, AT_IP + 20);
}

/* Returns whether `next` may follow `last` in a bundle of segments as long as `first`. */
static bool continues(const struct frame *first, const struct frame *last,
                      const struct frame *next) {
    uint16_t payload_at = first->payload_at, at = tcp_at(first->data);
    const uint8_t *a = last->data + at, *b = next->data + at;
    return next->payload_at == payload_at && !next->more && last->length == first->length &&
           next->length <= first->length && ip_continues(last->data, next->data) &&
           !(a[TCP_FLAGS] & (TCP_PSH | TCP_FIN)) &&
           get32(b + TCP_SEQ) == get32(a + TCP_SEQ) + last->length - payload_at &&
           same(a, b, 0, TCP_SEQ) && same(a, b, TCP_ACK_NUMBER, TCP_FLAGS) &&
           same(a, b, TCP_WINDOW, TCP_CHECKSUM) && same(a, b, TCP_URGENT, payload_at - at);
}

/* Returns the number of frames, at least 1, that can leave as one bundle. */
static unsigned bundle_size(struct frame *const *frames, unsigned count) {
    const struct frame *first = frames[0];
    size_t total = first->length;
    unsigned size = 1;
    if (!first->payload_at || first->more)
        return 1;
    while (size < count && continues(first, frames[size - 1], frames[size]) &&
           total + frames[size]->length - first->payload_at <= MAX_BUNDLE &&
           checksums_are_right(frames[size]))
        total += frames[size++]->length - first->payload_at;
    return size > 1 && checksums_are_right(first) ? size : 1;
}

/* Fills in the message for `size` frames, with the first one's adapted headers and the payload of
   each. Returns the number of pieces used, size + 1. */
static unsigned bundle_message(struct frame *const *frames, unsigned size,
                               uint8_t headers[BUNDLE_HEADERS], struct iovec *pieces) {
    uint16_t payload_at = frames[0]->payload_at, at = tcp_at(frames[0]->data);
    bool v4 = is_v4(frames[0]->data);
    uint8_t *data = headers + sizeof(struct virtio_net_hdr);
    size_t total = payload_at;
    for (unsigned i = 0; i < size; i++) {
        size_t payload = frames[i]->length - payload_at;
        pieces[1 + i] = (struct iovec){frames[i]->data + payload_at, payload};
        total += payload;
    }
    struct virtio_net_hdr offload = {
        .flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
        .gso_type = v4 ? VIRTIO_NET_HDR_GSO_TCPV4 : VIRTIO_NET_HDR_GSO_TCPV6,
        .hdr_len = payload_at,
        .gso_size = (uint16_t)(frames[0]->length - payload_at),
        .csum_start = at,
        .csum_offset = TCP_CHECKSUM,
    };
    memcpy(headers, &offload, sizeof offload);
    memcpy(data, frames[0]->data, payload_at);
    put16(data + (v4 ? AT_IP_LENGTH : AT_IPV6_LENGTH), (uint32_t)total - (v4 ? AT_IP : at));
    /* The kernel clears PSH and FIN in all but the last segment. */
    data[at + TCP_FLAGS] = frames[size - 1]->data[at + TCP_FLAGS];
    uint16_t sum = fold(pseudo_header_sum(data, IPPROTO_TCP, total - at));
    memcpy(data + at + TCP_CHECKSUM, &sum, sizeof sum);
    pieces[0] = (struct iovec){headers, sizeof offload + payload_at};
    return size + 1;
}

/* ---- out ---- */

static void record_departure(const struct direction *d, const struct frame *frame, int64_t t,
                             bool refused) {
    if (!recording.on || frame->extra)
        return;
    struct comment comment = {.used = 0};
    add_text(&comment, refused ? "out; dropped=device; " : "out; ");
    if (frame->marked)
        add_text(&comment, "marked=ce; ");
    add_number(&comment, "due_ns=", recording_time(frame->departure_ns));
    add_number(&comment, " late_ns=", t - frame->departure_ns);
    record_packet(1 - d->index, PCAPNG_OUTBOUND, t, frame, frame->length, &comment);
}

/* Addresses the frame to the receiver's port, or to all ports if that is unknown. */
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

/* The arguments of sendmmsg(): messages of pieces, and the number of frames in each message. */
static struct mmsghdr messages[BATCH];
static unsigned message_frames[BATCH];
static struct iovec pieces[BATCH * (MAX_PIECES + 1)];
static uint8_t bundle_headers[BATCH][BUNDLE_HEADERS];

/* Fills in messages for the first frames of the outbox, all for the same port. */
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

/* Handles a refused first message, either by retrying later or by dropping it. */
static void take_refusal(struct direction *d, int64_t now) {
    d->blocked = errno == EAGAIN || errno == EINTR;
    if (d->blocked)
        return;
    if (errno == ENETDOWN || errno == ENXIO)
        fail("interface %s", d->outbox[0]->to->name);
    /* The neighbour is down or its backlog is full, so the frames are lost. */
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
    /* All that is known is that the frames left in order between the two readings of the clock. The
     * recording has the earlier end, so that no reply precedes its request. */
    int64_t gap_ns = (now_ns() - before) / left;
    for (unsigned i = 0; i < left; i++) {
        struct frame *departed = d->outbox[i];
        int64_t t = before + i * gap_ns;
        record_departure(d, departed, t, false);
        if (!departed->extra) {
            count_lateness(&d->n, t + gap_ns - departed->departure_ns);
            d->n.packets_out++;
            d->n.bytes_out += departed->length;
        }
        frame_free(departed);
    }
    outbox_remove(d, left);
    return left;
}
