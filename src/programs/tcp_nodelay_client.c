/*
 * tcp_nodelay_client - send each message in small writes, wait for the answer, and measure the
 * cost.
 *
 *     tcp_nodelay_client [OPTION]... HOST PORT N [MODE]
 *
 * It sends N messages ("logical packets") to tcp_nodelay_server. A message is 15 writes of 2 bytes;
 * after the last write the client waits for a reply of 2 bytes. MODE selects how the writes are
 * passed to TCP:
 *
 *     default   write after write: Nagle's algorithm (RFC 896) holds back the second and later
 *               writes until the first is acknowledged, and the receiver delays that ACK
 *     no_delay  TCP_NODELAY: Nagle is off, and each write leaves as a separate segment
 *     cork      TCP_CORK around the writes: the kernel collects, and removing the cork sends
 *     msg_more  the same promise of more to come, made by a flag of each send()
 *     writev    all of them in one system call
 *
 * The experiment, the command line and the numbers printed are those of "TCP_NODELAY and
 * TCP_CORK" in Red Hat Enterprise Linux for Real Time, chapter Sockets. Its 10 000 messages took
 * 400 129 ms (default), 1 650 ms (no_delay) and 851 ms (cork).
 *
 * Example, with `tcp_nodelay_server 5001 50` in another terminal:
 *
 *     $ tcp_nodelay_client localhost 5001 50
 *     usage.wall_s                2.15702
 *     message_bytes               30
 *     bytes_per_ms                0.695404
 *     ...
 */
#include "net.h"

#include <sys/uio.h>

enum mode { DEFAULT, NO_DELAY, CORK, MORE, WRITEV };
static const char *const mode_names[] = {"default", "no_delay", "cork", "msg_more", "writev", NULL};

static int64_t messages, writes = 15, write_bytes = 2, reply_bytes = 2;
static int mode = DEFAULT;

static const struct program_option options[MAX_OPTIONS] = {
    /* 1024 is IOV_MAX, the most that writev() takes */
    {"writes", 'w', "K", "writes in a message", .number = &writes, .min = 1, .max = 1024},
    {"write-bytes", 's', "B", "bytes in a write", .number = &write_bytes, .min = 1, .max = 1 << 20},
    {"reply-bytes", 'r', "B", "bytes in a reply", .number = &reply_bytes, .min = 1, .max = 1 << 20},
};

static const struct command command = {
    .usage = "tcp_nodelay_client [OPTION]... HOST PORT N [MODE]",
    .summary = "Sends N messages in small writes and waits for the answer to each. MODE is one of\n"
               "default, no_delay (TCP_NODELAY), cork (TCP_CORK), msg_more (MSG_MORE), writev.",
    .options = options,
    .arguments = {3, 4},
    .tcp = true,
    .logs = "when each write and each reply happened",
};

static char *message, *reply;
static struct iovec *parts;
static struct samples message_times;
static int64_t system_calls, message_bytes, bytes;

/* Fills in "aabbcc...", a letter per write, so that a capture shows the write of each byte. */
static void prepare_message(void) {
    message = allocate((size_t)writes, (size_t)write_bytes);
    reply = allocate((size_t)reply_bytes, 1);
    parts = allocate((size_t)writes, sizeof *parts);
    for (int i = 0; i < writes; i++) {
        parts[i].iov_base = message + (size_t)i * (size_t)write_bytes;
        parts[i].iov_len = (size_t)write_bytes;
        memset(parts[i].iov_base, 'a' + i % 26, (size_t)write_bytes);
    }
}

static void set_cork(int fd, int on) {
    log_event(on ? "cork" : "uncork", 0);
    set_option(fd, IPPROTO_TCP, TCP_CORK, on, "TCP_CORK");
    system_calls++;
}

/* This loop is the lesson. */
static void send_writes(int fd) {
    for (int i = 0; i < writes; i++) {
        bool more = mode == MORE && i < writes - 1;
        log_event(more ? "more" : "write", parts[i].iov_len);
        system_calls += send_all(fd, parts[i].iov_base, parts[i].iov_len, more ? MSG_MORE : 0);
    }
}

static void send_vector(int fd) {
    size_t total = (size_t)message_bytes;
    log_event("write", total);
    ssize_t sent = writev(fd, parts, (int)writes);
    system_calls++;
    if (sent < 0)
        fail_transfer("writev");
    /* The kernel may take only a part of a vector that is larger than the send buffer. */
    system_calls += send_all(fd, message + sent, total - (size_t)sent, 0);
}

static void send_message(int fd) {
    if (mode == WRITEV) {
        send_vector(fd);
        return;
    }
    if (mode == CORK)
        set_cork(fd, 1);
    send_writes(fd);
    /* Removing the cork means "complete"; otherwise the data would wait 200 ms (tcp(7)). */
    if (mode == CORK)
        set_cork(fd, 0);
}

static void await_reply(int fd, int64_t number) {
    size_t got = receive_all(fd, reply, (size_t)reply_bytes, &system_calls);
    log_event("reply", got);
    if (got < (size_t)reply_bytes)
        fail_because(
            "the server closed the connection after %lld of %lld messages (was it given the "
            "same N?)",
            (long long)number, (long long)messages);
}

static void run(int fd) {
    int64_t before = clock_ns(CLOCK_MONOTONIC);
    for (int64_t i = 0; i < messages; i++) {
        send_message(fd);
        await_reply(fd, i);
        int64_t now = clock_ns(CLOCK_MONOTONIC);
        message_times.ns[message_times.count++] = now - before;
        before = now;
    }
}

static const struct result_field fields[MAX_FIELDS] = {
    {"mode", .choice = &mode, .names = mode_names},
    {"messages", .whole = &messages},
    {"writes", .whole = &writes},
    {"write_bytes", .whole = &write_bytes},
    {"message_bytes", .whole = &message_bytes},
    {"reply_bytes", .whole = &reply_bytes},
    {"bytes", .whole = &bytes},
    {"bytes_per_ms", .rate_of = &bytes, .unit = 1e3},
    {"message_us", .samples = &message_times},
    {"system_calls", .whole = &system_calls},
};

int main(int argc, char **argv) {
    char **arguments = start_program(argc, argv, &command);
    messages = whole_number("N", arguments[2], 1, 10000000);
    if (arguments[3])
        mode = one_of("MODE", arguments[3], mode_names);
    message_bytes = writes * write_bytes;
    prepare_message();
    message_times.ns = allocate((size_t)messages, sizeof *message_times.ns);

    int fd = connect_to(SOCK_STREAM, arguments[0], arguments[1], NULL);
    if (mode == NO_DELAY)
        set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY");

    struct measurement m = start_measuring(fd);
    run(fd);
    stop_measuring(&m, fd);

    bytes = messages * message_bytes;
    print_result(stdout, fields, &m);
    finish_sending(fd, "the server");
}
