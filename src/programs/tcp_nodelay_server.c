/*
 * tcp_nodelay_server - wait for whole messages and answer each with a few bytes.
 *
 *     tcp_nodelay_server [OPTION]... PORT N
 *
 * This is the other half of tcp_nodelay_client. It accepts one connection, reads N messages of
 * 15 x 2 bytes and answers each with 2 bytes once it is complete. It needs no socket option for
 * that. Source: "TCP_NODELAY and TCP_CORK", Red Hat Enterprise Linux for Real Time, chapter
 * Sockets.
 *
 * The kernel of this host decides when to acknowledge. --quickack can change that:
 *
 *     on      (default) the kernel decides: immediately on a new connection, 40 ms or more late
 *             when the exchange looks interactive (TCP_QUICKACK in tcp(7))
 *     off     as late as possible, like the stack of the MSDN article on small packets
 *     always  immediately
 */
#include "net.h"

static int64_t messages, writes = 15, write_bytes = 2, reply_bytes = 2;
static int quickack = QUICKACK_ON;

static const struct program_option options[MAX_OPTIONS] = {
    {"writes", 'w', "K", "writes in a message, as the client's", .number = &writes, .min = 1,
     .max = 1024},
    {"write-bytes", 's', "B", "bytes in a write, as the client's", .number = &write_bytes, .min = 1,
     .max = 1 << 20},
    {"reply-bytes", 'r', "B", "bytes in a reply, as the client's", .number = &reply_bytes, .min = 1,
     .max = 1 << 20},
    {"quickack", 0, "WHEN", "when to ACK", .choice = &quickack, .names = quickack_names},
};

static const struct command command = {
    .usage = "tcp_nodelay_server [OPTION]... PORT N",
    .summary = "Takes one connection, reads N messages, answers each when it is complete.\n"
               "PORT 0 takes a free one; the line \"listening on PORT\" reports it.",
    .options = options,
    .arguments = {2, 2},
    .tcp = true,
    .listens = true,
    .logs = "when each read and each reply happened",
};

static int64_t system_calls, message_bytes, bytes;

/* TCP keeps no record of the client's writes: a read returns whatever has arrived by now. */
static void read_message(int fd, char *message, size_t size, int64_t number) {
    for (size_t filled = 0; filled < size;) {
        size_t got = receive(fd, message + filled, size - filled, 0);
        system_calls++;
        log_event("read", got);
        if (got == 0)
            fail_because(
                "the client closed the connection after %lld of %lld messages and %zu of %zu "
                "bytes (was it given the same N, --writes and --write-bytes?)",
                (long long)number, (long long)messages, filled, size);
        system_calls += set_quickack(fd, quickack);
        filled += got;
    }
}

static void serve(int fd) {
    char *message = allocate((size_t)message_bytes, 1);
    char *reply = allocate((size_t)reply_bytes, 1);
    memset(reply, '!', (size_t)reply_bytes);
    for (int64_t i = 0; i < messages; i++) {
        read_message(fd, message, (size_t)message_bytes, i);
        log_event("reply", (size_t)reply_bytes);
        system_calls += send_all(fd, reply, (size_t)reply_bytes, 0);
    }
    free(message);
    free(reply);
}

static const struct result_field fields[MAX_FIELDS] = {
    {"messages", .whole = &messages},
    {"message_bytes", .whole = &message_bytes},
    {"bytes", .whole = &bytes},
    {"reply_bytes", .whole = &reply_bytes},
    {"quickack", .choice = &quickack, .names = quickack_names},
    {"system_calls", .whole = &system_calls},
};

int main(int argc, char **argv) {
    char **arguments = start_program(argc, argv, &command);
    messages = whole_number("N", arguments[1], 1, 10000000);
    message_bytes = writes * write_bytes;
    bytes = messages * message_bytes;

    int listener = listen_on(SOCK_STREAM, arguments[0], NULL, stdout);
    int fd = accept_from(listener);

    struct measurement m = start_measuring(fd);
    serve(fd);
    stop_measuring(&m, fd);
    print_result(stdout, fields, &m);

    /* Let the client close first, so that TIME_WAIT and the blocked port are on its side. */
    char extra;
    if (receive(fd, &extra, 1, 0) > 0)
        fail_because(
            "the client goes on after %lld messages (was it given the same N, --writes and "
            "--write-bytes?)",
            (long long)messages);
}
