/*
 * wire_record.h - the recording of wire.c: a pcapng file of each frame as it
 * entered the link, and as it left it or was dropped.
 *
 * Each side of a link is an interface of the file, so a display filter on one
 * interface shows what a capture on that host's cable would. A frame's entry and
 * departure carry the same epb_packetid, and every packet a comment:
 *
 *     in; queue_packets=3 queue_bytes=4542          waiting when it came
 *     in; dropped=loss; queue_packets=3 queue_bytes=4542
 *     out; due_ns=1732165432123456789 late_ns=2345  CLOCK_REALTIME
 *
 * The frames go through memory to a thread that brings them into the order of
 * their times and writes them. If it can't keep up with the link, the link waits:
 * frames leave late, which the counters tell, but none is missing in the file.
 *
 * Source: draft-ietf-opsawg-pcapng.
 */
#ifndef WIRE_RECORD_H
#define WIRE_RECORD_H

#include "wire_frame.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    CHUNKS = 6,
    CHUNK_BYTES = 1 << 20,
    COMMENT_BYTES = 192,
    BLOCK_OVERHEAD = 128 + COMMENT_BYTES, /* of a packet block, besides the packet */
    MAX_SNAPLEN = 1 << 17,
    DEFAULT_SNAPLEN = 128,
};

enum { BLOCK_SECTION = 0x0A0D0D0A, BLOCK_INTERFACE = 1, BLOCK_STATISTICS = 5, BLOCK_PACKET = 6 };
enum { INBOUND = 1, OUTBOUND = 2 };

struct chunk {
    struct chunk *next;
    size_t used;
    int64_t safe_ns; /* no frame before this time is still to come */
    uint8_t bytes[CHUNK_BYTES];
};

static struct {
    bool on;
    char path[4096];
    int fd;
    uint32_t snaplen;
    int64_t real_minus_monotonic_ns; /* of the moment it began: the file's time doesn't jump */
    uint64_t packets, last_id;
    int64_t last_handover_ns;
    int64_t safe_ns; /* every frame that came before this has been recorded */
    struct chunk *filling;

    /* Shared with the writer, under the lock. */
    pthread_t writer;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct chunk *free, *full, **full_end;
    bool closing;
    int error; /* errno of the write that failed; nothing is written after it */
} record = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* ---- blocks ---- */

static void put_native32(uint8_t **at, uint32_t value) {
    memcpy(*at, &value, 4);
    *at += 4;
}

static void put_option(uint8_t **at, uint16_t code, const void *value, uint16_t length) {
    memcpy(*at, &code, 2);
    memcpy(*at + 2, &length, 2);
    memcpy(*at + 4, value, length);
    size_t padding = -length & 3U;
    memset(*at + 4 + length, 0, padding);
    *at += 4 + length + padding;
}

static void put_text(uint8_t **at, uint16_t code, const char *text) {
    put_option(at, code, text, (uint16_t)strlen(text));
}

static uint8_t *begin_block(uint8_t *block, uint32_t type) {
    put_native32(&block, type);
    return block + 4;
}

/* Writes the length at both ends of the block; returns it. */
static uint32_t end_block(uint8_t *block, uint8_t *at, bool has_options) {
    if (has_options)
        put_native32(&at, 0);
    uint32_t length = (uint32_t)(at + 4 - block);
    put_native32(&at, length);
    memcpy(block + 4, &length, 4);
    return length;
}

static uint32_t section_block(uint8_t *block) {
    uint8_t *at = begin_block(block, BLOCK_SECTION);
    put_native32(&at, 0x1A2B3C4D);
    put_native32(&at, 1);          /* version 1.0 */
    put_native32(&at, 0xffffffff); /* length of the section: not known */
    put_native32(&at, 0xffffffff);
    put_text(&at, 4, "tcplab wire");
    return end_block(block, at, true);
}

static uint32_t interface_block(uint8_t *block, const char *name, const char *description,
                                uint32_t snaplen) {
    uint8_t *at = begin_block(block, BLOCK_INTERFACE);
    put_native32(&at, 1); /* LINKTYPE_ETHERNET */
    put_native32(&at, snaplen);
    put_text(&at, 2, name);
    put_text(&at, 3, description);
    put_option(&at, 9, &(uint8_t){9}, 1); /* times in units of 10^-9 s */
    return end_block(block, at, true);
}

static void put_time(uint8_t **at, int64_t real_ns) {
    put_native32(at, (uint32_t)((uint64_t)real_ns >> 32));
    put_native32(at, (uint32_t)real_ns);
}

static void put_count(uint8_t **at, uint16_t code, uint64_t count) {
    put_option(at, code, &count, sizeof count);
}

static uint32_t statistics_block(uint8_t *block, uint32_t interface, uint64_t received,
                                 uint64_t missed, int64_t real_ns) {
    uint8_t *at = begin_block(block, BLOCK_STATISTICS);
    put_native32(&at, interface);
    put_time(&at, real_ns);
    put_count(&at, 4, received); /* isb_ifrecv */
    put_count(&at, 5, missed);   /* isb_ifdrop: came while the receive ring was full */
    return end_block(block, at, true);
}

static uint64_t packet_time(const uint8_t *block) {
    uint32_t high, low;
    memcpy(&high, block + 12, 4);
    memcpy(&low, block + 16, 4);
    return (uint64_t)high << 32 | low;
}

static uint32_t block_length(const uint8_t *block) {
    uint32_t length;
    memcpy(&length, block + 4, 4);
    return length;
}

/* ---- comments: printf would cost as much as forwarding the frame ---- */

struct comment {
    char text[COMMENT_BYTES];
    size_t used;
};

static void add_text(struct comment *comment, const char *text) {
    size_t length = strlen(text);
    if (comment->used + length < sizeof comment->text) {
        memcpy(comment->text + comment->used, text, length);
        comment->used += length;
    }
}

static void add_number(struct comment *comment, const char *name, int64_t value) {
    char digits[24], *at = digits + sizeof digits;
    uint64_t left = value < 0 ? -(uint64_t)value : (uint64_t)value;
    *--at = '\0';
    do
        *--at = (char)('0' + left % 10);
    while (left /= 10);
    if (value < 0)
        *--at = '-';
    add_text(comment, name);
    add_text(comment, at);
}

/* ---- the writer: chunks in, one ordered file out ---- */

static bool write_all(int fd, const uint8_t *bytes, size_t length) {
    while (length > 0) {
        ssize_t written = write(fd, bytes, length);
        if (written == -1 && errno == EINTR)
            continue;
        if (written == -1)
            return false;
        bytes += written;
        length -= (size_t)written;
    }
    return true;
}

/* Packets that the writer holds, to be written in the order of their times. */
struct sorter {
    uint8_t *bytes; /* packet blocks one behind the other: those left over, then a chunk's */
    size_t used;
    const uint8_t **blocks;
    size_t count;
    uint8_t *ordered;
};

enum { SORTER_BYTES = 2 * CHUNK_BYTES, MIN_BLOCK_BYTES = 32 };

/* They are nearly in order already: each moves past a few others at most. */
static void sort_blocks(struct sorter *s) {
    s->count = 0;
    for (const uint8_t *block = s->bytes; block < s->bytes + s->used;
         block += block_length(block)) {
        size_t i = s->count++;
        for (; i > 0 && packet_time(s->blocks[i - 1]) > packet_time(block); i--)
            s->blocks[i] = s->blocks[i - 1];
        s->blocks[i] = block;
    }
}

/* Writes the packets that none to come can precede; keeps the others. */
static void write_ordered(struct sorter *s, int64_t safe_ns) {
    size_t i = 0, length = 0, kept = 0;
    sort_blocks(s);
    /* Should the rings not have been empty for long, order yields to memory. */
    if (s->used > CHUNK_BYTES + CHUNK_BYTES / 2)
        safe_ns = INT64_MAX;
    for (; i < s->count && packet_time(s->blocks[i]) <= (uint64_t)safe_ns; i++) {
        memcpy(s->ordered + length, s->blocks[i], block_length(s->blocks[i]));
        length += block_length(s->blocks[i]);
    }
    if (!record.error && !write_all(record.fd, s->ordered, length)) {
        pthread_mutex_lock(&record.lock);
        record.error = errno;
        pthread_mutex_unlock(&record.lock);
    }
    for (uint8_t *to = s->ordered; i < s->count; i++, kept = (size_t)(to - s->ordered)) {
        memcpy(to, s->blocks[i], block_length(s->blocks[i]));
        to += block_length(s->blocks[i]);
    }
    memcpy(s->bytes, s->ordered, kept);
    s->used = kept;
}

static void *write_chunks(void *nothing) {
    struct sorter s = {
        .bytes = malloc(SORTER_BYTES),
        .ordered = malloc(SORTER_BYTES),
        .blocks = calloc(SORTER_BYTES / MIN_BLOCK_BYTES, sizeof *s.blocks),
    };
    if (!s.bytes || !s.ordered || !s.blocks)
        fail("memory for the recording");
    pthread_mutex_lock(&record.lock);
    for (;;) {
        while (!record.full && !record.closing)
            pthread_cond_wait(&record.changed, &record.lock);
        struct chunk *chunk = record.full;
        if (!chunk)
            break;
        record.full = chunk->next;
        if (!record.full)
            record.full_end = &record.full;
        pthread_mutex_unlock(&record.lock);
        memcpy(s.bytes + s.used, chunk->bytes, chunk->used);
        s.used += chunk->used;
        write_ordered(&s, chunk->safe_ns);
        pthread_mutex_lock(&record.lock);
        chunk->next = record.free;
        record.free = chunk;
        pthread_cond_signal(&record.changed);
    }
    pthread_mutex_unlock(&record.lock);
    write_ordered(&s, INT64_MAX);
    free(s.bytes);
    free(s.ordered);
    free(s.blocks);
    return nothing;
}

/* ---- the link's side ---- */

static int64_t record_time(int64_t monotonic_ns) {
    return monotonic_ns + record.real_minus_monotonic_ns;
}

/* Gives the chunk to the writer and takes a free one, waiting for it if there is none. */
static void record_hand_over(int64_t now) {
    record.last_handover_ns = now;
    if (record.filling->used == 0)
        return;
    record.filling->safe_ns = record_time(record.safe_ns);
    record.filling->next = NULL;
    pthread_mutex_lock(&record.lock);
    *record.full_end = record.filling;
    record.full_end = &record.filling->next;
    pthread_cond_signal(&record.changed);
    while (!record.free)
        pthread_cond_wait(&record.changed, &record.lock);
    record.filling = record.free;
    record.free = record.filling->next;
    pthread_mutex_unlock(&record.lock);
    record.filling->used = 0;
}

/* One packet of the file. `frame` may be cut short: then it was `length` bytes long. */
static void record_packet(uint32_t interface, int direction, int64_t t, const struct frame *frame,
                          uint32_t length, const struct comment *comment) {
    uint32_t kept = frame->length < record.snaplen ? frame->length : record.snaplen;
    if (record.filling->used + kept + BLOCK_OVERHEAD > CHUNK_BYTES)
        record_hand_over(t);
    uint8_t *block = record.filling->bytes + record.filling->used;
    uint8_t *at = begin_block(block, BLOCK_PACKET);
    put_native32(&at, interface);
    put_time(&at, record_time(t));
    put_native32(&at, kept);
    put_native32(&at, length);
    frame_read(frame, at, kept);
    memset(at + kept, 0, -kept & 3U);
    at += kept + (-kept & 3U);
    put_option(&at, 1, comment->text, (uint16_t)comment->used);
    put_option(&at, 2, &(uint32_t){(uint32_t)direction}, 4); /* epb_flags */
    put_option(&at, 5, &frame->id, sizeof frame->id);        /* epb_packetid */
    record.filling->used += end_block(block, at, true);
    record.packets++;
}

/* What went wrong while writing so far, or 0. */
static int record_error(void) {
    pthread_mutex_lock(&record.lock);
    int error = record.error;
    pthread_mutex_unlock(&record.lock);
    return error;
}

static void free_chunks(void) {
    for (struct chunk *chunk; (chunk = record.free); free(chunk))
        record.free = chunk->next;
    free(record.filling);
    record.filling = NULL;
}

/* Opens the file and writes its header; false with errno set if it can't. */
static bool record_start(const char *path, uint32_t snaplen, int64_t real_minus_monotonic_ns,
                         const uint8_t *header, size_t header_bytes) {
    snprintf(record.path, sizeof record.path, "%s", path);
    record.fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (record.fd == -1)
        return false;
    if (!write_all(record.fd, header, header_bytes)) {
        int error = errno;
        close(record.fd);
        errno = error;
        return false;
    }
    record.snaplen = snaplen;
    record.real_minus_monotonic_ns = real_minus_monotonic_ns;
    record.packets = 0;
    record.safe_ns = 0;
    record.error = 0;
    record.closing = false;
    record.full = NULL;
    record.full_end = &record.full;
    for (int i = 0; i < CHUNKS; i++) {
        struct chunk *chunk = malloc(sizeof *chunk);
        if (!chunk)
            fail("memory for the recording");
        chunk->used = 0;
        chunk->next = record.free;
        record.free = chunk;
    }
    record.filling = record.free;
    record.free = record.filling->next;
    int error = pthread_create(&record.writer, NULL, write_chunks, NULL);
    if (error) {
        errno = error;
        fail("a thread for the recording");
    }
    record.on = true;
    return true;
}

/* Everything recorded is in the file when this returns. 0, or the errno of what went wrong. */
static int record_stop(const uint8_t *trailer, size_t trailer_bytes) {
    record_hand_over(0);
    pthread_mutex_lock(&record.lock);
    record.closing = true;
    pthread_cond_signal(&record.changed);
    pthread_mutex_unlock(&record.lock);
    pthread_join(record.writer, NULL);
    if (!record.error && !write_all(record.fd, trailer, trailer_bytes))
        record.error = errno;
    if (close(record.fd) == -1 && !record.error)
        record.error = errno;
    free_chunks();
    record.on = false;
    return record.error;
}

#endif
