/*
 * tcp_nodelay_client - send each message in small pieces, wait for the answer, see what it costs.
 *
 *     tcp_nodelay_client [OPTION]... HOST PORT N [MODE]
 *
 * Sends N messages ("logical packets") to tcp_nodelay_server. A message is 15 writes of 2 bytes;
 * after the last of them the client waits for a reply of 2 bytes. The MODE is how the pieces are
 * handed to TCP:
 *
 *     default   write after write: Nagle's algorithm (RFC 896) holds back the second and later
 *               pieces until the first is acknowledged, and the receiver delays that ACK
 *     no_delay  TCP_NODELAY: Nagle is off, and each piece leaves as a segment of its own
 *     cork      TCP_CORK around the writes: the kernel collects, and pulling the cork sends
 *     msg_more  the same promise of more to come, made by a flag of each send()
 *     writev    all the pieces in one system call
 *
 * The experiment, the command line and the sentence printed are those of "TCP_NODELAY and
 * TCP_CORK" in Red Hat Enterprise Linux for Real Time, chapter Sockets. Its 10 000 messages took
 * 400 129, 1 650 and 851 ms.
 *
 * Example, with `tcp_nodelay_server 5001 50` in another terminal:
 *
 *     $ tcp_nodelay_client localhost 5001 50
 *     options: congestion cubic, MSS 32768, TCP_NODELAY off, SO_SNDBUF 2626560, ...
 *     50 packets of 30 bytes sent in 2157.019757 ms: 0.695404 bytes/ms
 */
#define _GNU_SOURCE
#include "net.h"

#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum mode { DEFAULT, NO_DELAY, CORK, MORE, WRITEV };
static const char *const mode_names[] = {"default", "no_delay", "cork", "msg_more", "writev", NULL};
static const char *const mode_suffixes[] = {"", " using TCP_NODELAY", " using TCP_CORK",
                                            " using MSG_MORE", " using writev"};

static int64_t messages, writes = 15, write_bytes = 2, reply_bytes = 2;
static int mode = DEFAULT;
static const char *log_path;

static const struct program_option options[] = {
    /* 1024 is IOV_MAX, the most that writev() takes */
    {"writes", 'w', "K", "writes in a message", .number = &writes, .min = 1, .max = 1024},
    {"size", 's', "B", "bytes in a write", .number = &write_bytes, .min = 1, .max = 1 << 20},
    {"reply", 'r', "B", "bytes in a reply", .number = &reply_bytes, .min = 1, .max = 1 << 20},
    {"log", 0, "FILE", "when each write and each reply happened", .text = &log_path},
    {.help = NULL},
};

static const struct command command = {
    .usage = "tcp_nodelay_client [OPTION]... HOST PORT N [MODE]",
    .summary = "Sends N messages in small writes and waits for the answer to each. MODE is one of\n"
               "default, no_delay (TCP_NODELAY), cork (TCP_CORK), msg_more (MSG_MORE), writev.",
    .options = options,
    .arguments = {3, 4},
    .tcp = true,
};

static char *message, *reply;
static struct iovec *pieces;
static struct event_log events;
static int64_t system_calls;

/* Piece after piece of the alphabet, "aabbcc...": in a capture one sees which write a byte came
 * from. */
static void prepare_message(void) {
    message = allocate((size_t)writes, (size_t)write_bytes);
    reply = allocate((size_t)reply_bytes, 1);
    pieces = allocate((size_t)writes, sizeof *pieces);
    for (int i = 0; i < writes; i++) {
        pieces[i].iov_base = message + (size_t)i * (size_t)write_bytes;
        pieces[i].iov_len = (size_t)write_bytes;
        memset(pieces[i].iov_base, 'a' + i % 26, (size_t)write_bytes);
    }
}

static void set_cork(int fd, int on) {
    log_event(&events, on ? "cork" : "uncork", 0);
    set_option(fd, IPPROTO_TCP, TCP_CORK, on, "TCP_CORK");
    system_calls++;
}

/* This loop is the lesson. */
static void send_pieces(int fd) {
    for (int i = 0; i < writes; i++) {
        bool more = mode == MORE && i < writes - 1;
        log_event(&events, more ? "more" : "write", pieces[i].iov_len);
        system_calls += send_all(fd, pieces[i].iov_base, pieces[i].iov_len, more ? MSG_MORE : 0);
    }
}

static void send_vector(int fd) {
    size_t total = (size_t)writes * (size_t)write_bytes;
    log_event(&events, "write", total);
    ssize_t sent = writev(fd, pieces, (int)writes);
    system_calls++;
    if (sent < 0)
        fail_transfer("writev");
    /* A vector larger than the send buffer may be taken in part. */
    system_calls += send_all(fd, message + sent, total - (size_t)sent, 0);
}

static void send_message(int fd) {
    if (mode == WRITEV) {
        send_vector(fd);
        return;
    }
    if (mode == CORK)
        set_cork(fd, 1);
    send_pieces(fd);
    /* Pulling the cork is what says "complete"; left in, the data would wait 200 ms (tcp(7)). */
    if (mode == CORK)
        set_cork(fd, 0);
}

static void await_reply(int fd, int64_t number) {
    size_t got = receive_all(fd, reply, (size_t)reply_bytes, &system_calls);
    log_event(&events, "reply", got);
    if (got < (size_t)reply_bytes)
        fail_because(
            "the server closed the connection after %lld of %lld messages (was it told the "
            "same N?)",
            (long long)number, (long long)messages);
}

static void run(int fd, int64_t *message_ns) {
    int64_t before = clock_ns(CLOCK_MONOTONIC);
    for (int64_t i = 0; i < messages; i++) {
        send_message(fd);
        await_reply(fd, i);
        int64_t now = clock_ns(CLOCK_MONOTONIC);
        message_ns[i] = now - before;
        before = now;
    }
}

static void print_json(int fd, const struct socket_options *granted, const struct usage *used,
                       const int64_t *message_ns) {
    int64_t bytes = messages * writes * write_bytes;
    struct tcp_info info = read_tcp_info(fd);
    struct json j = json_result(stdout, used);
    json_string(&j, "mode", mode_names[mode]);
    json_int(&j, "n", messages);
    json_int(&j, "writes", writes);
    json_int(&j, "size_bytes", write_bytes);
    json_int(&j, "reply_bytes", reply_bytes);
    json_int(&j, "bytes", bytes);
    json_double(&j, "bytes_per_ms", (double)bytes * 1e6 / (double)used->wall_ns);
    json_samples_us(&j, "message_us", message_ns, (size_t)messages);
    json_int(&j, "system_calls", system_calls);
    json_end_result(&j, granted, &info);
}

static void print_sentence(const struct socket_options *granted, const struct usage *used) {
    double wall_ms = (double)used->wall_ns / 1e6;
    int64_t message_bytes = writes * write_bytes;
    print_options(stdout, granted);
    printf("%lld packets of %lld bytes sent in %f ms: %f bytes/ms%s\n", (long long)messages,
           (long long)message_bytes, wall_ms, (double)(messages * message_bytes) / wall_ms,
           mode_suffixes[mode]);
    finish_output(stdout);
}

int main(int argc, char **argv) {
    start_program();
    char **arguments = parse_command_line(argc, argv, &command);
    messages = whole_number("N", arguments[2], 1, 10000000);
    if (arguments[3])
        mode = one_of("MODE", arguments[3], mode_names);
    events = open_log(log_path);
    prepare_message();
    int64_t *message_ns = allocate((size_t)messages, sizeof *message_ns);
    pin_to_cpu();

    int fd = connect_to(SOCK_STREAM, arguments[0], arguments[1], NULL);
    if (mode == NO_DELAY)
        set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY");
    struct socket_options granted = read_options(fd);

    struct usage start = usage_now();
    run(fd, message_ns);
    struct usage used = usage_since(&start);

    sort_samples(message_ns, (size_t)messages);
    if (common.json)
        print_json(fd, &granted, &used, message_ns);
    else
        print_sentence(&granted, &used);
    finish_sending(fd, "the server");
    close(fd);
    close_log(&events);
    free(message_ns);
    free(pieces);
    free(message);
    free(reply);
}
