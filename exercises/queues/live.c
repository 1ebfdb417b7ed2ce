/*
 * live - send the newest state and every event, as often as the path allows.
 *
 *     live ADDRESS PORT
 *
 * The receiver sends 4-byte numbers in network byte order, each larger than the last. An even
 * number is a state of the world, such as the place of a player. It replaces all states before it.
 * An odd number is an event, such as a shot. No number replaces it. The first number is a state.
 *
 * This program sends records of RECORD_BYTES bytes without a pause. A record begins with a number,
 * again in network byte order, and all other bytes equal that number's last byte. When the number
 * 0 arrives, the program ends its connection after the events that came before it.
 *
 * Your task: today this program fills the socket's send buffer, newer numbers wait behind all of
 * the old records, and events get lost. Change newest() and serve() so that
 *
 *   - the kernel has no more than LIMIT_BYTES of data that it has not sent yet,
 *   - every record is whole and follows the previous record, although a write may take only a part,
 *   - every event has exactly one record, in the order of the events, and all other records have
 *     the newest state,
 *   - the network alone limits the data in flight, so that a path that holds more data gets more.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { RECORD_BYTES = 1080, LIMIT_BYTES = 16384 };

static void fail(const char *what) {
    perror(what);
    exit(1);
}

/* Returns the newest number, or the previous one if none has arrived. Waits for the first. */
static uint32_t newest(int fd, uint32_t number) {
    static unsigned char bytes[4];
    static size_t have;
    for (;;) {
        ssize_t got = recv(fd, bytes + have, sizeof bytes - have, number ? MSG_DONTWAIT : 0);
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return number;
        if (got <= 0)
            return 0;
        have += (size_t)got;
        if (have < sizeof bytes)
            continue;
        have = 0;
        memcpy(&number, bytes, sizeof number);
        number = ntohl(number);
        if (number == 0)
            return 0;
    }
}

static void fill(char *record, uint32_t number) {
    uint32_t word = htonl(number);
    memset(record, (int)(number & 0xff), RECORD_BYTES);
    memcpy(record, &word, sizeof word);
}

static void serve(int fd) {
    char record[RECORD_BYTES];
    uint32_t number = newest(fd, 0);
    while (number) {
        fill(record, number);
        if (send(fd, record, sizeof record, 0) < 0)
            fail("send");
        number = newest(fd, number);
    }
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
    if (argc != 3) {
        fprintf(stderr, "usage: live ADDRESS PORT\n");
        return 2;
    }
    int fd = open_connection(argv[1], argv[2]);
    serve(fd);
    /* Ends the stream, and waits until the receiver has read everything. */
    shutdown(fd, SHUT_WR);
    char end[64];
    while (recv(fd, end, sizeof end, 0) > 0)
        continue;
    close(fd);
    return 0;
}
