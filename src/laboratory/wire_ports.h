/*
 * wire_ports.h - the interfaces of wire.c: frames come in through rings that the
 * kernel fills, and leave many to a system call.
 *
 * Sources: packet(7); the kernel's Documentation/networking/packet_mmap.rst.
 */
#ifndef WIRE_PORTS_H
#define WIRE_PORTS_H

#include "wire_bundle.h"
#include "wire_model.h"

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

/* ---- opening interfaces ---- */

static void packet_option(const struct port *port, int option, int value, const char *what) {
    if (setsockopt(port->socket, SOL_PACKET, option, &value, sizeof value) == -1)
        fail("%s: %s", port->name, what);
}

static struct ifreq interface_request(const struct port *port) {
    struct ifreq request = {0};
    memcpy(request.ifr_name, port->name, sizeof port->name);
    return request;
}

static uint32_t interface_mtu(const struct port *port) {
    struct ifreq request = interface_request(port);
    if (ioctl(port->socket, SIOCGIFMTU, &request) == -1)
        fail("%s: reading the MTU", port->name);
    return (uint32_t)request.ifr_mtu;
}

/* False also if the interface won't say. */
static bool feature_is_off(const struct port *port, uint32_t command) {
    struct ethtool_value value = {.cmd = command, .data = 1};
    struct ifreq request = interface_request(port);
    request.ifr_data = (void *)&value;
    return ioctl(port->socket, SIOCETHTOOL, &request) == 0 && value.data == 0;
}

static bool is_up(const struct port *port) {
    struct ifreq request = interface_request(port);
    return ioctl(port->socket, SIOCGIFFLAGS, &request) == 0 && request.ifr_flags & IFF_UP;
}

static void start_receiving(const struct port *port) {
    struct sockaddr_ll address = {
        .sll_family = AF_PACKET,
        .sll_protocol = htons(ETH_P_ALL),
        .sll_ifindex = port->index,
    };
    if (bind(port->socket, (struct sockaddr *)&address, sizeof address) == -1)
        fail("%s: bind", port->name);
}

/* TPACKET_V2 and not V3: V3 hands over blocks of frames, up to a timer tick late. */
static void ring_open(struct port *port, size_t bytes) {
    uint32_t frame_bytes = port->mtu + ETH_HLEN + 2 * VLAN_BYTES;
    if (offload && frame_bytes < MAX_FRAME)
        frame_bytes = MAX_FRAME;
    port->slot_bytes = (frame_bytes + 96 + 63) / 64 * 64; /* 96: the headers of a slot */
    port->block_bytes = 1 << 16;
    while (port->block_bytes < 8 * port->slot_bytes)
        port->block_bytes *= 2;
    port->slots_per_block = port->block_bytes / port->slot_bytes;
    /* At least twice what may be lent out of the ring at a time. */
    size_t least = (2 * BATCH + port->slots_per_block - 1) / port->slots_per_block;
    size_t blocks = bytes / port->block_bytes;
    port->blocks = (unsigned)(blocks < least ? least : blocks);
    struct tpacket_req request = {
        .tp_block_size = port->block_bytes,
        .tp_block_nr = port->blocks,
        .tp_frame_size = port->slot_bytes,
        .tp_frame_nr = port->blocks * port->slots_per_block,
    };
    size_t size = (size_t)port->block_bytes * port->blocks;
    if (setsockopt(port->socket, SOL_PACKET, PACKET_RX_RING, &request, sizeof request) == -1)
        fail("%s: --ring: a receive ring of %zu bytes", port->name, size);
    port->ring = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, port->socket, 0);
    if (port->ring == MAP_FAILED)
        fail("%s: --ring: mapping %zu bytes", port->name, size);
}

static void port_open(struct port *port, const char *name, size_t ring_bytes) {
    if (strlen(name) >= sizeof port->name || *name == '\0')
        usage_error("'%s' is not the name of a network interface", name);
    snprintf(port->name, sizeof port->name, "%s", name);
    port->index = (int)if_nametoindex(name);
    if (port->index == 0)
        fail("no network interface '%s' here", name);
    for (const struct port *other = ports; other < port; other++)
        if (other->index == port->index)
            usage_error("interface '%s' is named twice", name);
    /* Protocol 0 until the ring stands: nothing is received half-configured. */
    port->socket = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
    if (port->socket == -1)
        fail("%s: a packet socket (needs CAP_NET_RAW)", name);
    packet_option(port, PACKET_VERSION, TPACKET_V2, "TPACKET_V2");
    packet_option(port, PACKET_IGNORE_OUTGOING, 1, "PACKET_IGNORE_OUTGOING");
    packet_option(port, PACKET_VNET_HDR, 1, "PACKET_VNET_HDR");
    int sndbuf = 1 << 22; /* the kernel silently gives what it allows */
    setsockopt(port->socket, SOL_SOCKET, SO_SNDBUF, &sndbuf, sizeof sndbuf);
    port->mtu = interface_mtu(port);
    port->bundles =
        !offload && feature_is_off(port, ETHTOOL_GTSO) && feature_is_off(port, ETHTOOL_GTXCSUM);
    ring_open(port, ring_bytes);
    port->seen_ns = now_ns();
    start_receiving(port);
    port->down = !is_up(port);
}

/* "c1,c2,c3": the names are cut apart in place. */
static void side_open(struct side *side, char *names, size_t ring_bytes) {
    snprintf(side->name, sizeof side->name, "%s", names);
    side->ports = &ports[port_count];
    for (char *name; (name = strsep(&names, ",")); side->port_count++) {
        if (port_count == MAX_PORTS)
            usage_error("more than %d interfaces", MAX_PORTS);
        port_open(&ports[port_count++], name, ring_bytes);
    }
}

static void direction_open(struct direction *d, struct side *from, struct side *to,
                           struct direction *back, uint64_t stream) {
    d->from = from;
    d->to = to;
    d->back = back;
    d->stream = stream;
    d->set = default_settings;
}

static void link_open(char *names, size_t ring_bytes) {
    struct link *link = &links[link_count];
    char *b = strchr(names, ':');
    if (!b)
        usage_error("'%s' is not a pair of interfaces like eth0:eth1", names);
    *b++ = '\0';
    side_open(&link->a, names, ring_bytes);
    side_open(&link->b, b, ring_bytes);
    link->a.interface = 2 * link_count;
    link->b.interface = 2 * link_count + 1;
    direction_open(&link->ab, &link->a, &link->b, &link->ba, 0);
    direction_open(&link->ba, &link->b, &link->a, &link->ab, 4);
    link_count++;
}

/* ---- frames in: the ring of an interface ---- */

static struct tpacket2_hdr *ring_slot(const struct port *port) {
    return (struct tpacket2_hdr *)(port->ring + (size_t)port->block * port->block_bytes +
                                   (size_t)port->slot * port->slot_bytes);
}

static void ring_next(struct port *port) {
    if (++port->slot == port->slots_per_block) {
        port->slot = 0;
        if (++port->block == port->blocks)
            port->block = 0;
    }
}

static bool ring_has_frame(const struct port *port) {
    uint32_t status = *(volatile uint32_t *)&ring_slot(port)->tp_status;
    atomic_thread_fence(memory_order_acquire);
    return status & TP_STATUS_USER;
}

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

/* With several ports on a side, an address is behind the port it last spoke from. */
static struct station *find_station(struct side *side, const uint8_t *address) {
    for (unsigned i = 0; i < side->station_count; i++)
        if (memcmp(side->stations[i].address, address, ETH_ALEN) == 0)
            return &side->stations[i];
    return NULL;
}

static void learn(struct side *side, struct port *port, const uint8_t *source) {
    struct station *station = find_station(side, source);
    if (!station) {
        /* A full table forgets its oldest entry; frames to it go to every port again. */
        station = &side->stations[side->station_count % MAX_STATIONS];
        if (side->station_count < MAX_STATIONS)
            side->station_count++;
        memcpy(station->address, source, ETH_ALEN);
    }
    station->port = port;
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
        advance(d, view.arrival_ns);
        d->n.dropped[OVERSIZE]++;
        record_entry(d, &view, slot->tp_len, OVERSIZE, NULL);
        return false;
    }
    if (d->from->port_count > 1)
        learn(d->from, port, view.data + ETH_ALEN);
    bool tagged = slot->tp_status & TP_STATUS_VLAN_VALID;
    if (tagged)
        put_tag_back(&view, slot);
    return enter(d, &view, lend && !tagged);
}

static bool stamped_before(const struct port *a, const struct port *b) {
    const struct tpacket2_hdr *x = ring_slot(a), *y = ring_slot(b);
    return x->tp_sec != y->tp_sec ? x->tp_sec < y->tp_sec : x->tp_nsec < y->tp_nsec;
}

/* The port of this side whose next frame came first, or NULL. */
static struct port *earliest(struct side *side, int64_t now) {
    struct port *first = NULL;
    for (unsigned i = 0; i < side->port_count; i++) {
        struct port *port = &side->ports[i];
        if (!ring_has_frame(port))
            port->seen_ns = max_ns(port->seen_ns, now);
        else if (!first || stamped_before(port, first))
            first = port;
    }
    return first;
}

/* Will whatever comes now leave at once? Then it needn't be copied out of the ring. */
static bool is_transparent(const struct direction *d) {
    const struct settings *set = &d->set;
    return set->rate_bps == 0 && set->delay_ns == 0 && set->jitter_ns == 0 && set->reorder == 0 &&
           d->rule_count == 0 && !d->sending && !d->line.head && !d->outbox_count;
}

static unsigned take_arrivals(struct direction *d, int64_t now) {
    bool lend = is_transparent(d);
    unsigned taken = 0;
    struct port *port;
    for (; taken < BATCH && (port = earliest(d->from, now)); taken++) {
        struct tpacket2_hdr *slot = ring_slot(port);
        ring_next(port);
        if (!take_arrival(d, port, slot, now, lend))
            slot_release(slot);
    }
    d->settled_ns = taken < BATCH ? now : d->last_arrival_ns;
    return taken;
}

/* ---- frames out ---- */

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

/* The frame left between t and the moment that `late_ns` after its departure is. */
static void departed(struct direction *d, struct frame *frame, int64_t t, int64_t late_ns) {
    record_departure(d, frame, t, false);
    if (!frame->extra) {
        d->n.late_ns_max = max_ns(d->n.late_ns_max, late_ns);
        d->n.late[bucket_of(late_ns)]++;
        d->n.packets_out++;
        d->n.bytes_out += frame->length;
    }
    frame_free(frame);
}

/* To the port behind which the receiver is; to all ports if that isn't known. */
static void address(struct direction *d, struct frame *frame) {
    struct side *side = d->to;
    struct station *station = NULL;
    if (side->port_count > 1 && !(frame->data[0] & 1))
        station = find_station(side, frame->data);
    frame->to = station ? station->port : &side->ports[0];
    d->outbox[d->outbox_count++] = frame;
    for (unsigned i = 1; !station && i < side->port_count; i++) {
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

static unsigned frame_message(struct frame *frame, struct iovec *piece) {
    unsigned count = 0;
    size_t left = frame->length;
    for (struct frame *cell = frame; left > 0; cell = cell->more) {
        size_t part = piece_bytes(frame, left);
        piece[count++] = (struct iovec){cell->data, part};
        left -= part;
    }
    piece[0].iov_base = offload_of(frame);
    piece[0].iov_len += sizeof(struct virtio_net_hdr);
    return count;
}

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
                                 : frame_message(frames[0], piece);
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
static void refused(struct direction *d, int64_t now) {
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

/* Sends what is due at time `now`; returns how many frames left. */
static unsigned send_due(struct direction *d, int64_t now) {
    struct frame *frame;
    while (d->outbox_count < BATCH && (frame = take_due(d, now)))
        address(d, frame);
    if (d->outbox_count == 0)
        return 0;
    unsigned count = fill_messages(d), left = 0;
    int64_t before = now_ns();
    int sent = sendmmsg(d->outbox[0]->to->socket, messages, count, MSG_DONTWAIT);
    if (sent <= 0) {
        refused(d, before);
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

#endif
