/*
 * frame.h - the frames in flight, and their store: cells of one size in one reserved region, so
 * that no frame costs a malloc().
 */
#pragma once

#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

enum {
    CELL_BYTES = 2048,       /* one cell holds a frame of MTU 1500; longer frames take several */
    MAX_FRAME = 65536 + 256, /* a super-segment, or the largest MTU with headers and tags */
    MAX_PIECES = 48,         /* number of cells of the longest frame */
};

struct frame {
    struct frame *next;        /* the frame behind this one, or the next free cell */
    struct frame *more;        /* the cell with the rest of a long frame */
    struct tpacket2_hdr *slot; /* slot of the receive ring that still contains the frame, or NULL */
    uint8_t *data;             /* its Ethernet header, in the ring or in bytes[] */
    struct port *to;           /* port for its departure, once it is due */
    int64_t arrival_ns;
    int64_t departure_ns;
    uint64_t id;         /* id in the recording */
    uint32_t length;     /* bytes including the Ethernet header, without the FCS */
    uint32_t wire_bytes; /* bytes on the wire, including framing */
    uint16_t payload_at; /* start of the payload of a plain TCP segment; 0 for other frames */
    bool held;           /* delayed so that others overtake it */
    bool extra;          /* a copy for another port of the same side */
    bool marked;         /* congestion experienced (ECN) */
    uint8_t lane;        /* port of side a that it comes from or goes to, if there are several */
    struct virtio_net_hdr offload; /* directly before the data, here and in the ring */
    uint8_t bytes[];
};

/* Work that the sender left to "the network card", such as a checksum or segmentation. Socket
   option PACKET_VNET_HDR puts it before each received or sent frame. */
static inline struct virtio_net_hdr *offload_of(const struct frame *frame) {
    return (struct virtio_net_hdr *)(frame->data - sizeof(struct virtio_net_hdr));
}

/* Reserves the region; a cell occupies RAM only after its first use. */
void store_open(size_t bytes);

/* Returns the RAM occupied by cells that were ever used. */
size_t store_bytes(void);

/* Returns a frame with room for `length` bytes, or NULL if the store is full. */
struct frame *frame_new(size_t length);

/* Returns a copy of the frame, or NULL if the store is full. */
struct frame *frame_copy(const struct frame *original);

/* Returns a cell for a frame whose data stay in the receive ring until it is freed, or NULL. */
struct frame *frame_lend(const struct frame *in_ring);

/* Returns the cells to the store, and the slot to the ring if it contains the data. */
void frame_free(struct frame *frame);

/* Lets the kernel reuse the slot. */
void slot_release(struct tpacket2_hdr *slot);

void frame_write(struct frame *frame, size_t offset, const uint8_t *bytes, size_t length);

/* Copies up to `length` bytes from the start of the frame. */
void frame_read(const struct frame *frame, uint8_t *to, size_t length);

/* Fills in the frame's pieces, at most MAX_PIECES, with its offload header first; returns their
   number. */
unsigned frame_pieces(const struct frame *frame, struct iovec *parts);

/* A queue of frames in the order of their times. */
struct fifo {
    struct frame *head, *tail;
    uint64_t bytes;
};

void fifo_push(struct fifo *fifo, struct frame *frame);

/* Removes and returns the frame at the head, or NULL. */
struct frame *fifo_pop(struct fifo *fifo);
