/*
 * ports.h - the interfaces that the wire connects, as packet sockets with rings that the kernel
 * fills with arrivals; and the clocks. The wire runs on CLOCK_MONOTONIC, but the kernel stamps
 * arrivals with CLOCK_REALTIME, which may be set meanwhile.
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

extern int64_t real_minus_monotonic_ns; /* result of the last compare_clocks() */
extern uint64_t clock_steps;            /* how many times CLOCK_REALTIME was set */

int64_t now_ns(void);
void compare_clocks(void);

static inline int64_t max_ns(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static inline int64_t min_ns(int64_t a, int64_t b) {
    return a < b ? a : b;
}

enum {
    MAX_PORTS = 128, /* total of both sides */
    BATCH = 128,     /* most frames taken or sent at a time */
    VLAN_BYTES = 4,
};

/* An interface: a packet socket with a ring that the kernel fills with arrivals. */
struct port {
    char name[IF_NAMESIZE];
    int index;
    uint32_t mtu;
    bool bundles; /* the kernel segments super-segments on departure (see transfer.c) */
    int socket;
    uint8_t *ring;
    unsigned slot_bytes, block_bytes, slots_per_block, blocks;
    unsigned block, slot;      /* place of the next arrival */
    int64_t seen_ns;           /* all arrivals before this time have been taken */
    uint8_t speaker[ETH_ALEN]; /* source MAC last seen on this port */
    int64_t access_ns;         /* one-way delay of the cable between the host and the link */
};

/* The kernel's counts of frames; missed ones found the ring full. */
struct counts {
    uint64_t received, missed;
};

/* One end of the link: usually one port. */
struct side {
    char name[128];
    struct port *ports;
    unsigned port_count;
    struct counts counts, counted_from, recorded_from; /* now, at the reset, and at the capture */
};

extern struct port ports[MAX_PORTS];
extern unsigned port_count;

/* Opens the ports named in "c1,c2,c3"; splits the string in place. With `offload` they carry
   super-segments. */
void side_open(struct side *side, char *names, bool offload);

/* Ends the program if the interface is down or gone. */
void port_check(const struct port *port);

/* Adds the kernel's new counts to ours. */
void side_count(struct side *side);

/* Returns the slot of the next arrival, filled or not. */
struct tpacket2_hdr *port_slot(const struct port *port);
bool port_has_frame(const struct port *port);
void port_next_slot(struct port *port);

/* Returns the port with this address behind it, or NULL if it is unknown. */
struct port *side_find(const struct side *side, const uint8_t *address);
