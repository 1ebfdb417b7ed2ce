/* cork ADDRESS PORT default  5 frames of 200 + 3000 + 20 bytes, each answered by 2 bytes
 * cork ADDRESS PORT cork     the same, each frame under a cork
 * cork ADDRESS PORT broken   under a cork; the sensor fails for frames 2 and 4 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

enum { FRAMES = 5, HEADER = 200, BODY = 3000, TRAILER = 20 };
static char header[HEADER], body[BODY] = "samples", blank[BODY + TRAILER], trailer[TRAILER];

/* Until the cork is pulled, the kernel keeps what does not fill a segment. */
static void set_cork(int fd, int on) {
    if (setsockopt(fd, IPPROTO_TCP, TCP_CORK, &on, sizeof on) < 0)
        exit(1);
}

static void send_part(int fd, const char *part, int bytes) {
    if (send(fd, part, bytes, 0) != bytes)
        exit(1);
}

static int send_frame(int fd, int corked, int failed) {
    set_cork(fd, corked); /* 0 changes nothing here */
    send_part(fd, header, HEADER);
    if (failed) {
        send_part(fd, blank, BODY + TRAILER); /* the server expects a whole frame */
        return -1;
    }
    send_part(fd, body, BODY);
    send_part(fd, trailer, TRAILER);
    set_cork(fd, 0);
    return 0;
}

int main(int argc, char *argv[]) {
    struct sockaddr_in peer = {.sin_family = AF_INET};
    if (argc != 4 || inet_pton(AF_INET, argv[1], &peer.sin_addr) != 1)
        return 2;
    peer.sin_port = htons(atoi(argv[2]));
    int fd = socket(AF_INET, SOCK_STREAM, 0), corked = strcmp(argv[3], "default") != 0;
    int broken = strcmp(argv[3], "broken") == 0;
    if (connect(fd, (struct sockaddr *)&peer, sizeof peer) < 0)
        return 1;
    for (int number = 1; number <= FRAMES; number++) {
        struct timespec start, end;
        char reply[2];
        clock_gettime(CLOCK_MONOTONIC, &start);
        send_frame(fd, corked, broken && number % 2 == 0);
        if (recv(fd, reply, sizeof reply, MSG_WAITALL) != sizeof reply)
            return 1;
        clock_gettime(CLOCK_MONOTONIC, &end);
        printf("%.1f ", 1e3 * (end.tv_sec - start.tv_sec) + (end.tv_nsec - start.tv_nsec) / 1e6);
    }
    puts("ms");
}
