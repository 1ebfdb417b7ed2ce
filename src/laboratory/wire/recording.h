/*
 * recording.h - the wire's recording: a pcapng file of each frame as it
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
#pragma once

#include "frame.h"

enum {
    COMMENT_BYTES = 192,
    MAX_SNAPLEN = 1 << 17,
    MAX_PATH = 4096,
};

/* The comment of a packet: printf would cost as much as forwarding the frame. */
struct comment {
    char text[COMMENT_BYTES];
    size_t used;
};

void add_text(struct comment *comment, const char *text);
void add_number(struct comment *comment, const char *name, int64_t value);

/* The recording that is on, or was last. */
extern struct recording {
    bool on;
    char path[MAX_PATH];
    uint64_t packets;
    uint64_t last_id; /* of a frame; it goes on from one recording to the next */
} recording;

/* Opens the file and writes its header; false with errno set if it can't. */
bool recording_start(const char *path, uint32_t snaplen, const uint8_t *header,
                     size_t header_bytes);

/* Everything recorded is in the file when this returns. 0, or the errno of what went wrong. */
int recording_stop(const uint8_t *trailer, size_t trailer_bytes);

/* The file's time of a moment: CLOCK_REALTIME, as it was when the recording began. */
int64_t recording_time(int64_t monotonic_ns);

/* One packet of the file. `frame` may be cut short: then it was `length` bytes long. */
void record_packet(uint32_t interface, uint32_t direction, int64_t t, const struct frame *frame,
                   uint32_t length, const struct comment *comment);

/* Hands over what waits in memory, if it has waited long. */
void recording_routine(int64_t now);

/* When that will next be necessary; NEVER if nothing waits. */
int64_t recording_due_ns(void);
