/*
 * faulty_ticker - send each line of text as soon as it is ready; it works, and it costs too much.
 *
 *     faulty_ticker [OPTION]... HOST
 *
 * This is the third of the three slow programs of lesson diagnosis. Your task is to find out why,
 * in a copy of this file, with the tools of the earlier lessons. It sends lines to a tcpsink, one
 * every millisecond, like a measuring instrument or a stock exchange. Each line has to leave
 * immediately, so its author switched Nagle's algorithm off, and that helped.
 *
 * Now the network administrators complain that 8 kB of text arrive as thousands of packets.
 * Packets, not bytes, are the scarce resource of a switch or a firewall.
 *
 *     $ tcpsink &
 *     $ faulty_ticker localhost
 *     usage.wall_s                0.2219
 *     bytes                       7800
 *     system_calls                7800
 *     ...
 *
 * The bytes of the stream must stay the same, and no line may wait for another. The goal is one
 * segment per line.
 */
#include "net.h"

static int64_t count = 200;

static const struct program_option options[MAX_OPTIONS] = {
    {NULL, 'c', "COUNT", "number of lines", .number = &count, .min = 1, .max = 100000},
};

static const struct command command = {
    .usage = "faulty_ticker [OPTION]... HOST",
    .summary = "Sends a line of text every millisecond.",
    .options = options,
    .arguments = {1, 1},
    .tcp = true,
    .port = "the sink's port",
    .logs = "when each write began",
};

static int64_t bytes, system_calls;

/* ---- a line ---- */

static void put(int fd, char character) {
    log_event("write", 1);
    system_calls += send_all(fd, &character, 1, 0);
    bytes++;
}

static void put_text(int fd, const char *text) {
    while (*text)
        put(fd, *text++);
}

/* Writes decimal digits, right-aligned with leading zeros. */
static void put_number(int fd, int64_t value, int digits) {
    char text[24];
    snprintf(text, sizeof text, "%0*lld", digits, (long long)value);
    put_text(fd, text);
}

static void put_line(int fd, int64_t number) {
    put_text(fd, "tick ");
    put_number(fd, number, 8);
    put_text(fd, " price ");
    put_number(fd, number * 7919 % 1000000, 10);
    put_text(fd, " EUR/kg.");
    put(fd, '\n');
}

static void run(int fd) {
    static const struct timespec millisecond = {.tv_nsec = 1000000};
    for (int64_t number = 0; number < count; number++) {
        put_line(fd, number);
        nanosleep(&millisecond, NULL);
    }
}

/* ---- the result ---- */

static const struct result_field fields[MAX_FIELDS] = {
    {"lines", .whole = &count},
    {"bytes", .whole = &bytes},
    {"system_calls", .whole = &system_calls},
};

int main(int argc, char **argv) {
    const char *host = start_program(argc, argv, &command)[0];

    int fd = connect_to(SOCK_STREAM, host, common.port, NULL);
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY");
    struct measurement m = start_measuring(fd);
    run(fd);
    stop_measuring(&m, fd);

    m.granted = read_options(fd); /* the values at the end */
    print_result(stdout, fields, &m);
    finish_sending(fd, "the sink");
}
