/* tcp-vs-udp ADDRESS PORT tcp  send 900 blocks of 1440 bytes by TCP, each with one call
 * tcp-vs-udp ADDRESS PORT udp  the same by UDP */
#include <arpa/inet.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BLOCKS = 900, BLOCK_BYTES = 1440 };

static char blocks[BLOCKS * BLOCK_BYTES];

/* With UDP each call is a datagram, and each datagram makes its own trip through the kernel. */
static int send_blocks(int fd) {
    int calls = 0;
    for (int i = 0; i < BLOCKS; i++, calls++)
        if (send(fd, blocks + i * BLOCK_BYTES, BLOCK_BYTES, 0) < 0)
            exit(1);
    return calls;
}

int main(int argc, char *argv[]) {
    struct sockaddr_in peer = {.sin_family = AF_INET};
    if (argc != 4 || inet_pton(AF_INET, argv[1], &peer.sin_addr) != 1)
        return 2;
    peer.sin_port = htons(atoi(argv[2]));
    int type = strcmp(argv[3], "tcp") == 0 ? SOCK_STREAM : SOCK_DGRAM;

    int fd = socket(AF_INET, type, 0);
    if (connect(fd, (struct sockaddr *)&peer, sizeof peer) < 0)
        return 1;
    printf("%d blocks, %d calls\n", BLOCKS, send_blocks(fd));

    char end; /* with TCP, recv() returns 0 when the server has read everything and closed */
    if (type == SOCK_STREAM && (shutdown(fd, SHUT_WR) < 0 || recv(fd, &end, 1, 0) != 0))
        return 1;
    close(fd);
}
