/*
 * recordsource - send many small records over TCP, well or badly.
 *
 *     recordsource [OPTION]... HOST
 *
 * Case 1 of the MSDN article "Design issues: sending small data segments over TCP with Winsock": a
 * client sends 10 000 records of 20 to 100 bytes to a server that stores them. Its author switched
 * the send buffer off, and got 5 records a second; this program can be as slow, and faster.
 *
 *     (nothing)      one send() a record; the kernel buffers, Nagle's algorithm makes segments
 *     --unbuffered   what SO_SNDBUF = 0 does in Winsock: a send() is complete only when its data
 *                    was acknowledged. Linux has no such send(), so ask until nothing is
 *                    outstanding (SIOCOUTQ in tcp(7))
 *     --nodelay      Nagle's algorithm off
 *     --batch 80     the article's advice: a header with the count, then that many records, each
 *                    padded to 100 bytes, in one send()
 *
 * TCP keeps no boundaries, so the records must tell where they end:
 *
 *     record   | length (2 bytes) | number (4 bytes) | text ...      20 to 100 bytes in all
 *     batch    | 0 (2) | count (2) |  count records, each padded to 100 bytes
 */
#define _GNU_SOURCE
#include "net.h"

#include <arpa/inet.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

/* The same in recordsink.c. */
enum { MIN_RECORD = 20, MAX_RECORD = 100, RECORD_HEADER = 6, BATCH_HEADER = 4, MAX_BATCH = 1000 };

static const char *port = "9000", *log_path;
static int64_t count = 10000, batch;
static bool unbuffered, nodelay;

static const struct program_option options[] = {
    {NULL, 'c', "COUNT", "number of records", .number = &count, .min = 1, .max = 1e7},
    {"port", 'p', "PORT", "the sink's", .text = &port},
    {"unbuffered", 0, NULL, "after each send, wait for its acknowledgement", .flag = &unbuffered},
    {"nodelay", 0, NULL, "switch Nagle's algorithm off (TCP_NODELAY)", .flag = &nodelay},
    {"batch", 0, "K", "send K records at a time, padded to 100 bytes", .number = &batch, .min = 1,
     .max = MAX_BATCH},
    {"log", 0, "FILE", "when each send began and was acknowledged", .text = &log_path},
    {.help = NULL},
};

static const struct command command = {
    .usage = "recordsource [OPTION]... HOST",
    .summary = "Sends records of 20 to 100 bytes to a recordsink.",
    .options = options,
    .arguments = {1, 1},
    .tcp = true,
};

static struct event_log events;
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

/* The kernel wakes nobody when the last byte is acknowledged, so look every 20 us. */
static void wait_until_acknowledged(int fd) {
    static const struct timespec pause = {.tv_nsec = 20000};
    int64_t start_ns = 0;
    for (;;) {
        int outstanding;
        if (ioctl(fd, SIOCOUTQ, &outstanding) < 0)
            fail("SIOCOUTQ");
        system_calls++;
        if (outstanding == 0)
            return;
        int64_t now_ns = clock_ns(CLOCK_MONOTONIC);
        if (start_ns == 0)
            start_ns = now_ns;
        if (common.deadline_s > 0 && (double)(now_ns - start_ns) > common.deadline_s * 1e9)
            fail_because("%d bytes were not acknowledged in %g s (--deadline)", outstanding,
                         common.deadline_s);
        nanosleep(&pause, NULL);
        system_calls++;
    }
}

static void send_piece(int fd, const char *data, size_t size) {
    log_event(&events, "write", size);
    system_calls += send_all(fd, data, size, 0);
    sends++;
    bytes += (int64_t)size;
    if (!unbuffered)
        return;
    wait_until_acknowledged(fd);
    log_event(&events, "acknowledged", size);
}

/* Returns how many sends it timed. */
static size_t send_records(int fd, char *place, int64_t *send_ns) {
    int64_t before = clock_ns(CLOCK_MONOTONIC);
    size_t timed = 0;
    for (int64_t number = 0; number < count;) {
        int64_t left = count - number, records = batch && batch < left ? batch : batch ? left : 1;
        size_t size = batch ? put_batch(place, number, records) : put_record(place, number);
        send_piece(fd, place, size);
        number += records;
        int64_t now = clock_ns(CLOCK_MONOTONIC);
        send_ns[timed++] = now - before;
        before = now;
    }
    return timed;
}

static double records_per_s(const struct usage *used) {
    return (double)count * 1e9 / (double)used->wall_ns;
}

static void print_json(const struct socket_options *granted, const struct tcp_info *info,
                       const struct usage *used, const int64_t *send_ns, size_t timed) {
    struct json j = json_result(stdout, used);
    json_int(&j, "records", count);
    json_int(&j, "bytes", bytes);
    json_int(&j, "batch", batch);
    json_bool(&j, "unbuffered", unbuffered);
    json_double(&j, "records_per_s", records_per_s(used));
    json_samples_us(&j, "send_us", send_ns, timed);
    json_int(&j, "sends", sends);
    json_int(&j, "system_calls", system_calls);
    json_end_result(&j, granted, info);
}

static void print_text(const struct socket_options *granted, const struct tcp_info *info,
                       const struct usage *used) {
    print_options(stdout, granted);
    printf("%lld records, %lld bytes in %lld sends and %u segments: ", (long long)count,
           (long long)bytes, (long long)sends, info->tcpi_data_segs_out);
    print_usage(stdout, used);
    printf("\n%.1f records/s\n", records_per_s(used));
    finish_output(stdout);
}

int main(int argc, char **argv) {
    start_program();
    const char *host = parse_command_line(argc, argv, &command)[0];
    events = open_log(log_path);
    char *place = allocate(BATCH_HEADER + (size_t)(batch ? batch : 1) * MAX_RECORD, 1);
    int64_t *send_ns = allocate((size_t)count, sizeof *send_ns);
    pin_to_cpu();
    prctl(PR_SET_TIMERSLACK, 1); /* a pause of 20 us shall not last 70 (prctl(2)) */

    int fd = connect_to(SOCK_STREAM, host, port, NULL);
    if (nodelay)
        set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY");
    struct socket_options granted = read_options(fd);

    struct usage start = usage_now();
    size_t timed = send_records(fd, place, send_ns);
    finish_sending(fd, "the sink");
    struct usage used = usage_since(&start);
    struct tcp_info info = read_tcp_info(fd);
    close(fd);

    sort_samples(send_ns, timed);
    if (common.json)
        print_json(&granted, &info, &used, send_ns, timed);
    else
        print_text(&granted, &info, &used);
    close_log(&events);
    free(send_ns);
    free(place);
}
