/*
 * filerecv - receive a file over TCP.
 *
 *     filerecv [-o FILE] [OPTION]...
 *
 * Listens on port 9000 for a filesend, or anything that sends and closes, and writes what comes to
 * FILE. From a ChinaUnix blog entry of 2006 on sendfile(), whose receiver wrote to its disk and so
 * measured that, too: without -o the bytes go to /dev/null, and with --discard not even to this
 * program (MSG_TRUNC in tcp(7)).
 *
 * With -j N, N connections are taken and written to FILE.1 ... FILE.N at the same time.
 */
#define _GNU_SOURCE
#include "net.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *port = "9000", *output, *sha256;
static int64_t rcvbuf_bytes, read_bytes = 131072, connections = 1, header_bytes;
static bool discard;

static const struct program_option options[] = {
    {NULL, 'o', "FILE", "write it here; by default to /dev/null", .text = &output},
    {"discard", 'S', NULL, "throw the data away in the kernel (MSG_TRUNC)", .flag = &discard},
    {NULL, 'b', "BYTES", "SO_RCVBUF", BUFFER_SIZE(rcvbuf_bytes)},
    {NULL, 'r', "BYTES", "size of a read", .number = &read_bytes, .min = 1, .max = 1 << 24},
    {NULL, 'j', "N", "take N connections at the same time", .number = &connections, .min = 1,
     .max = 256},
    {"port", 'p', "PORT", "listen here; 0 takes a free one", .text = &port},
    {"header", 0, "BYTES", "leave out so many before the file", .number = &header_bytes,
     .max = 1 << 20},
    {"sha256", 0, "HEX", "fail unless the file written has this SHA-256", .text = &sha256},
    {.help = NULL},
};

static const struct command command = {
    .usage = "filerecv [OPTION]...",
    .summary = "Receives the file of a filesend.",
    .options = options,
    .tcp = true,
    .listens = true,
};

static int granted_bytes;

/* One connection, and what came over it. */
struct transfer {
    pthread_t thread;
    int fd, file;
    char path[4096];
    int64_t bytes, reads, writes;
};

static void check_choices(void) {
    if (output && discard)
        usage_error("-o and --discard: what is thrown away cannot be written");
    if (sha256 && !output)
        usage_error("--sha256 needs -o FILE, since it looks at the file");
    if (sha256 && (strlen(sha256) != 64 || sha256[strspn(sha256, "0123456789abcdef")] != '\0'))
        usage_error("--sha256: '%s' is not 64 digits of 0-9, a-f", sha256);
}

static void prepare(int fd) {
    if (rcvbuf_bytes)
        set_option(fd, SOL_SOCKET, SO_RCVBUF, rcvbuf_bytes, "SO_RCVBUF");
    granted_bytes = get_option(fd, SOL_SOCKET, SO_RCVBUF, "SO_RCVBUF");
}

/* Before the connection, so that a path that does not work is known early. */
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
    char *buffer = allocate((size_t)read_bytes, 1);
    skip_header(t);
    for (size_t got; (got = receive(t->fd, buffer, (size_t)read_bytes, discard ? MSG_TRUNC : 0));) {
        t->reads++;
        t->bytes += (int64_t)got;
        if (!discard)
            write_out(t, buffer, got);
    }
    /* Some file systems tell only now that the disk is full. */
    if (close(t->file) < 0)
        fail("writing %s", t->path);
    free(buffer);
    return NULL;
}

/* The clock starts when the first sender has come. */
static struct usage receive_files(int listener, struct transfer *transfers,
                                  struct socket_options *granted, struct tcp_info *info) {
    struct usage start = {0};
    for (int i = 0; i < connections; i++) {
        transfers[i].fd = accept_from(listener);
        if (i == 0) {
            *granted = read_options(transfers[i].fd);
            start = usage_now();
        }
        if (pthread_create(&transfers[i].thread, NULL, receive_file, &transfers[i]) != 0)
            fail("thread %d of -j", i + 1);
    }
    for (int i = 0; i < connections; i++) {
        pthread_join(transfers[i].thread, NULL);
        if (i == 0)
            *info = read_tcp_info(transfers[i].fd);
        close(transfers[i].fd); /* the sender takes this as the news that all was read */
    }
    return usage_since(&start);
}

/* The file that was written, not the bytes that came, and by another program than this one. */
static void check_sum(const char *path) {
    char shell_command[64], digest[65] = "";
    int fd = open(path, O_RDONLY);
    if (fd < 0)
        fail("%s", path);
    snprintf(shell_command, sizeof shell_command, "sha256sum <&%d", fd);
    FILE *sum = popen(shell_command, "re");
    if (!sum || fread(digest, 1, 64, sum) != 64 || pclose(sum) != 0)
        fail_because("sha256sum of %s did not work", path);
    if (strcmp(digest, sha256) != 0)
        fail_because("%s has the SHA-256 %s, not %s", path, digest, sha256);
    close(fd);
}

static struct transfer sum_of(const struct transfer *transfers) {
    struct transfer sum = {0};
    for (int i = 0; i < connections; i++) {
        sum.bytes += transfers[i].bytes;
        sum.reads += transfers[i].reads;
        sum.writes += transfers[i].writes;
    }
    return sum;
}

static void print_json(const struct socket_options *granted, const struct tcp_info *info,
                       const struct usage *used, const struct transfer *sum) {
    struct json j = json_result(stdout, used);
    json_int(&j, "bytes", sum->bytes);
    json_int(&j, "connections", connections);
    json_int(&j, "reads", sum->reads);
    json_int(&j, "writes", sum->writes);
    json_bool(&j, "discard", discard);
    json_double(&j, "mb_per_s", mb_per_s(sum->bytes, used));
    json_int(&j, "rcvbuf_requested_bytes", rcvbuf_bytes);
    json_int(&j, "rcvbuf_granted_bytes", granted_bytes);
    json_end_result(&j, granted, info);
}

static void print_text(const struct socket_options *granted, const struct usage *used,
                       const struct transfer *sum) {
    print_options(stdout, granted);
    print_buffer(stdout, "receive", rcvbuf_bytes, granted_bytes);
    printf("%lld bytes in %lld reads, %lld writes: ", (long long)sum->bytes, (long long)sum->reads,
           (long long)sum->writes);
    print_usage(stdout, used);
    printf("\n%.1f MB/s\n", mb_per_s(sum->bytes, used));
    finish_output(stdout);
}

int main(int argc, char **argv) {
    start_program();
    parse_command_line(argc, argv, &command);
    check_choices();
    pin_to_cpu();
    struct transfer *transfers = allocate((size_t)connections, sizeof *transfers);
    for (int i = 0; i < connections; i++)
        open_output(&transfers[i], i);

    int listener = listen_on(SOCK_STREAM, port, prepare);
    announce(stdout, listener);
    struct socket_options granted;
    struct tcp_info info;
    struct usage used = receive_files(listener, transfers, &granted, &info);
    for (int i = 0; sha256 && i < connections; i++)
        check_sum(transfers[i].path);

    struct transfer sum = sum_of(transfers);
    if (common.json)
        print_json(&granted, &info, &used, &sum);
    else
        print_text(&granted, &used, &sum);
    free(transfers);
}
