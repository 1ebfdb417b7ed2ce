/*
 * wire_frame.h - frames for wire.c: where they are kept, and what is in them.
 */
#ifndef WIRE_FRAME_H
#define WIRE_FRAME_H

#include "net.h"

#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

/* ---- the store: cells of one size from one reserved region, so no malloc a frame ---- */

enum { CELL_BYTES = 2048 }; /* one cell holds a frame of MTU 1500, longer ones take several */

struct frame {
    struct frame *next;        /* the frame behind this one, or the next free cell */
    struct frame *more;        /* the cell with the rest of a frame too long for one */
    struct tpacket2_hdr *slot; /* the frame still lies in this slot of the receive ring, or NULL */
    uint8_t *data;             /* its Ethernet header, in the ring or in bytes[] */
    struct port *to;           /* where it is to leave, once it is due */
    int64_t arrival_ns;
    int64_t departure_ns;
    uint64_t id;         /* in the recording */
    uint64_t number;     /* the how-manieth frame that chance may touch; 0: chance may not */
    uint32_t length;     /* bytes from the Ethernet header on, without the FCS */
    uint32_t wire_bytes; /* bytes it takes on the wire, framing included */
    uint16_t payload_at; /* where the payload of a plain TCP segment begins; 0: it is none */
    bool held;           /* made to wait so that others overtake it */
    bool extra;          /* one more copy of it, for another port of the same side */
    struct virtio_net_hdr offload; /* directly before the data, here as in the ring */
    uint8_t bytes[];
};

#define CELL_CAPACITY (CELL_BYTES - offsetof(struct frame, bytes))
_Static_assert(offsetof(struct frame, bytes) ==
                   offsetof(struct frame, offload) + sizeof(struct virtio_net_hdr),
               "the offload header must lie directly before the frame");

/*
 * What the sender left to "the network card": a checksum to fill in, a super-segment to cut up.
 * Socket option PACKET_VNET_HDR puts it before each frame, received or sent.
 */
static inline struct virtio_net_hdr *offload_of(const struct frame *frame) {
    return (struct virtio_net_hdr *)(frame->data - sizeof(struct virtio_net_hdr));
}

static struct {
    uint8_t *memory;
    size_t cells;   /* in the region */
    size_t touched; /* ever handed out: what the store occupies in RAM */
    struct frame *free;
} store;

static void store_open(size_t bytes) {
    store.cells = bytes / CELL_BYTES;
    /* Reserved, not occupied: a cell costs RAM only once it has been used. */
    store.memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (store.memory == MAP_FAILED)
        fail("--memory: reserving %zu bytes for the frames in flight", bytes);
}

static struct frame *cell_take(void) {
    struct frame *cell = store.free;
    if (cell)
        store.free = cell->next;
    else if (store.touched < store.cells)
        cell = (struct frame *)(store.memory + CELL_BYTES * store.touched++);
    else
        return NULL;
    memset(cell, 0, offsetof(struct frame, bytes));
    cell->data = cell->bytes;
    return cell;
}

/* The kernel may fill the slot again from here on. */
static void slot_release(struct tpacket2_hdr *slot) {
    atomic_thread_fence(memory_order_release);
    *(volatile uint32_t *)&slot->tp_status = TP_STATUS_KERNEL;
}

static void frame_free(struct frame *frame) {
    if (frame && frame->slot)
        slot_release(frame->slot);
    while (frame) {
        struct frame *more = frame->more;
        frame->next = store.free;
        store.free = frame;
        frame = more;
    }
}

/* A frame with room for `length` bytes, or NULL when the store is full. */
static struct frame *frame_new(size_t length) {
    struct frame *first = cell_take(), *last = first;
    for (size_t room = CELL_CAPACITY; last && room < length; room += CELL_CAPACITY) {
        last->more = cell_take();
        last = last->more;
    }
    if (!last) {
        frame_free(first);
        return NULL;
    }
    first->length = (uint32_t)length;
    return first;
}

/* How many of the frame's last `left` bytes lie in one piece. */
static size_t piece_bytes(const struct frame *frame, size_t left) {
    return frame->slot || left < CELL_CAPACITY ? left : CELL_CAPACITY;
}

static void frame_write(struct frame *frame, size_t offset, const uint8_t *bytes, size_t length) {
    struct frame *cell = frame;
    for (; offset >= CELL_CAPACITY; offset -= CELL_CAPACITY)
        cell = cell->more;
    for (; length > 0; cell = cell->more, offset = 0) {
        size_t part = length < CELL_CAPACITY - offset ? length : CELL_CAPACITY - offset;
        memcpy(cell->bytes + offset, bytes, part);
        bytes += part;
        length -= part;
    }
}

/* Copies the first `length` bytes of the frame, at most all of it. */
static void frame_read(const struct frame *frame, uint8_t *to, size_t length) {
    for (const struct frame *cell = frame; length > 0; cell = cell->more) {
        size_t part = piece_bytes(frame, length);
        memcpy(to, cell->data, part);
        to += part;
        length -= part;
    }
}

/* The same frame again, or NULL when the store is full. */
static struct frame *frame_copy(const struct frame *original) {
    struct frame *copy = frame_new(original->length);
    if (!copy)
        return NULL;
    size_t left = original->length;
    for (const struct frame *cell = original; left > 0; cell = cell->more) {
        size_t part = piece_bytes(original, left);
        frame_write(copy, original->length - left, cell->data, part);
        left -= part;
    }
    copy->arrival_ns = original->arrival_ns;
    copy->id = original->id;
    copy->number = original->number;
    copy->wire_bytes = original->wire_bytes;
    copy->payload_at = original->payload_at;
    copy->offload = *offload_of(original);
    return copy;
}

/* Frames in the order of their times. */
struct fifo {
    struct frame *head, *tail;
    uint64_t packets, bytes;
};

static void fifo_push(struct fifo *fifo, struct frame *frame) {
    frame->next = NULL;
    if (fifo->head)
        fifo->tail->next = frame;
    else
        fifo->head = frame;
    fifo->tail = frame;
    fifo->packets++;
    fifo->bytes += frame->length;
}

static struct frame *fifo_pop(struct fifo *fifo) {
    struct frame *frame = fifo->head;
    if (frame) {
        fifo->head = frame->next;
        fifo->packets--;
        fifo->bytes -= frame->length;
    }
    return frame;
}

/* ---- numbers in frames ---- */

static inline uint16_t get16(const uint8_t *p) {
    return (uint16_t)(p[0] << 8 | p[1]);
}

static inline uint32_t get32(const uint8_t *p) {
    return (uint32_t)get16(p) << 16 | get16(p + 2);
}

static inline void put16(uint8_t *p, uint32_t value) {
    p[0] = (uint8_t)(value >> 8);
    p[1] = (uint8_t)value;
}

static inline void put32(uint8_t *p, uint32_t value) {
    put16(p, value >> 16);
    put16(p + 2, value);
}

/* The Internet checksum's sum (RFC 1071) of `length` bytes, added to an earlier one. */
static uint64_t sum_bytes(uint64_t sum, const uint8_t *bytes, size_t length) {
    /* In the machine's byte order and 32 bits at a time: the carries come out the same. */
    for (; length >= 4; bytes += 4, length -= 4) {
        uint32_t word;
        memcpy(&word, bytes, 4);
        sum += word;
    }
    uint8_t rest[4] = {0};
    memcpy(rest, bytes, length);
    uint32_t word;
    memcpy(&word, rest, 4);
    return sum + word;
}

/* The sum as it stands in a header, still to be complemented; in the machine's byte order. */
static uint16_t fold(uint64_t sum) {
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)sum;
}

static void put_checksum(uint8_t *p, uint64_t sum) {
    uint16_t checksum = (uint16_t)~fold(sum);
    memcpy(p, &checksum, sizeof checksum);
}

/* ---- what is in a frame ---- */

enum { TCP_FIN = 0x01, TCP_SYN = 0x02, TCP_RST = 0x04, TCP_PSH = 0x08, TCP_ACK = 0x10 };

struct headers {
    uint8_t version;  /* 4 or 6; 0: not IP, or malformed: such frames pass untouched */
    uint8_t protocol; /* IPPROTO_TCP, ... */
    bool fragment;    /* any but the first: no header of the protocol in it */
    bool neighbours;  /* IPv6 neighbour discovery or group membership: what ARP is to IPv4 */
    bool plain;       /* no VLAN tag, no IP options, DF set, nothing behind the IP packet */
    uint32_t ip_at, ip_bytes;        /* the IP packet, by its own account */
    uint32_t transport_at;           /* the TCP, UDP or ICMP header */
    uint32_t payload_at;             /* TCP: the payload */
    uint16_t source_port, dest_port; /* TCP and UDP */
    uint8_t tcp_flags;
};

static void parse_transport(struct headers *h, const uint8_t *data) {
    uint32_t at = h->transport_at, end = h->ip_at + h->ip_bytes;
    bool has_ports = h->protocol == IPPROTO_TCP || h->protocol == IPPROTO_UDP;
    if (h->fragment)
        return;
    if (has_ports && end >= at + 4) {
        h->source_port = get16(data + at);
        h->dest_port = get16(data + at + 2);
    }
    if (h->protocol == IPPROTO_TCP && end >= at + 20) {
        h->tcp_flags = data[at + 13];
        uint32_t payload_at = at + (data[at + 12] >> 4) * 4U;
        if (payload_at >= at + 20 && payload_at <= end)
            h->payload_at = payload_at;
    }
    if (h->protocol == IPPROTO_ICMPV6 && end > at) {
        uint8_t type = data[at];
        h->neighbours = (type >= 130 && type <= 137) || type == 143;
    }
}

static void parse_ipv4(struct headers *h, const uint8_t *data, uint32_t length) {
    const uint8_t *ip = data + h->ip_at;
    uint32_t room = length - h->ip_at;
    if (room < 20 || ip[0] >> 4 != 4)
        return;
    uint32_t header = (ip[0] & 15) * 4U;
    if (header < 20 || get16(ip + 2) < header || get16(ip + 2) > room)
        return;
    h->version = 4;
    h->ip_bytes = get16(ip + 2);
    h->protocol = ip[9];
    h->fragment = get16(ip + 6) & 0x1fff;
    h->plain =
        h->ip_at == ETH_HLEN && header == 20 && get16(ip + 6) == 0x4000 && h->ip_bytes == room;
    h->transport_at = h->ip_at + header;
    parse_transport(h, data);
}

static void parse_ipv6(struct headers *h, const uint8_t *data, uint32_t length) {
    const uint8_t *ip = data + h->ip_at;
    uint32_t room = length - h->ip_at;
    if (room < 40 || ip[0] >> 4 != 6 || get16(ip + 4) + 40U > room)
        return;
    h->version = 6;
    h->ip_bytes = get16(ip + 4) + 40U;
    h->protocol = ip[6];
    uint32_t at = h->ip_at + 40, end = h->ip_at + h->ip_bytes;
    while (h->protocol == IPPROTO_HOPOPTS || h->protocol == IPPROTO_ROUTING ||
           h->protocol == IPPROTO_DSTOPTS || h->protocol == IPPROTO_FRAGMENT) {
        if (at + 8 > end)
            return;
        bool is_fragment = h->protocol == IPPROTO_FRAGMENT;
        h->fragment |= is_fragment && get16(data + at + 2) >> 3;
        h->protocol = data[at];
        at += is_fragment ? 8 : 8 + data[at + 1] * 8U;
    }
    if (at > end)
        return;
    h->transport_at = at;
    parse_transport(h, data);
}

/* Never reads past `length` bytes, whatever they say. */
static struct headers parse(const uint8_t *data, uint32_t length) {
    struct headers h = {0};
    uint32_t at = 2 * ETH_ALEN;
    if (length < ETH_HLEN)
        return h;
    uint16_t type = get16(data + at);
    for (int tags = 0; tags < 2 && (type == ETH_P_8021Q || type == ETH_P_8021AD); tags++) {
        at += 4;
        if (length < at + 2)
            return h;
        type = get16(data + at);
    }
    h.ip_at = at + 2;
    if (type == ETH_P_IP)
        parse_ipv4(&h, data, length);
    else if (type == ETH_P_IPV6)
        parse_ipv6(&h, data, length);
    return h;
}

#endif
