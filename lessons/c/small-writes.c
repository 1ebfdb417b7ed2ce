/* small-writes ADDRESS PORT send    10 messages of 30 bytes, each by 15 calls, each answered
 * small-writes ADDRESS PORT writev  the same, each by 1 call */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

enum { MESSAGES = 10, PIECES = 15, PIECE_BYTES = 2 };

static char text[] = "fifteen pieces of two bytes...";

/* Each call may leave as a packet, because the kernel does not know that more pieces follow. */
static void send_pieces(int fd) {
    for (int i = 0; i < PIECES; i++)
        if (send(fd, text + i * PIECE_BYTES, PIECE_BYTES, 0) != PIECE_BYTES)
            exit(1);
}

static void write_at_once(int fd) {
    struct iovec pieces[PIECES];
    for (int i = 0; i < PIECES; i++)
        pieces[i] = (struct iovec){text + i * PIECE_BYTES, PIECE_BYTES};
    if (writev(fd, pieces, PIECES) != PIECES * PIECE_BYTES)
        exit(1);
}

int main(int argc, char *argv[]) {
    struct sockaddr_in peer = {.sin_family = AF_INET};
    if (argc != 4 || inet_pton(AF_INET, argv[1], &peer.sin_addr) != 1)
        return 2;
    peer.sin_port = htons(atoi(argv[2]));
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&peer, sizeof peer) < 0)
        return 1;
    for (int i = 0; i < MESSAGES; i++) {
        struct timespec start, end;
        char reply[2];
        clock_gettime(CLOCK_MONOTONIC, &start);
        if (strcmp(argv[3], "writev") == 0)
            write_at_once(fd);
        else
            send_pieces(fd);
        if (recv(fd, reply, sizeof reply, MSG_WAITALL) != sizeof reply)
            return 1;
        clock_gettime(CLOCK_MONOTONIC, &end);
        printf("%.2f ", 1e3 * (end.tv_sec - start.tv_sec) + (end.tv_nsec - start.tv_nsec) / 1e6);
    }
    puts("ms");
}
