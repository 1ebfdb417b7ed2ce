/* sharing ADDRESS PORT CONTROL SECONDS   send as fast as TCP takes it for SECONDS seconds,
 *                                        with this congestion control, and print the rate */
#include <arpa/inet.h>
#include <linux/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

static char block[10000];

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

/* What the server has acknowledged. More may wait in our own send buffer. */
static double delivered_bytes(int fd) {
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) < 0)
        exit(1);
    return info.tcpi_bytes_acked;
}

int main(int argc, char *argv[]) {
    struct sockaddr_in peer = {.sin_family = AF_INET};
    if (argc != 5 || inet_pton(AF_INET, argv[1], &peer.sin_addr) != 1)
        return 2;
    peer.sin_port = htons(atoi(argv[2]));
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, argv[3], strlen(argv[3])) < 0) {
        perror(argv[3]);
        return 1;
    }
    if (connect(fd, (struct sockaddr *)&peer, sizeof peer) < 0)
        return 1;
    double start = now();
    /* How much of the line this loop gets is decided by the congestion control of all flows. */
    while (now() - start < atof(argv[4]))
        if (send(fd, block, sizeof block, 0) < 0)
            return 1;
    printf("%s: %.2f Mbit/s\n", argv[3], delivered_bytes(fd) * 8 / (now() - start) / 1e6);
}
