/*
 * sender - send as much as this path takes, and let nothing wait on the way.
 *
 *     sender ADDRESS PORT SECONDS SNDBUF_BYTES
 *
 * The beginning of an entry for the leaderboard: it writes without a pause to one TCP connection
 * for so many seconds, and ends. SNDBUF_BYTES is 0 where the kernel is to choose. The receiver
 * reads everything at once. Counted are the bytes that arrive, and the time from when each left
 * this host for the first time to when it arrived.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static int open_connection(const char *address, const char *port, int sndbuf_bytes) {
    struct sockaddr_in server = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    if (inet_pton(AF_INET, address, &server.sin_addr) != 1)
        fail("ADDRESS");
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0)
        fail("socket");
    if (sndbuf_bytes > 0 &&
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &sndbuf_bytes, sizeof sndbuf_bytes) < 0)
        fail("SO_SNDBUF");
    if (connect(fd, (struct sockaddr *)&server, sizeof server) < 0)
        fail("connect");
    return fd;
}

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(int argc, char **argv) {
    if (argc != 5) {
        fprintf(stderr, "usage: sender ADDRESS PORT SECONDS SNDBUF_BYTES\n");
        return 2;
    }
    static char block[16384];
    int fd = open_connection(argv[1], argv[2], atoi(argv[4]));
    double end_s = now_s() + atof(argv[3]);
    while (now_s() < end_s)
        if (send(fd, block, sizeof block, 0) < 0)
            fail("send");
    close(fd);
    return 0;
}
