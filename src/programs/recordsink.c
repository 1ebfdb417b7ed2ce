/*
 * recordsink - split a TCP stream into records, and count how they arrived.
 *
 *     recordsink [OPTION]...
 *
 * It listens on port 9000 for one recordsource, which describes the records. In case 1 of the MSDN
 * article "Design issues: sending small data segments over TCP with Winsock", the server gives
 * recv() a buffer of 200 bytes "so that each record is got by one call", which TCP does not
 * promise. This program counts reads that contain exactly one record, and records that a read cut
 * in two.
 *
 * --quickack off delays ACKs as long as TCP may, like the article's stack with its 200 ms timer.
 */
#include "net.h"

#include <arpa/inet.h>

/* Keep these equal to the values in recordsource.c. */
enum { MIN_RECORD = 20, MAX_RECORD = 100, BATCH_HEADER = 4, MAX_BATCH = 1000 };

static int64_t read_bytes = 200;
static int quickack = QUICKACK_ON;

static const struct program_option options[MAX_OPTIONS] = {
    {NULL, 'r', "BYTES", "size of a read", .number = &read_bytes, .min = 1, .max = 1 << 20},
    {"quickack", 0, "WHEN", "when to ACK", .choice = &quickack, .names = quickack_names},
};

static const struct command command = {
    .usage = "recordsink [OPTION]...",
    .summary = "Splits the stream of one recordsource into records and counts them.",
    .options = options,
    .tcp = true,
    .listens = true,
    .port = "listen here; 0 takes a free one",
};

/* Counts of the received data, and the part of it that is not yet a whole record. */
static struct {
    char *pending;
    size_t filled;
    int padded_left; /* records of the current batch still to come */
    int64_t records, batches, bytes, reads, split_records, one_record_reads;
} in;

/* ---- parsing: nothing here trusts data from the network ---- */

static uint16_t number16(const char *at) {
    uint16_t value;
    memcpy(&value, at, sizeof value);
    return ntohs(value);
}

static void check_length(uint16_t length) {
    if (length < MIN_RECORD || length > MAX_RECORD)
        fail_because(
            "record %lld: a length of %d is not from %d to %d; is the peer a recordsource?",
            (long long)in.records, length, MIN_RECORD, MAX_RECORD);
}

static void take_record(const char *record) {
    uint32_t number;
    memcpy(&number, record + 2, sizeof number);
    if (ntohl(number) != (uint32_t)in.records)
        fail_because("record %lld came where %lld was due", (long long)ntohl(number),
                     (long long)in.records);
    in.records++;
}

static void take_batch_header(uint16_t count) {
    if (count < 1 || count > MAX_BATCH)
        fail_because("a batch of %d records is not from 1 to %d; is the peer a recordsource?",
                     count, MAX_BATCH);
    in.padded_left = count;
    in.batches++;
}

/* Removes one record or batch header from the front; returns its size, or 0 if incomplete. */
static size_t take_one(const char *data, size_t size) {
    if (size < BATCH_HEADER)
        return 0;
    uint16_t length = number16(data);
    if (length == 0 && in.padded_left == 0) {
        take_batch_header(number16(data + 2));
        return BATCH_HEADER;
    }
    check_length(length);
    size_t needed = in.padded_left ? MAX_RECORD : length;
    if (size < needed)
        return 0;
    take_record(data);
    if (in.padded_left)
        in.padded_left--;
    return needed;
}

/* Parses the data so far; the rest of a record moves to the front. */
static void take_read(size_t got) {
    size_t left_before = in.filled, done = 0, size;
    int64_t records_before = in.records;
    in.reads++;
    in.bytes += (int64_t)got;
    in.filled += got;
    while ((size = take_one(in.pending + done, in.filled - done)) > 0)
        done += size;
    if (left_before > 0 && in.records > records_before)
        in.split_records++;
    if (left_before == 0 && in.records == records_before + 1 && done == in.filled)
        in.one_record_reads++;
    memmove(in.pending, in.pending + done, in.filled - done);
    in.filled -= done;
}

static void read_until_end(int fd) {
    in.pending = allocate(MAX_RECORD + (size_t)read_bytes, 1);
    for (size_t got; (got = receive(fd, in.pending + in.filled, (size_t)read_bytes, 0)) > 0;) {
        set_quickack(fd, quickack);
        take_read(got);
    }
    if (in.filled > 0 || in.padded_left > 0)
        fail_because("the source ended in the middle of a record or batch, after %lld records",
                     (long long)in.records);
}

static const struct result_field fields[MAX_FIELDS] = {
    {"records", .whole = &in.records},
    {"batches", .whole = &in.batches},
    {"bytes", .whole = &in.bytes},
    {"reads", .whole = &in.reads},
    {"one_record_reads", .whole = &in.one_record_reads},
    {"split_records", .whole = &in.split_records},
    {"quickack", .choice = &quickack, .names = quickack_names},
};

int main(int argc, char **argv) {
    start_program(argc, argv, &command);

    int listener = listen_on(SOCK_STREAM, common.port, NULL, stdout);
    int fd = accept_from(listener);

    struct measurement m = start_measuring(fd);
    read_until_end(fd);
    stop_measuring(&m, fd);
    close(fd);
    print_result(stdout, fields, &m);
}
