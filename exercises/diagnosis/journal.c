/*
 * journal - send COUNT lines of a journal to a collector, one every millisecond.
 *
 *     journal ADDRESS PORT COUNT
 *
 * A line consists of a stamp, which grows by STAMP_STEP, a level and a text. The author has read
 * that small segments are bad, and tells the kernel with each piece that more will follow. The
 * collector shows lines late, many at a time, and often only a part of the last line.
 *
 * Your task: make each segment end where a line ends. No line may wait for the next line or for an
 * ACK. The bytes of the stream must stay the same, and so must the pause.
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

enum { STAMP_STEP = 5 };

static const char *const levels[] = {"info", "warning", "error"};

static void fail(const char *what) {
    perror(what);
    exit(1);
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

static void put(int fd, const char *text, int flags) {
    size_t left = strlen(text);
    while (left > 0) {
        ssize_t sent = send(fd, text, left, flags);
        if (sent < 0)
            fail("send");
        text += sent;
        left -= (size_t)sent;
    }
}

static void put_line(int fd, int number) {
    char stamp[32];
    snprintf(stamp, sizeof stamp, "%08d ", number * STAMP_STEP);
    put(fd, stamp, MSG_MORE);
    put(fd, levels[number % 3], MSG_MORE);
    put(fd, ": one more of the same\n", MSG_MORE);
}

int main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: journal ADDRESS PORT COUNT\n");
        return 2;
    }
    int fd = open_connection(argv[1], argv[2]);
    const struct timespec millisecond = {.tv_nsec = 1000 * 1000};
    for (int number = 0; number < atoi(argv[3]); number++) {
        put_line(fd, number);
        nanosleep(&millisecond, NULL);
    }
    shutdown(fd, SHUT_WR);
    char end;
    while (read(fd, &end, 1) > 0)
        ;
    close(fd);
    return 0;
}
