/*
 * quoteserver - answer requests for stock quotes, over two connections or one.
 *
 *     quoteserver [OPTION]...
 *
 * It listens on port 9000 for one quoteclient, which describes the case (case 2 of the MSDN article
 * "Design issues: sending small data segments over TCP with Winsock"). It reads requests from the
 * client's first connection and writes quotes to the second; with --single there is only one. One
 * send() answers all requests of a read.
 *
 * --quickack off delays ACKs as long as TCP may, like the article's stack with its 200 ms timer.
 */
#include "net.h"

/* Keep these equal to the values in quoteclient.c. */
enum { REQUEST_BYTES = 8, QUOTE_BYTES = 32, MAX_BATCH = 1000 };

static bool single;
static int quickack = QUICKACK_ON;

static const struct program_option options[MAX_OPTIONS] = {
    {"single", 0, NULL, "requests and quotes share one connection", .flag = &single},
    {"quickack", 0, "WHEN", "when to ACK", .choice = &quickack, .names = quickack_names},
};

static const struct command command = {
    .usage = "quoteserver [OPTION]...",
    .summary = "Answers the requests of one quoteclient until it has no more.",
    .options = options,
    .tcp = true,
    .listens = true,
    .port = "listen here; 0 takes a free one",
    .nodelay = true,
    .logs = "when requests came and quotes left",
};

static int64_t quotes, reads, system_calls;

/* The price is arbitrary, but each symbol always has the same. */
static void put_quote(char *place, const char *symbol) {
    unsigned price = 0;
    for (int i = 0; i < REQUEST_BYTES; i++)
        price = price * 31 + (unsigned char)symbol[i];
    char text[QUOTE_BYTES + 1];
    snprintf(text, sizeof text, "%.*s %11u.%02u%8s", REQUEST_BYTES, symbol, price % 10000,
             price % 100, "");
    memcpy(place, text, QUOTE_BYTES);
}

static void answer(int fd, const char *requests, size_t number) {
    static char text[MAX_BATCH * QUOTE_BYTES];
    for (size_t i = 0; i < number; i++)
        put_quote(text + i * QUOTE_BYTES, requests + i * REQUEST_BYTES);
    log_event("quote", number * QUOTE_BYTES);
    system_calls += send_all(fd, text, number * QUOTE_BYTES, 0);
    quotes += (int64_t)number;
}

/* Reads the available data, answers every complete request, and keeps the rest for the next. */
static void serve(int request_fd, int quote_fd) {
    static char pending[MAX_BATCH * REQUEST_BYTES];
    size_t filled = 0, got;
    while ((got = receive(request_fd, pending + filled, sizeof pending - filled, 0)) > 0) {
        log_event("request", got);
        system_calls += 1 + set_quickack(request_fd, quickack);
        reads++;
        filled += got;
        size_t complete = filled / REQUEST_BYTES;
        if (complete > 0)
            answer(quote_fd, pending, complete);
        filled -= complete * REQUEST_BYTES;
        memmove(pending, pending + complete * REQUEST_BYTES, filled);
    }
    if (filled > 0)
        fail_because("the client ended in the middle of a request, after %lld", (long long)quotes);
}

static const struct result_field fields[MAX_FIELDS] = {
    {"quotes", .whole = &quotes},
    {"reads", .whole = &reads},
    {"single", .flag = &single},
    {"quickack", .choice = &quickack, .names = quickack_names},
    {"system_calls", .whole = &system_calls},
};

int main(int argc, char **argv) {
    start_program(argc, argv, &command);

    int listener = listen_on(SOCK_STREAM, common.port, NULL, stdout);
    int request_fd = accept_from(listener);
    int quote_fd = single ? request_fd : accept_from(listener);

    struct measurement m = start_measuring(request_fd);
    serve(request_fd, quote_fd);
    stop_measuring(&m, request_fd);
    print_result(stdout, fields, &m);
}
