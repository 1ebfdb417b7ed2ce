/*
 * sendfile_client - send a file over TCP in five ways, and measure the cost of each.
 *
 *     sendfile_client [-m METHOD] [-s BLOCK] [OPTION]... HOST FILE
 *
 * The author of a ChinaUnix blog entry of 2006 replaced read() and send() by sendfile(), and saw no
 * difference for files of 9, 32 and 64 MB. His 100 Mbit/s network was the bottleneck, and a clock
 * does not show the CPU's work. So this program also reports system calls, context switches, page
 * faults and CPU seconds per GB. The methods differ in what happens to each byte:
 *
 *     read       copied from the page cache to our buffer, and from there to the socket
 *     mmap       copied once: our memory is the page cache; touching new pages costs faults
 *     sendfile   not copied: the socket refers to the pages of the cache
 *     splice     the same in two calls, through a pipe
 *     zerocopy   mmap, and send() with MSG_ZEROCOPY: usually not copied. The kernel reports if it
 *                had to copy after all, as it always does on loopback and veth
 *
 * By default a call takes at most 4096 bytes for read, as in the text, everything for sendfile and
 * 131072 for the others; -s changes that. --header sends a few bytes before the file in a separate
 * send(), like web servers. They leave in a small segment, unless --cork or --more announces more
 * data. --cache cold first drops the file from the page cache, and warm reads it in; mincore(2)
 * verifies that.
 */
#define _GNU_SOURCE
#include "net.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/sendfile.h>

/* No call of sendfile(2) transfers more than this. */
enum { MOST_AT_ONCE = 0x7ffff000, SOME = 131072, MAX_FDS = 256 };

enum method { READ, MMAP, SENDFILE, SPLICE, ZEROCOPY };
static const char *const method_names[] = {"read", "mmap", "sendfile", "splice", "zerocopy", NULL};
static const int64_t usual_block_bytes[] = {4096, SOME, MOST_AT_ONCE, SOME, SOME};

static const char *path;
static int method = SENDFILE, cache = CACHE_ASIS;
static int64_t block_bytes, header_bytes, connections = 1;
static bool cork, leave_corked, more;

static const struct program_option options[MAX_OPTIONS] = {
    {"method", 'm', "HOW", "way to send the file", .choice = &method, .names = method_names},
    {NULL, 's', "BYTES", "most bytes in one call", .number = &block_bytes, .min = 1,
     .max = MOST_AT_ONCE},
    {NULL, 'j', "N", "connections at a time", .number = &connections, .min = 1, .max = MAX_FDS},
    {"header", 0, "BYTES", "send this many bytes before the file", .number = &header_bytes,
     .max = 1 << 20},
    {"cork", 0, NULL, "hold partial segments back to the end (TCP_CORK)", .flag = &cork},
    {"leave-corked", 0, NULL, "set TCP_CORK and never clear it", .flag = &leave_corked},
    {"more", 0, NULL, "announce more data after the header (MSG_MORE)", .flag = &more},
    {"cache", 0, "STATE", "page cache at the start", .choice = &cache, .names = cache_names},
};

static const struct command command = {
    .usage = "sendfile_client [OPTION]... HOST FILE",
    .summary = "Sends a file to a sendfile_server, and reports what it cost.",
    .options = options,
    .arguments = {2, 2},
    .tcp = true,
    .port = "the receiver's port",
    .nodelay = true,
};

static int file;
static int64_t file_bytes;
/* Counts of all connections; with -j each has a thread. */
static _Atomic int64_t system_calls, zerocopy_sends, zerocopy_copied;

/* ---- the five methods ---- */

static size_t block_at(int64_t offset) {
    int64_t left = file_bytes - offset;
    return (size_t)(left < block_bytes ? left : block_bytes);
}

/* Returns a call's transfer; ends the program if it failed, or if the file has shrunk. */
static int64_t check(ssize_t result, const char *call) {
    system_calls++;
    if (result < 0 && errno == EINTR)
        return 0;
    if (result < 0)
        fail_transfer(call);
    if (result == 0)
        fail_because("%s became shorter while it was sent", path);
    return result;
}

static char *map_file(void) {
    char *mapping = mmap(NULL, (size_t)file_bytes, PROT_READ, MAP_SHARED, file, 0);
    if (mapping == MAP_FAILED)
        fail("mmap of %s", path);
    return mapping;
}

static void send_by_read(int fd) {
    char *buffer = allocate_pages((size_t)block_bytes);
    for (int64_t at = 0; at < file_bytes;) {
        int64_t got = check(pread(file, buffer, block_at(at), at), "reading the file");
        system_calls += send_all(fd, buffer, (size_t)got, 0);
        at += got;
    }
}

static void send_by_mmap(int fd) {
    const char *mapping = map_file();
    for (int64_t at = 0; at < file_bytes; at += (int64_t)block_at(at))
        system_calls += send_all(fd, mapping + at, block_at(at), 0);
}

static void send_by_sendfile(int fd) {
    /* sendfile() advances `at`, sometimes by less than requested. */
    for (off_t at = 0; at < file_bytes;)
        check(sendfile(fd, file, &at, block_at(at)), "sendfile");
}

static void send_by_splice(int fd) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        fail("pipe");
    /* Request a pipe of a block's size if that is allowed; a smaller one only means more calls. */
    (void)fcntl(ends[1], F_SETPIPE_SZ, (int)(block_bytes < 1 << 20 ? block_bytes : 1 << 20));
    for (off_t at = 0; at < file_bytes;) {
        int64_t in = check(splice(file, &at, ends[1], NULL, block_at(at), 0), "splice to the pipe");
        unsigned flags = at < file_bytes ? SPLICE_F_MORE : 0;
        while (in > 0)
            in -= check(splice(ends[0], NULL, fd, NULL, (size_t)in, flags), "splice to the socket");
    }
    close(ends[0]);
    close(ends[1]);
}

static void send_by_zerocopy(int fd) {
    const char *mapping = map_file();
    struct zerocopy z = {0};
    set_option(fd, SOL_SOCKET, SO_ZEROCOPY, 1, "SO_ZEROCOPY");
    for (int64_t at = 0; at < file_bytes;) {
        ssize_t sent = send(fd, mapping + at, block_at(at), MSG_ZEROCOPY);
        if (sent < 0 && errno == ENOBUFS) { /* too many reports are outstanding */
            system_calls++;
            await_zerocopy(fd, &z);
            continue;
        }
        z.sends += sent > 0;
        at += check(sent, "sending");
    }
    while (z.done < z.sends)
        await_zerocopy(fd, &z);
    system_calls += z.system_calls;
    zerocopy_sends += z.sends;
    zerocopy_copied += z.copied;
}

static void send_header(int fd) {
    char *header = allocate((size_t)header_bytes + 1, 1);
    memset(header, 'h', (size_t)header_bytes);
    system_calls += send_all(fd, header, (size_t)header_bytes, more ? MSG_MORE : 0);
    free(header);
}

static void *send_file(void *fd_pointer) {
    static void (*const methods[])(int) = {send_by_read, send_by_mmap, send_by_sendfile,
                                           send_by_splice, send_by_zerocopy};
    int fd = *(int *)fd_pointer;
    if (cork || leave_corked)
        set_option(fd, IPPROTO_TCP, TCP_CORK, 1, "TCP_CORK");
    send_header(fd);
    if (file_bytes > 0)
        methods[method](fd);
    if (cork)
        set_option(fd, IPPROTO_TCP, TCP_CORK, 0, "TCP_CORK");
    system_calls += cork ? 2 : leave_corked;
    finish_sending(fd, "the receiver");
    return NULL;
}

static void send_all_files(int *fds) {
    pthread_t threads[MAX_FDS];
    for (int i = 1; i < connections; i++) {
        if ((errno = pthread_create(&threads[i], NULL, send_file, &fds[i])))
            fail("thread %d of -j", i + 1);
    }
    send_file(&fds[0]);
    for (int i = 1; i < connections; i++)
        pthread_join(threads[i], NULL);
}

static int64_t bytes, calls, zerocopy_calls, copied_calls;
static double cached_share, cpu_s_per_gb;

static const struct result_field fields[MAX_FIELDS] = {
    {"method", .choice = &method, .names = method_names},
    {"bytes", .whole = &bytes},
    {"file_bytes", .whole = &file_bytes},
    {"header_bytes", .whole = &header_bytes},
    {"block_bytes", .whole = &block_bytes},
    {"connections", .whole = &connections},
    {"cache", .choice = &cache, .names = cache_names},
    {"cached_share", .decimal = &cached_share},
    {"mb_per_s", MB_PER_S(bytes)},
    {"cpu_s_per_gb", .decimal = &cpu_s_per_gb},
    {"system_calls", .whole = &calls},
    {"zerocopy_sends", .whole = &zerocopy_calls},
    {"zerocopy_copied", .whole = &copied_calls},
};

int main(int argc, char **argv) {
    char **arguments = start_program(argc, argv, &command);
    if (!block_bytes)
        block_bytes = usual_block_bytes[method];
    path = arguments[1];
    file = open_regular_file(path, &file_bytes);

    int fds[MAX_FDS];
    for (int i = 0; i < connections; i++)
        fds[i] = connect_to(SOCK_STREAM, arguments[0], common.port, NULL);
    cached_share = prepare_cache(file, path, cache);

    struct measurement m = start_measuring(fds[0]);
    send_all_files(fds);
    stop_measuring(&m, fds[0]);

    bytes = connections * (file_bytes + header_bytes);
    cpu_s_per_gb = cpu_s(&m) / (double)bytes * 1e9;
    calls = system_calls;
    zerocopy_calls = zerocopy_sends;
    copied_calls = zerocopy_copied;
    print_result(stdout, fields, &m);
}
