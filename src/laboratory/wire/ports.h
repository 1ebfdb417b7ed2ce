/*
 * ports.h - the interfaces that the wire connects: packet sockets with rings that the kernel fills
 * with arrivals. And the clocks: the wire runs on CLOCK_MONOTONIC; the kernel stamps arrivals with
 * CLOCK_REALTIME, which may be set meanwhile.
 *
 * Sources: packet(7); the kernel's Documentation/networking/packet_mmap.rst.
 */
#pragma once

#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SECOND_NS INT64_C(1000000000)
#define NEVER INT64_MAX

extern int64_t real_minus_monotonic_ns; /* as compare_clocks() found it last */
extern uint64_t clock_steps;            /* how often CLOCK_REALTIME was set */

int64_t now_ns(void);
void compare_clocks(void);

static inline int64_t max_ns(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static inline int64_t min_ns(int64_t a, int64_t b) {
    return a < b ? a : b;
}

enum {
    MAX_PORTS = 128, /* of both sides together */
    BATCH = 128,     /* frames taken or sent in one go */
    VLAN_BYTES = 4,
};

/* An interface: a packet socket with a ring that the kernel fills with arrivals. */
struct port {
    char name[IF_NAMESIZE];
    int index;
    uint32_t mtu;
    bool bundles; /* the kernel cuts up super-segments on the way out: see transfer.c */
    int socket;
    uint8_t *ring;
    unsigned slot_bytes, block_bytes, slots_per_block, blocks;
    unsigned block, slot;      /* where the next arrival will be */
    int64_t seen_ns;           /* everything that came before this has been taken */
    uint8_t speaker[ETH_ALEN]; /* the last sender: who is behind the port */
    int64_t access_ns;         /* one way, of the cable between the host there and the link */
};

/* The kernel's counts of frames; missed: the ring was full. */
struct counts {
    uint64_t received, missed;
};

/* One end of the link: usually one port. */
struct side {
    char name[128];
    struct port *ports;
    unsigned port_count;
    struct counts counts, counted_from, recorded_from; /* now, at the reset, at the capture */
};

extern struct port ports[MAX_PORTS];
extern unsigned port_count;

/* Opens the ports that "c1,c2,c3" names; the names are cut apart in place. With `offload` they
   carry super-segments whole. */
void side_open(struct side *side, char *names, bool offload);

/* An interface that went down or is gone ends the program. */
void port_check(const struct port *port);

/* Adds to the counts what the kernel has counted since. */
void side_count(struct side *side);

/* The slot of the next arrival, filled or not. */
struct tpacket2_hdr *port_slot(const struct port *port);
bool port_has_frame(const struct port *port);
void port_next_slot(struct port *port);

/* The port behind which an address is, or NULL if none has heard of it. */
struct port *side_find(const struct side *side, const uint8_t *address);
