/*
 * meter - accept one connection, read until its end, and report how fast the data came.
 *
 *     meter PORT
 *
 * The last line of the output is
 *
 *     meter METER_NUMBER: BYTES bytes in SECONDS s, RATE MB/s
 *
 * The seconds count from the arrival of the first bytes to that of the last bytes. A sender may
 * wait before it begins, and may keep the connection open after its last byte. A MB is 10^6 bytes.
 *
 * Your task: correct all three numbers, which are wrong today. Only measure() and the last line of
 * main() need to change.
 */
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK_BYTES = 16384, METER_NUMBER = 642 };

struct transfer {
    int64_t bytes;
    double seconds;
};

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Reads everything that arrives. */
static struct transfer measure(int fd) {
    static char block[BLOCK_BYTES];
    struct transfer found = {0};
    ssize_t got;
    double start_s = now_s();
    while ((got = read(fd, block, sizeof block)) > 0) {
        found.bytes += BLOCK_BYTES;
    }
    found.seconds = now_s() - start_s;
    if (got < 0)
        fail("read");
    return found;
}

static int take_connection(const char *port) {
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    if (listener < 0 || setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0)
        fail("socket");
    if (bind(listener, (struct sockaddr *)&own, sizeof own) < 0 || listen(listener, 1) < 0)
        fail("listen");
    int fd = accept(listener, NULL, NULL);
    if (fd < 0)
        fail("accept");
    close(listener);
    return fd;
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: meter PORT\n");
        return 2;
    }
    int fd = take_connection(argv[1]);
    struct transfer found = measure(fd);
    double rate = (double)found.bytes / found.seconds / (1 << 20);
    printf("meter %d: %lld bytes in %.6f s, %.6f MB/s\n", METER_NUMBER, (long long)found.bytes,
           found.seconds, rate);
    close(fd);
    return 0;
}
