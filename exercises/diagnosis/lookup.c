/*
 * lookup - ask a server for COUNT keys, one after the other.
 *
 *     lookup ADDRESS PORT COUNT
 *
 * A question is three lines of text with 35 bytes in total, and the answer has 2 bytes:
 *
 *     | lookup 000000000017 \r\n |  version VERSION \r\n |  \r\n |
 *
 * The author knows that TCP is a stream, uses stdio, and flushes everything that must not wait.
 * Users say that a key takes a "short eternity", on a link with a round-trip time of 40 ms.
 *
 * Your task: send each question in one segment, at once, when the answer to the previous question
 * has arrived. The bytes of the stream must stay the same.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ANSWER_BYTES = 2, VERSION = 36 };

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

static void flush(FILE *out) {
    if (fflush(out) == EOF)
        fail("fflush");
}

static void ask(FILE *out, int number) {
    fprintf(out, "lookup %012d\r\n", number);
    flush(out);
    fprintf(out, "version %d\r\n", VERSION);
    flush(out);
    fprintf(out, "\r\n");
    flush(out);
}

static void await_answer(int fd) {
    char answer[ANSWER_BYTES];
    if (recv(fd, answer, sizeof answer, MSG_WAITALL) != sizeof answer)
        fail("recv");
}

int main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: lookup ADDRESS PORT COUNT\n");
        return 2;
    }
    int fd = open_connection(argv[1], argv[2]);
    FILE *out = fdopen(dup(fd), "w");
    if (out == NULL)
        fail("fdopen");
    for (int number = 0; number < atoi(argv[3]); number++) {
        ask(out, number);
        await_answer(fd);
    }
    fclose(out);
    shutdown(fd, SHUT_WR);
    close(fd);
    return 0;
}
