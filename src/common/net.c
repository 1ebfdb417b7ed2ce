/* net.c - see net.h. */
#include "net.h"

#include <linux/errqueue.h>
#include <math.h>
#include <netdb.h>
#include <poll.h>
#include <sys/time.h>

/* ---- the deadline ---- */

int deadline_ms(void) {
    return common.deadline_s > 0 ? (int)fmin(ceil(common.deadline_s * 1000), 2e9) : -1;
}

void fail_transfer(const char *what) {
    if (errno == EAGAIN || errno == EINPROGRESS)
        fail_because("%s: no progress for %g s (--deadline)", what, common.deadline_s);
    if (errno == EFAULT) /* pages of a mapping beyond the end of its file */
        fail_because("%s: the file became shorter while it was sent", what);
    fail("%s", what);
}

bool past_deadline(int64_t start_ns) {
    double waited_s = (double)(clock_ns(CLOCK_MONOTONIC) - start_ns) / 1e9;
    return common.deadline_s > 0 && waited_s > common.deadline_s;
}

static void set_limit(int fd, int option, const char *name, double limit_s) {
    int64_t us = (int64_t)ceil(limit_s * 1e6); /* round up, since 0 means no limit */
    struct timeval limit = {.tv_sec = us / 1000000, .tv_usec = us % 1000000};
    if (setsockopt(fd, SOL_SOCKET, option, &limit, sizeof limit) < 0)
        fail("%s", name);
}

void set_receive_limit(int fd, double limit_s) {
    set_limit(fd, SO_RCVTIMEO, "SO_RCVTIMEO", limit_s);
}

/* Lets the kernel end waits with EAGAIN, so that programs need neither poll() nor timers. */
static void set_deadline(int fd) {
    set_receive_limit(fd, common.deadline_s);
    set_limit(fd, SO_SNDTIMEO, "SO_SNDTIMEO", common.deadline_s);
}

/* ---- connecting and listening ---- */

static struct addrinfo *resolve(int type, const char *host, const char *port, int family) {
    struct addrinfo hints = {.ai_family = family, .ai_socktype = type};
    hints.ai_flags = AI_NUMERICSERV | (host ? 0 : AI_PASSIVE);
    struct addrinfo *list;
    int error = getaddrinfo(host, port, &hints, &list);
    if (error)
        fail_because("%s: %s", host ? host : "any address", gai_strerror(error));
    return list;
}

static int open_socket(const struct addrinfo *address, void (*prepare)(int fd)) {
    int fd = socket(address->ai_family, address->ai_socktype | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    set_deadline(fd);
    if (address->ai_socktype == SOCK_STREAM)
        choose_congestion(fd);
    if (prepare)
        prepare(fd);
    return fd;
}

/* Closes the socket, if there is one, and preserves errno. Returns -1. */
static int give_up(int fd) {
    int error = errno;
    if (fd >= 0)
        close(fd);
    errno = error;
    return -1;
}

/* Connects despite SIGSTOP and SIGCONT, which interrupt a connect() with a time limit. */
static long connect_fully(int fd, const struct addrinfo *address) {
    long result = TEMP_FAILURE_RETRY(connect(fd, address->ai_addr, address->ai_addrlen));
    return result < 0 && errno == EISCONN ? 0 : result;
}

/* Sets the common options of a connected TCP socket. */
static void set_common_options(int fd) {
    choose_congestion(fd);
    if (common.nodelay)
        set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY");
}

int connect_to(int type, const char *host, const char *port, void (*prepare)(int fd)) {
    whole_number("PORT", port, 1, 65535);
    struct addrinfo *list = resolve(type, host, port, AF_UNSPEC);
    int fd = -1;
    for (struct addrinfo *address = list; address; address = address->ai_next) {
        fd = open_socket(address, prepare);
        if (fd >= 0 && connect_fully(fd, address) == 0)
            break;
        fd = give_up(fd);
    }
    if (fd < 0) {
        char what[512];
        snprintf(what, sizeof what, "%s port %s", host, port);
        fail_transfer(what);
    }
    freeaddrinfo(list);
    if (type == SOCK_STREAM)
        set_common_options(fd);
    return fd;
}

/* Binds one socket for both families if the machine has IPv6. */
static int bind_socket(const struct addrinfo *address, void (*prepare)(int fd)) {
    int fd = open_socket(address, prepare);
    if (fd < 0)
        return -1;
    set_option(fd, SOL_SOCKET, SO_REUSEADDR, address->ai_socktype == SOCK_STREAM, "SO_REUSEADDR");
    if (address->ai_family == AF_INET6)
        set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0, "IPV6_V6ONLY");
    if (bind(fd, address->ai_addr, address->ai_addrlen) == 0)
        return fd;
    return give_up(fd);
}

int local_port(int fd) {
    struct sockaddr_in6 address = {0}; /* the port is at the same place in a sockaddr_in */
    socklen_t size = sizeof address;
    if (getsockname(fd, (struct sockaddr *)&address, &size) < 0)
        fail("getsockname");
    return ntohs(address.sin6_port);
}

int listen_on(int type, const char *port, void (*prepare)(int fd), FILE *out) {
    whole_number("PORT", port, 0, 65535);
    struct addrinfo *list = resolve(type, common.bind, port, common.bind ? AF_UNSPEC : AF_INET6);
    int fd = bind_socket(list, prepare);
    if (fd < 0 && !common.bind && (errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL)) {
        freeaddrinfo(list);
        list = resolve(type, NULL, port, AF_INET);
        fd = bind_socket(list, prepare);
    }
    freeaddrinfo(list);
    if (fd < 0)
        fail("port %s", port);
    if (type == SOCK_STREAM && listen(fd, SOMAXCONN) < 0)
        fail("listen");
    if (out) {
        fprintf(out, common.json ? "{\"listening\": %d}\n" : "listening on %d\n", local_port(fd));
        finish_output(out);
    }
    return fd;
}

int accept_from(int listener) {
    int fd;
    do
        fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    while (fd < 0 && (errno == EINTR || errno == ECONNABORTED));
    if (fd < 0)
        fail_transfer("waiting for a client");
    set_deadline(fd);
    set_common_options(fd);
    return fd;
}

/* ---- sending and receiving ---- */

size_t receive(int fd, void *buffer, size_t size, int flags) {
    ssize_t got = TEMP_FAILURE_RETRY(recv(fd, buffer, size, flags));
    if (got < 0)
        fail_transfer("receiving");
    return (size_t)got;
}

int64_t send_all(int fd, const void *buffer, size_t size, int flags) {
    const char *next = buffer;
    int64_t calls = 0;
    for (size_t left = size; left > 0; calls++) {
        ssize_t sent = send(fd, next, left, flags);
        if (sent < 0 && errno != EINTR)
            fail_transfer("sending");
        if (sent > 0) {
            next += sent;
            left -= (size_t)sent;
        }
    }
    return calls;
}

size_t receive_all(int fd, void *buffer, size_t size, int64_t *calls) {
    size_t filled = 0;
    while (filled < size) {
        size_t got = receive(fd, (char *)buffer + filled, size - filled, 0);
        ++*calls;
        if (got == 0)
            break;
        filled += got;
    }
    return filled;
}

void finish_sending(int fd, const char *peer) {
    char extra;
    if (shutdown(fd, SHUT_WR) < 0)
        fail("%s closed the connection early", peer);
    if (receive(fd, &extra, 1, 0) > 0)
        fail_because("%s sent more data than requested", peer);
}

/* ---- zerocopy ---- */

/* Reads one message, which reports a range of sends; returns false if there is none. */
static bool read_zerocopy_report(int fd, struct zerocopy *z) {
    char control[128];
    struct msghdr message = {.msg_control = control, .msg_controllen = sizeof control};
    z->system_calls++;
    if (recvmsg(fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) {
        if (errno != EAGAIN && errno != EINTR)
            fail("reading the error queue");
        return false;
    }
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
        struct sock_extended_err report;
        memcpy(&report, CMSG_DATA(c), sizeof report);
        uint32_t sends = report.ee_data - report.ee_info + 1;
        if (report.ee_origin != SO_EE_ORIGIN_ZEROCOPY)
            continue;
        z->done += sends;
        if (report.ee_code & SO_EE_CODE_ZEROCOPY_COPIED)
            z->copied += sends;
    }
    return true;
}

void await_zerocopy(int fd, struct zerocopy *z) {
    struct pollfd errors = {.fd = fd}; /* POLLERR is always reported */
    z->system_calls++;
    if (poll(&errors, 1, deadline_ms()) == 0)
        fail_because("the receiver has acknowledged nothing for %g s (--deadline)",
                     common.deadline_s);
    while (read_zerocopy_report(fd, z))
        ;
}
