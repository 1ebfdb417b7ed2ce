/*
 * sink - accept one connection, read until its end, and report the granted buffer and the bytes.
 *
 *     sink PORT RTT_MS RATE_MBIT
 *
 * The last two arguments describe the path to the sender: its round-trip time in ms, and the rate
 * of its slowest link in Mbit/s (10^6 bits per second). Both are whole numbers.
 *
 * The stream begins with a label of LABEL_BYTES bytes, which is not part of the data.
 *
 * Your task: make the receive buffer suit the path. The window that it allows must let at least
 * 90 % of the link's rate through, and half of that window must not. TCP must know the size before
 * the sender learns the window, and the output must report the size that the kernel granted, not
 * the requested size. Only rcvbuf_for(), set_rcvbuf() and main() need to change. Do not change the
 * form of the output.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LABEL_BYTES = 312 };

static void fail(const char *what) {
    perror(what);
    exit(1);
}

/* Returns the size to request with SO_RCVBUF, in bytes, on such a path. */
static int rcvbuf_for(int64_t rtt_ms, int64_t rate_mbit) {
    /* BEGIN SOLUTION */
    /*
     * The path holds RATE x RTT: 10^6 bits a second x 10^-3 s is 1000 bits, 125 bytes. The kernel
     * doubles the request, and 5/8 of that is window (on kernels before 6.6 it is one half): a
     * window of 1.25 (1.0) times what the path holds, with some room for whole segments.
     */
    return (int)(rate_mbit * rtt_ms * 125);
    /* END SOLUTION */
    /* STUB
    (void)rtt_ms;
    (void)rate_mbit;
    return 16384;
    */
}

/* Requests a receive buffer; returns the granted size. */
static int set_rcvbuf(int fd, int bytes) {
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes) < 0)
        fail("SO_RCVBUF");
    /* BEGIN SOLUTION */
    int granted = 0;
    socklen_t size = sizeof granted;
    if (getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &granted, &size) < 0)
        fail("SO_RCVBUF");
    return granted;
    /* END SOLUTION */
    /* STUB
    return bytes;
    */
}

static int open_listener(uint16_t port) {
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons(port)};
    int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0)
        fail("socket");
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0)
        fail("SO_REUSEADDR");
    if (bind(fd, (struct sockaddr *)&here, sizeof here) < 0)
        fail("bind");
    return fd;
}

static int take_connection(int listener) {
    if (listen(listener, 1) < 0)
        fail("listen");
    int fd = accept(listener, NULL, NULL);
    if (fd < 0)
        fail("accept");
    return fd;
}

/* Reads and discards the stream to its end; returns the number of bytes after the label. */
static int64_t read_until_end(int fd) {
    static char block[65536];
    int64_t bytes = 0;
    ssize_t got;
    while ((got = read(fd, block, sizeof block)) > 0)
        bytes += got;
    if (got < 0)
        fail("read");
    return bytes - LABEL_BYTES;
}

int main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: sink PORT RTT_MS RATE_MBIT\n");
        return 2;
    }
    int rcvbuf_bytes = rcvbuf_for(atoi(argv[2]), atoi(argv[3]));
    int listener = open_listener((uint16_t)atoi(argv[1]));
    /* BEGIN SOLUTION */
    /* The SYN-ACK carries the window scale, and accept() comes after it. */
    int granted = set_rcvbuf(listener, rcvbuf_bytes);
    int fd = take_connection(listener);
    /* END SOLUTION */
    /* STUB
    int fd = take_connection(listener);
    int granted = set_rcvbuf(fd, rcvbuf_bytes);
    */
    int64_t bytes = read_until_end(fd);
    close(fd);
    printf("receive buffer of %d bytes, received %lld bytes\n", granted, (long long)bytes);
    return 0;
}
