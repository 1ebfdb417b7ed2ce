/*
 * sendfile_server - receive a file over TCP.
 *
 *     sendfile_server [-o FILE] [OPTION]...
 *
 * It listens on port 9000 for a sendfile_client, or any program that sends and closes, and writes
 * the data to FILE. In a ChinaUnix blog entry of 2006 on sendfile(), the receiver wrote to its
 * disk, and so the author measured that, too. Without -o the bytes go to /dev/null, and with
 * --discard they do not even enter this program (MSG_TRUNC in tcp(7)).
 *
 * With -j N, it accepts N connections and writes them to FILE.1 ... FILE.N at the same time. --most
 * BYTES is for untrusted senders: a connection that sends more is aborted.
 */
#include "net.h"

#include <fcntl.h>
#include <pthread.h>

enum { READ_BYTES = 131072, MAX_CONNECTIONS = 256 };

static const char *output;
static int64_t connections = 1, header_bytes, most_bytes = INT64_MAX;
static bool discard;

static const struct program_option options[MAX_OPTIONS] = {
    {NULL, 'o', "FILE", "write the data here; by default to /dev/null", .text = &output},
    {"discard", 'S', NULL, "discard the data in the kernel (MSG_TRUNC)", .flag = &discard},
    {NULL, 'j', "N", "take N connections at the same time", .number = &connections, .min = 1,
     .max = MAX_CONNECTIONS},
    {"most", 0, "BYTES", "abort a connection that sends more", .number = &most_bytes, .min = 1,
     .max = 0x1p39},
    {"header", 0, "BYTES", "skip this many bytes before the file", .number = &header_bytes,
     .max = 1 << 20},
};

static const struct command command = {
    .usage = "sendfile_server [OPTION]...",
    .summary = "Receives the file of a sendfile_client.",
    .options = options,
    .tcp = true,
    .listens = true,
    .port = "listen here; 0 takes a free one",
};

static int64_t bytes, reads, writes;

/* One connection, and its data. */
struct transfer {
    pthread_t thread;
    int fd, file;
    char path[4096];
    int64_t bytes, reads, writes;
};

/* Opens the file before the connection, so that a bad path is reported early. */
static void open_output(struct transfer *t, int number) {
    const char *name = output ? output : "/dev/null";
    int length = connections == 1 || !output
                     ? snprintf(t->path, sizeof t->path, "%s", name)
                     : snprintf(t->path, sizeof t->path, "%s.%d", name, number + 1);
    if (length >= (int)sizeof t->path)
        usage_error("-o: the path is too long");
    t->file = open(t->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (t->file < 0)
        fail("-o %s", t->path);
}

/* ---- receiving ---- */

static void skip_header(struct transfer *t) {
    char *header = allocate((size_t)header_bytes + 1, 1);
    size_t got = receive_all(t->fd, header, (size_t)header_bytes, &t->reads);
    if (got < (size_t)header_bytes)
        fail_because("the connection ended after %zu of the %lld bytes of --header", got,
                     (long long)header_bytes);
    free(header);
}

static void write_out(struct transfer *t, const char *data, size_t size) {
    while (size > 0) {
        ssize_t written = write(t->file, data, size);
        t->writes++;
        if (written < 0 && errno != EINTR)
            fail("writing %s", t->path);
        if (written > 0) {
            data += written;
            size -= (size_t)written;
        }
    }
}

static void *receive_file(void *argument) {
    struct transfer *t = argument;
    char *buffer = allocate(READ_BYTES, 1);
    skip_header(t);
    for (size_t got; (got = receive(t->fd, buffer, READ_BYTES, discard ? MSG_TRUNC : 0));) {
        t->reads++;
        t->bytes += (int64_t)got;
        if (t->bytes > most_bytes)
            fail_because("more than the %lld bytes of --most came", (long long)most_bytes);
        if (!discard)
            write_out(t, buffer, got);
    }
    /* Some file systems report a full disk only now. */
    if (close(t->file) < 0)
        fail("writing %s", t->path);
    free(buffer);
    return NULL;
}

/* The clock starts when the first sender has connected. */
static struct measurement receive_files(int listener, struct transfer *transfers) {
    struct measurement m = {.start = {0}};
    for (int i = 0; i < connections; i++) {
        transfers[i].fd = accept_from(listener);
        if (i == 0)
            m = start_measuring(transfers[i].fd);
        if ((errno = pthread_create(&transfers[i].thread, NULL, receive_file, &transfers[i])))
            fail("thread %d of -j", i + 1);
    }
    for (int i = 0; i < connections; i++) {
        pthread_join(transfers[i].thread, NULL);
        if (i == 0)
            m.info = read_tcp_info(transfers[i].fd);
        close(transfers[i].fd); /* signals to the sender that all was read */
        bytes += transfers[i].bytes;
        reads += transfers[i].reads;
        writes += transfers[i].writes;
    }
    m.end = usage_now();
    return m;
}

static const struct result_field fields[MAX_FIELDS] = {
    {"bytes", .whole = &bytes},    {"connections", .whole = &connections},
    {"reads", .whole = &reads},    {"writes", .whole = &writes},
    {"discard", .flag = &discard}, {"mb_per_s", MB_PER_S(bytes)},
};

int main(int argc, char **argv) {
    start_program(argc, argv, &command);
    if (output && discard)
        usage_error("-o and --discard: what is thrown away cannot be written");
    static struct transfer transfers[MAX_CONNECTIONS];
    for (int i = 0; i < connections; i++)
        open_output(&transfers[i], i);

    int listener = listen_on(SOCK_STREAM, common.port, NULL, stdout);
    struct measurement m = receive_files(listener, transfers);
    print_result(stdout, fields, &m);
}
