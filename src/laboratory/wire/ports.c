/* ports.c - see ports.h. */
#include "ports.h"

#include "frame.h"
#include "process.h"

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#ifndef RING_MIB
#define RING_MIB 8 /* web/build takes less, for a host with little memory */
#endif

enum {
    RING_BYTES = RING_MIB << 20,
    OFFLOAD_RING_BYTES = 4 * RING_BYTES,
    MAX_COMPARISON_NS = 2000,
    CLOCK_STEP_NS = 10000000,
};

struct port ports[MAX_PORTS];
unsigned port_count;

/* ---- clocks ---- */

int64_t real_minus_monotonic_ns;
uint64_t clock_steps;

int64_t now_ns(void) {
    return clock_ns(CLOCK_MONOTONIC);
}

void compare_clocks(void) {
    for (int attempt = 0; attempt < 10; attempt++) {
        int64_t before = now_ns();
        int64_t real = clock_ns(CLOCK_REALTIME);
        int64_t after = now_ns();
        /* An interruption between the readings makes them inconsistent. */
        if (after - before > MAX_COMPARISON_NS)
            continue;
        int64_t difference = real - (before + (after - before) / 2);
        if (real_minus_monotonic_ns && llabs(difference - real_minus_monotonic_ns) > CLOCK_STEP_NS)
            clock_steps++;
        real_minus_monotonic_ns = difference;
        return;
    }
}

/* ---- opening ---- */

static void packet_option(const struct port *port, int option, int value, const char *what) {
    if (setsockopt(port->socket, SOL_PACKET, option, &value, sizeof value) == -1)
        fail("%s: %s", port->name, what);
}

static struct ifreq interface_request(const struct port *port) {
    struct ifreq request = {0};
    memcpy(request.ifr_name, port->name, sizeof port->name);
    return request;
}

/* Returns false also if the interface does not report it. */
static bool feature_is_off(const struct port *port, uint32_t command) {
    struct ethtool_value value = {.cmd = command, .data = 1};
    struct ifreq request = interface_request(port);
    request.ifr_data = (void *)&value;
    return ioctl(port->socket, SIOCETHTOOL, &request) == 0 && value.data == 0;
}

/* Opens a ring of TPACKET_V2, since V3 passes on blocks of frames up to a timer tick late. */
static void ring_open(struct port *port, bool offload) {
    uint32_t frame_bytes = port->mtu + ETH_HLEN + 2 * VLAN_BYTES;
    if (offload && frame_bytes < MAX_FRAME)
        frame_bytes = MAX_FRAME;
    port->slot_bytes = (frame_bytes + 96 + 63) / 64 * 64; /* the headers of a slot take 96 */
    port->block_bytes = 1 << 16;
    while (port->block_bytes < 8 * port->slot_bytes)
        port->block_bytes *= 2;
    port->slots_per_block = port->block_bytes / port->slot_bytes;
    /* The ring needs at least twice the number of slots that may be lent. */
    size_t least = (2 * BATCH + port->slots_per_block - 1) / port->slots_per_block;
    size_t blocks = (offload ? OFFLOAD_RING_BYTES : RING_BYTES) / port->block_bytes;
    port->blocks = (unsigned)(blocks < least ? least : blocks);
    struct tpacket_req request = {
        .tp_block_size = port->block_bytes,
        .tp_block_nr = port->blocks,
        .tp_frame_size = port->slot_bytes,
        .tp_frame_nr = port->blocks * port->slots_per_block,
    };
    size_t size = (size_t)port->block_bytes * port->blocks;
    if (setsockopt(port->socket, SOL_PACKET, PACKET_RX_RING, &request, sizeof request) == -1)
        fail("%s: a receive ring of %zu bytes", port->name, size);
    port->ring = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, port->socket, 0);
    if (port->ring == MAP_FAILED)
        fail("%s: mapping a receive ring of %zu bytes", port->name, size);
}

static void port_open(struct port *port, const char *name, bool offload) {
    if (strlen(name) >= sizeof port->name || *name == '\0')
        usage_error("'%s' is not the name of a network interface", name);
    snprintf(port->name, sizeof port->name, "%s", name);
    port->index = (int)if_nametoindex(name);
    if (port->index == 0)
        fail("no network interface '%s' here", name);
    for (const struct port *other = ports; other < port; other++)
        if (other->index == port->index)
            usage_error("interface '%s' is named twice", name);
    /* Use protocol 0 until the ring is ready, so that no frame is received too early. */
    port->socket = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
    if (port->socket == -1)
        fail("%s: a packet socket (needs CAP_NET_RAW)", name);
    packet_option(port, PACKET_VERSION, TPACKET_V2, "TPACKET_V2");
    packet_option(port, PACKET_IGNORE_OUTGOING, 1, "PACKET_IGNORE_OUTGOING");
    packet_option(port, PACKET_VNET_HDR, 1, "PACKET_VNET_HDR");
    int sndbuf = 1 << 22; /* the kernel silently reduces it to the allowed size */
    setsockopt(port->socket, SOL_SOCKET, SO_SNDBUF, &sndbuf, sizeof sndbuf);
    struct ifreq request = interface_request(port);
    if (ioctl(port->socket, SIOCGIFMTU, &request) == -1)
        fail("%s: reading the MTU", name);
    port->mtu = (uint32_t)request.ifr_mtu;
    port->bundles =
        !offload && feature_is_off(port, ETHTOOL_GTSO) && feature_is_off(port, ETHTOOL_GTXCSUM);
    ring_open(port, offload);
    port->seen_ns = now_ns();
    struct sockaddr_ll address = {
        .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = port->index};
    if (bind(port->socket, (struct sockaddr *)&address, sizeof address) == -1)
        fail("%s: bind", name);
}

void side_open(struct side *side, char *names, bool offload) {
    snprintf(side->name, sizeof side->name, "%s", names);
    side->ports = &ports[port_count];
    for (char *name; (name = strsep(&names, ",")); side->port_count++) {
        if (port_count == MAX_PORTS)
            usage_error("more than %d interfaces", MAX_PORTS);
        port_open(&ports[port_count++], name, offload);
    }
}

void port_check(const struct port *port) {
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(port->socket, SOL_SOCKET, SO_ERROR, &error, &size);
    errno = error;
    if (error)
        fail("interface %s", port->name);
}

void side_count(struct side *side) {
    for (unsigned i = 0; i < side->port_count; i++) {
        struct tpacket_stats stats;
        socklen_t size = sizeof stats;
        /* Reading the counters resets them. */
        if (getsockopt(side->ports[i].socket, SOL_PACKET, PACKET_STATISTICS, &stats, &size) == -1)
            continue;
        side->counts.received += stats.tp_packets;
        side->counts.missed += stats.tp_drops;
    }
}

/* ---- the ring ---- */

struct tpacket2_hdr *port_slot(const struct port *port) {
    return (struct tpacket2_hdr *)(port->ring + (size_t)port->block * port->block_bytes +
                                   (size_t)port->slot * port->slot_bytes);
}

void port_next_slot(struct port *port) {
    if (++port->slot == port->slots_per_block) {
        port->slot = 0;
        if (++port->block == port->blocks)
            port->block = 0;
    }
}

bool port_has_frame(const struct port *port) {
    uint32_t status = *(volatile uint32_t *)&port_slot(port)->tp_status;
    atomic_thread_fence(memory_order_acquire);
    return status & TP_STATUS_USER;
}

struct port *side_find(const struct side *side, const uint8_t *address) {
    for (struct port *port = side->ports; port < side->ports + side->port_count; port++)
        if (memcmp(port->speaker, address, ETH_ALEN) == 0)
            return port;
    return NULL;
}
