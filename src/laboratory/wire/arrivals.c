/* arrivals.c - see arrivals.h. */
#define _GNU_SOURCE
#include "arrivals.h"

#include "clocks.h"
#include "packet.h"

#include <string.h>

/* The arrival's stamp in our clock. Whatever was done to the system's clock, the frame came
 * after everything before it had been taken, and before now. */
static int64_t arrival_ns(struct direction *d, struct port *port, const struct tpacket2_hdr *slot,
                          int64_t now) {
    int64_t t = slot->tp_sec * SECOND_NS + slot->tp_nsec - real_minus_monotonic_ns;
    if (t > now)
        t = min_ns(t, now_ns());
    t = max_ns(t, port->seen_ns);
    port->seen_ns = t;
    return d->last_arrival_ns = max_ns(t, d->last_arrival_ns);
}

/* The kernel keeps a VLAN tag apart from the frame: a copy of it with the tag in its place. */
static void put_tag_back(struct frame *view, const struct tpacket2_hdr *slot) {
    static uint8_t copy[sizeof(struct virtio_net_hdr) + MAX_FRAME];
    uint16_t type = slot->tp_status & TP_STATUS_VLAN_TPID_VALID ? slot->tp_vlan_tpid : ETH_P_8021Q;
    uint8_t *data = copy + sizeof(struct virtio_net_hdr);
    const uint32_t at = 2 * ETH_ALEN;
    struct virtio_net_hdr offloaded = *offload_of(view);
    offloaded.csum_start += VLAN_BYTES;
    offloaded.hdr_len += VLAN_BYTES;
    memcpy(copy, &offloaded, sizeof offloaded);
    memcpy(data, view->data, at);
    put16(data + at, type);
    put16(data + at + 2, slot->tp_vlan_tci);
    memcpy(data + at + VLAN_BYTES, view->data + at, view->length - at);
    view->data = data;
    view->length += VLAN_BYTES;
}

/* Takes the frame in the slot; true if it stays there until it has left. */
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
    if (d->from->port_count > 1)
        side_learn(d->from, port, view.data + ETH_ALEN);
    bool tagged = slot->tp_status & TP_STATUS_VLAN_VALID;
    if (tagged)
        put_tag_back(&view, slot);
    return link_enter(d, &view, lend && !tagged);
}

static bool stamped_before(const struct port *a, const struct port *b) {
    const struct tpacket2_hdr *x = port_slot(a), *y = port_slot(b);
    return x->tp_sec != y->tp_sec ? x->tp_sec < y->tp_sec : x->tp_nsec < y->tp_nsec;
}

/* The port of this side whose next frame came first, or NULL. */
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
    /* What leaves at once needn't be copied out of the ring. */
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
