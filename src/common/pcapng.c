/* pcapng.c - see pcapng.h. */
#include "pcapng.h"
#include "process.h"

#include <string.h>
#include <sys/utsname.h>

enum { BLOCK_INTERFACE = 1, BLOCK_STATISTICS = 5, BLOCK_PACKET = 6, BLOCK_SECTION = 0x0A0D0D0A };

static void put32(struct pcapng_block *block, uint32_t value) {
    pcapng_put(block, &value, sizeof value);
}

/* Writes the halves of a time; the high one is first in either byte order. */
static void put_time(struct pcapng_block *block, int64_t ns) {
    put32(block, (uint32_t)((uint64_t)ns >> 32));
    put32(block, (uint32_t)ns);
}

/* Pads to a multiple of four bytes, at which each part of a block ends. */
static void pad(struct pcapng_block *block) {
    size_t length = -(size_t)(block->at - block->start) & 3;
    memset(block->at, 0, length);
    block->at += length;
}

static void put_text(struct pcapng_block *block, unsigned code, const char *text) {
    pcapng_put_option(block, code, text, strlen(text));
}

static struct pcapng_block begin(uint8_t *to, uint32_t type) {
    struct pcapng_block block = {to, to};
    put32(&block, type);
    put32(&block, 0); /* pcapng_end() fills in the length */
    return block;
}

void pcapng_put(struct pcapng_block *block, const void *bytes, size_t length) {
    memcpy(block->at, bytes, length);
    block->at += length;
}

void pcapng_put_option(struct pcapng_block *block, unsigned code, const void *value,
                       size_t length) {
    pad(block);
    pcapng_put(block, (uint16_t[]){(uint16_t)code, (uint16_t)length}, 4);
    pcapng_put(block, value, length);
}

size_t pcapng_end(struct pcapng_block *block) {
    pad(block);
    put32(block, 0); /* no more options */
    uint32_t length = (uint32_t)(block->at + 4 - block->start);
    put32(block, length);
    memcpy(block->start + 4, &length, sizeof length);
    return length;
}

size_t pcapng_section(uint8_t *to, const char *application) {
    struct utsname kernel;
    if (uname(&kernel) < 0)
        fail("uname");
    struct pcapng_block block = begin(to, BLOCK_SECTION);
    put32(&block, 0x1A2B3C4D);                 /* shows our byte order */
    pcapng_put(&block, (uint16_t[]){1, 0}, 4); /* version 1.0 */
    pcapng_put(&block, &(int64_t){-1}, 8);     /* the section's length is not known yet */
    char os[sizeof kernel.sysname + sizeof kernel.release];
    snprintf(os, sizeof os, "%s %s", kernel.sysname, kernel.release);
    put_text(&block, 3, os);
    put_text(&block, 4, application);
    return pcapng_end(&block);
}

size_t pcapng_interface(uint8_t *to, uint32_t snaplen, const char *name, const char *description) {
    struct pcapng_block block = begin(to, BLOCK_INTERFACE);
    pcapng_put(&block, (uint16_t[]){1, 0}, 4); /* LINKTYPE_ETHERNET */
    put32(&block, snaplen);
    put_text(&block, 2, name);
    if (description)
        put_text(&block, 3, description);
    pcapng_put_option(&block, 9, &(uint8_t){9}, 1); /* if_tsresol, 10^-9 s */
    return pcapng_end(&block);
}

static void put_time_option(struct pcapng_block *block, unsigned code, int64_t ns) {
    pcapng_put_option(block, code, (uint32_t[]){(uint32_t)((uint64_t)ns >> 32), (uint32_t)ns}, 8);
}

size_t pcapng_statistics(uint8_t *to, const struct pcapng_counts *counts) {
    struct pcapng_block block = begin(to, BLOCK_STATISTICS);
    put32(&block, counts->interface);
    put_time(&block, counts->ended_ns);
    put_time_option(&block, 2, counts->began_ns);
    put_time_option(&block, 3, counts->ended_ns);
    pcapng_put_option(&block, 4, &counts->received, 8); /* isb_ifrecv */
    pcapng_put_option(&block, 5, &counts->dropped, 8);  /* isb_ifdrop */
    return pcapng_end(&block);
}

struct pcapng_block pcapng_packet(uint8_t *to, uint32_t interface, int64_t time_ns,
                                  uint32_t captured, uint32_t length) {
    struct pcapng_block block = begin(to, BLOCK_PACKET);
    put32(&block, interface);
    put_time(&block, time_ns);
    put32(&block, captured);
    put32(&block, length);
    return block;
}

uint64_t pcapng_packet_time(const uint8_t *block) {
    uint32_t halves[2];
    memcpy(halves, block + 12, sizeof halves);
    return (uint64_t)halves[0] << 32 | halves[1];
}

uint32_t pcapng_block_length(const uint8_t *block) {
    uint32_t length;
    memcpy(&length, block + 4, sizeof length);
    return length;
}
