/*
 * respond - send COUNT answers over one TCP connection, one every 25 ms.
 *
 *     respond ADDRESS PORT FILE COUNT
 *
 * A server builds an answer from several places: a header, a part of FILE, and a trailer. Answer i
 * has
 *
 *     | number i (4 bytes) | bytes of the part (4 bytes) | blanks ... |   30 + 11 i modulo 61 bytes
 *     | a part of the file, which begins where the last one ended |      1500 + STEP_BYTES i modulo 400
 *     | "end of answer" |                                                13
 *
 * with numbers in network byte order. The connection stays open between the answers.
 *
 * Your task: send each answer at once, in as few segments as possible. No piece travels alone, and
 * the end of an answer waits neither for an ACK nor for the next answer. The bytes that arrive must
 * stay the same, and so must the pause. Only send_answer() and open_connection() need to change.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MOST_HEADER = 90, STEP_BYTES = 147 };

static const char trailer[] = "end of answer";

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

static void send_part(int fd, int file, off_t *offset, size_t size) {
    while (size > 0) {
        ssize_t sent = sendfile(fd, file, offset, size);
        if (sent <= 0)
            fail("sendfile");
        size -= (size_t)sent;
    }
}
/* BEGIN SOLUTION */

static void set_option(int fd, int option, int value) {
    if (setsockopt(fd, IPPROTO_TCP, option, &value, sizeof value) < 0)
        fail("setsockopt");
}
/* END SOLUTION */

static void send_answer(int fd, int file, off_t *offset, uint32_t number) {
    size_t header_bytes = 30 + 11 * number % 61, part_bytes = 1500 + STEP_BYTES * number % 400;
    uint32_t numbers[2] = {htonl(number), htonl((uint32_t)part_bytes)};
    char header[MOST_HEADER];
    memset(header, ' ', sizeof header);
    memcpy(header, numbers, sizeof numbers);
    /* BEGIN SOLUTION */
    set_option(fd, TCP_CORK, 1);
    /* END SOLUTION */
    send_all(fd, header, header_bytes);
    send_part(fd, file, offset, part_bytes);
    send_all(fd, trailer, strlen(trailer));
    /* BEGIN SOLUTION */
    set_option(fd, TCP_CORK, 0);
    /* END SOLUTION */
}

static int open_connection(const char *address, const char *port) {
    struct sockaddr_in server = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    if (inet_pton(AF_INET, address, &server.sin_addr) != 1)
        fail("ADDRESS");
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&server, sizeof server) < 0)
        fail("connect");
    /* BEGIN SOLUTION */
    /* Without this, Nagle's algorithm may hold the data even after the cork is pulled. */
    set_option(fd, TCP_NODELAY, 1);
    /* END SOLUTION */
    return fd;
}

int main(int argc, char **argv) {
    if (argc != 5) {
        fprintf(stderr, "usage: respond ADDRESS PORT FILE COUNT\n");
        return 2;
    }
    int file = open(argv[3], O_RDONLY);
    if (file < 0)
        fail(argv[3]);
    int fd = open_connection(argv[1], argv[2]);
    const struct timespec pause = {.tv_nsec = 25 * 1000 * 1000};
    off_t offset = 0;
    for (uint32_t i = 0; i < (uint32_t)atoi(argv[4]); i++) {
        send_answer(fd, file, &offset, i);
        nanosleep(&pause, NULL);
    }
    /* Ends the stream, and waits until the receiver has read everything. */
    shutdown(fd, SHUT_WR);
    char end;
    while (recv(fd, &end, 1, 0) > 0)
        ;
    close(fd);
    return 0;
}
