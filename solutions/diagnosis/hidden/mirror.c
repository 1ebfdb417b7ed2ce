/*
 * mirror - receive one file from a sender, and print its length and its checksum.
 *
 *     mirror PORT
 *
 * The last line of the output is {"bytes": B, "checksum": C}, where C begins with 0 and becomes
 * C * FACTOR + byte modulo 2^32 with each byte.
 *
 * It sets the options that all of our servers set. Over a link that holds more than 100 kB, it is
 * as slow as if the link were several times as long. The sender is not at fault.
 *
 * Your task: make the link the only limit. In the second half of the transfer, the window that
 * mirror offers must be at least as large as what the link holds. Read and add up every byte.
 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BLOCK_BYTES = 8192, FACTOR = 91 };

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void set_option(int fd, int level, int name, int value) {
    if (setsockopt(fd, level, name, &value, sizeof value) < 0)
        fail("setsockopt");
}

/* All our servers set this on their listening socket; connections inherit it. */
static const struct {
    int level, name, value;
} house_options[] = {
    {SOL_SOCKET, SO_REUSEADDR, 1},
    {SOL_SOCKET, SO_KEEPALIVE, 1},
    /* BEGIN SOLUTION */
    /* END SOLUTION */
    /* STUB
    {SOL_SOCKET, SO_RCVBUF, 2 * BLOCK_BYTES},
    */
    {IPPROTO_TCP, TCP_NODELAY, 1},
};

static int take_connection(const char *port) {
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (listener < 0)
        fail("socket");
    for (size_t i = 0; i < sizeof house_options / sizeof *house_options; i++)
        set_option(listener, house_options[i].level, house_options[i].name, house_options[i].value);
    if (bind(listener, (struct sockaddr *)&own, sizeof own) < 0 || listen(listener, 1) < 0)
        fail("listen");
    int fd = accept(listener, NULL, NULL);
    if (fd < 0)
        fail("accept");
    return fd;
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: mirror PORT\n");
        return 2;
    }
    int fd = take_connection(argv[1]);
    static unsigned char block[BLOCK_BYTES];
    long long bytes = 0;
    uint32_t checksum = 0;
    ssize_t got;
    while ((got = read(fd, block, sizeof block)) > 0) {
        for (ssize_t i = 0; i < got; i++)
            checksum = checksum * FACTOR + block[i];
        bytes += got;
    }
    if (got < 0)
        fail("read");
    printf("{\"bytes\": %lld, \"checksum\": %u}\n", bytes, checksum);
    return 0;
}
