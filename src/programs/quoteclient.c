/*
 * quoteclient - ask for stock quotes one after the other, over two connections or one.
 *
 *     quoteclient [OPTION]... HOST
 *
 * Case 2 of the MSDN article "Design issues: sending small data segments over TCP with Winsock": a
 * client sends the symbol of a stock over one connection and gets its quote over another, then
 * asks for the next. Neither side sets any option, and there are 5 quotes a second, since nothing
 * ever flows back over the connection for requests that its ACK could travel with: the second
 * request waits, by Nagle's algorithm, for the ACK of the first, and that for a timer.
 *
 *     (nothing)   two one-way connections, as in the article
 *     --single    one connection: the quote carries the ACK of its request
 *     --nodelay   two, but Nagle's algorithm is off (to be given to the server as well)
 *     --batch K   K requests in one send(), whose quotes come back together
 *
 * Linux does better than the article without being asked: a receiver that has read everything and
 * seldom answers on the same connection is in no hurry to delay its ACKs. `quoteserver --quickack
 * off` brings the article's stack back.
 *
 * A request is 8 bytes, a quote 32: the symbol, the price, blanks.
 */
#define _GNU_SOURCE
#include "net.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The same in quoteserver.c. */
enum { REQUEST_BYTES = 8, QUOTE_BYTES = 32, MAX_BATCH = 1000 };

static const char *port = "9000", *log_path;
static int64_t count = 200, batch = 1;
static bool single, nodelay;
static int quickack = QUICKACK_ON;

static const struct program_option options[] = {
    {NULL, 'c', "COUNT", "number of quotes", .number = &count, .min = 1, .max = 1e7},
    {"port", 'p', "PORT", "the server's", .text = &port},
    {"single", 0, NULL, "requests and quotes share one connection", .flag = &single},
    {"batch", 0, "K", "send K requests at a time", .number = &batch, .min = 1, .max = MAX_BATCH},
    {"nodelay", 0, NULL, "switch Nagle's algorithm off (TCP_NODELAY)", .flag = &nodelay},
    {"quickack", 0, "WHEN", "when to ACK", .choice = &quickack, .names = quickack_names},
    {"log", 0, "FILE", "when requests left and quotes came", .text = &log_path},
    {.help = NULL},
};

static const struct command command = {
    .usage = "quoteclient [OPTION]... HOST",
    .summary = "Asks a quoteserver for quotes, each after the one before has come.",
    .options = options,
    .arguments = {1, 1},
    .tcp = true,
};

static struct event_log events;
static int64_t system_calls;

static int open_connection(const char *host) {
    int fd = connect_to(SOCK_STREAM, host, port, NULL);
    if (nodelay)
        set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY");
    return fd;
}

/* ---- the dialogue ---- */

static void send_requests(int fd, int64_t first, size_t requests) {
    char text[MAX_BATCH * REQUEST_BYTES + 1];
    for (size_t i = 0; i < requests; i++)
        snprintf(text + i * REQUEST_BYTES, REQUEST_BYTES + 1, "S%07lld",
                 (long long)first + (long long)i);
    log_event(&events, "request", requests * REQUEST_BYTES);
    system_calls += send_all(fd, text, requests * REQUEST_BYTES, 0);
}

/* The symbol comes back with its quote, so that a mix-up is noticed. */
static void check_quote(const char *quote, int64_t number) {
    char symbol[REQUEST_BYTES + 1];
    snprintf(symbol, sizeof symbol, "S%07lld", (long long)number);
    if (memcmp(quote, symbol, REQUEST_BYTES) != 0)
        fail_because("asked for %s, got a quote of '%.8s'", symbol, quote);
}

static void await_quotes(int fd, int64_t first, size_t quotes) {
    char text[MAX_BATCH * QUOTE_BYTES];
    size_t wanted = quotes * QUOTE_BYTES, filled = 0;
    while (filled < wanted) {
        size_t got = receive(fd, text + filled, wanted - filled, 0);
        system_calls += 1 + set_quickack(fd, quickack);
        if (got == 0)
            fail_because("the server closed the connection after %lld of %lld quotes",
                         (long long)(first + (int64_t)(filled / QUOTE_BYTES)), (long long)count);
        log_event(&events, "quote", got);
        filled += got;
    }
    for (size_t i = 0; i < quotes; i++)
        check_quote(text + i * QUOTE_BYTES, first + (int64_t)i);
}

/* Returns how many exchanges it timed. */
static size_t run(int request_fd, int quote_fd, int64_t *exchange_ns) {
    int64_t before = clock_ns(CLOCK_MONOTONIC);
    size_t timed = 0;
    for (int64_t number = 0; number < count;) {
        size_t now_asked = (size_t)(count - number < batch ? count - number : batch);
        send_requests(request_fd, number, now_asked);
        await_quotes(quote_fd, number, now_asked);
        number += (int64_t)now_asked;
        int64_t now = clock_ns(CLOCK_MONOTONIC);
        exchange_ns[timed++] = now - before;
        before = now;
    }
    return timed;
}

static double quotes_per_s(const struct usage *used) {
    return (double)count * 1e9 / (double)used->wall_ns;
}

static void print_json(const struct socket_options *granted, const struct tcp_info *info,
                       const struct usage *used, const int64_t *exchange_ns, size_t timed) {
    struct json j = json_result(stdout, used);
    json_int(&j, "quotes", count);
    json_int(&j, "batch", batch);
    json_bool(&j, "single", single);
    json_string(&j, "quickack", quickack_names[quickack]);
    json_double(&j, "quotes_per_s", quotes_per_s(used));
    json_samples_us(&j, "exchange_us", exchange_ns, timed);
    json_int(&j, "system_calls", system_calls);
    json_end_result(&j, granted, info);
}

static void print_text(const struct socket_options *granted, const struct usage *used,
                       const int64_t *exchange_ns, size_t timed) {
    print_options(stdout, granted);
    printf("%lld quotes over %s: ", (long long)count,
           single ? "one connection" : "two connections");
    print_usage(stdout, used);
    printf("\n%.1f quotes/s; half of the exchanges took less than %.3f ms, the longest %.3f ms\n",
           quotes_per_s(used), (double)percentile(exchange_ns, timed, 0.5) / 1e6,
           (double)percentile(exchange_ns, timed, 1) / 1e6);
    finish_output(stdout);
}

int main(int argc, char **argv) {
    start_program();
    const char *host = parse_command_line(argc, argv, &command)[0];
    events = open_log(log_path);
    int64_t *exchange_ns = allocate((size_t)count, sizeof *exchange_ns);
    pin_to_cpu();

    /* The server takes the first connection for requests and the second for quotes. */
    int request_fd = open_connection(host);
    int quote_fd = single ? request_fd : open_connection(host);
    struct socket_options granted = read_options(request_fd);

    struct usage start = usage_now();
    size_t timed = run(request_fd, quote_fd, exchange_ns);
    struct usage used = usage_since(&start);
    struct tcp_info info = read_tcp_info(request_fd);

    finish_sending(request_fd, "the server");
    close(request_fd);
    if (!single)
        close(quote_fd);
    sort_samples(exchange_ns, timed);
    if (common.json)
        print_json(&granted, &info, &used, exchange_ns, timed);
    else
        print_text(&granted, &used, exchange_ns, timed);
    close_log(&events);
    free(exchange_ns);
}
