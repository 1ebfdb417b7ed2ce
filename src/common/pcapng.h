/*
 * pcapng.h - write blocks of a pcapng file into memory.
 *
 * Each function writes at `to`, where the caller has made room, and returns the size of the block.
 * Times are nanoseconds of CLOCK_REALTIME. Source: draft-ietf-opsawg-pcapng.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum {
    PCAPNG_BLOCK_BYTES = 256, /* largest block without the packet and its comment */
    PCAPNG_INBOUND = 1,       /* directions in a packet's flags */
    PCAPNG_OUTBOUND = 2,
};

enum pcapng_option { PCAPNG_COMMENT = 1, PCAPNG_PACKET_FLAGS = 2, PCAPNG_PACKET_ID = 5 };

size_t pcapng_section(uint8_t *to, const char *application);

/* Writes the block of an Ethernet interface; description may be NULL. */
size_t pcapng_interface(uint8_t *to, uint32_t snaplen, const char *name, const char *description);

/* Counts of received and lost packets of an interface during the recording. */
struct pcapng_counts {
    uint32_t interface;
    int64_t began_ns, ended_ns;
    uint64_t received, dropped;
};

size_t pcapng_statistics(uint8_t *to, const struct pcapng_counts *counts);

/* A packet takes several calls. pcapng_packet() begins its block, pcapng_put() appends the captured
   bytes in any number of parts, the options follow, and pcapng_end() returns the block's length. */
struct pcapng_block {
    uint8_t *start, *at;
};

struct pcapng_block pcapng_packet(uint8_t *to, uint32_t interface, int64_t time_ns,
                                  uint32_t captured, uint32_t length);
void pcapng_put(struct pcapng_block *block, const void *bytes, size_t length);
void pcapng_put_option(struct pcapng_block *block, unsigned code, const void *value, size_t length);
size_t pcapng_end(struct pcapng_block *block);

/* Returns the time of a packet block in memory. */
uint64_t pcapng_packet_time(const uint8_t *block);
uint32_t pcapng_block_length(const uint8_t *block);
