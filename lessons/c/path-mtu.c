/* path-mtu ADDRESS PORT BYTES...   send messages of these lengths; after each, wait until all of it
 *                                  is acknowledged, but no longer than two seconds */
#include <arpa/inet.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PATIENCE_MS = 2000 };

/* The bytes in the send buffer: sent and not yet acknowledged, or not yet sent. */
static int unacknowledged(int fd) {
    int bytes;
    if (ioctl(fd, SIOCOUTQ, &bytes) < 0)
        exit(1);
    return bytes;
}

static void send_message(int fd, size_t count) {
    char *message = calloc(count, 1);
    if (message == NULL || send(fd, message, count, 0) < 0)
        exit(1);
    free(message);
    /* If a packet is too long for the path, the kernel sends it again and again, in vain. */
    for (int ms = 0; unacknowledged(fd) > 0 && ms < PATIENCE_MS; ms++)
        usleep(1000);
    printf("%zu bytes sent, %d not acknowledged\n", count, unacknowledged(fd));
}

int main(int argc, char *argv[]) {
    struct sockaddr_in peer = {.sin_family = AF_INET};
    if (argc < 4 || inet_pton(AF_INET, argv[1], &peer.sin_addr) != 1)
        return 2;
    peer.sin_port = htons(atoi(argv[2]));

    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&peer, sizeof peer) < 0)
        return 1;
    for (int i = 3; i < argc; i++)
        send_message(fd, atoi(argv[i]));
}
