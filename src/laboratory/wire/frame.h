/*
 * frame.h - the frames in flight, and where they are kept: cells of one size in one reserved
 * region, so that no frame costs a malloc().
 */
#pragma once

#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

enum {
    CELL_BYTES = 2048,       /* one cell holds a frame of MTU 1500, longer ones take several */
    MAX_FRAME = 65536 + 256, /* a super-segment; or the largest MTU, headers and tags */
    MAX_PIECES = 48,         /* cells of the longest frame */
};

struct frame {
    struct frame *next;        /* the frame behind this one, or the next free cell */
    struct frame *more;        /* the cell with the rest of a frame too long for one */
    struct tpacket2_hdr *slot; /* the frame still lies in this slot of the receive ring, or NULL */
    uint8_t *data;             /* its Ethernet header, in the ring or in bytes[] */
    struct port *to;           /* where it is to leave, once it is due */
    int64_t arrival_ns;
    int64_t departure_ns;
    uint64_t id;         /* in the recording */
    uint32_t length;     /* bytes from the Ethernet header on, without the FCS */
    uint32_t wire_bytes; /* bytes it takes on the wire, framing included */
    uint16_t payload_at; /* where the payload of a plain TCP segment begins; 0: it is none */
    bool held;           /* made to wait so that others overtake it */
    bool extra;          /* one more copy of it, for another port of the same side */
    bool marked;         /* congestion experienced (ECN) */
    uint8_t lane; /* which port of its side a it comes from or goes to, if there are several */
    struct virtio_net_hdr offload; /* directly before the data, here as in the ring */
    uint8_t bytes[];
};

/* What the sender left to "the network card": a checksum to fill in, a super-segment to cut up.
   Socket option PACKET_VNET_HDR puts it before each frame, received or sent. */
static inline struct virtio_net_hdr *offload_of(const struct frame *frame) {
    return (struct virtio_net_hdr *)(frame->data - sizeof(struct virtio_net_hdr));
}

/* Reserves the region. A cell costs RAM only once it has been used. */
void store_open(size_t bytes);

/* What the cells that were ever used occupy in RAM. */
size_t store_bytes(void);

/* A frame with room for `length` bytes, or NULL when the store is full. */
struct frame *frame_new(size_t length);

/* The same frame again, or NULL when the store is full. */
struct frame *frame_copy(const struct frame *original);

/* A cell for a frame whose data stay in the receive ring until it is freed; NULL as above. */
struct frame *frame_lend(const struct frame *in_ring);

/* Gives the cells back, and the slot of the ring if the data are there. */
void frame_free(struct frame *frame);

/* The kernel may fill the slot again from here on. */
void slot_release(struct tpacket2_hdr *slot);

void frame_write(struct frame *frame, size_t offset, const uint8_t *bytes, size_t length);

/* Copies the first `length` bytes of the frame, at most all of it. */
void frame_read(const struct frame *frame, uint8_t *to, size_t length);

/* Where the frame lies, its offload header first, in at most MAX_PIECES pieces; how many. */
unsigned frame_pieces(const struct frame *frame, struct iovec *parts);

/* Frames in the order of their times. */
struct fifo {
    struct frame *head, *tail;
    uint64_t packets, bytes;
};

void fifo_push(struct fifo *fifo, struct frame *frame);

/* The frame at the head, or NULL. */
struct frame *fifo_pop(struct fifo *fifo);
