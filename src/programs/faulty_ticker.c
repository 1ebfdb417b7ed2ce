/*
 * faulty_ticker - send a line of text as soon as there is one; it works, and it costs too much.
 *
 *     faulty_ticker [OPTION]... HOST
 *
 * The third of the three slow programs of lesson diagnosis: your task is to find out why, in a copy
 * of this file, with the tools of the lessons before. It sends lines to a tcpsink, one every
 * millisecond, as a measuring instrument or a stock exchange does. Each line has to leave at
 * once: that is why Nagle's algorithm was switched off, and it helped.
 *
 * Now the people of the network complain: 8 kB of text come as some thousands of packets, and
 * packets, not bytes, are what a switch or a firewall can run out of.
 *
 *     $ tcpsink &
 *     $ faulty_ticker localhost
 *     usage.wall_s                0.2219
 *     bytes                       7800
 *     system_calls                7800
 *     ...
 *
 * What must stay: the bytes of the stream, and that no line waits for another. The goal: one
 * segment per line.
 */
#include "net.h"

static const char *port = "9000";
static int64_t count = 200;

static const struct program_option options[MAX_OPTIONS] = {
    {NULL, 'c', "COUNT", "number of lines", .number = &count, .min = 1, .max = 100000},
    {"port", 'p', "PORT", "the sink's", .text = &port},
};

static const struct command command = {
    .usage = "faulty_ticker [OPTION]... HOST",
    .summary = "Sends a line of text every millisecond.",
    .options = options,
    .arguments = {1, 1},
    .tcp = true,
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

/* Right-aligned decimal digits, with leading zeros. */
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

    int fd = connect_to(SOCK_STREAM, host, port, NULL);
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY");
    struct measurement m = start_measuring(fd);
    run(fd);
    stop_measuring(&m, fd);

    m.granted = read_options(fd); /* as they are at the end */
    print_result(stdout, fields, &m);
    finish_sending(fd, "the sink");
}
