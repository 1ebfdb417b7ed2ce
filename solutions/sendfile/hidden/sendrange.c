/*
 * sendrange - send a part of a file over TCP, with a header before it.
 *
 *     sendrange ADDRESS PORT FILE OFFSET COUNT
 *
 * A web server does this for a request with "Range: bytes=...". The receiver gets a 24-byte header,
 * then COUNT bytes of FILE starting at OFFSET, or fewer if the file ends earlier:
 *
 *     | MARK (8 bytes) | offset (8 bytes) | bytes that follow (8 bytes) | the bytes ... |
 *
 * All numbers are in network byte order. A timer interrupts the program every 10 ms, to count for a
 * progress bar. A call that sleeps in the kernel at that moment returns early.
 *
 * Your task: make every requested byte arrive, and no other. The bytes of the file must never enter
 * this program (use sendfile(), and neither read() nor mmap()), the header must not travel alone,
 * and the file must not be cut into small segments. Only send_header() and send_range() need to
 * change.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

enum { SNDBUF_BYTES = 65536, TICK_US = 10000, MARK = 5587 };

static volatile sig_atomic_t ticks;

static void tick(int signal) {
    (void)signal;
    ticks++;
}

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void send_header(int fd, off_t offset, off_t length) {
    uint64_t header[3] = {htobe64(MARK), htobe64((uint64_t)offset), htobe64((uint64_t)length)};
    /* BEGIN SOLUTION */
    /* The file follows at once, and MSG_MORE lets its first bytes join the header's segment. */
    if (send(fd, header, sizeof header, MSG_MORE) != sizeof header)
        fail("send");
    /* END SOLUTION */
    /* STUB
    if (send(fd, header, sizeof header, 0) != sizeof header)
        fail("send");
    */
}

static void send_range(int fd, int file, off_t offset, off_t count) {
    /* BEGIN SOLUTION */
    struct stat status;
    if (fstat(file, &status) < 0)
        fail("fstat");
    off_t left = status.st_size > offset ? status.st_size - offset : 0;
    if (count < left)
        left = count;
    send_header(fd, offset, left);
    while (left > 0) {
        /* It advances the offset by the bytes sent, which may be fewer than are left. */
        ssize_t sent = sendfile(fd, file, &offset, (size_t)left);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            fail("sendfile");
        if (sent == 0) {
            fprintf(stderr, "the file became shorter while it was sent\n");
            exit(1);
        }
        left -= sent;
    }
    /* END SOLUTION */
    /* STUB
    enum { BLOCK = 512 };
    send_header(fd, offset, count);
    for (off_t block = 0; block < count / BLOCK; block++)
        sendfile(fd, file, &offset, BLOCK);
    */
}

static int open_connection(const char *address, const char *port) {
    struct sockaddr_in server = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    if (inet_pton(AF_INET, address, &server.sin_addr) != 1)
        fail("ADDRESS");
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1, sndbuf_bytes = SNDBUF_BYTES;
    if (fd < 0 || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &sndbuf_bytes, sizeof sndbuf_bytes) < 0 ||
        connect(fd, (struct sockaddr *)&server, sizeof server) < 0)
        fail("connect");
    return fd;
}

static void start_ticking(void) {
    /* Without SA_RESTART, an interrupted call returns EINTR. */
    struct sigaction action = {.sa_handler = tick};
    struct itimerval every = {{0, TICK_US}, {0, TICK_US}};
    if (sigaction(SIGALRM, &action, NULL) < 0 || setitimer(ITIMER_REAL, &every, NULL) < 0)
        fail("timer");
}

int main(int argc, char **argv) {
    if (argc != 6) {
        fprintf(stderr, "usage: sendrange ADDRESS PORT FILE OFFSET COUNT\n");
        return 2;
    }
    int file = open(argv[3], O_RDONLY);
    if (file < 0)
        fail(argv[3]);
    int fd = open_connection(argv[1], argv[2]);
    start_ticking();
    send_range(fd, file, atoll(argv[4]), atoll(argv[5]));
    /* Ends the stream, and waits until the receiver has read everything. */
    shutdown(fd, SHUT_WR);
    char end;
    for (ssize_t got = 1; got > 0 || (got < 0 && errno == EINTR);)
        got = recv(fd, &end, 1, 0);
    close(fd);
    fprintf(stderr, "%d ticks\n", (int)ticks);
    return 0;
}
