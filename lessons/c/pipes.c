/* pipes ADDRESS PORT    send the standard input, and print what the kernel has counted meanwhile:
 * the bytes of read() and write() (rchar, wchar), and how many calls (syscr, syscw) */
#define _GNU_SOURCE /* for splice() */
#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* Each byte is copied twice, by read() into the block and by write() out of it. */
static void move(int from, int to) {
    static char block[131072];
    ssize_t bytes;
    while ((bytes = read(from, block, sizeof block)) > 0)
        if (write(to, block, bytes) != bytes)
            exit(1);
    if (bytes < 0)
        exit(1);
}

int main(int argc, char *argv[]) {
    struct sockaddr_in peer = {.sin_family = AF_INET};
    struct timespec start, end;
    char line[80];
    if (argc != 3 || inet_pton(AF_INET, argv[1], &peer.sin_addr) != 1)
        return 2;
    peer.sin_port = htons(atoi(argv[2]));
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&peer, sizeof peer) < 0)
        return 1;
    clock_gettime(CLOCK_MONOTONIC, &start);
    move(STDIN_FILENO, fd);
    /* recv() returns 0 when the receiver has read everything and closed. */
    if (shutdown(fd, SHUT_WR) < 0 || recv(fd, line, 1, 0) != 0)
        return 1;
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("%.2f s\n", end.tv_sec - start.tv_sec + (end.tv_nsec - start.tv_nsec) / 1e9);
    FILE *counts = fopen("/proc/self/io", "r");
    if (counts == NULL)
        return 1;
    for (int i = 0; i < 4 && fgets(line, sizeof line, counts); i++)
        fputs(line, stdout);
}
