/*
 * udpsource - send numbered datagrams over UDP at a given rate, or as fast as possible.
 *
 *     udpsource [-s SIZE] [-b SNDBUF] [-c COUNT] [OPTION]... HOST
 *
 * This is the UDP half of the comparison in J. Snader, Effective TCP/IP Programming, tables 2.2 and
 * 2.3. It sends 5000 datagrams of 1440 (or 300) bytes to a udpsink at HOST, port 9000, with the
 * kernel's default send buffer. UDP does not report losses, so every datagram carries its number,
 * and the sink counts.
 *
 * The end marker may be lost, too. So the source repeats it, with the number of datagrams sent,
 * until the sink answers with the number that arrived.
 *
 *     0        4        8               16
 *     +--------+--------+----------------+---------------
 *     |  kind  |  run   |     number     |  filling ...      all numbers in network byte order
 *     +--------+--------+----------------+---------------
 *
 *     kind    "data" 0, 1, 2, ... COUNT-1 | "end." COUNT | "done" how many arrived, from the sink
 *     run     drawn at random, so that a late marker of the last run does not end this one
 *
 * --pace RATE spaces the datagrams out. --gso passes up to 64 at a time to the kernel, which splits
 * them as late as possible (UDP_SEGMENT in udp(7)), after one trip through the stack instead of 64.
 */
#define _GNU_SOURCE
#include "net.h"

#include <endian.h>
#include <math.h>
#include <netinet/udp.h>
#include <sys/prctl.h>
#include <sys/random.h>

/* Keep this equal to the header in udpsink.c. */
struct header {
    char kind[4];
    uint32_t run;
    uint64_t number;
} __attribute__((packed));

enum { MAX_PAYLOAD = 65507, MAX_SEGMENTS = 64, END_INTERVAL_MS = 20 };

static int64_t datagram_bytes = 1440, sndbuf_bytes, count = 5000; /* 0: the kernel's buffer */
static double pace_mbit = INFINITY;
static bool gso;

static const struct program_option options[MAX_OPTIONS] = {
    {NULL, 's', "BYTES", "payload of a datagram", .number = &datagram_bytes,
     .min = sizeof(struct header), .max = MAX_PAYLOAD},
    {NULL, 'b', "BYTES", "SO_SNDBUF", BUFFER_SIZE(sndbuf_bytes)},
    {NULL, 'c', "COUNT", "number of datagrams", .number = &count, .min = 1, .max = 1e8},
    {"pace", 0, "MBIT", "at most this many 10^6 bits of payload per second", .decimal = &pace_mbit,
     .min = 0.001, .max = 1e6},
    {"gso", 0, NULL, "pass many datagrams at a time (UDP_SEGMENT)", .flag = &gso},
};

static const struct command command = {
    .usage = "udpsource [OPTION]... HOST",
    .summary = "Sends numbered datagrams to a udpsink and asks it how many arrived.",
    .options = options,
    .arguments = {1, 1},
    .port = "the sink's port",
};

static uint32_t run;
static int64_t granted_bytes, bytes, arrived, lost, system_calls, end_markers;

static void prepare(int fd) {
    if (sndbuf_bytes)
        set_option(fd, SOL_SOCKET, SO_SNDBUF, sndbuf_bytes, "SO_SNDBUF");
    granted_bytes = get_option(fd, SOL_SOCKET, SO_SNDBUF, "SO_SNDBUF");
}

static void put_header(char *datagram, const char *kind, int64_t number) {
    struct header header = {.run = run, .number = htobe64((uint64_t)number)};
    memcpy(header.kind, kind, sizeof header.kind);
    memcpy(datagram, &header, sizeof header);
}

static void send_datagrams(int fd, const char *data, size_t size) {
    ssize_t sent = TEMP_FAILURE_RETRY(send(fd, data, size, 0));
    system_calls++;
    if (sent < 0 && errno == ECONNREFUSED)
        fail_because("no sink listens on port %s", common.port);
    if (sent < 0)
        fail_transfer("sending");
}

/* Returns the number of datagrams per system call. */
static int segments_in_call(int fd) {
    int segments = MAX_PAYLOAD / (int)datagram_bytes;
    if (!gso || segments < 2)
        return 1;
    set_option(fd, IPPROTO_UDP, UDP_SEGMENT, datagram_bytes, "UDP_SEGMENT");
    return segments < MAX_SEGMENTS ? segments : MAX_SEGMENTS;
}

/* The schedule is absolute, so the next sends compensate for a sleep that lasts too long. */
static void wait_for_turn(int64_t start_ns, int64_t sent) {
    int64_t due = start_ns + (int64_t)((double)(sent * datagram_bytes) * 8e3 / pace_mbit);
    if (clock_ns(CLOCK_MONOTONIC) < due)
        sleep_until_ns(due);
}

static void send_everything(int fd, char *datagrams, int segments) {
    int64_t start_ns = clock_ns(CLOCK_MONOTONIC);
    for (int64_t number = 0; number < count;) {
        int batch = count - number < segments ? (int)(count - number) : segments;
        for (int i = 0; i < batch; i++)
            put_header(datagrams + (size_t)i * (size_t)datagram_bytes, "data", number + i);
        if (isfinite(pace_mbit))
            wait_for_turn(start_ns, number);
        send_datagrams(fd, datagrams, (size_t)batch * (size_t)datagram_bytes);
        number += batch;
    }
}

/* Returns the sink's answer to this run's end marker, or -1 if none came in time. */
static int64_t await_answer(int fd) {
    struct header answer;
    ssize_t got = TEMP_FAILURE_RETRY(recv(fd, &answer, sizeof answer, 0));
    if (got < 0 && errno == EAGAIN)
        return -1;
    if (got < 0 && errno == ECONNREFUSED)
        fail_because("no sink listens on port %s (any more)", common.port);
    if (got < 0)
        fail("waiting for the sink's answer");
    bool ours = got == sizeof answer && memcmp(answer.kind, "done", 4) == 0 && answer.run == run;
    return ours ? (int64_t)be64toh(answer.number) : -1;
}

static int64_t end_run(int fd) {
    char marker[sizeof(struct header)];
    set_receive_limit(fd, END_INTERVAL_MS / 1e3);
    int64_t start_ns = clock_ns(CLOCK_MONOTONIC), answer;
    put_header(marker, "end.", count);
    do {
        if (past_deadline(start_ns))
            fail_because("the sink has not answered %lld end markers in %g s (--deadline)",
                         (long long)end_markers, common.deadline_s);
        send_datagrams(fd, marker, sizeof marker);
        end_markers++;
        answer = await_answer(fd);
    } while (answer < 0);
    return answer;
}

static const struct result_field fields[MAX_FIELDS] = {
    {"datagrams", .whole = &count},
    {"datagram_bytes", .whole = &datagram_bytes},
    {"bytes", .whole = &bytes},
    {"mb_per_s", MB_PER_S(bytes)},
    {"arrived", .whole = &arrived},
    {"lost", .whole = &lost},
    {"system_calls", .whole = &system_calls},
    {"end_markers", .whole = &end_markers},
    {"gso", .flag = &gso},
    {"pace_mbit", .decimal = &pace_mbit},
    {"sndbuf_requested_bytes", .whole = &sndbuf_bytes},
    {"sndbuf_granted_bytes", .whole = &granted_bytes},
};

int main(int argc, char **argv) {
    const char *host = start_program(argc, argv, &command)[0];
    if (getrandom(&run, sizeof run, 0) != sizeof run)
        fail("getrandom");
    /* A sleep may last 50 us longer than requested, unless the slack is reduced (prctl(2)). */
    prctl(PR_SET_TIMERSLACK, 1);

    int fd = connect_to(SOCK_DGRAM, host, common.port, prepare);
    int segments = segments_in_call(fd);
    char *datagrams = allocate((size_t)segments, (size_t)datagram_bytes);
    memset(datagrams, 'x', (size_t)segments * (size_t)datagram_bytes);

    struct measurement m = start_measuring(fd);
    send_everything(fd, datagrams, segments);
    stop_measuring(&m, fd);
    if (segments > 1)
        set_option(fd, IPPROTO_UDP, UDP_SEGMENT, 0, "UDP_SEGMENT");
    arrived = end_run(fd);
    lost = count - arrived;
    bytes = count * datagram_bytes;
    print_result(stdout, fields, &m);
    free(datagrams);
}
