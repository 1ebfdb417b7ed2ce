/*
 * tally - ask for a run of numbered datagrams over UDP, and count what the network did to them.
 *
 *     tally ADDRESS PORT RUN
 *
 * It sends a request, which carries VERSION. The source then sends the data 0 to COUNT-1, of which
 * some are missing, some come twice and some come late, and then the end marker, which holds COUNT.
 * The answer to the end marker carries the four counts. The other side, peer.py, describes the
 * format.
 *
 *     arrived     different datagrams that arrived
 *     lost        datagrams of the COUNT sent that never arrived
 *     duplicated  datagrams that arrived again
 *     reordered   first arrivals after a datagram with a higher number (RFC 4737)
 *
 * An answer may get lost like any datagram. The end marker then comes again, and is answered again.
 *
 * Your task: make all four counts right. Only take_data() and the lost count in send_answer() need
 * to change. main() is right; it ignores other runs and survives a lost end.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAX_COUNT = 65536, VERSION = 31 };

struct header {
    char kind[4];
    uint32_t run;
    uint64_t number;
} __attribute__((packed));

struct answer {
    struct header header; /* its number is the count of datagrams that arrived */
    uint64_t lost, duplicated, reordered;
} __attribute__((packed));

static uint64_t arrived, lost, duplicated, reordered;
static uint64_t next_number; /* one more than the highest number that arrived */
static bool seen[MAX_COUNT]; /* the numbers that arrived, for you to fill */

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static bool is_kind(const struct header *header, const char *kind) {
    return memcmp(header->kind, kind, sizeof header->kind) == 0;
}

static void take_data(uint64_t number) {
    if (number >= MAX_COUNT)
        return;
    seen[number] = true;
    arrived++;
    if (number > next_number)
        lost += number - next_number;
    next_number = number + 1;
}

static void send_answer(int fd, uint32_t run, uint64_t count) {
    (void)count;
    struct answer answer = {
        .header = {.kind = {'d', 'o', 'n', 'e'}, .run = htonl(run), .number = htobe64(arrived)},
        .lost = htobe64(lost),
        .duplicated = htobe64(duplicated),
        .reordered = htobe64(reordered),
    };
    if (send(fd, &answer, sizeof answer, 0) < 0)
        fail("the answer");
}

static void send_request(int fd, uint32_t run) {
    struct header request = {
        .kind = {'g', 'e', 't', '.'}, .run = htonl(run), .number = htobe64(VERSION)};
    if (send(fd, &request, sizeof request, 0) < 0)
        fail("the request");
}

static int open_socket(const char *address, const char *port) {
    struct sockaddr_in peer = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    if (inet_pton(AF_INET, address, &peer.sin_addr) != 1)
        fail("ADDRESS");
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    const struct timeval limit = {.tv_sec = 2};
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) < 0)
        fail("socket");
    /* After this, only the peer's datagrams arrive. */
    if (connect(fd, (struct sockaddr *)&peer, sizeof peer) < 0)
        fail("connect");
    return fd;
}

int main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: tally ADDRESS PORT RUN\n");
        return 2;
    }
    uint32_t run = (uint32_t)strtoul(argv[3], NULL, 10);
    int fd = open_socket(argv[1], argv[2]);
    send_request(fd, run);
    bool ended = false;
    for (;;) {
        char datagram[2048];
        struct header header;
        ssize_t got = recv(fd, datagram, sizeof datagram, 0);
        if (got < 0 && ended)
            break; /* the "bye." was lost */
        if (got < 0)
            fail("nothing came");
        if ((size_t)got < sizeof header)
            continue;
        memcpy(&header, datagram, sizeof header);
        if (ntohl(header.run) != run)
            continue; /* it belongs to another run */
        if (is_kind(&header, "data"))
            take_data(be64toh(header.number));
        if (is_kind(&header, "bye."))
            break;
        if (is_kind(&header, "end.")) {
            send_answer(fd, run, be64toh(header.number));
            ended = true;
        }
    }
    close(fd);
    return 0;
}
