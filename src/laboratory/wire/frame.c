/* frame.c - see frame.h. */
#include "frame.h"

#include "process.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#define CELL_CAPACITY (CELL_BYTES - offsetof(struct frame, bytes))
_Static_assert(offsetof(struct frame, bytes) ==
                   offsetof(struct frame, offload) + sizeof(struct virtio_net_hdr),
               "the offload header must lie directly before the frame");

static struct {
    uint8_t *memory;
    size_t cells;   /* number of cells in the region */
    size_t touched; /* number of cells ever used, which occupy RAM */
    struct frame *free;
} store;

void store_open(size_t bytes) {
    store.cells = bytes / CELL_BYTES;
    store.memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (store.memory == MAP_FAILED)
        fail("--memory: reserving %zu bytes for the frames in flight", bytes);
}

size_t store_bytes(void) {
    return CELL_BYTES * store.touched;
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

void slot_release(struct tpacket2_hdr *slot) {
    atomic_thread_fence(memory_order_release);
    *(volatile uint32_t *)&slot->tp_status = TP_STATUS_KERNEL;
}

void frame_free(struct frame *frame) {
    if (frame && frame->slot)
        slot_release(frame->slot);
    while (frame) {
        struct frame *more = frame->more;
        frame->next = store.free;
        store.free = frame;
        frame = more;
    }
}

struct frame *frame_new(size_t length) {
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

/* Returns how many of the frame's last `left` bytes are contiguous. */
static size_t piece_bytes(const struct frame *frame, size_t left) {
    return frame->slot || left < CELL_CAPACITY ? left : CELL_CAPACITY;
}

void frame_write(struct frame *frame, size_t offset, const uint8_t *bytes, size_t length) {
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

void frame_read(const struct frame *frame, uint8_t *to, size_t length) {
    for (const struct frame *cell = frame; length > 0; cell = cell->more) {
        size_t part = piece_bytes(frame, length);
        memcpy(to, cell->data, part);
        to += part;
        length -= part;
    }
}

struct frame *frame_copy(const struct frame *original) {
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
    copy->wire_bytes = original->wire_bytes;
    copy->payload_at = original->payload_at;
    copy->lane = original->lane;
    copy->offload = *offload_of(original);
    return copy;
}

struct frame *frame_lend(const struct frame *in_ring) {
    struct frame *frame = cell_take();
    if (frame)
        memcpy(frame, in_ring, offsetof(struct frame, offload));
    return frame;
}

unsigned frame_pieces(const struct frame *frame, struct iovec *parts) {
    unsigned count = 0;
    size_t left = frame->length;
    for (const struct frame *cell = frame; left > 0; cell = cell->more) {
        size_t part = piece_bytes(frame, left);
        parts[count++] = (struct iovec){cell->data, part};
        left -= part;
    }
    parts[0].iov_base = offload_of(frame);
    parts[0].iov_len += sizeof(struct virtio_net_hdr);
    return count;
}

void fifo_push(struct fifo *fifo, struct frame *frame) {
    frame->next = NULL;
    if (fifo->head)
        fifo->tail->next = frame;
    else
        fifo->head = frame;
    fifo->tail = frame;
    fifo->bytes += frame->length;
}

struct frame *fifo_pop(struct fifo *fifo) {
    struct frame *frame = fifo->head;
    if (frame) {
        fifo->head = frame->next;
        fifo->bytes -= frame->length;
    }
    return frame;
}
