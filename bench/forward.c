/*
 * forward.c - wire.c without a link: forward frames as fast as possible.
 *
 *     FORWARD_MODE=one|many wire A:B
 *
 * wire.py compares the wire with it. It has no ring, no bundles and no model. The laboratory starts
 * it instead of the wire, with the wire's arguments. So it is called "wire", gets its mode from the
 * environment, and answers each command on standard input. `one` uses recv() and send(), `many`
 * uses recvmmsg() and sendmmsg() with up to 64 frames.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/if_ether.h>
#include <netpacket/packet.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 64, FRAME_BYTES = 2048, BUFFER_BYTES = 8 << 20, RING_BYTES_OF_THE_WIRE = 8 << 20 };

static char frames[BATCH][FRAME_BYTES];
static struct iovec pieces[BATCH];
static struct mmsghdr messages[BATCH];

static void check(bool done, const char *what) {
    if (done)
        return;
    perror(what);
    exit(1);
}

static int open_port(const char *name) {
    struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};
    address.sll_ifindex = (int)if_nametoindex(name);
    check(address.sll_ifindex > 0, name);
    int port = socket(AF_PACKET, SOCK_RAW, 0), bytes = RING_BYTES_OF_THE_WIRE, on = 1;
    check(port >= 0, "socket");
    /* Request as much as the wire's ring holds, even beyond the limit if that is allowed. */
    if (setsockopt(port, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes) == -1)
        setsockopt(port, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    bytes = BUFFER_BYTES;
    setsockopt(port, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    check(setsockopt(port, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on) == 0, "outgoing");
    check(bind(port, (struct sockaddr *)&address, sizeof address) == 0, "bind");
    return port;
}

static unsigned forward_one(int from, int to) {
    ssize_t size = recv(from, frames[0], FRAME_BYTES, MSG_DONTWAIT);
    if (size <= 0)
        return 0;
    send(to, frames[0], (size_t)size, 0);
    return 1;
}

static unsigned forward_many(int from, int to) {
    for (int i = 0; i < BATCH; i++) {
        pieces[i] = (struct iovec){frames[i], FRAME_BYTES};
        messages[i].msg_hdr = (struct msghdr){.msg_iov = &pieces[i], .msg_iovlen = 1};
    }
    int count = recvmmsg(from, messages, BATCH, MSG_DONTWAIT, NULL);
    if (count <= 0)
        return 0;
    for (int i = 0; i < count; i++)
        pieces[i].iov_len = messages[i].msg_len;
    sendmmsg(to, messages, (unsigned)count, 0);
    return (unsigned)count;
}

static void answer_commands(void) {
    char line[4096];
    if (read(STDIN_FILENO, line, sizeof line) <= 0)
        exit(0);
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    long long cpu_ns = used.tv_sec * 1000000000LL + used.tv_nsec;
    printf("{\"ok\": true, \"cpu_ns\": %lld}\n", cpu_ns);
}

int main(int argc, char **argv) {
    const char *mode = getenv("FORWARD_MODE");
    char *names = argv[argc - 1], *second = strchr(names, ':');
    check(mode && second, "usage: FORWARD_MODE=one|many wire A:B");
    *second++ = '\0';
    bool many = strcmp(mode, "many") == 0;
    int a = open_port(names), b = open_port(second);
    struct pollfd polls[] = {{STDIN_FILENO, POLLIN, 0}, {a, POLLIN, 0}, {b, POLLIN, 0}};
    setvbuf(stdout, NULL, _IOLBF, 0);
    puts("{\"ready\": true}");
    for (;;) {
        poll(polls, 3, -1);
        if (polls[0].revents)
            answer_commands();
        /* Like the wire, serve both sides in turn as long as there are frames. */
        for (unsigned moved = 1, rounds = 0; moved && rounds < 1000; rounds++)
            moved = many ? forward_many(a, b) + forward_many(b, a)
                         : forward_one(a, b) + forward_one(b, a);
    }
}
