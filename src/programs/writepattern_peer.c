/*
 * writepattern_peer - the other end of writepattern: a receiver that acknowledges as chosen.
 *
 *     writepattern_peer [OPTION]...
 *
 * It serves any number of connections, each in a separate thread, until it is killed. With
 * --quickack off it acknowledges as late as possible, like Windows (TCP_QUICKACK in tcp(7)).
 */
#define _GNU_SOURCE
#include "net.h"

#include <poll.h>
#include <pthread.h>

enum { BUFFER_BYTES = 1 << 20 };

static int64_t reply_every, reply_bytes = 1;
static int quickack = QUICKACK_ON;
static bool reads_at_end;
static char reply[BUFFER_BYTES];

static const struct program_option options[MAX_OPTIONS] = {
    {"quickack", 0, "WHEN", "when to ACK", .choice = &quickack, .names = quickack_names},
    {"reply-every", 0, "BYTES", "answer each BYTES bytes", .number = &reply_every, .min = 1,
     .max = BUFFER_BYTES},
    {"reply-bytes", 0, "BYTES", "bytes in an answer", .number = &reply_bytes, .min = 1,
     .max = BUFFER_BYTES},
    {"read-at-end", 0, NULL, "read only after the sender has shut down", .flag = &reads_at_end},
};

static const struct command command = {
    .usage = "writepattern_peer [OPTION]...",
    .summary = "Receives what any number of writepattern connections send.",
    .options = options,
    .tcp = true,
    .listens = true,
    .port = "listen here; 0 takes a free one",
};

static void *serve(void *argument) {
    int fd = (int)(intptr_t)argument;
    char *buffer = allocate(BUFFER_BYTES, 1);
    int64_t unanswered = 0;
    set_quickack(fd, quickack);
    struct pollfd end = {.fd = fd, .events = POLLRDHUP};
    if (reads_at_end)
        (void)TEMP_FAILURE_RETRY(poll(&end, 1, deadline_ms()));
    /* The sender reports a broken connection. */
    for (ssize_t n; (n = recv(fd, buffer, BUFFER_BYTES, 0)) > 0;) {
        set_quickack(fd, quickack);
        for (unanswered += n; reply_every && unanswered >= reply_every; unanswered -= reply_every)
            send_all(fd, reply, (size_t)reply_bytes, 0);
    }
    close(fd);
    free(buffer);
    return NULL;
}

int main(int argc, char **argv) {
    start_program(argc, argv, &command);

    int listener = listen_on(SOCK_STREAM, common.port, NULL, stdout);
    set_receive_limit(listener, 0); /* A connection may last longer than --deadline. */
    for (;;) {
        pthread_t thread;
        int fd = accept_from(listener);
        if ((errno = pthread_create(&thread, NULL, serve, (void *)(intptr_t)fd)))
            fail("starting a thread");
        pthread_detach(thread);
    }
}
