/*
 * halfcat - send a file over TCP, and write what comes back to standard output.
 *
 *     halfcat ADDRESS PORT FILE
 *
 * As `netcat ADDRESS PORT < FILE`. A connection has two directions, and each of them ends by
 * itself. The peer may speak first, may answer while we are still sending, and may answer only
 * when it has read our end.
 *
 * Your task: no byte shall be lost in either direction, whoever ends first, however much the peer
 * sends and whenever it does. The program ends with exit status 0 when both directions have ended.
 * open_connection() and copy() are right as they are; the fault is in what main() does with them.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BLOCK = 65536 };

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void write_fully(int fd, const char *data, size_t size) {
    while (size > 0) {
        ssize_t written = write(fd, data, size);
        if (written < 0)
            fail("write");
        data += written;
        size -= (size_t)written;
    }
}

/* All that comes from `from` until its end. */
static void copy(int from, int to) {
    char block[BLOCK];
    ssize_t got;
    while ((got = read(from, block, sizeof block)) > 0)
        write_fully(to, block, (size_t)got);
    if (got < 0)
        fail("read");
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
/* BEGIN SOLUTION */

struct flow {
    int from, to;
};

/* Our direction: when the file is sent, the peer shall read our end, and we can still listen. */
static void *send_input(void *argument) {
    const struct flow *flow = argument;
    copy(flow->from, flow->to);
    if (shutdown(flow->to, SHUT_WR) < 0)
        fail("shutdown");
    return NULL;
}
/* END SOLUTION */

int main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: halfcat ADDRESS PORT FILE\n");
        return 2;
    }
    int input = open(argv[3], O_RDONLY);
    if (input < 0)
        fail(argv[3]);
    int fd = open_connection(argv[1], argv[2]);
    /* BEGIN SOLUTION */
    struct flow sent = {input, fd};
    pthread_t sender;
    if (pthread_create(&sender, NULL, send_input, &sent) != 0)
        fail("a thread for the file");
    copy(fd, STDOUT_FILENO);
    pthread_join(sender, NULL);
    /* END SOLUTION */
    /* STUB
    copy(input, fd);
    */
    close(fd);
    return 0;
}
