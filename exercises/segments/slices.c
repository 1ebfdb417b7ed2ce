/*
 * slices - send a file over UDP, piece by piece.
 *
 *     slices ADDRESS PORT FILE
 *
 * A datagram is | header | data |. The header has HEADER_BYTES bytes. It begins with the offset in
 * the file (4 bytes, network order), and the rest is 0. The receiver answers each datagram with the
 * offset that it wants next, and an empty piece marks the end of the file.
 *
 * Your task: no datagram may be fragmented, neither here nor on the way. Send no more datagrams
 * than necessary, so that each is as long as the path allows, and only the last may be shorter. The
 * MTU is not known beforehand, and the path may be narrower than the interface. A router then drops
 * packets that are too long, and a later call on the socket fails with EMSGSIZE because of ICMP.
 *
 * Lesson path-mtu has what you need: IP_MTU_DISCOVER, and IP_MTU of a connected socket (ip(7)).
 * Only piece_bytes() and open_socket() need to change. The file that arrives must stay the same.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { HEADER_BYTES = 40, MOST = 65507, IP_HEADER = 20, UDP_HEADER = 8 };

static void fail(const char *what) {
    perror(what);
    exit(1);
}

/* Returns how many bytes of the file the next datagram should carry. */
static size_t piece_bytes(int fd) {
    (void)fd;
    return 4096;
}

/* Sends one piece and returns the answer; -1 with errno on failure. */
static int64_t exchange(int fd, const char *data, size_t size, uint32_t offset) {
    char datagram[MOST] = {0};
    uint32_t wire_offset = htonl(offset), wanted;
    memcpy(datagram, &wire_offset, sizeof wire_offset);
    memcpy(datagram + HEADER_BYTES, data, size);
    if (send(fd, datagram, HEADER_BYTES + size, 0) < 0)
        return -1;
    if (recv(fd, &wanted, sizeof wanted, 0) != sizeof wanted)
        return -1;
    return ntohl(wanted);
}

/* Sends the next piece of the `left` bytes at `data`; returns how many of them arrived. */
static size_t deliver(int fd, const char *data, size_t left, uint32_t offset) {
    int64_t wanted;
    do {
        size_t size = piece_bytes(fd);
        wanted = exchange(fd, data, left < size ? left : size, offset);
        /* It was too long for the path, and the kernel has learned the MTU by now. */
    } while (wanted < 0 && errno == EMSGSIZE);
    if (wanted < 0)
        fail("sending a piece");
    return (size_t)wanted - offset;
}

static int open_socket(const char *address, const char *port) {
    struct sockaddr_in server = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    if (inet_pton(AF_INET, address, &server.sin_addr) != 1)
        fail("ADDRESS");
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    struct timeval patience = {.tv_sec = 2};
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) < 0)
        fail("socket");
    int discover = IP_PMTUDISC_DONT;
    if (setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &discover, sizeof discover) < 0)
        fail("IP_MTU_DISCOVER");
    if (connect(fd, (struct sockaddr *)&server, sizeof server) < 0)
        fail("connect");
    return fd;
}

/* Returns the whole file in memory, and its size. */
static char *read_file(const char *path, size_t *size) {
    enum { LARGEST = 1 << 20 };
    char *data = malloc(LARGEST);
    FILE *file = fopen(path, "rb");
    if (!data || !file)
        fail(path);
    *size = fread(data, 1, LARGEST, file);
    fclose(file);
    return data;
}

int main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: slices ADDRESS PORT FILE\n");
        return 2;
    }
    size_t size, sent = 0;
    char *data = read_file(argv[3], &size);
    int fd = open_socket(argv[1], argv[2]);
    while (sent < size)
        sent += deliver(fd, data + sent, size - sent, (uint32_t)sent);
    if (exchange(fd, data, 0, (uint32_t)sent) < 0)
        fail("the end");
    close(fd);
    free(data);
    return 0;
}
