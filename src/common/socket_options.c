/* socket_options.c - see socket_options.h. */
#include "socket_options.h"

#include "command_line.h"
#include "process.h"

#include <linux/tcp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

void set_option(int fd, int level, int option, int64_t value, const char *name) {
    int number = (int)value;
    if (setsockopt(fd, level, option, &number, sizeof number) < 0)
        fail("%s = %d", name, number);
}

int get_option(int fd, int level, int option, const char *name) {
    int value;
    socklen_t size = sizeof value;
    if (getsockopt(fd, level, option, &value, &size) < 0)
        fail("reading %s", name);
    return value;
}

/* ---- congestion control ---- */

static _Noreturn void fail_congestion(const char *wanted) {
    int error = errno;
    char path[96], names[256] = "?";
    snprintf(path, sizeof path, "/proc/sys/net/ipv4/tcp_%s_congestion_control",
             error == EPERM ? "allowed" : "available");
    FILE *file = fopen(path, "re");
    if (file && fgets(names, sizeof names, file))
        names[strcspn(names, "\n")] = '\0';
    if (error == EPERM)
        fail_because(
            "--congestion %s: only root may choose it here, others: %s; to allow it, as root: "
            "sysctl -w net.ipv4.tcp_allowed_congestion_control='%s %s'",
            wanted, names, names, wanted);
    errno = error;
    fail("--congestion %s (this kernel offers: %s; others are modules for root to load)", wanted,
         names);
}

void choose_congestion(int fd) {
    const char *wanted = common.congestion;
    if (wanted &&
        setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, wanted, (socklen_t)strlen(wanted)) < 0)
        fail_congestion(wanted);
}

/* ---- values that the kernel granted ---- */

static void name_address(int (*get)(int, struct sockaddr *, socklen_t *), int fd, char *text,
                         size_t size) {
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    char host[64], port[8];
    snprintf(text, size, "none");
    if (get(fd, (struct sockaddr *)&address, &length) < 0)
        return;
    if (getnameinfo((struct sockaddr *)&address, length, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) == 0)
        /* A socket for both families shows an IPv4 peer as ::ffff:10.0.0.1. */
        snprintf(text, size, "%s port %s", strncmp(host, "::ffff:", 7) ? host : host + 7, port);
}

struct socket_options read_options(int fd) {
    struct socket_options options = {
        .is_tcp = get_option(fd, SOL_SOCKET, SO_TYPE, "SO_TYPE") == SOCK_STREAM,
        .sndbuf_bytes = get_option(fd, SOL_SOCKET, SO_SNDBUF, "SO_SNDBUF"),
        .rcvbuf_bytes = get_option(fd, SOL_SOCKET, SO_RCVBUF, "SO_RCVBUF"),
    };
    if (options.is_tcp) {
        socklen_t size = sizeof options.congestion;
        if (getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, options.congestion, &size) < 0)
            fail("reading TCP_CONGESTION");
        options.mss = get_option(fd, IPPROTO_TCP, TCP_MAXSEG, "TCP_MAXSEG");
        options.nodelay = get_option(fd, IPPROTO_TCP, TCP_NODELAY, "TCP_NODELAY");
    }
    name_address(getsockname, fd, options.local, sizeof options.local);
    name_address(getpeername, fd, options.peer, sizeof options.peer);
    return options;
}

/* ---- acknowledgements ---- */

const char *const quickack_names[] = {"on", "off", "always", NULL};

/* The option has to be set repeatedly: "This flag is not permanent" (tcp(7)). */
int set_quickack(int fd, int when) {
    if (when == QUICKACK_ON)
        return 0;
    set_option(fd, IPPROTO_TCP, TCP_QUICKACK, when == QUICKACK_ALWAYS, "TCP_QUICKACK");
    return 1;
}
