/* slow-start ADDRESS PORT BYTES    5 uploads of BYTES, each answered with 2 bytes */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { UPLOADS = 5 };

static double now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e3 * now.tv_sec + now.tv_nsec / 1e6;
}

static int connect_to(const char *address, const char *port) {
    struct sockaddr_in peer = {.sin_family = AF_INET, .sin_port = htons(atoi(port))};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (inet_pton(AF_INET, address, &peer.sin_addr) != 1 ||
        connect(fd, (struct sockaddr *)&peer, sizeof peer) < 0)
        exit(1);
    return fd;
}

static void upload(int fd, const char *data, size_t bytes) {
    char reply[2];
    for (ssize_t taken; bytes > 0; data += taken, bytes -= taken)
        if ((taken = send(fd, data, bytes, 0)) < 0)
            exit(1);
    if (recv(fd, reply, sizeof reply, MSG_WAITALL) != sizeof reply)
        exit(1);
}

int main(int argc, char *argv[]) {
    if (argc != 4)
        return 2;
    size_t bytes = atoi(argv[3]);
    char *data = calloc(bytes, 1);
    if (data == NULL)
        return 1;
    for (int i = 0; i < UPLOADS; i++) {
        double start = now_ms();
        /* A new connection does not know the path, so it begins with ten segments again. */
        int fd = connect_to(argv[1], argv[2]);
        double connected = now_ms();
        upload(fd, data, bytes);
        printf("%.0f + %.0f ms\n", connected - start, now_ms() - connected);
        close(fd);
    }
}
