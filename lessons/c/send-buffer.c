/* send-buffer ADDRESS PORT
 *
 * Send 1,600 records of 1,448 bytes. The peer asks for news after each quarter of them, and the
 * next record that is written is the answer: it begins with '!'. */
#include <arpa/inet.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

enum { RECORDS = 1600, RECORD_BYTES = 1448 };

static void print_held(int fd, const char *when) {
    int held = 0, unsent = 0;
    if (ioctl(fd, SIOCOUTQ, &held) < 0 ||    /* bytes not acknowledged */
        ioctl(fd, SIOCOUTQNSD, &unsent) < 0) /* bytes not sent yet */
        exit(1);
    printf("%s: %d bytes in flight, %d not sent\n", when, held - unsent, unsent);
}

int main(int argc, char *argv[]) {
    struct sockaddr_in peer = {.sin_family = AF_INET};
    if (argc != 3 || inet_pton(AF_INET, argv[1], &peer.sin_addr) != 1)
        return 2;
    peer.sin_port = htons(atoi(argv[2]));
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&peer, sizeof peer) < 0)
        return 1;

    char record[RECORD_BYTES], question[2];
    for (int i = 0; i < RECORDS; i++) {
        memset(record, '.', sizeof record);
        if (recv(fd, question, sizeof question, MSG_DONTWAIT) > 0) {
            print_held(fd, "a question came");
            record[0] = '!';
        }
        /* This call returns when the kernel has a copy, behind all that it has not sent yet. */
        if (send(fd, record, sizeof record, 0) != sizeof record)
            return 1;
    }
    print_held(fd, "the last send() returned");
    if (shutdown(fd, SHUT_WR) < 0)
        return 1;
    ssize_t got; /* 0 when the peer has read everything and closed */
    while ((got = recv(fd, question, sizeof question, 0)) > 0)
        ;
    return got < 0;
}
