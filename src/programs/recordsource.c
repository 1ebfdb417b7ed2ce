/*
 * recordsource - send many small records over TCP, efficiently or not.
 *
 *     recordsource [OPTION]... HOST
 *
 * This is case 1 of the MSDN article "Design issues: sending small data segments over TCP with
 * Winsock". A client sends 10 000 records of 20 to 100 bytes to a server that stores them. Its
 * author switched the send buffer off, and got 5 records per second. This program can be as slow,
 * and faster.
 *
 *     (nothing)      one send() per record; the kernel buffers, Nagle's algorithm makes segments
 *     --unbuffered   like SO_SNDBUF = 0 in Winsock: a send() completes only when its data has been
 *                    acknowledged. Linux has no such send(), so poll until no data is
 *                    outstanding (SIOCOUTQ in tcp(7))
 *     --nodelay      Nagle's algorithm off
 *     --batch 80     the article's advice: a header with the count, then that many records, each
 *                    padded to 100 bytes, in one send()
 *
 * TCP keeps no boundaries, so each record contains its length:
 *
 *     record   | length (2 bytes) | number (4 bytes) | text ...      20 to 100 bytes in all
 *     batch    | 0 (2) | count (2) |  count records, each padded to 100 bytes
 */
#include "net.h"

#include <arpa/inet.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>

/* Keep these equal to the values in recordsink.c. */
enum { MIN_RECORD = 20, MAX_RECORD = 100, RECORD_HEADER = 6, BATCH_HEADER = 4, MAX_BATCH = 1000 };

static int64_t count = 10000, batch;
static bool unbuffered;

static const struct program_option options[MAX_OPTIONS] = {
    {NULL, 'c', "COUNT", "number of records", .number = &count, .min = 1, .max = 1e7},
    {"unbuffered", 0, NULL, "after each send, wait for its acknowledgement", .flag = &unbuffered},
    {"batch", 0, "K", "send K records at a time, padded to 100 bytes", .number = &batch, .min = 1,
     .max = MAX_BATCH},
};

static const struct command command = {
    .usage = "recordsource [OPTION]... HOST",
    .summary = "Sends records of 20 to 100 bytes to a recordsink.",
    .options = options,
    .arguments = {1, 1},
    .tcp = true,
    .port = "the sink's port",
    .nodelay = true,
    .logs = "when each send began and was acknowledged",
};

static struct samples send_times;
static int64_t bytes, sends, system_calls;

/* ---- records ---- */

/* Lengths that look random but are the same in every run: a linear congruential generator. */
static size_t record_length(void) {
    static uint32_t state = 1;
    state = state * 1664525 + 1013904223;
    return MIN_RECORD + (state >> 16) % (MAX_RECORD - MIN_RECORD + 1);
}

static size_t put_record(char *place, int64_t number) {
    size_t length = record_length();
    uint16_t wire_length = htons((uint16_t)length);
    uint32_t wire_number = htonl((uint32_t)number);
    memcpy(place, &wire_length, sizeof wire_length);
    memcpy(place + 2, &wire_number, sizeof wire_number);
    memset(place + RECORD_HEADER, 'r', length - RECORD_HEADER);
    return length;
}

static size_t put_batch(char *place, int64_t first, int64_t records) {
    uint16_t header[2] = {0, htons((uint16_t)records)};
    memcpy(place, header, BATCH_HEADER);
    memset(place + BATCH_HEADER, ' ', (size_t)records * MAX_RECORD);
    for (int64_t i = 0; i < records; i++)
        put_record(place + BATCH_HEADER + i * MAX_RECORD, first + i);
    return BATCH_HEADER + (size_t)records * MAX_RECORD;
}

/* ---- sending ---- */

/* The kernel does not report when the last byte is acknowledged, so poll every 20 us. */
static void wait_until_acknowledged(int fd) {
    static const struct timespec pause = {.tv_nsec = 20000};
    int64_t start_ns = clock_ns(CLOCK_MONOTONIC);
    for (int outstanding;;) {
        if (ioctl(fd, SIOCOUTQ, &outstanding) < 0)
            fail("SIOCOUTQ");
        system_calls++;
        if (outstanding == 0)
            return;
        if (past_deadline(start_ns))
            fail_because("%d bytes were not acknowledged in %g s (--deadline)", outstanding,
                         common.deadline_s);
        nanosleep(&pause, NULL);
        system_calls++;
    }
}

static void send_data(int fd, const char *data, size_t size) {
    log_event("write", size);
    system_calls += send_all(fd, data, size, 0);
    sends++;
    bytes += (int64_t)size;
    if (!unbuffered)
        return;
    wait_until_acknowledged(fd);
    log_event("acknowledged", size);
}

static void send_records(int fd) {
    static char place[BATCH_HEADER + MAX_BATCH * MAX_RECORD];
    int64_t before = clock_ns(CLOCK_MONOTONIC);
    for (int64_t number = 0; number < count;) {
        int64_t left = count - number, records = batch && batch < left ? batch : batch ? left : 1;
        size_t size = batch ? put_batch(place, number, records) : put_record(place, number);
        send_data(fd, place, size);
        number += records;
        int64_t now = clock_ns(CLOCK_MONOTONIC);
        send_times.ns[send_times.count++] = now - before;
        before = now;
    }
}

static const struct result_field fields[MAX_FIELDS] = {
    {"records", .whole = &count},
    {"bytes", .whole = &bytes},
    {"batch", .whole = &batch},
    {"unbuffered", .flag = &unbuffered},
    {"records_per_s", .rate_of = &count, .unit = 1},
    {"send_us", .samples = &send_times},
    {"sends", .whole = &sends},
    {"system_calls", .whole = &system_calls},
};

int main(int argc, char **argv) {
    const char *host = start_program(argc, argv, &command)[0];
    send_times.ns = allocate((size_t)count, sizeof *send_times.ns);
    prctl(PR_SET_TIMERSLACK, 1); /* so that a pause of 20 us does not last 70 (prctl(2)) */

    int fd = connect_to(SOCK_STREAM, host, common.port, NULL);

    struct measurement m = start_measuring(fd);
    send_records(fd);
    finish_sending(fd, "the sink");
    stop_measuring(&m, fd);

    print_result(stdout, fields, &m);
}
