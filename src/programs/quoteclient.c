/*
 * quoteclient - ask for stock quotes one after the other, over two connections or one.
 *
 *     quoteclient [OPTION]... HOST
 *
 * This is case 2 of the MSDN article "Design issues: sending small data segments over TCP with
 * Winsock". A client sends the symbol of a stock over one connection, gets its quote over another,
 * and then requests the next. Neither side sets any option, and there are 5 quotes per second. No
 * data flows back over the connection for requests, so an ACK has no segment to travel with. The
 * second request waits for the ACK of the first (Nagle's algorithm), and that ACK for a timer.
 *
 *     (nothing)   two one-way connections, as in the article
 *     --single    one connection, so that the quote carries the ACK of its request
 *     --nodelay   two connections without Nagle's algorithm (give it to the server as well)
 *     --batch K   K requests in one send(), whose quotes come back together
 *
 * Linux does better than the article by default, since a receiver that has read everything and
 * seldom answers on the same connection does not delay its ACKs. `quoteserver --quickack off`
 * restores the behaviour of the article's stack.
 *
 * A request is 8 bytes, a quote 32: the symbol, the price, blanks.
 */
#include "net.h"

/* Keep these equal to the values in quoteserver.c. */
enum { REQUEST_BYTES = 8, QUOTE_BYTES = 32, MAX_BATCH = 1000 };

static int64_t count = 200, batch = 1;
static bool single;

static const struct program_option options[MAX_OPTIONS] = {
    {NULL, 'c', "COUNT", "number of quotes", .number = &count, .min = 1, .max = 1e7},
    {"single", 0, NULL, "requests and quotes share one connection", .flag = &single},
    {"batch", 0, "K", "send K requests at a time", .number = &batch, .min = 1, .max = MAX_BATCH},
};

static const struct command command = {
    .usage = "quoteclient [OPTION]... HOST",
    .summary = "Requests quotes from a quoteserver, each after the previous one.",
    .options = options,
    .arguments = {1, 1},
    .tcp = true,
    .port = "the server's port",
    .nodelay = true,
    .logs = "when requests left and quotes came",
};

static struct samples exchange_times;
static int64_t system_calls;

/* ---- the dialogue ---- */

static void send_requests(int fd, int64_t first, size_t requests) {
    char text[MAX_BATCH * REQUEST_BYTES + 1];
    for (size_t i = 0; i < requests; i++)
        snprintf(text + i * REQUEST_BYTES, REQUEST_BYTES + 1, "S%07lld",
                 (long long)first + (long long)i);
    log_event("request", requests * REQUEST_BYTES);
    system_calls += send_all(fd, text, requests * REQUEST_BYTES, 0);
}

/* The symbol comes back with its quote, so that a mix-up is detected. */
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
        system_calls++;
        if (got == 0)
            fail_because("the server closed the connection after %lld of %lld quotes",
                         (long long)(first + (int64_t)(filled / QUOTE_BYTES)), (long long)count);
        log_event("quote", got);
        filled += got;
    }
    for (size_t i = 0; i < quotes; i++)
        check_quote(text + i * QUOTE_BYTES, first + (int64_t)i);
}

static void run(int request_fd, int quote_fd) {
    int64_t before = clock_ns(CLOCK_MONOTONIC);
    for (int64_t number = 0; number < count;) {
        size_t now_asked = (size_t)(count - number < batch ? count - number : batch);
        send_requests(request_fd, number, now_asked);
        await_quotes(quote_fd, number, now_asked);
        number += (int64_t)now_asked;
        int64_t now = clock_ns(CLOCK_MONOTONIC);
        exchange_times.ns[exchange_times.count++] = now - before;
        before = now;
    }
}

static const struct result_field fields[MAX_FIELDS] = {
    {"quotes", .whole = &count},
    {"batch", .whole = &batch},
    {"single", .flag = &single},
    {"quotes_per_s", .rate_of = &count, .unit = 1},
    {"exchange_us", .samples = &exchange_times},
    {"system_calls", .whole = &system_calls},
};

int main(int argc, char **argv) {
    const char *host = start_program(argc, argv, &command)[0];
    exchange_times.ns = allocate((size_t)count, sizeof *exchange_times.ns);

    /* The server takes the first connection for requests and the second for quotes. */
    int request_fd = connect_to(SOCK_STREAM, host, common.port, NULL);
    int quote_fd = single ? request_fd : connect_to(SOCK_STREAM, host, common.port, NULL);

    struct measurement m = start_measuring(request_fd);
    run(request_fd, quote_fd);
    stop_measuring(&m, request_fd);

    finish_sending(request_fd, "the server");
    print_result(stdout, fields, &m);
}
