/*
 * intake - accept one upload, or refuse it.
 *
 *     intake PORT LIMIT
 *
 * A client sends a line "PUT N" and N bytes, on one connection. If N is at most LIMIT, intake reads
 * all bytes and answers "201 N SUM", where SUM begins with 0 and becomes SUM * FACTOR + byte modulo
 * 2^32 with each byte. If N is larger, it reads nothing and answers "413 at most LIMIT bytes" at
 * once, while the client is still sending. The answer ends with a line feed, and then the stream
 * ends.
 *
 * Clients that send too much complain about "Connection reset by peer", and never see the limit.
 * Our log says that the program wrote the whole answer, and that write() succeeded.
 *
 * Your task: every client must get the answer. It leaves on the link before the upload is over, the
 * connection ends without a reset, and a client may finish its upload, however long it is.
 */
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BLOCK_BYTES = 8192, FACTOR = 63 };

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static int take_connection(const char *port) {
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    int on = 1;
    if (listener < 0 || setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0)
        fail("socket");
    if (bind(listener, (struct sockaddr *)&own, sizeof own) < 0 || listen(listener, 1) < 0)
        fail("listen");
    int fd = accept(listener, NULL, NULL);
    if (fd < 0)
        fail("accept");
    return fd;
}

/* Returns N from the first line, and reads no byte after that line. */
static long long announced(int fd) {
    char line[64];
    size_t length = 0;
    while (length < sizeof line - 1 && read(fd, line + length, 1) == 1 && line[length] != '\n')
        length++;
    line[length] = '\0';
    return strncmp(line, "PUT ", 4) == 0 ? atoll(line + 4) : -1;
}

static void answer(int fd, const char *text) {
    if (write(fd, text, strlen(text)) != (ssize_t)strlen(text))
        fail("write");
}

static void accept_upload(int fd, long long size) {
    unsigned char block[BLOCK_BYTES];
    uint32_t sum = 0;
    for (long long left = size; left > 0;) {
        ssize_t got = read(fd, block, left < BLOCK_BYTES ? (size_t)left : BLOCK_BYTES);
        if (got <= 0)
            fail("read");
        for (ssize_t i = 0; i < got; i++)
            sum = sum * FACTOR + block[i];
        left -= got;
    }
    char text[64];
    snprintf(text, sizeof text, "201 %lld %u\n", size, sum);
    answer(fd, text);
}

static void refuse_upload(int fd, long long limit) {
    char text[64];
    snprintf(text, sizeof text, "413 at most %lld bytes\n", limit);
    answer(fd, text);
    /* BEGIN SOLUTION */
    /* The kernel would answer unread data with RST, so read everything. */
    shutdown(fd, SHUT_WR);
    char block[BLOCK_BYTES];
    while (read(fd, block, sizeof block) > 0)
        ;
    /* END SOLUTION */
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: intake PORT LIMIT\n");
        return 2;
    }
    int fd = take_connection(argv[1]);
    long long limit = atoll(argv[2]), size = announced(fd);
    if (size < 0) {
        fprintf(stderr, "intake: no upload begins like this\n");
        return 1;
    }
    if (size > limit)
        refuse_upload(fd, limit);
    else
        accept_upload(fd, size);
    close(fd);
    return 0;
}
