/* records-and-quotes ADDRESS PORT buffered  60 records of 60 bytes, one after the other
 * records-and-quotes ADDRESS PORT waiting   the same, and each waits for the ACK of the one before
 * records-and-quotes ADDRESS PORT nodelay   as waiting, with TCP_NODELAY */
#include <arpa/inet.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { RECORDS = 60, RECORD_BYTES = 60 };

/* The program waits here, not the kernel, so no socket option can end the wait. */
static void wait_for_ack(int fd) {
    int unacknowledged;
    do {
        usleep(50);
        if (ioctl(fd, SIOCOUTQ, &unacknowledged) < 0)
            exit(1);
    } while (unacknowledged > 0);
}

int main(int argc, char *argv[]) {
    struct sockaddr_in peer = {.sin_family = AF_INET};
    if (argc != 4 || inet_pton(AF_INET, argv[1], &peer.sin_addr) != 1)
        return 2;
    peer.sin_port = htons(atoi(argv[2]));
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = strcmp(argv[3], "nodelay") == 0;
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) < 0 ||
        connect(fd, (struct sockaddr *)&peer, sizeof peer) < 0)
        return 1;
    char record[RECORD_BYTES] = "record";
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (int i = 0; i < RECORDS; i++) {
        if (send(fd, record, sizeof record, 0) != sizeof record)
            return 1;
        if (strcmp(argv[3], "buffered") != 0)
            wait_for_ack(fd);
    }
    wait_for_ack(fd); /* the server's host has everything */
    clock_gettime(CLOCK_MONOTONIC, &end);
    double seconds = (end.tv_sec - start.tv_sec) + (end.tv_nsec - start.tv_nsec) / 1e9;
    printf("%.0f records per second\n", RECORDS / seconds);
}
