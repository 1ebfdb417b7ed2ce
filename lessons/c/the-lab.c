/* the-lab ADDRESS PORT    connect, send "hello" and wait for an answer of five bytes */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static struct timespec start;

static void report(const char *event) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    printf("%s after %.1f ms\n", event,
           1e3 * (now.tv_sec - start.tv_sec) + (now.tv_nsec - start.tv_nsec) / 1e6);
}

static int ask(int fd) {
    char answer[5];
    if (send(fd, "hello", 5, 0) != 5)
        return 0;
    return recv(fd, answer, sizeof answer, MSG_WAITALL) == sizeof answer;
}

int main(int argc, char *argv[]) {
    struct sockaddr_in peer = {.sin_family = AF_INET};
    if (argc != 3 || inet_pton(AF_INET, argv[1], &peer.sin_addr) != 1)
        return 2;
    peer.sin_port = htons(atoi(argv[2]));
    clock_gettime(CLOCK_MONOTONIC, &start);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&peer, sizeof peer) < 0)
        return 1;
    report("connected");
    if (!ask(fd))
        return 1;
    report("answered");
    close(fd);
}
