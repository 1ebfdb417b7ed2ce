/*
 * desk - add numbers for customers.
 *
 *     desk PORT CUSTOMERS
 *
 * A customer connects and sends lines "sum A B". While the connection lasts, desk answers each with
 * a line that holds A + FACTOR * B. When a customer ends their direction of the connection, desk
 * ends the other direction. After CUSTOMERS customers, desk closes.
 *
 * With one customer it is as fast as the link. With several customers, some wait for minutes. In
 * each case another customer had connected before and went to lunch. No processor is busy, no
 * packet is lost, and every connection is made at once.
 *
 * Your task: no customer may wait for another. Every customer is answered, and every connection
 * ends when its customer leaves, whatever the other customers do. A customer who comes back from
 * lunch can finish the line that they had begun.
 */
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
/* BEGIN SOLUTION */
#include <sys/wait.h>
/* END SOLUTION */
#include <unistd.h>

enum { WAITING = 16, FACTOR = 63 };

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static int open_desk(const char *port) {
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    int on = 1;
    if (listener < 0 || setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0)
        fail("socket");
    if (bind(listener, (struct sockaddr *)&own, sizeof own) < 0 || listen(listener, WAITING) < 0)
        fail("listen");
    return listener;
}

/* Answers all lines of one customer, to the end of their stream. */
static void serve(int fd) {
    FILE *in = fdopen(dup(fd), "r");
    if (in == NULL)
        fail("fdopen");
    char line[128];
    long long a, b;
    while (fgets(line, sizeof line, in) != NULL) {
        if (sscanf(line, "sum %lld %lld", &a, &b) != 2)
            break;
        dprintf(fd, "%lld\n", a + FACTOR * b);
    }
    fclose(in);
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: desk PORT CUSTOMERS\n");
        return 2;
    }
    int listener = open_desk(argv[1]);
    for (int left = atoi(argv[2]); left > 0; left--) {
        int fd = accept(listener, NULL, NULL);
        if (fd < 0)
            fail("accept");
        /* BEGIN SOLUTION */
        pid_t clerk = fork();
        if (clerk < 0)
            fail("fork");
        if (clerk == 0) {
            serve(fd);
            _exit(0);
        }
        close(fd); /* the clerk has it; it would not end while we had it, too */
        /* END SOLUTION */
        /* STUB
        serve(fd);
        close(fd);
        */
    }
    /* BEGIN SOLUTION */
    while (wait(NULL) > 0)
        ;
    /* END SOLUTION */
    return 0;
}
