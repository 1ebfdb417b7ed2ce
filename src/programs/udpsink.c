/*
 * udpsink - receive numbered datagrams over UDP and report the missing ones.
 *
 *     udpsink [-b RCVBUF] [OPTION]...
 *
 * It listens on port 9000 for one udpsource, which describes the datagrams. The source is J.
 * Snader, Effective TCP/IP Programming, tables 2.2 and 2.3. Like Snader's sink, it requests a
 * receive buffer of 5000 x 1440 bytes by default. It reports more than the column "lost":
 *
 *     lost        never arrived here
 *     drops       datagrams that this host discarded because the receive buffer was full
 *                 (SO_RXQ_OVFL in socket(7)); the others were lost on the way
 *     reordered   arrived after a datagram with a higher number (RFC 4737)
 *     duplicated  arrived again
 *
 * Datagrams of other runs are counted as foreign and left out. With --gro the kernel may return
 * many datagrams in one read (UDP_GRO in udp(7)). The source pays for waking up a sleeping sink.
 * With --spin the sink polls first, which needs a dedicated CPU.
 */
#include "net.h"

#include <endian.h>
#include <netinet/udp.h>

/* Keep this equal to the header in udpsource.c. */
struct header {
    char kind[4];
    uint32_t run;
    uint64_t number;
} __attribute__((packed));

enum { MAX_PAYLOAD = 65535, MAX_COUNT = 100000000, LINGER_MS = 100 };

static int64_t rcvbuf_bytes = INT64_C(5000) * 1440, spin_us;
static bool gro;

static const struct program_option options[MAX_OPTIONS] = {
    {NULL, 'b', "BYTES", "SO_RCVBUF", BUFFER_SIZE(rcvbuf_bytes)},
    {"spin", 0, "US", "poll this long before sleeping", .number = &spin_us, .max = 1000000},
    {"gro", 0, NULL, "take many datagrams at a time (UDP_GRO)", .flag = &gro},
};

static const struct command command = {
    .usage = "udpsink [OPTION]...",
    .summary = "Receives the datagrams of one udpsource and counts what is missing.",
    .options = options,
    .listens = true,
    .port = "listen here; 0 takes a free one",
};

static int64_t granted_bytes;
static struct sockaddr_storage sender; /* sender of the last datagram */
static socklen_t sender_size;

/* Counts of the arrived datagrams. */
static struct tally {
    bool started, ended;
    uint32_t run;
    int64_t sent;    /* number in the source's end marker */
    int64_t arrived; /* number of different datagrams */
    int64_t lost;
    int64_t next; /* one more than the highest number seen */
    int64_t reordered, duplicated, foreign, bytes, reads;
    int64_t drops;               /* drops of this socket; with --gro one may be many datagrams */
    uint8_t seen[MAX_COUNT / 8]; /* one bit per datagram; untouched parts take no memory */
} tally;

static void prepare(int fd) {
    if (rcvbuf_bytes)
        set_option(fd, SOL_SOCKET, SO_RCVBUF, rcvbuf_bytes, "SO_RCVBUF");
    granted_bytes = get_option(fd, SOL_SOCKET, SO_RCVBUF, "SO_RCVBUF");
    set_option(fd, SOL_SOCKET, SO_RXQ_OVFL, 1, "SO_RXQ_OVFL");
    if (gro)
        set_option(fd, IPPROTO_UDP, UDP_GRO, 1, "UDP_GRO");
}

/* ---- counting: nothing below trusts data from the network ---- */

static void count_data(int64_t number, size_t size) {
    uint8_t bit = (uint8_t)(1 << number % 8);
    if (tally.seen[number / 8] & bit) {
        tally.duplicated++;
        return;
    }
    tally.seen[number / 8] |= bit;
    tally.arrived++;
    tally.bytes += (int64_t)size;
    if (number < tally.next)
        tally.reordered++;
    else
        tally.next = number + 1;
}

/* The first datagram of a source determines the run to measure. */
static void take_datagram(const char *datagram, size_t size) {
    struct header header = {.run = 0};
    memcpy(&header, datagram, size < sizeof header ? size : sizeof header);
    uint64_t number = be64toh(header.number);
    bool is_data = memcmp(header.kind, "data", 4) == 0 && number < MAX_COUNT;
    bool is_end = memcmp(header.kind, "end.", 4) == 0 && number <= MAX_COUNT &&
                  number >= (uint64_t)tally.next;
    bool is_ours = !tally.started || header.run == tally.run;
    if (size < sizeof header || (!is_data && !is_end) || !is_ours) {
        tally.foreign++;
        return;
    }
    tally.started = true;
    tally.run = header.run;
    if (is_data)
        count_data((int64_t)number, size);
    else
        tally.sent = (int64_t)number;
    tally.ended = is_end;
}

/* With UDP_GRO one read may return several datagrams, all of this size except the last. */
static void take_read(const char *data, size_t size, size_t segment) {
    tally.reads++;
    if (segment == 0 || segment > size)
        segment = size;
    do { /* an empty datagram counts, too */
        size_t part = size < segment ? size : segment;
        take_datagram(data, part);
        data += part;
        size -= part;
    } while (size > 0);
}

/* ---- receiving ---- */

/* The control messages carry the size of the segments and the number of drops. */
static size_t read_control(struct msghdr *message) {
    int segment = 0;
    uint32_t dropped;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
        if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_GRO) {
            memcpy(&segment, CMSG_DATA(c), sizeof segment);
        } else if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_RXQ_OVFL) {
            memcpy(&dropped, CMSG_DATA(c), sizeof dropped);
            tally.drops = dropped;
        }
    }
    return (size_t)segment;
}

/* Reads once; returns false if no datagram came in time. */
static bool receive_once(int fd) {
    static char buffer[MAX_PAYLOAD];
    char control[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(uint32_t))];
    struct iovec place = {.iov_base = buffer, .iov_len = sizeof buffer};
    struct msghdr message = {.msg_iov = &place,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof control,
                             .msg_name = &sender,
                             .msg_namelen = sizeof sender};
    int64_t awake_until_ns = spin_us > 0 ? clock_ns(CLOCK_MONOTONIC) + spin_us * 1000 : 0;
    bool awake;
    ssize_t got;
    do {
        awake = spin_us > 0 && clock_ns(CLOCK_MONOTONIC) < awake_until_ns;
        got = recvmsg(fd, &message, awake ? MSG_DONTWAIT : 0);
    } while (got < 0 && (awake || errno == EINTR));
    if (got < 0 && errno != EAGAIN)
        fail("receiving");
    if (got < 0)
        return false;
    sender_size = message.msg_namelen;
    take_read(buffer, (size_t)got, read_control(&message));
    return true;
}

/* The clock starts with the source's first datagram, not with us. */
static struct measurement receive_run(int fd) {
    struct measurement m = start_measuring(fd);
    while (!tally.ended) {
        bool was_started = tally.started;
        if (!receive_once(fd))
            fail_because("%lld datagrams, then nothing for %g s and no end marker (--deadline)",
                         (long long)tally.arrived, common.deadline_s);
        if (!was_started && tally.started)
            m.start = usage_now();
    }
    stop_measuring(&m, fd);
    return m;
}

/* Our answer may get lost as well, so answer until the source stops asking. */
static void answer_end(int fd) {
    int64_t until_ns = 0;
    set_receive_limit(fd, LINGER_MS / 1e3);
    do {
        if (!tally.ended)
            continue; /* other datagrams do not prolong the wait */
        tally.ended = false;
        until_ns = clock_ns(CLOCK_MONOTONIC) + LINGER_MS * INT64_C(1000000);
        struct header answer = {.run = tally.run, .number = htobe64((uint64_t)tally.arrived)};
        memcpy(answer.kind, "done", sizeof answer.kind);
        if (sendto(fd, &answer, sizeof answer, 0, (struct sockaddr *)&sender, sender_size) < 0)
            fail("answering the end marker");
    } while (clock_ns(CLOCK_MONOTONIC) < until_ns && receive_once(fd));
}

static const struct result_field fields[MAX_FIELDS] = {
    {"sent", .whole = &tally.sent},
    {"arrived", .whole = &tally.arrived},
    {"lost", .whole = &tally.lost},
    {"drops", .whole = &tally.drops},
    {"reordered", .whole = &tally.reordered},
    {"duplicated", .whole = &tally.duplicated},
    {"foreign", .whole = &tally.foreign},
    {"bytes", .whole = &tally.bytes},
    {"reads", .whole = &tally.reads},
    {"mb_per_s", MB_PER_S(tally.bytes)},
    {"gro", .flag = &gro},
    {"rcvbuf_requested_bytes", .whole = &rcvbuf_bytes},
    {"rcvbuf_granted_bytes", .whole = &granted_bytes},
};

int main(int argc, char **argv) {
    start_program(argc, argv, &command);

    int fd = listen_on(SOCK_DGRAM, common.port, prepare, stdout);
    struct measurement m = receive_run(fd);
    answer_end(fd);
    tally.lost = tally.sent - tally.arrived;
    print_result(stdout, fields, &m);
}
