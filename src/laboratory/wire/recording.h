/*
 * recording.h - the wire's recording, a pcapng file of each frame as it entered the link, and as it
 * left it or was dropped.
 *
 * Each side of a link is an interface of the file, so a display filter on one interface shows what
 * a capture on that host's cable would. A frame's entry and departure carry the same epb_packetid,
 * and every packet a comment:
 *
 *     in; queue_packets=3 queue_bytes=4542          queue at its arrival
 *     in; dropped=loss; queue_packets=3 queue_bytes=4542
 *     out; due_ns=1732165432123456789 late_ns=2345  CLOCK_REALTIME
 *
 * The frames go through memory to a thread that sorts them by time and writes them. If it cannot
 * keep up with the link, the link waits. Frames then leave late, which the counters show, but no
 * frame is missing in the file.
 *
 * Source: draft-ietf-opsawg-pcapng.
 */
#pragma once

#include "frame.h"

enum {
    COMMENT_BYTES = 192,
    MAX_SNAPLEN = 1 << 17,
    MAX_PATH = 4096,
};

/* The comment of a packet, made without printf, which would cost as much as forwarding it. */
struct comment {
    char text[COMMENT_BYTES];
    size_t used;
};

void add_text(struct comment *comment, const char *text);
void add_number(struct comment *comment, const char *name, int64_t value);

/* The current or the last recording. */
extern struct recording {
    bool on;
    char path[MAX_PATH];
    uint64_t packets;
    uint64_t last_id; /* last frame id, which continues in the next recording */
} recording;

/* Opens the file and writes its header; returns false with errno set on failure. */
bool recording_start(const char *path, uint32_t snaplen, const uint8_t *header,
                     size_t header_bytes);

/* Writes all recorded frames to the file; returns 0 or an errno. */
int recording_stop(const uint8_t *trailer, size_t trailer_bytes);

/* Converts to the file's time, CLOCK_REALTIME with the offset at the start of the recording. */
int64_t recording_time(int64_t monotonic_ns);

/* Records one packet. `frame` may be truncated; its original length is `length`. */
void record_packet(uint32_t interface, uint32_t direction, int64_t t, const struct frame *frame,
                   uint32_t length, const struct comment *comment);

/* Passes on frames that have waited long in memory. */
void recording_routine(int64_t now);

/* Returns the time of the next recording_routine(), or NEVER if no frame waits. */
int64_t recording_due_ns(void);
