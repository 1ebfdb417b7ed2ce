/*
 * faulty_backup - take a backup from another machine; it works, and it is slow.
 *
 *     faulty_backup [OPTION]...
 *
 * This is the second of the three slow programs of lesson diagnosis. Your task is to find out why,
 * in a copy of this file, with the tools of the earlier lessons. It listens on port 9000 for one
 * tcpsource, reads blocks until the end, and adds up a checksum where a real program would write to
 * a disk.
 *
 * Over a 50 Mbit/s link with a 20 ms RTT it gets a fraction of the link's rate, though both
 * machines are otherwise idle. On one machine it is fast.
 *
 *     $ faulty_backup &
 *     $ tcpsource -b auto -s 16384 -c 128 localhost
 *     usage.wall_s                0.0031
 *     ...
 *
 * Every byte must still be read and added to the sum. The goal is that only the link limits it.
 */
#include "net.h"

enum { BLOCK_BYTES = 16384 };

static const struct command command = {
    .usage = "faulty_backup [OPTION]...",
    .summary = "Takes a backup from one tcpsource.",
    .tcp = true,
    .listens = true,
    .port = "listen here; 0 takes a free one",
};

static int64_t bytes, checksum, system_calls;

/* ---- reading ---- */

/* We read one block at a time, so the socket has to hold one block. */
static void size_buffer(int fd) {
    set_option(fd, SOL_SOCKET, SO_RCVBUF, BLOCK_BYTES, "SO_RCVBUF");
}

/* A real program would write to a disk here. */
static void store(const unsigned char *block, size_t size) {
    for (size_t i = 0; i < size; i++)
        checksum = (uint32_t)checksum * 31U + block[i];
    bytes += (int64_t)size;
}

static void take_backup(int fd) {
    static unsigned char block[BLOCK_BYTES];
    size_t got;
    do {
        got = receive(fd, block, sizeof block, 0);
        system_calls++;
        store(block, got);
    } while (got > 0);
}

/* ---- the result ---- */

static const struct result_field fields[MAX_FIELDS] = {
    {"bytes", .whole = &bytes},
    {"checksum", .whole = &checksum},
    {"mb_per_s", MB_PER_S(bytes)},
    {"system_calls", .whole = &system_calls},
};

int main(int argc, char **argv) {
    start_program(argc, argv, &command);

    int listener = listen_on(SOCK_STREAM, common.port, NULL, stdout);
    int fd = accept_from(listener);
    size_buffer(fd);

    struct measurement m = start_measuring(fd);
    take_backup(fd);
    stop_measuring(&m, fd);

    m.granted = read_options(fd); /* the values at the end */
    print_result(stdout, fields, &m);
}
