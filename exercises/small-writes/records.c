/*
 * records - send COUNT records over TCP, one every 20 ms.
 *
 *     records ADDRESS PORT COUNT
 *
 * A record is | length (2 bytes) | number (4 bytes) | text ... |, with numbers in network byte order.
 * Record i has 20 + STEP_BYTES i modulo 81 bytes. The course's recordsink reads this format.
 *
 * Your task: send each record as one segment, at once. No record may leave in pieces, or wait until
 * other data is acknowledged. The bytes that arrive must stay the same, and so must the pause. Only
 * send_record() and open_connection() need to change.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { HEADER = 6, MOST = 100, STEP_BYTES = 64 };

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void send_all(int fd, const void *data, size_t size) {
    for (const char *at = data; size > 0;) {
        ssize_t sent = send(fd, at, size, 0);
        if (sent < 0)
            fail("send");
        at += sent;
        size -= (size_t)sent;
    }
}

/* Sends one record of `length` bytes: its length, its number, and text up to the length. */
static void send_record(int fd, uint16_t length, uint32_t number) {
    uint16_t wire_length = htons(length);
    uint32_t wire_number = htonl(number);
    char text[MOST];
    memset(text, 'r', sizeof text);
    send_all(fd, &wire_length, sizeof wire_length);
    send_all(fd, &wire_number, sizeof wire_number);
    send_all(fd, text, length - HEADER);
}

static int open_connection(const char *address, const char *port) {
    struct sockaddr_in server = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    if (inet_pton(AF_INET, address, &server.sin_addr) != 1)
        fail("ADDRESS");
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&server, sizeof server) < 0)
        fail("connect");
    return fd;
}

int main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: records ADDRESS PORT COUNT\n");
        return 2;
    }
    int fd = open_connection(argv[1], argv[2]);
    const struct timespec pause = {.tv_nsec = 20 * 1000 * 1000};
    for (uint32_t i = 0; i < (uint32_t)atoi(argv[3]); i++) {
        send_record(fd, (uint16_t)(20 + STEP_BYTES * i % 81), i);
        nanosleep(&pause, NULL);
    }
    /* Ends the stream, and waits until the receiver has read everything. */
    shutdown(fd, SHUT_WR);
    char end;
    while (read(fd, &end, 1) > 0)
        ;
    close(fd);
    return 0;
}
