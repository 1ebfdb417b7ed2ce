/* segments ADDRESS PORT BYTES   send BYTES bytes with one call, and ask the kernel for the MSS
 *                               three times: before connect(), after it, and at the end */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static int mss_of(int fd) {
    int bytes;
    socklen_t size = sizeof bytes;
    if (getsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &bytes, &size) < 0)
        exit(1);
    return bytes;
}

int main(int argc, char *argv[]) {
    struct sockaddr_in peer = {.sin_family = AF_INET};
    if (argc != 4 || inet_pton(AF_INET, argv[1], &peer.sin_addr) != 1)
        return 2;
    peer.sin_port = htons(atoi(argv[2]));
    size_t count = atoi(argv[3]);
    char *data = calloc(count, 1), end;
    if (data == NULL)
        return 1;

    int fd = socket(AF_INET, SOCK_STREAM, 0);
    printf("TCP_MAXSEG: %d before connect(), ", mss_of(fd));
    /* connect() sends the SYN, which announces our MSS, and so it cannot change afterwards. */
    if (connect(fd, (struct sockaddr *)&peer, sizeof peer) < 0)
        return 1;
    printf("%d after it, ", mss_of(fd));

    if (send(fd, data, count, 0) != (ssize_t)count)
        return 1;
    /* No more data follows. recv() returns 0 when the server has read to the end and closed. */
    if (shutdown(fd, SHUT_WR) < 0 || recv(fd, &end, 1, 0) != 0)
        return 1;
    printf("%d at the end\n", mss_of(fd));
    close(fd);
    free(data);
}
