/* loss ADDRESS PORT    8 messages of 1000 bytes, sent at once; waits for the server's receipt */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

enum { MESSAGES = 8, BYTES = 1000 };

static double now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e3 * now.tv_sec + now.tv_nsec / 1e6;
}

static void send_message(int fd, char letter) {
    char message[BYTES];
    memset(message, letter, BYTES);
    if (send(fd, message, BYTES, 0) != BYTES)
        exit(1);
}

int main(int argc, char *argv[]) {
    struct sockaddr_in peer = {.sin_family = AF_INET};
    if (argc != 3 || inet_pton(AF_INET, argv[1], &peer.sin_addr) != 1)
        return 2;
    peer.sin_port = htons(atoi(argv[2]));
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    if (connect(fd, (struct sockaddr *)&peer, sizeof peer) < 0)
        return 1;
    /* Each message becomes a segment. */
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) < 0)
        return 1;

    double start = now_ms();
    for (int i = 0; i < MESSAGES; i++)
        send_message(fd, 'a' + i);

    /* Nothing follows the last message, so no ACK can report that it is missing. */
    char receipt[2];
    if (recv(fd, receipt, sizeof receipt, MSG_WAITALL) != sizeof receipt)
        return 1;
    printf("receipt after %.0f ms\n", now_ms() - start);
}
