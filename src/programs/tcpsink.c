/*
 * tcpsink - receive over TCP, count the bytes and discard them.
 *
 *     tcpsink [-b RCVBUF] [OPTION]...
 *
 * It listens on port 9000, accepts one connection from a tcpsource (or any other sender), and reads
 * until the end. It follows "A TCP Source and Sink" in J. Snader, Effective TCP/IP Programming,
 * listings 2.19 and 2.20. The receive buffer is set before listen(), since its size determines the
 * window scale in the SYN. The program reads into a buffer of the same size, to get as much as
 * possible with each recv(). "-b auto" leaves the socket's buffer to the kernel.
 *
 * With -S the kernel discards the bytes (MSG_TRUNC in tcp(7)) instead of copying them to the
 * program, which leaves the cost of TCP without the cost of the copy.
 *
 * A sink that is faster than its source falls asleep after each read, and the source pays for
 * waking it up. With --lowat it sleeps until that many bytes or the end have arrived, or the buffer
 * is full, so that there are a few hundred wake-ups per gigabyte instead of 14 000. That helps with
 * large segments (loopback, segmentation offload). It does not help with small ones, since a
 * connection that is not read acknowledges every second segment, with ten times as many ACKs.
 */
#include "net.h"

static int64_t rcvbuf_bytes = 32768, read_bytes, mss_bytes, lowat_bytes;
static bool discard;

static const struct program_option options[MAX_OPTIONS] = {
    {NULL, 'b', "BYTES", "SO_RCVBUF, set before listen()", BUFFER_SIZE(rcvbuf_bytes)},
    {NULL, 'r', "BYTES", "size of a read; by default as -b, or 131072", .number = &read_bytes,
     .min = 1, .max = 1 << 30},
    {"lowat", 0, "BYTES", "sleep until this much has arrived (SO_RCVLOWAT)", .number = &lowat_bytes,
     .min = 1, .max = 1 << 30},
    {"discard", 'S', NULL, "discard the data in the kernel (MSG_TRUNC)", .flag = &discard},
    {"mss", 0, "BYTES", "largest segment payload", .number = &mss_bytes, .min = 88, .max = 32767},
};

static const struct command command = {
    .usage = "tcpsink [OPTION]...",
    .summary = "Takes one connection, reads until its end and counts the bytes.",
    .options = options,
    .tcp = true,
    .listens = true,
    .port = "listen here; 0 takes a free one",
};

static int64_t granted_bytes, granted_lowat_bytes, end_bytes;
static int64_t bytes, reads, smallest_read, largest_read;

static void prepare(int fd) {
    if (rcvbuf_bytes)
        set_option(fd, SOL_SOCKET, SO_RCVBUF, rcvbuf_bytes, "SO_RCVBUF");
    if (mss_bytes)
        set_option(fd, IPPROTO_TCP, TCP_MAXSEG, mss_bytes, "TCP_MAXSEG");
    /* It is at most half of SO_RCVBUF; the kernel enlarges an automatic buffer to fit. */
    if (lowat_bytes)
        set_option(fd, SOL_SOCKET, SO_RCVLOWAT, lowat_bytes, "SO_RCVLOWAT");
    granted_bytes = get_option(fd, SOL_SOCKET, SO_RCVBUF, "SO_RCVBUF");
}

static void read_until_end(int fd, char *buffer) {
    int flags = discard ? MSG_TRUNC : 0;
    int64_t got;
    while ((got = (int64_t)receive(fd, buffer, (size_t)read_bytes, flags)) > 0) {
        bytes += got;
        reads++;
        if (reads == 1 || got < smallest_read)
            smallest_read = got;
        if (got > largest_read)
            largest_read = got;
    }
}

static const struct result_field fields[MAX_FIELDS] = {
    {"bytes", .whole = &bytes},
    {"reads", .whole = &reads},
    {"read_bytes", .whole = &read_bytes},
    {"discard", .flag = &discard},
    {"mb_per_s", MB_PER_S(bytes)},
    {"smallest_read_bytes", .whole = &smallest_read},
    {"largest_read_bytes", .whole = &largest_read},
    {"rcvlowat_bytes", .whole = &granted_lowat_bytes},
    {"rcvbuf_requested_bytes", .whole = &rcvbuf_bytes},
    {"rcvbuf_granted_bytes", .whole = &granted_bytes},
    {"rcvbuf_end_bytes", .whole = &end_bytes},
};

int main(int argc, char **argv) {
    start_program(argc, argv, &command);
    if (!read_bytes)
        read_bytes = rcvbuf_bytes ? rcvbuf_bytes : 131072;
    char *buffer = allocate_pages((size_t)read_bytes);

    int listener = listen_on(SOCK_STREAM, common.port, prepare, stdout);
    int fd = accept_from(listener);
    granted_lowat_bytes = get_option(fd, SOL_SOCKET, SO_RCVLOWAT, "SO_RCVLOWAT");

    struct measurement m = start_measuring(fd);
    read_until_end(fd, buffer);
    stop_measuring(&m, fd);
    end_bytes = get_option(fd, SOL_SOCKET, SO_RCVBUF, "SO_RCVBUF");
    /* The end of the connection signals to the source that everything was read. */
    close(fd);
    print_result(stdout, fields, &m);
}
