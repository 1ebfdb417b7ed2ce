/*
 * faulty_request - ask a server N times and wait for each answer; it works, and it is slow.
 *
 *     faulty_request [OPTION]... HOST
 *
 * This is the first of the three slow programs of lesson diagnosis. Your task is to find out why,
 * in a copy of this file, with the tools of the earlier lessons. It sends requests to
 * tcp_nodelay_server, like the clients of many protocols. A request is a header with the length,
 * then the body; the answer has 2 bytes.
 *
 *     request  | length of the body, 4 digits |  body, 100 bytes  |
 *
 * Between two hosts on one machine 40 requests take 2 seconds. The wire needs less than a
 * millisecond for the same bytes.
 *
 *     $ tcp_nodelay_server --writes 1 --write-bytes 104 9000 40 &
 *     $ faulty_request localhost
 *     usage.wall_s                1.7103
 *     ...
 *
 * The bytes of the stream must stay the same, and each request must wait for the previous answer.
 * The goal is that each request leaves immediately, in one segment.
 */
#include "net.h"

enum { HEADER_BYTES = 4, BODY_BYTES = 100, ANSWER_BYTES = 2 };

static int64_t count = 40;

static const struct program_option options[MAX_OPTIONS] = {
    {NULL, 'c', "COUNT", "number of requests", .number = &count, .min = 1, .max = 100000},
};

static const struct command command = {
    .usage = "faulty_request [OPTION]... HOST",
    .summary = "Sends requests, each after the answer to the previous one.",
    .options = options,
    .arguments = {1, 1},
    .tcp = true,
    .port = "the server's port",
    .logs = "when each write began and each answer came",
};

static int64_t system_calls;

/* ---- a request ---- */

static void send_bytes(int fd, const char *data, size_t size) {
    log_event("write", size);
    system_calls += send_all(fd, data, size, 0);
}

/* The server must know how long the body is before it can read it. */
static void send_header(int fd) {
    char header[HEADER_BYTES + 1];
    snprintf(header, sizeof header, "%04d", BODY_BYTES);
    send_bytes(fd, header, HEADER_BYTES);
}

static void send_body(int fd, int64_t number) {
    char body[BODY_BYTES + 1];
    snprintf(body, sizeof body, "request %-92lld", (long long)number);
    send_bytes(fd, body, BODY_BYTES);
}

static void await_answer(int fd, int64_t number) {
    char answer[ANSWER_BYTES];
    size_t got = receive_all(fd, answer, sizeof answer, &system_calls);
    log_event("reply", got);
    if (got < sizeof answer)
        fail_because("the server closed the connection after %lld of %lld requests",
                     (long long)number, (long long)count);
}

static void run(int fd) {
    for (int64_t number = 0; number < count; number++) {
        send_header(fd);
        send_body(fd, number);
        await_answer(fd, number);
    }
}

/* ---- the result ---- */

static int64_t bytes;

static const struct result_field fields[MAX_FIELDS] = {
    {"requests", .whole = &count},
    {"bytes", .whole = &bytes},
    {"system_calls", .whole = &system_calls},
};

int main(int argc, char **argv) {
    const char *host = start_program(argc, argv, &command)[0];

    int fd = connect_to(SOCK_STREAM, host, common.port, NULL);
    struct measurement m = start_measuring(fd);
    run(fd);
    stop_measuring(&m, fd);

    m.granted = read_options(fd); /* the values at the end */
    bytes = count * (HEADER_BYTES + BODY_BYTES);
    print_result(stdout, fields, &m);
    finish_sending(fd, "the server");
}
