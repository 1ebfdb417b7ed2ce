/* sendfile ADDRESS PORT read FILE      send a file with read() and send(), 4096 bytes at a time
 * sendfile ADDRESS PORT sendfile FILE  send it with one call ("timer": while signals arrive) */
#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static void send_by_read(int fd, int file) {
    char block[4096];
    ssize_t bytes;
    while ((bytes = read(file, block, sizeof block)) > 0)
        if (send(fd, block, bytes, 0) < 0)
            exit(1);
}

/* The socket gets references to the file's pages, so no byte enters this program. */
static void send_by_sendfile(int fd, int file, size_t size) {
    if (sendfile(fd, file, NULL, size) < 0)
        exit(1);
}

static void on_timer(int number) {
    (void)number;
}

int main(int argc, char *argv[]) {
    struct sockaddr_in peer = {.sin_family = AF_INET};
    struct itimerval often = {{0, 20000}, {0, 20000}}; /* 50 signals per second */
    struct timespec start, end;
    struct stat about;
    char end_of_stream;
    if (argc != 5 || inet_pton(AF_INET, argv[1], &peer.sin_addr) != 1)
        return 2;
    peer.sin_port = htons(atoi(argv[2]));
    int fd = socket(AF_INET, SOCK_STREAM, 0), file = open(argv[4], O_RDONLY);
    if (connect(fd, (struct sockaddr *)&peer, sizeof peer) < 0 || fstat(file, &about) < 0)
        return 1;
    signal(SIGALRM, on_timer);
    if (strcmp(argv[3], "timer") == 0)
        setitimer(ITIMER_REAL, &often, NULL); /* fails only for times below zero */
    clock_gettime(CLOCK_MONOTONIC, &start);
    if (strcmp(argv[3], "read") == 0)
        send_by_read(fd, file);
    else
        send_by_sendfile(fd, file, about.st_size);
    /* recv() returns 0 when the receiver has read everything and closed. */
    if (shutdown(fd, SHUT_WR) < 0 || recv(fd, &end_of_stream, 1, 0) != 0)
        return 1;
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("%.2f s\n", end.tv_sec - start.tv_sec + (end.tv_nsec - start.tv_nsec) / 1e9);
}
