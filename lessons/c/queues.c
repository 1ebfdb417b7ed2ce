/* queues ADDRESS PORT KB   copy KB kilobytes (100 or more) to the server as fast as TCP takes them,
 *                          and print the round-trip time ten times on the way, then the rate */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

static char block[10000];

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

/* TCP times each segment until its ACK, and smooths the result. */
static double rtt_ms(int fd) {
    struct tcp_info info;
    socklen_t size = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) < 0)
        exit(1);
    return info.tcpi_rtt / 1e3;
}

int main(int argc, char *argv[]) {
    struct sockaddr_in peer = {.sin_family = AF_INET};
    if (argc != 4 || inet_pton(AF_INET, argv[1], &peer.sin_addr) != 1 || atoi(argv[3]) < 100)
        return 2;
    peer.sin_port = htons(atoi(argv[2]));
    int fd = socket(AF_INET, SOCK_STREAM, 0), blocks = atoi(argv[3]) / 10;
    if (connect(fd, (struct sockaddr *)&peer, sizeof peer) < 0)
        return 1;
    double start = now();
    printf("RTT %.0f", rtt_ms(fd));
    for (int i = 1; i <= blocks; i++) {
        /* TCP sends what the windows allow. What the path cannot hold waits in a queue. */
        if (send(fd, block, sizeof block, 0) != sizeof block)
            return 1;
        if (i % (blocks / 10) == 0)
            printf(" %.0f", rtt_ms(fd));
    }
    /* recv() returns 0 when the server has read everything and closed. */
    if (shutdown(fd, SHUT_WR) < 0 || recv(fd, block, 1, 0) != 0)
        return 1;
    printf(" ms, %.1f Mbit/s\n", blocks * sizeof block * 8 / (now() - start) / 1e6);
}
