/*
 * capture - record the packets of an interface as pcapng, and report how many were lost.
 *
 *     capture [--snaplen BYTES] [--ring-mib MIB] INTERFACE >FILE
 *
 * It needs CAP_NET_RAW in the interface's network namespace. It writes the recording to standard
 * output, and one line of JSON to standard error when it starts to record, and another at the end:
 *
 *     {"listening": true}
 *     {"packets": 200000, "received": 200000, "drops": 0}
 *
 * It ends at the end of standard input, or on SIGTERM or SIGINT. First it writes out all packets
 * that the kernel has received. "drops" is the kernel's count of packets that found the ring full.
 *
 * The kernel passes each packet of the loopback interface twice, as it leaves and as it arrives,
 * and only the departures are kept. A super-segment (TSO, GSO, GRO) is one packet with its true
 * length. A VLAN tag that the kernel took out is not put back.
 *
 * Sources: packet(7); the kernel's Documentation/networking/packet_mmap.rst (TPACKET_V3);
 * draft-ietf-opsawg-pcapng (the file); <linux/filter.h> (SKF_AD_PKTTYPE).
 */
#include "net.h"
#include "pcapng.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

enum {
    /* The kernel passes on a block when it is full or this old. So packets wait no longer than
     * this, and the ring holds a trickle of BLOCKS x RETIRE_MS. */
    RETIRE_MS = 20,
    /* Recording headers uses many small blocks, so that a trickle does not use them up. */
    SMALL_BLOCK = 1 << 18,
    LARGE_BLOCK = 1 << 20, /* a packet must fit in a block */
    MAX_SNAPLEN = 1 << 18,
    /* Size of a write(2), since a system call per packet would be too slow. */
    WRITE_BYTES = 1 << 20,
    DRAIN_MS = 5000,
};

static int64_t snaplen = MAX_SNAPLEN, ring_mib = 64;

static const struct program_option options[MAX_OPTIONS] = {
    {"snaplen", 0, "BYTES", "keep this much of each packet", .number = &snaplen, .min = 1,
     .max = MAX_SNAPLEN},
    {"ring-mib", 0, "MIB", "size of the kernel's ring", .number = &ring_mib, .min = 1, .max = 1024},
};

static const struct command command = {
    .usage = "capture [OPTION]... INTERFACE >FILE",
    .summary = "Records packets into FILE, as pcapng, until standard input ends, or SIGTERM or\n"
               "SIGINT.",
    .options = options,
    .arguments = {1, 1},
    .bare = true,
};

struct ring {
    int fd;
    uint8_t *blocks;
    unsigned block_bytes, block_count, next;
    uint64_t received, drops; /* reading PACKET_STATISTICS resets it, so we add up */
};

/* The buffer for standard output, which is written WRITE_BYTES at a time. */
static struct {
    uint8_t buffer[WRITE_BYTES];
    size_t used;
    uint64_t packets;
} file;

/* ---- the pcapng file ---- */

static void write_out(void) {
    if (!write_all(STDOUT_FILENO, file.buffer, file.used))
        fail("writing the recording");
    file.used = 0;
}

/* Returns the place for the next `bytes` bytes of the file. */
static uint8_t *room_for(size_t bytes) {
    if (sizeof file.buffer - file.used < bytes)
        write_out();
    return file.buffer + file.used;
}

static void put_packet(const struct tpacket3_hdr *packet) {
    const uint8_t *start = (const uint8_t *)packet;
    const struct sockaddr_ll *from = (const void *)(start + TPACKET_ALIGN(sizeof *packet));
    uint32_t flags = from->sll_pkttype == PACKET_OUTGOING ? PCAPNG_OUTBOUND : PCAPNG_INBOUND;
    int64_t time_ns = packet->tp_sec * INT64_C(1000000000) + packet->tp_nsec;
    struct pcapng_block block = pcapng_packet(room_for(packet->tp_snaplen + PCAPNG_BLOCK_BYTES), 0,
                                              time_ns, packet->tp_snaplen, packet->tp_len);
    pcapng_put(&block, start + packet->tp_mac, packet->tp_snaplen);
    pcapng_put_option(&block, PCAPNG_PACKET_FLAGS, &flags, sizeof flags);
    file.used += pcapng_end(&block);
    file.packets++;
}

/* ---- the kernel's ring ---- */

/* Returns whether it is the loopback interface; ends the program if it cannot be recorded. */
static bool check_interface(int fd, const char *interface) {
    struct ifreq request = {0};
    strncpy(request.ifr_name, interface, IFNAMSIZ - 1);
    if (ioctl(fd, SIOCGIFFLAGS, &request) < 0)
        fail("interface %s", interface);
    if (!(request.ifr_flags & IFF_UP))
        fail_because("interface %s is down; set it up first", interface);
    bool is_loopback = request.ifr_flags & IFF_LOOPBACK;
    if (ioctl(fd, SIOCGIFHWADDR, &request) < 0)
        fail("link type of %s", interface);
    if (request.ifr_hwaddr.sa_family != (is_loopback ? ARPHRD_LOOPBACK : ARPHRD_ETHER))
        fail_because("interface %s is neither Ethernet nor loopback (ARPHRD type %d)", interface,
                     request.ifr_hwaddr.sa_family);
    return is_loopback;
}

/* The filter runs in the kernel. It cuts at snaplen, and optionally keeps only departures. */
static void attach_filter(int fd, uint32_t keep_bytes, bool outgoing_only) {
    struct sock_filter outgoing[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(SKF_AD_OFF + SKF_AD_PKTTYPE)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PACKET_OUTGOING, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, keep_bytes),
        BPF_STMT(BPF_RET | BPF_K, 0),
    };
    struct sock_fprog program = {.len = 4, .filter = outgoing};
    if (!outgoing_only) /* use only the third line */
        program = (struct sock_fprog){.len = 1, .filter = outgoing + 2};
    if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) < 0)
        fail("attaching the packet filter");
}

/* No packet arrives on the socket before bind(), since its protocol is 0 until then. */
static struct ring open_ring(void) {
    struct ring ring = {.fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0)};
    if (ring.fd < 0 && errno == EPERM)
        fail_because("recording needs CAP_NET_RAW in this network namespace");
    if (ring.fd < 0)
        fail("packet socket");
    ring.block_bytes = snaplen > SMALL_BLOCK / 4 ? LARGE_BLOCK : SMALL_BLOCK;
    ring.block_count = (unsigned)ring_mib * ((1u << 20) / ring.block_bytes);
    struct tpacket_req3 request = {
        .tp_block_size = ring.block_bytes,
        .tp_block_nr = ring.block_count,
        .tp_frame_size = 2048, /* V3 packs frames as they come, but checks the total */
        .tp_frame_nr = ring.block_bytes / 2048 * ring.block_count,
        .tp_retire_blk_tov = RETIRE_MS,
    };
    if (setsockopt(ring.fd, SOL_PACKET, PACKET_VERSION, &(int){TPACKET_V3}, sizeof(int)) < 0)
        fail("PACKET_VERSION TPACKET_V3");
    if (setsockopt(ring.fd, SOL_PACKET, PACKET_RX_RING, &request, sizeof request) < 0)
        fail("a ring of %lld MiB (try a smaller --ring-mib)", (long long)ring_mib);
    size_t bytes = (size_t)ring.block_bytes * ring.block_count;
    ring.blocks = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ring.fd, 0);
    if (ring.blocks == MAP_FAILED)
        fail("mapping the ring");
    return ring;
}

static void bind_ring(struct ring *ring, const char *interface) {
    unsigned index = if_nametoindex(interface);
    if (index == 0) /* bind() would take 0 as all interfaces */
        fail("interface %s", interface);
    struct sockaddr_ll address = {
        .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = (int)index};
    if (bind(ring->fd, (struct sockaddr *)&address, sizeof address) < 0)
        fail("bind to %s", interface);
}

/* Writes out each block that the kernel has completed, and returns it. */
static void drain(struct ring *ring) {
    for (;;) {
        uint8_t *start = ring->blocks + (size_t)ring->next * ring->block_bytes;
        struct tpacket_hdr_v1 *block = &((struct tpacket_block_desc *)start)->hdr.bh1;
        if (!(__atomic_load_n(&block->block_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER))
            break;
        uint8_t *packet = start + block->offset_to_first_pkt;
        for (unsigned i = 0; i < block->num_pkts; i++) {
            put_packet((const struct tpacket3_hdr *)packet);
            packet += ((struct tpacket3_hdr *)packet)->tp_next_offset;
        }
        __atomic_store_n(&block->block_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
        ring->next = (ring->next + 1) % ring->block_count;
    }
    /* There are no more packets at the moment, so let a reader of the file see these. */
    write_out();
}

static void count(struct ring *ring) {
    struct tpacket_stats_v3 new;
    socklen_t length = sizeof new;
    if (getsockopt(ring->fd, SOL_PACKET, PACKET_STATISTICS, &new, &length) < 0)
        fail("PACKET_STATISTICS");
    ring->received += new.tp_packets;
    ring->drops += new.tp_drops;
}

/* ---- the recording ---- */

/* Records until it has to end; returns NULL, or how the interface failed. */
static const char *record(struct ring *ring) {
    struct pollfd fds[] = {{.fd = ring->fd, .events = POLLIN},
                           {.fd = STDIN_FILENO, .events = POLLIN}};
    char ignored[256];
    for (;;) {
        if (poll(fds, 2, 1000) < 0 && errno != EINTR)
            fail("poll");
        drain(ring);
        count(ring); /* often enough that the kernel's 32 bits don't overflow */
        if (fds[0].revents & POLLERR) {
            int error = 0;
            getsockopt(ring->fd, SOL_SOCKET, SO_ERROR, &error, &(socklen_t){sizeof error});
            return error == ENETDOWN ? "the interface went down" : strerror(error);
        }
        if (fds[1].revents && read(STDIN_FILENO, ignored, sizeof ignored) <= 0)
            return NULL;
    }
}

/* The last packets are in a block that the kernel still fills, and passes on within RETIRE_MS.
 * Each received packet is written or dropped, so the counts show when we have all. */
static void drain_rest(struct ring *ring) {
    attach_filter(ring->fd, 0, false); /* receive no more packets */
    int64_t deadline_ns = clock_ns(CLOCK_MONOTONIC) + DRAIN_MS * INT64_C(1000000);
    for (;;) {
        count(ring);
        if (file.packets + ring->drops >= ring->received)
            return;
        if (clock_ns(CLOCK_MONOTONIC) > deadline_ns)
            fail_because("the kernel kept %llu packets to itself for %d ms",
                         (unsigned long long)(ring->received - ring->drops - file.packets),
                         DRAIN_MS);
        poll(&(struct pollfd){.fd = ring->fd, .events = POLLIN}, 1, 1);
        drain(ring);
    }
}

int main(int argc, char **argv) {
    const char *interface = parse_command_line(argc, argv, &command)[0];

    end_input_on_signals();
    struct ring ring = open_ring();
    bool is_loopback = check_interface(ring.fd, interface);
    file.used += pcapng_section(room_for(PCAPNG_BLOCK_BYTES), "tcplab capture");
    file.used += pcapng_interface(room_for(PCAPNG_BLOCK_BYTES), snaplen, interface, NULL);
    write_out();

    /* Attach the filter before bind(), so that no packet gets past it. */
    attach_filter(ring.fd, (uint32_t)snaplen, is_loopback);
    struct pcapng_counts counts = {.began_ns = clock_ns(CLOCK_REALTIME)};
    bind_ring(&ring, interface);
    fputs("{\"listening\": true}\n", stderr);

    const char *failure = record(&ring);
    drain_rest(&ring);
    counts.ended_ns = clock_ns(CLOCK_REALTIME);
    counts.received = ring.received;
    counts.dropped = ring.drops;
    file.used += pcapng_statistics(room_for(PCAPNG_BLOCK_BYTES), &counts);
    write_out();
    if (close(STDOUT_FILENO) < 0)
        fail("closing the recording");
    fprintf(stderr, "{\"packets\": %llu, \"received\": %llu, \"drops\": %llu}\n",
            (unsigned long long)file.packets, (unsigned long long)ring.received,
            (unsigned long long)ring.drops);
    if (failure)
        fail_because("%s: %s after %llu packets; the file holds them", interface, failure,
                     (unsigned long long)file.packets);
    return 0;
}
