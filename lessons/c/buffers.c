/* buffers ADDRESS PORT BEFORE AFTER
 *
 * Receive until the sender is done. Ask for a receive buffer of BEFORE bytes before listen() and of
 * AFTER bytes after accept(); 0 asks for nothing. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

/* The window that the SYN-ACK can announce depends on the size that the listener has by then. */
static void ask_for(int fd, int bytes) {
    if (bytes > 0 && setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes) < 0)
        exit(1);
}

int main(int argc, char *argv[]) {
    struct sockaddr_in here = {.sin_family = AF_INET};
    if (argc != 5 || inet_pton(AF_INET, argv[1], &here.sin_addr) != 1)
        return 2;
    here.sin_port = htons(atoi(argv[2]));

    int listener = socket(AF_INET, SOCK_STREAM, 0);
    ask_for(listener, atoi(argv[3]));
    if (bind(listener, (struct sockaddr *)&here, sizeof here) < 0 || listen(listener, 1) < 0)
        return 1;
    int fd = accept(listener, NULL, NULL);
    if (fd < 0)
        return 1;
    ask_for(fd, atoi(argv[4]));

    static char data[65536];
    struct timespec start, end;
    ssize_t got;
    long total = 0;
    clock_gettime(CLOCK_MONOTONIC, &start);
    while ((got = recv(fd, data, sizeof data, 0)) > 0)
        total += got;
    if (got < 0)
        return 1;
    clock_gettime(CLOCK_MONOTONIC, &end);
    double seconds = end.tv_sec - start.tv_sec + (end.tv_nsec - start.tv_nsec) / 1e9;
    printf("%ld bytes at %.1f Mbit/s\n", total, total * 8 / 1e6 / seconds);
}
