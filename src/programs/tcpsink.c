/*
 * tcpsink - receive over TCP, count the bytes and throw them away.
 *
 *     tcpsink [-b RCVBUF] [OPTION]...
 *
 * Listens on port 9000, takes one connection from a tcpsource (or anything else that sends), and
 * reads until the end. From "A TCP Source and Sink" in J. Snader, Effective TCP/IP Programming,
 * listings 2.19 and 2.20: the receive buffer is set before listen(), since its size goes into the
 * SYN as the window scale, and the program reads into a buffer of the same size, to get as much as
 * possible with each recv(). "-b auto" leaves the socket's buffer to the kernel.
 *
 * With -S the bytes are discarded where they are (MSG_TRUNC in tcp(7)) instead of being copied to
 * the program: what is left is the cost of TCP without the cost of the copy.
 *
 * A sink that is faster than its source falls asleep after each read, and the source pays for
 * waking it up. With --lowat it sleeps until so many bytes have come, or the end, or the buffer is
 * full: a few hundred wake-ups a gigabyte instead of 14 000. It pays where segments are large
 * (loopback, segmentation offload); where they are small it does not, for a connection that nobody
 * reads from acknowledges every second one: ten times as many ACKs.
 *
 * The read sizes are counted in classes that double: 1, 2-3, 4-7, 8-15, ...
 */
#define _GNU_SOURCE
#include "net.h"

#include <stdlib.h>
#include <unistd.h>

enum { SIZE_CLASSES = 31 };

static const char *port = "9000";
static int64_t rcvbuf_bytes = 32768, read_bytes, mss_bytes, lowat_bytes;
static bool discard;

static const struct program_option options[] = {
    {NULL, 'b', "BYTES", "SO_RCVBUF, set before listen()", BUFFER_SIZE(rcvbuf_bytes)},
    {NULL, 'r', "BYTES", "size of a read; by default as -b, or 131072", .number = &read_bytes,
     .min = 1, .max = 1 << 30},
    {"lowat", 0, "BYTES", "sleep until so much has come (SO_RCVLOWAT)", .number = &lowat_bytes,
     .min = 1, .max = 1 << 30},
    {"discard", 'S', NULL, "throw the data away in the kernel (MSG_TRUNC)", .flag = &discard},
    {"port", 'p', "PORT", "listen here; 0 takes a free one", .text = &port},
    {"mss", 0, "BYTES", "largest segment payload", .number = &mss_bytes, .min = 88, .max = 32767},
    {.help = NULL},
};

static const struct command command = {
    .usage = "tcpsink [OPTION]...",
    .summary = "Takes one connection, reads until its end and counts the bytes.",
    .options = options,
    .tcp = true,
    .listens = true,
};

static int granted_bytes, granted_lowat_bytes;
static int64_t bytes, reads, smallest_read = INT64_MAX, largest_read;
static int64_t reads_of_class[SIZE_CLASSES];

static void prepare(int fd) {
    if (rcvbuf_bytes)
        set_option(fd, SOL_SOCKET, SO_RCVBUF, rcvbuf_bytes, "SO_RCVBUF");
    if (mss_bytes)
        set_option(fd, IPPROTO_TCP, TCP_MAXSEG, mss_bytes, "TCP_MAXSEG");
    /* At most half of SO_RCVBUF; a buffer that is left to the kernel is made to fit. */
    if (lowat_bytes)
        set_option(fd, SOL_SOCKET, SO_RCVLOWAT, lowat_bytes, "SO_RCVLOWAT");
    granted_bytes = get_option(fd, SOL_SOCKET, SO_RCVBUF, "SO_RCVBUF");
}

static void count_read(int64_t size) {
    bytes += size;
    reads++;
    if (size < smallest_read)
        smallest_read = size;
    if (size > largest_read)
        largest_read = size;
    reads_of_class[63 - __builtin_clzll((uint64_t)size)]++;
}

static void read_until_end(int fd, char *buffer) {
    int flags = discard ? MSG_TRUNC : 0;
    size_t got;
    while ((got = receive(fd, buffer, (size_t)read_bytes, flags)) > 0)
        count_read((int64_t)got);
}

static void json_read_sizes(struct json *j) {
    json_object(j, "read_sizes");
    for (int i = 0; i < SIZE_CLASSES; i++) {
        char smallest[16];
        snprintf(smallest, sizeof smallest, "%lld", 1LL << i);
        if (reads_of_class[i])
            json_int(j, smallest, reads_of_class[i]);
    }
    json_end_object(j);
}

static void print_json(const struct socket_options *granted, const struct tcp_info *info,
                       int end_bytes, const struct usage *used) {
    struct json j = json_result(stdout, used);
    json_int(&j, "bytes", bytes);
    json_int(&j, "reads", reads);
    json_int(&j, "read_bytes", read_bytes);
    json_bool(&j, "discard", discard);
    json_double(&j, "mb_per_s", mb_per_s(bytes, used));
    json_int(&j, "smallest_read_bytes", reads ? smallest_read : 0);
    json_int(&j, "largest_read_bytes", largest_read);
    json_read_sizes(&j);
    json_int(&j, "rcvlowat_bytes", granted_lowat_bytes);
    json_int(&j, "rcvbuf_requested_bytes", rcvbuf_bytes);
    json_int(&j, "rcvbuf_granted_bytes", granted_bytes);
    json_int(&j, "rcvbuf_end_bytes", end_bytes);
    json_end_result(&j, granted, info);
}

static void print_text(const struct socket_options *granted, const struct usage *used) {
    print_options(stdout, granted);
    print_buffer(stdout, "receive", rcvbuf_bytes, granted_bytes);
    printf("%lld bytes in %lld reads of %lld to %lld: ", (long long)bytes, (long long)reads,
           reads ? (long long)smallest_read : 0, (long long)largest_read);
    print_usage(stdout, used);
    printf("\n%.1f MB/s\n", mb_per_s(bytes, used));
    finish_output(stdout);
}

int main(int argc, char **argv) {
    start_program();
    parse_command_line(argc, argv, &command);
    if (!read_bytes)
        read_bytes = rcvbuf_bytes ? rcvbuf_bytes : 131072;
    char *buffer = allocate((size_t)read_bytes, 1);
    pin_to_cpu();

    int listener = listen_on(SOCK_STREAM, port, prepare);
    announce(stdout, listener);
    int fd = accept_from(listener);
    struct socket_options granted = read_options(fd);
    granted_lowat_bytes = get_option(fd, SOL_SOCKET, SO_RCVLOWAT, "SO_RCVLOWAT");

    struct usage start = usage_now();
    read_until_end(fd, buffer);
    struct usage used = usage_since(&start);
    struct tcp_info info = read_tcp_info(fd);
    int end_bytes = get_option(fd, SOL_SOCKET, SO_RCVBUF, "SO_RCVBUF");
    /* The source takes our end of the connection as the news that everything was read. */
    close(fd);

    if (common.json)
        print_json(&granted, &info, end_bytes, &used);
    else
        print_text(&granted, &used);
    free(buffer);
}
