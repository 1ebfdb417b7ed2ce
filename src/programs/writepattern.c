/*
 * writepattern - make exactly these calls on TCP sockets at exactly these times, and log them.
 *
 *     writepattern [OPTION]... HOST SCHEDULE...
 *
 * It opens one connection for each SCHEDULE, a row of DELAY_US:CALL=VALUE. The delay counts from
 * the moment at which the previous call was due, so that lateness does not add up. CALL is one of
 *
 *     write=N          send N bytes                 writev=N,N,...   the same from several buffers
 *     more=N           send N bytes with MSG_MORE   read=N           wait until N bytes have come
 *     cork=0|1         TCP_CORK                     nodelay=0|1      TCP_NODELAY
 *     quickack=0|1     TCP_QUICKACK                 sndbuf=N         SO_SNDBUF
 *
 * After the last call the connection is shut down, which sends all data that the kernel still
 * holds.
 *
 *     $ writepattern server '0:write=4 0:write=100 50000:write=1448'
 *     {"schedule": 0, "port": 41332, "mss_bytes": 1448, "calls": [{"call": "write", "bytes": 4,
 *      "start_ns": 1732165202104332519, "end_ns": 1732165202104381254}, ...
 *
 * It prints one line of JSON for each schedule, in order. The times are of CLOCK_REALTIME, like the
 * time stamps of a capture. The other end is writepattern_peer.
 *
 * Each connection has a separate thread, for a reason that is worth a lesson. The kernel copies a
 * thread's writes into one memory fragment that all the thread's sockets share, and a segment holds
 * at most 17 fragments. So a thread that writes to two sockets alternately sends other segments
 * than two threads do. --stagger is the time between the starts of two connections.
 *
 * Sources: tcp(7); send(2); packetdrill, for the idea of a test as a script of calls and times.
 */
#include "net.h"

#include <pthread.h>
#include <sys/uio.h>

enum { MAX_BYTES = 1 << 20, MAX_VECTOR = 64, MAX_CALLS = 4096, MAX_SCHEDULES = 1024 };

enum call_kind { WRITE, MORE, WRITEV, READ, CORK, NODELAY, QUICKACK, SNDBUF, SHUTDOWN };
/* SHUTDOWN is added at the end automatically, so a schedule cannot contain it. */
static const char *const call_names[] = {"write",   "more",     "writev", "read", "cork",
                                         "nodelay", "quickack", "sndbuf", NULL,   NULL};

struct call {
    enum call_kind kind;
    int64_t delay_us;
    size_t parts; /* number of buffers of a writev */
    size_t sizes[MAX_VECTOR];
    size_t bytes; /* total of a write or read, or value of an option */
    int64_t start_ns, end_ns;
};

struct schedule {
    struct call *calls;
    size_t count;
    int64_t start_ns;
    int mss, port;
    pthread_t thread;
};

static const char *host;
static int64_t stagger_us = 2000;

static const struct program_option options[MAX_OPTIONS] = {
    {"stagger", 0, "US", "time between the starts of two connections", .number = &stagger_us,
     .min = 0, .max = 1e7},
};

static const struct command command = {
    .usage = "writepattern [OPTION]... HOST SCHEDULE...",
    .summary = "Makes the calls of each SCHEDULE, a row of DELAY_US:CALL=VALUE, on a connection of "
               "its own.\nCalls: write more writev read cork nodelay quickack sndbuf.",
    .options = options,
    .arguments = {2, 1 + MAX_SCHEDULES},
    .tcp = true,
    .port = "the port to connect to",
};
static char data[MAX_BYTES];

/* ---- reading schedules ---- */

static bool is_option(enum call_kind kind) {
    return kind == CORK || kind == NODELAY || kind == QUICKACK;
}

/* Parses "DELAY:CALL=VALUE[,VALUE...]"; changes text. */
static struct call parse_call(char *text) {
    char *rest = text;
    char *delay = strsep(&rest, ":");
    char *name = strsep(&rest, "=");
    if (!name || !rest)
        usage_error("schedule: '%s' is not DELAY:CALL=VALUE", text);
    struct call call = {.delay_us = whole_number("delay", delay, 0, 60000000)};
    call.kind = (enum call_kind)one_of("call", name, call_names);
    int64_t max = is_option(call.kind) ? 1 : MAX_BYTES;
    for (char *value; (value = strsep(&rest, ","));) {
        if (call.parts == (call.kind == WRITEV ? MAX_VECTOR : 1))
            usage_error("%s: too many values", name);
        size_t size = (size_t)whole_number(name, value, is_option(call.kind) ? 0 : 1, max);
        call.sizes[call.parts++] = size;
        call.bytes += size;
    }
    if (call.bytes > MAX_BYTES)
        usage_error("%s: %zu bytes are more than %d", name, call.bytes, MAX_BYTES);
    return call;
}

/* Parses a schedule; changes text. */
static struct schedule parse_schedule(char *text) {
    struct schedule schedule = {.calls = allocate(MAX_CALLS, sizeof *schedule.calls)};
    for (char *word; (word = strsep(&text, " \t\n"));) {
        if (*word == '\0')
            continue;
        if (schedule.count == MAX_CALLS - 1) /* the last is for SHUTDOWN */
            usage_error("schedule: more than %d calls", MAX_CALLS - 1);
        schedule.calls[schedule.count++] = parse_call(word);
    }
    return schedule;
}

/* ---- the sender ---- */

static void write_parts(int fd, const struct call *call) {
    struct iovec parts[MAX_VECTOR];
    for (size_t i = 0; i < call->parts; i++)
        parts[i] = (struct iovec){.iov_base = data, .iov_len = call->sizes[i]};
    /* A blocking socket takes all of it, unless the connection is broken. */
    if (writev(fd, parts, (int)call->parts) != (ssize_t)call->bytes)
        fail_transfer("writev");
}

static void make_call(int fd, const struct call *call) {
    static const int socket_options[] = {
        [CORK] = TCP_CORK, [NODELAY] = TCP_NODELAY, [QUICKACK] = TCP_QUICKACK};
    char *buffer;
    int64_t calls = 0;
    switch (call->kind) {
    case WRITE:
    case MORE:
        send_all(fd, data, call->bytes, call->kind == MORE ? MSG_MORE : 0);
        break;
    case WRITEV:
        write_parts(fd, call);
        break;
    case READ:
        buffer = allocate(call->bytes, 1);
        if (receive_all(fd, buffer, call->bytes, &calls) < call->bytes)
            fail_because("the peer closed before it had sent %zu bytes", call->bytes);
        free(buffer);
        break;
    case SNDBUF:
        set_option(fd, SOL_SOCKET, SO_SNDBUF, (int64_t)call->bytes, "SO_SNDBUF");
        break;
    case SHUTDOWN:
        if (shutdown(fd, SHUT_WR) < 0)
            fail("shutdown");
        break;
    default:
        set_option(fd, IPPROTO_TCP, socket_options[call->kind], (int)call->bytes,
                   call_names[call->kind]);
    }
}

static void *play(void *argument) {
    struct schedule *schedule = argument;
    char unread[4096];
    sleep_until_ns(schedule->start_ns);
    int fd = connect_to(SOCK_STREAM, host, common.port, NULL);
    schedule->port = local_port(fd);
    schedule->mss = get_option(fd, IPPROTO_TCP, TCP_MAXSEG, "TCP_MAXSEG");
    schedule->calls[schedule->count++] = (struct call){.kind = SHUTDOWN};
    int64_t due = clock_ns(CLOCK_MONOTONIC);
    for (struct call *call = schedule->calls; call < schedule->calls + schedule->count; call++) {
        due += call->delay_us * 1000;
        if (call->delay_us)
            sleep_until_ns(due);
        call->start_ns = clock_ns(CLOCK_REALTIME);
        make_call(fd, call);
        call->end_ns = clock_ns(CLOCK_REALTIME);
        if (call->kind == READ)
            due = clock_ns(CLOCK_MONOTONIC);
    }
    /* Replies that the schedule did not read are not of interest. */
    while (receive(fd, unread, sizeof unread, 0) > 0)
        continue;
    close(fd);
    return NULL;
}

static void print_schedule(size_t number, const struct schedule *schedule) {
    struct json j = json_start(stdout, false);
    json_int(&j, "schedule", (int64_t)number);
    json_int(&j, "port", schedule->port);
    json_int(&j, "mss_bytes", schedule->mss);
    json_array(&j, "calls");
    for (const struct call *call = schedule->calls; call < schedule->calls + schedule->count;
         call++) {
        json_object(&j, NULL);
        json_string(&j, "call", call->kind == SHUTDOWN ? "shutdown" : call_names[call->kind]);
        json_int(&j, is_option(call->kind) ? "value" : "bytes", (int64_t)call->bytes);
        json_int(&j, "start_ns", call->start_ns);
        json_int(&j, "end_ns", call->end_ns);
        json_end_object(&j);
    }
    json_end_array(&j);
    json_finish(&j);
}

static void play_all(struct schedule *schedules, size_t count) {
    int64_t start = clock_ns(CLOCK_MONOTONIC);
    for (size_t i = 0; i < count; i++) {
        schedules[i].start_ns = start + (int64_t)i * stagger_us * 1000;
        if ((errno = pthread_create(&schedules[i].thread, NULL, play, &schedules[i])))
            fail("starting a thread");
    }
    for (size_t i = 0; i < count; i++)
        pthread_join(schedules[i].thread, NULL);
}

int main(int argc, char **argv) {
    char **arguments = start_program(argc, argv, &command);
    host = arguments[0];
    static struct schedule schedules[MAX_SCHEDULES];
    size_t count = 0;
    for (char **schedule = arguments + 1; *schedule; schedule++)
        schedules[count++] = parse_schedule(*schedule);

    play_all(schedules, count);
    for (size_t i = 0; i < count; i++)
        print_schedule(i, &schedules[i]);
}
