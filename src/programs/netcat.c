/*
 * netcat - copy standard input to a TCP connection, and the connection to standard output.
 *
 *     netcat [OPTION]... HOST PORT          connect
 *     netcat [OPTION]... -l PORT            listen, and take one connection
 *
 * Chen Shuo's course on network programming measures TCP with `dd | nc` and `nc < file`, and asks
 * how many times each byte is copied. Here it is copied once into and once out of this program, in
 * each of the two processes. With --splice the bytes never enter the program if one side is a pipe
 * or a file is sent (splice(2), sendfile(2)).
 *
 * A connection has two directions that end independently, so each has a thread:
 *
 *     standard input ends     shutdown(SHUT_WR): the peer reads our end, and can still answer
 *     the peer's data ends    standard output is complete, and our input is still sent
 *                             (unless it comes from a terminal, which would never end)
 *
 * The program ends when both have ended. Many netcats end with the first, and lose the rest.
 *
 * A netcat is meant to wait for a client and for data, so that has no time limit. --deadline limits
 * connecting, and sending to a peer that no longer reads. Everything except the data goes to
 * standard error: -v prints the port, the options and the byte counts, and --json prints them as
 * JSON.
 */
#define _GNU_SOURCE
#include "net.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

enum { BLOCK = 131072, WIDE_PIPE = 1 << 20 };

static bool listening, splicing, verbose;

static const struct program_option options[MAX_OPTIONS] = {
    {"listen", 'l', NULL, "listen on PORT instead of connecting", .flag = &listening},
    {"verbose", 'v', NULL, "say what happens, on standard error", .flag = &verbose},
    {"splice", 0, NULL, "move the data inside the kernel where that works", .flag = &splicing},
};

static const struct command command = {
    .usage = "netcat [OPTION]... HOST PORT, or netcat [OPTION]... -l PORT",
    .summary = "Copies standard input to a TCP connection, and the connection to standard output.",
    .options = options,
    .arguments = {1, 2},
    .tcp = true,
    .listens = true,
};

/* One of the two directions. */
struct flow {
    int from, to;
    const char *from_name, *to_name;
    int64_t bytes, system_calls;
};

/* ---- moving ---- */

/* Returns the size of a read or write; ends the program if it failed permanently. */
static size_t checked(struct flow *flow, ssize_t result, const char *name, const char *verb) {
    flow->system_calls++;
    if (result < 0 && errno != EINTR) {
        char what[64];
        snprintf(what, sizeof what, "%s %s", verb, name);
        fail_transfer(what);
    }
    return result < 0 ? 0 : (size_t)result;
}

static void write_fully(struct flow *flow, const char *data, size_t size) {
    while (size > 0) {
        size_t done = checked(flow, write(flow->to, data, size), flow->to_name, "writing to");
        data += done;
        size -= done;
    }
}

static void copy(struct flow *flow) {
    char *buffer = allocate(BLOCK, 1);
    for (;;) {
        ssize_t got = read(flow->from, buffer, BLOCK);
        size_t size = checked(flow, got, flow->from_name, "reading");
        if (got == 0)
            break;
        write_fully(flow, buffer, size);
        flow->bytes += (int64_t)size;
    }
    free(buffer);
}

/* Moves data within the kernel, if these two allow it. */
static ssize_t move_some(const struct flow *flow) {
    struct stat status;
    if (fstat(flow->from, &status) == 0 && S_ISREG(status.st_mode))
        return sendfile(flow->to, flow->from, NULL, WIDE_PIPE);
    return splice(flow->from, NULL, flow->to, NULL, WIDE_PIPE, SPLICE_F_MOVE);
}

/* Returns false, having moved no data, if it is not possible between these two. */
static bool move_inside_kernel(struct flow *flow) {
    for (;;) {
        ssize_t moved = move_some(flow);
        if (moved < 0 && errno == EINVAL && flow->bytes == 0)
            return false;
        size_t size = checked(flow, moved, flow->to_name, "writing to");
        if (moved == 0)
            return true;
        flow->bytes += (int64_t)size;
    }
}

static void move_all(struct flow *flow) {
    /* A pipe of 64 KiB would make dd and us alternate; a user may request 1 MiB (pipe(7)). */
    (void)fcntl(flow->from, F_SETPIPE_SZ, WIDE_PIPE);
    (void)fcntl(flow->to, F_SETPIPE_SZ, WIDE_PIPE);
    if (!splicing || !move_inside_kernel(flow))
        copy(flow);
}

/* ---- the two directions ---- */

static void *send_input(void *argument) {
    struct flow *flow = argument;
    move_all(flow);
    if (shutdown(flow->to, SHUT_WR) < 0)
        fail("the peer closed the connection early");
    return NULL;
}

static int open_connection(char **arguments) {
    if (!listening)
        return connect_to(SOCK_STREAM, arguments[0], arguments[1], NULL);
    FILE *out = verbose || common.json ? stderr : NULL;
    int listener = listen_on(SOCK_STREAM, arguments[0], NULL, out);
    set_receive_limit(listener, 0);
    int fd = accept_from(listener);
    close(listener);
    return fd;
}

static struct flow sent = {
    .from = STDIN_FILENO, .from_name = "standard input", .to_name = "the peer"};
static struct flow received = {
    .to = STDOUT_FILENO, .from_name = "from the peer", .to_name = "standard output"};
static int64_t system_calls;

static const struct result_field fields[MAX_FIELDS] = {
    {"bytes_sent", .whole = &sent.bytes},
    {"bytes_received", .whole = &received.bytes},
    {"system_calls", .whole = &system_calls},
    {"splice", .flag = &splicing},
};

int main(int argc, char **argv) {
    char **arguments = start_program(argc, argv, &command);
    if (!listening && !arguments[1])
        usage_error("PORT is missing; usage: %s", command.usage);
    if (listening && arguments[1])
        usage_error("'%s' is one argument too many: -l takes PORT alone", arguments[1]);

    int fd = open_connection(arguments);
    set_receive_limit(fd, 0);

    struct measurement m = start_measuring(fd);
    sent.to = received.from = fd;
    pthread_t sender;
    if ((errno = pthread_create(&sender, NULL, send_input, &sent)))
        fail("a thread for standard input");
    move_all(&received);
    /* A reader of our output should see its end now, not only when our input has ended. */
    if (close(STDOUT_FILENO) < 0)
        fail("writing to standard output");
    if (!isatty(STDIN_FILENO))
        pthread_join(sender, NULL);
    stop_measuring(&m, fd);

    system_calls = sent.system_calls + received.system_calls;
    if (verbose || common.json)
        print_result(stderr, fields, &m);
}
