/* recording.c - see recording.h. */
#define _GNU_SOURCE
#include "recording.h"

#include "pcapng.h"
#include "ports.h"
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    CHUNKS = 6,
    CHUNK_BYTES = 1 << 20,
    HANDOVER_NS = 100000000, /* how long a recorded frame may wait in memory */
};

struct chunk {
    struct chunk *next;
    size_t used;
    int64_t safe_ns; /* no frame before this time is still to come */
    uint8_t bytes[CHUNK_BYTES];
};

static struct {
    bool on;
    char path[MAX_PATH];
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

    int error; /* the writer's: errno of the write that failed; nothing is written after it */
} recording = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

void add_text(struct comment *comment, const char *text) {
    size_t length = strlen(text);
    if (comment->used + length < sizeof comment->text) {
        memcpy(comment->text + comment->used, text, length);
        comment->used += length;
    }
}

void add_number(struct comment *comment, const char *name, int64_t value) {
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
         block += pcapng_block_length(block)) {
        size_t i = s->count++;
        for (; i > 0 && pcapng_packet_time(s->blocks[i - 1]) > pcapng_packet_time(block); i--)
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
    for (; i < s->count && pcapng_packet_time(s->blocks[i]) <= (uint64_t)safe_ns; i++) {
        memcpy(s->ordered + length, s->blocks[i], pcapng_block_length(s->blocks[i]));
        length += pcapng_block_length(s->blocks[i]);
    }
    if (!recording.error && !write_all(recording.fd, s->ordered, length))
        recording.error = errno;
    for (uint8_t *to = s->ordered; i < s->count; i++, kept = (size_t)(to - s->ordered)) {
        memcpy(to, s->blocks[i], pcapng_block_length(s->blocks[i]));
        to += pcapng_block_length(s->blocks[i]);
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
    pthread_mutex_lock(&recording.lock);
    for (;;) {
        while (!recording.full && !recording.closing)
            pthread_cond_wait(&recording.changed, &recording.lock);
        struct chunk *chunk = recording.full;
        if (!chunk)
            break;
        recording.full = chunk->next;
        if (!recording.full)
            recording.full_end = &recording.full;
        pthread_mutex_unlock(&recording.lock);
        memcpy(s.bytes + s.used, chunk->bytes, chunk->used);
        s.used += chunk->used;
        write_ordered(&s, chunk->safe_ns);
        pthread_mutex_lock(&recording.lock);
        chunk->next = recording.free;
        recording.free = chunk;
        pthread_cond_signal(&recording.changed);
    }
    pthread_mutex_unlock(&recording.lock);
    write_ordered(&s, INT64_MAX);
    free(s.bytes);
    free(s.ordered);
    free(s.blocks);
    return nothing;
}

/* ---- the link's side ---- */

int64_t recording_time(int64_t monotonic_ns) {
    return monotonic_ns + recording.real_minus_monotonic_ns;
}

/* Gives the chunk to the writer and takes a free one, waiting for it if there is none. */
static void hand_over(int64_t now) {
    recording.last_handover_ns = now;
    if (recording.filling->used == 0)
        return;
    recording.filling->safe_ns = recording_time(recording.safe_ns);
    recording.filling->next = NULL;
    pthread_mutex_lock(&recording.lock);
    *recording.full_end = recording.filling;
    recording.full_end = &recording.filling->next;
    pthread_cond_signal(&recording.changed);
    while (!recording.free)
        pthread_cond_wait(&recording.changed, &recording.lock);
    recording.filling = recording.free;
    recording.free = recording.filling->next;
    pthread_mutex_unlock(&recording.lock);
    recording.filling->used = 0;
}

void record_packet(uint32_t interface, uint32_t direction, int64_t t, const struct frame *frame,
                   uint32_t length, const struct comment *comment) {
    uint32_t kept = frame->length < recording.snaplen ? frame->length : recording.snaplen;
    if (recording.filling->used + kept + PCAPNG_BLOCK_BYTES + COMMENT_BYTES > CHUNK_BYTES)
        hand_over(t);
    struct pcapng_block block = pcapng_packet(recording.filling->bytes + recording.filling->used,
                                              interface, recording_time(t), kept, length);
    frame_read(frame, block.at, kept);
    block.at += kept;
    pcapng_put_option(&block, PCAPNG_COMMENT, comment->text, comment->used);
    pcapng_put_option(&block, PCAPNG_PACKET_FLAGS, &direction, sizeof direction);
    pcapng_put_option(&block, PCAPNG_PACKET_ID, &frame->id, sizeof frame->id);
    recording.filling->used += pcapng_end(&block);
    recording.packets++;
}

static void free_chunks(void) {
    for (struct chunk *chunk; (chunk = recording.free); free(chunk))
        recording.free = chunk->next;
    free(recording.filling);
    recording.filling = NULL;
}

bool recording_start(const char *path, uint32_t snaplen, const uint8_t *header,
                     size_t header_bytes) {
    snprintf(recording.path, sizeof recording.path, "%s", path);
    recording.fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (recording.fd == -1)
        return false;
    if (!write_all(recording.fd, header, header_bytes)) {
        int error = errno;
        close(recording.fd);
        errno = error;
        return false;
    }
    recording.snaplen = snaplen;
    recording.real_minus_monotonic_ns = real_minus_monotonic_ns;
    recording.packets = 0;
    recording.safe_ns = 0;
    recording.error = 0;
    recording.closing = false;
    recording.full = NULL;
    recording.full_end = &recording.full;
    for (int i = 0; i < CHUNKS; i++) {
        struct chunk *chunk = malloc(sizeof *chunk);
        if (!chunk)
            fail("memory for the recording");
        chunk->used = 0;
        chunk->next = recording.free;
        recording.free = chunk;
    }
    recording.filling = recording.free;
    recording.free = recording.filling->next;
    int error = pthread_create(&recording.writer, NULL, write_chunks, NULL);
    if (error) {
        errno = error;
        fail("a thread for the recording");
    }
    recording.on = true;
    return true;
}

int recording_stop(const uint8_t *trailer, size_t trailer_bytes) {
    hand_over(0);
    pthread_mutex_lock(&recording.lock);
    recording.closing = true;
    pthread_cond_signal(&recording.changed);
    pthread_mutex_unlock(&recording.lock);
    pthread_join(recording.writer, NULL);
    if (!recording.error && !write_all(recording.fd, trailer, trailer_bytes))
        recording.error = errno;
    if (close(recording.fd) == -1 && !recording.error)
        recording.error = errno;
    free_chunks();
    recording.on = false;
    return recording.error;
}

bool recording_is_on(void) {
    return recording.on;
}

const char *recording_path(void) {
    return recording.path;
}

uint64_t recording_packets(void) {
    return recording.packets;
}

uint64_t recording_next_id(void) {
    return ++recording.last_id;
}

void recording_routine(int64_t now, int64_t safe_ns) {
    recording.safe_ns = safe_ns;
    if (now - recording.last_handover_ns >= HANDOVER_NS)
        hand_over(now);
}

int64_t recording_due_ns(void) {
    return recording.on && recording.filling->used ? recording.last_handover_ns + HANDOVER_NS
                                                   : NEVER;
}
