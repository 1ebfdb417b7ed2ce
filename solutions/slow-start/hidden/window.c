/*
 * window - send a file over UDP with a congestion window, as QUIC does.
 *
 *     window ADDRESS PORT FILE
 *
 * The file is cut into pieces of PIECE_BYTES bytes, and each packet is a number (4 bytes, network
 * byte order, starting at 0) followed by its piece. The receiver answers each packet that arrives
 * with an 8-byte ACK, which holds the lowest number that it does not have yet, and the number of
 * the packet that arrived. Packets get lost, and so do ACKs. The receiver has everything when the
 * lowest missing number is the number of pieces.
 *
 * Your task: implement the congestion control of RFC 5681, counted in packets, as in lesson
 * slow-start.
 *
 *   - Ten packets may be in flight at first. In slow start the window grows by one for each packet
 *     that is acknowledged.
 *   - A packet counts as lost when a packet that was sent three or more packets later has arrived (a
 *     copy counts as sent after all packets before it). The window is then halved, once for all
 *     packets in flight at that moment. Slow start is over, and the window grows by one per window.
 *   - When no ACK arrives for TIMEOUT_MS, everything in flight is lost. Slow start then ends at half
 *     of the current window, and the window becomes one packet.
 *   - Lost packets are sent again before any new packet. Packets that have arrived are never sent
 *     again.
 *
 * Only the code between "The sender" and "The network" needs to change.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { PIECE_BYTES = 447, MOST_PIECES = 4096, TIMEOUT_MS = 1000 };

struct ack {
    unsigned next; /* the lowest number that the receiver does not have */
    unsigned came; /* the number of the packet that it answers */
};

static unsigned pieces; /* number of pieces of the file */

static void send_piece(unsigned number);
static bool wait_for_ack(struct ack *ack); /* false: none came for TIMEOUT_MS */

/* ---- The sender ------------------------------------------------------------------------------ */

/* BEGIN SOLUTION */
enum state { WAITS, IN_FLIGHT, HAS_COME };

static enum state states[MOST_PIECES];
static unsigned turns[MOST_PIECES]; /* which packet of all, copies too, was the last with a piece */
static unsigned turn;               /* packets sent so far */
static unsigned in_flight, window = 10, threshold = UINT32_MAX;
static unsigned grown;     /* acknowledged since the window grew, after slow start */
static unsigned recovered; /* the window has been halved for all that were sent before this turn */

static void acknowledge(unsigned number) {
    if (states[number] == IN_FLIGHT)
        in_flight--;
    if (states[number] != HAS_COME) {
        states[number] = HAS_COME;
        if (window < threshold) {
            window++;
        } else if (++grown >= window) {
            window++;
            grown = 0;
        }
    }
}

static void lose(unsigned number) {
    states[number] = WAITS;
    in_flight--;
}

static void look_for_losses(unsigned came) {
    for (unsigned number = 0; number < pieces; number++) {
        if (states[number] != IN_FLIGHT || turns[number] + 3 > turns[came])
            continue;
        lose(number);
        if (turns[number] >= recovered) {
            threshold = window = window / 2 > 2 ? window / 2 : 2;
            recovered = turn;
        }
    }
}

static void time_out(void) {
    threshold = window / 2 > 2 ? window / 2 : 2;
    window = 1;
    recovered = turn;
    for (unsigned number = 0; number < pieces; number++)
        if (states[number] == IN_FLIGHT)
            lose(number);
}
/* END SOLUTION */
static void transfer(void) {
    /* BEGIN SOLUTION */
    struct ack ack = {0, 0};
    while (ack.next < pieces) {
        for (unsigned number = ack.next; number < pieces && in_flight < window; number++) {
            if (states[number] != WAITS)
                continue;
            send_piece(number);
            states[number] = IN_FLIGHT;
            turns[number] = turn++;
            in_flight++;
        }
        if (!wait_for_ack(&ack)) {
            time_out();
            continue;
        }
        /* An earlier ACK may have been lost; this ACK covers the same packets. */
        for (unsigned number = 0; number < ack.next; number++)
            acknowledge(number);
        acknowledge(ack.came);
        look_for_losses(ack.came);
    }
    /* END SOLUTION */
    /* STUB
    struct ack ack = {0, 0};
    while (ack.next < pieces) {
        send_piece(ack.next);
        wait_for_ack(&ack);
    }
    */
}

/* ---- The network ----------------------------------------------------------------------------- */

static int connection;
static char data[MOST_PIECES][PIECE_BYTES];
static size_t last_bytes; /* the size of the last piece */

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void send_piece(unsigned number) {
    struct {
        uint32_t number;
        char bytes[PIECE_BYTES];
    } packet = {htonl(number), {0}};
    size_t size = number + 1 == pieces ? last_bytes : PIECE_BYTES;
    memcpy(packet.bytes, data[number], size);
    if (send(connection, &packet, sizeof packet.number + size, 0) < 0)
        fail("send");
}

static bool wait_for_ack(struct ack *ack) {
    uint32_t words[2];
    ssize_t got = recv(connection, words, sizeof words, 0);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return false;
    if (got != sizeof words)
        fail("recv");
    /* An ACK that was overtaken covers less than an earlier one. */
    ack->next = ntohl(words[0]) > ack->next ? ntohl(words[0]) : ack->next;
    ack->came = ntohl(words[1]);
    if (ack->next > pieces || ack->came >= pieces) {
        fprintf(stderr, "an ACK for what was not sent\n");
        exit(1);
    }
    return true;
}

static void open_connection(const char *address, const char *port) {
    struct sockaddr_in server = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    if (inet_pton(AF_INET, address, &server.sin_addr) != 1)
        fail("ADDRESS");
    struct timeval timeout = {TIMEOUT_MS / 1000, TIMEOUT_MS % 1000 * 1000};
    connection = socket(AF_INET, SOCK_DGRAM, 0);
    if (connection < 0 ||
        setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout) < 0 ||
        connect(connection, (struct sockaddr *)&server, sizeof server) < 0)
        fail("connect");
}

static void read_file(const char *path) {
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        fail(path);
    size_t size = fread(data, 1, sizeof data, file);
    if (size == 0 || size == sizeof data) {
        fprintf(stderr, "%s: empty, or too long\n", path);
        exit(1);
    }
    fclose(file);
    pieces = (unsigned)((size + PIECE_BYTES - 1) / PIECE_BYTES);
    last_bytes = size - (pieces - 1) * (size_t)PIECE_BYTES;
}

int main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: window ADDRESS PORT FILE\n");
        return 2;
    }
    read_file(argv[3]);
    open_connection(argv[1], argv[2]);
    transfer();
    close(connection);
    return 0;
}
