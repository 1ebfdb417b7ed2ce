/*
 * tcpsource - send blocks over TCP as fast as the connection allows.
 *
 *     tcpsource [-s WRITE] [-b SNDBUF] [-c COUNT] [OPTION]... HOST
 *
 * It connects to a tcpsink at HOST, port 9000, and writes COUNT blocks of WRITE bytes. The
 * measurement ends when the sink has read everything, not when the kernel has accepted it.
 *
 * It follows "A TCP Source and Sink" in J. Snader, Effective TCP/IP Programming, listings 2.18 to
 * 2.20. The defaults are the same: 5000 writes of 1440 bytes, which fit in an Ethernet segment with
 * room for options, and a send buffer of 32 KiB. "-b auto" leaves the buffer to the kernel, which
 * then enlarges it during the connection.
 *
 * The last lines of the result say what TCP waited for (TCP_INFO). busy_time is the time with data
 * outstanding. It includes the time limited by the receiver's window (rwnd_limited) and by the send
 * buffer (sndbuf_limited).
 *
 * Example, with `tcpsink` in another terminal:
 *
 *     $ tcpsource localhost
 *     usage.wall_s                0.0095
 *     bytes                       7200000
 *     mb_per_s                    757.9
 *     sndbuf_requested_bytes      32768
 *     sndbuf_granted_bytes        65536
 *     tcp_info.busy_time_us       9000
 *     ...
 */
#include "net.h"

#include <signal.h>
#include <sys/time.h>

static int64_t write_bytes = 1440, sndbuf_bytes = 32768, mss_bytes, count = 5000;
static double seconds, interval_ms;
static bool untouched;

static const struct program_option options[MAX_OPTIONS] = {
    {"write-bytes", 's', "BYTES", "size of a write", .number = &write_bytes, .min = 1,
     .max = 1 << 30},
    {NULL, 'b', "BYTES", "SO_SNDBUF, set before connect()", BUFFER_SIZE(sndbuf_bytes)},
    {NULL, 'c', "COUNT", "number of writes", .number = &count, .min = 1, .max = 1e9},
    {NULL, 't', "SECONDS", "write for this long instead of COUNT", .decimal = &seconds,
     .min = 0.001, .max = 86400},
    /* The limits are the kernel's: TCP_MIN_MSS and MAX_TCP_WINDOW. */
    {"mss", 0, "BYTES", "largest segment payload", .number = &mss_bytes, .min = 88, .max = 32767},
    {"untouched", 0, NULL, "do not write to the block before sending it", .flag = &untouched},
    {"interval", 0, "MS", "print TCP_INFO at this interval, as JSON", .decimal = &interval_ms,
     .min = 0.1, .max = 1e6},
};

static const struct command command = {
    .usage = "tcpsource [OPTION]... HOST",
    .summary = "Sends blocks to a tcpsink as fast as the connection takes them.",
    .options = options,
    .arguments = {1, 1},
    .tcp = true,
    .port = "the sink's port",
    .nodelay = true,
};

static int64_t granted_bytes, end_bytes, bytes, writes, system_calls;

/* Call this before connect(): the SYN announces the MSS, and the buffers decide its options. */
static void prepare(int fd) {
    if (sndbuf_bytes)
        set_option(fd, SOL_SOCKET, SO_SNDBUF, sndbuf_bytes, "SO_SNDBUF");
    if (mss_bytes)
        set_option(fd, IPPROTO_TCP, TCP_MAXSEG, mss_bytes, "TCP_MAXSEG");
    granted_bytes = get_option(fd, SOL_SOCKET, SO_SNDBUF, "SO_SNDBUF");
}

static volatile sig_atomic_t time_is_up;

static void note_time_is_up(int signal_number) {
    (void)signal_number;
    time_is_up = 1;
}

/* An alarm is used, since reading the clock before each small write would cost 5 % of it. */
static void set_alarm(void) {
    struct sigaction action = {.sa_handler = note_time_is_up, .sa_flags = SA_RESTART};
    int64_t us = (int64_t)(seconds * 1e6);
    struct itimerval timer = {.it_value = {.tv_sec = us / 1000000, .tv_usec = us % 1000000}};
    sigaction(SIGALRM, &action, NULL);
    if (setitimer(ITIMER_REAL, &timer, NULL) < 0)
        fail("setitimer");
}

static void send_blocks(int fd, const char *block) {
    if (seconds > 0) {
        set_alarm();
        count = INT64_MAX;
    }
    for (writes = 0; writes < count && !time_is_up; writes++)
        system_calls += send_all(fd, block, (size_t)write_bytes, 0);
}

static const struct result_field fields[MAX_FIELDS] = {
    {"bytes", .whole = &bytes},
    {"writes", .whole = &writes},
    {"write_bytes", .whole = &write_bytes},
    {"mb_per_s", MB_PER_S(bytes)},
    {"system_calls", .whole = &system_calls},
    {"sndbuf_requested_bytes", .whole = &sndbuf_bytes},
    {"sndbuf_granted_bytes", .whole = &granted_bytes},
    {"sndbuf_end_bytes", .whole = &end_bytes},
};

int main(int argc, char **argv) {
    const char *host = start_program(argc, argv, &command)[0];

    /* The content does not matter, but the memory must have been written to. Untouched pages are
       all the same page of zeros, which stays in the CPU's cache. */
    char *block = allocate_pages((size_t)write_bytes);
    if (!untouched)
        memset(block, 'x', (size_t)write_bytes);

    int fd = connect_to(SOCK_STREAM, host, common.port, prepare);
    start_sampler(fd, interval_ms);

    struct measurement m = start_measuring(fd);
    send_blocks(fd, block);
    finish_sending(fd, "the sink");
    stop_measuring(&m, fd);

    stop_sampler();
    bytes = writes * write_bytes;
    end_bytes = get_option(fd, SOL_SOCKET, SO_SNDBUF, "SO_SNDBUF");
    print_result(stdout, fields, &m);
}
