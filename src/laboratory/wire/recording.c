/* recording.c - see recording.h. */
#include "recording.h"

#include "pcapng.h"
#include "ports.h"
#include "process.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

enum {
    CHUNKS = 6,
    CHUNK_BYTES = 1 << 20,
    PENDING_BYTES = 3 * CHUNK_BYTES,
    MIN_BLOCK_BYTES = 32,
    HANDOVER_NS = 100000000, /* longest wait of a recorded frame in memory */
};

struct chunk {
    size_t used;
    int64_t safe_ns; /* no frames before this time will come */
    uint8_t bytes[CHUNK_BYTES];
};

struct recording recording;

static FILE *file;
static uint32_t kept_bytes;             /* the snaplen */
static int64_t file_minus_monotonic_ns; /* fixed at the start, so the file's time never jumps */
static int64_t last_handover_ns;
static struct chunk chunks[CHUNKS], *filling;

/* Pipes with numbers of chunks: full ones for the writer, and empty ones on their way back. */
static int full[2], empty[2];
static pthread_t writer;
static int write_error; /* errno of the writer's failed write */

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

/* ---- chunks between the link and the writer ---- */

static void pass_chunk(const int to[2], const struct chunk *chunk) {
    uint8_t number = (uint8_t)(chunk - chunks);
    if (write(to[1], &number, sizeof number) != sizeof number)
        fail("handing over a part of the recording");
}

/* Waits for a chunk; returns NULL if the other side has closed the pipe. */
static struct chunk *take_chunk(const int from[2]) {
    uint8_t number;
    ssize_t got = read(from[0], &number, sizeof number);
    if (got < 0)
        fail("taking over a part of the recording");
    return got ? &chunks[number] : NULL;
}

/* ---- the writer: chunks in, one ordered file out ---- */

/* Pending packet blocks of this and earlier chunks, and their order. */
static uint8_t pending[PENDING_BYTES];
static size_t pending_used;
static const uint8_t *blocks[PENDING_BYTES / MIN_BLOCK_BYTES];

/* Sorts blocks that are nearly in order, so that each moves past only a few others. */
static size_t sort_blocks(void) {
    size_t count = 0;
    for (const uint8_t *block = pending; block < pending + pending_used;
         block += pcapng_block_length(block)) {
        size_t i = count++;
        for (; i > 0 && pcapng_packet_time(blocks[i - 1]) > pcapng_packet_time(block); i--)
            blocks[i] = blocks[i - 1];
        blocks[i] = block;
    }
    return count;
}

/* Writes the packets that no later one can precede; keeps the others. */
static void write_ordered(int64_t safe_ns) {
    static uint8_t kept[PENDING_BYTES];
    size_t count = sort_blocks();
    /* If the rings have not been empty for long, limit the memory rather than keep the order. */
    if (pending_used > PENDING_BYTES - CHUNK_BYTES)
        safe_ns = INT64_MAX;
    pending_used = 0;
    for (size_t i = 0; i < count; i++) {
        size_t length = pcapng_block_length(blocks[i]);
        if (pcapng_packet_time(blocks[i]) > (uint64_t)safe_ns) {
            memcpy(kept + pending_used, blocks[i], length);
            pending_used += length;
        } else if (!write_error && fwrite(blocks[i], 1, length, file) != length) {
            write_error = errno;
        }
    }
    memcpy(pending, kept, pending_used);
    if (!write_error && fflush(file) == EOF)
        write_error = errno;
}

static void *write_chunks(void *nothing) {
    for (struct chunk *chunk; (chunk = take_chunk(full));) {
        memcpy(pending + pending_used, chunk->bytes, chunk->used);
        pending_used += chunk->used;
        write_ordered(chunk->safe_ns);
        pass_chunk(empty, chunk);
    }
    write_ordered(INT64_MAX);
    return nothing;
}

/* ---- the link's side ---- */

int64_t recording_time(int64_t monotonic_ns) {
    return monotonic_ns + file_minus_monotonic_ns;
}

/* Passes the chunk to the writer and takes an empty one; waits if there is none. */
static void hand_over(int64_t now) {
    last_handover_ns = now;
    if (filling->used == 0)
        return;
    int64_t safe_ns = NEVER;
    for (unsigned i = 0; i < port_count; i++)
        safe_ns = min_ns(safe_ns, ports[i].seen_ns);
    filling->safe_ns = recording_time(safe_ns);
    pass_chunk(full, filling);
    filling = take_chunk(empty);
    filling->used = 0;
}

void record_packet(uint32_t interface, uint32_t direction, int64_t t, const struct frame *frame,
                   uint32_t length, const struct comment *comment) {
    uint32_t kept = frame->length < kept_bytes ? frame->length : kept_bytes;
    if (filling->used + kept + PCAPNG_BLOCK_BYTES + COMMENT_BYTES > CHUNK_BYTES)
        hand_over(t);
    struct pcapng_block block =
        pcapng_packet(filling->bytes + filling->used, interface, recording_time(t), kept, length);
    frame_read(frame, block.at, kept);
    block.at += kept;
    pcapng_put_option(&block, PCAPNG_COMMENT, comment->text, comment->used);
    pcapng_put_option(&block, PCAPNG_PACKET_FLAGS, &direction, sizeof direction);
    pcapng_put_option(&block, PCAPNG_PACKET_ID, &frame->id, sizeof frame->id);
    filling->used += pcapng_end(&block);
    recording.packets++;
}

bool recording_start(const char *path, uint32_t snaplen, const uint8_t *header,
                     size_t header_bytes) {
    static char buffer[CHUNK_BYTES];
    file = fopen(path, "we");
    if (!file)
        return false;
    setvbuf(file, buffer, _IOFBF, sizeof buffer);
    if (fwrite(header, 1, header_bytes, file) != header_bytes || fflush(file) == EOF) {
        int error = errno;
        fclose(file);
        errno = error;
        return false;
    }
    if (pipe2(full, O_CLOEXEC) < 0 || pipe2(empty, O_CLOEXEC) < 0)
        fail("pipes for the recording");
    filling = &chunks[0];
    filling->used = 0;
    for (unsigned i = 1; i < CHUNKS; i++)
        pass_chunk(empty, &chunks[i]);
    kept_bytes = snaplen;
    file_minus_monotonic_ns = real_minus_monotonic_ns;
    write_error = 0;
    recording.on = true;
    recording.packets = 0;
    snprintf(recording.path, sizeof recording.path, "%s", path);
    if ((errno = pthread_create(&writer, NULL, write_chunks, NULL)))
        fail("a thread for the recording");
    return true;
}

int recording_stop(const uint8_t *trailer, size_t trailer_bytes) {
    hand_over(0);
    close(full[1]);
    pthread_join(writer, NULL);
    close(full[0]);
    close(empty[0]);
    close(empty[1]);
    if (!write_error && fwrite(trailer, 1, trailer_bytes, file) != trailer_bytes)
        write_error = errno;
    if (fclose(file) == EOF && !write_error)
        write_error = errno;
    recording.on = false;
    return write_error;
}

void recording_routine(int64_t now) {
    if (recording.on && now - last_handover_ns >= HANDOVER_NS)
        hand_over(now);
}

int64_t recording_due_ns(void) {
    return recording.on && filling->used ? last_handover_ns + HANDOVER_NS : NEVER;
}
