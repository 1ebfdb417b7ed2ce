/* record.c - see record.h. */
#include "record.h"

#include "filter.h"
#include "net.h"
#include "seccomp_filter.h"
#include "target.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>

enum {
    LOG_BUFFER_BYTES = 1 << 20,
    PROTOCOL_MPTCP = 262, /* falls back to TCP if the peer supports only that; Go requests it */
    COOKIES = 1 << 14,
    TASKS = 256,
    USED_NS = 1000000, /* the use of the CPU is logged at most once in this time */
};

static FILE *out;
static int64_t most, calls, logged, stopped_total_ns;
static int64_t began_ns; /* start of the current call */
static pid_t caller;     /* the task that makes the current call */
static char lines[2 * PATH_MAX];
static size_t used;
/* Cookies of sockets whose "socket" line is written. An evicted socket gets another line. */
static uint64_t introduced[COOKIES];

void open_record(const char *path, int64_t limit) {
    out = fopen(path, "we");
    if (!out || setvbuf(out, NULL, _IOFBF, LOG_BUFFER_BYTES) != 0)
        fail("%s", path);
    most = limit;
}

/* ---- lines ---- */

static void add(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void add(const char *format, ...) {
    va_list args;
    va_start(args, format);
    int length = vsnprintf(lines + used, sizeof lines - used, format, args);
    va_end(args);
    if (length > 0 && used + (size_t)length < sizeof lines)
        used += (size_t)length;
}

static void begin_line(const char *event, uint64_t cookie) {
    add("%lld %s %llu %d", (long long)began_ns, event, (unsigned long long)cookie, caller);
}

static void line(const char *event, const char *word) {
    begin_line(event, 0);
    add(" %s\n", word);
}

void write_down(bool goes_on, int64_t stopped_ns) {
    stopped_total_ns += stopped_ns;
    if (goes_on && used > 0 && fwrite(lines, used, 1, out) != 1)
        fail("writing the log of calls");
    logged += goes_on && used > 0;
    calls += goes_on;
    used = 0;
}

void flush_log(void) {
    if (fflush(out) == EOF)
        fail("writing the log of calls");
}

void log_exit(pid_t child, int status) {
    fprintf(out, "%lld exit 0 %d %d\n", (long long)clock_ns(CLOCK_REALTIME), child, status);
}

void close_record(void) {
    fprintf(out, "%lld end 0 0 %lld %lld %lld\n", (long long)clock_ns(CLOCK_REALTIME),
            (long long)calls, (long long)logged, (long long)stopped_total_ns);
    if (fclose(out) == EOF)
        fail("writing the log of calls");
}

/* ---- sockets ---- */

static int number(int fd, int level, int option) {
    int value = 0;
    getsockopt(fd, level, option, &value, &(socklen_t){sizeof value});
    return value;
}

enum kind_of_socket { NO_SOCKET, TCP_SOCKET, UDP_SOCKET, UNIX_SOCKET };

static enum kind_of_socket kind_of(int fd) {
    int protocol = number(fd, SOL_SOCKET, SO_PROTOCOL), family = number(fd, SOL_SOCKET, SO_DOMAIN);
    if (family == AF_UNIX)
        return UNIX_SOCKET;
    if (family != AF_INET && family != AF_INET6)
        return NO_SOCKET;
    return protocol == IPPROTO_TCP || protocol == PROTOCOL_MPTCP ? TCP_SOCKET
           : protocol == IPPROTO_UDP                             ? UDP_SOCKET
                                                                 : NO_SOCKET;
}

union address {
    struct sockaddr any;
    struct sockaddr_in four;
    struct sockaddr_in6 six;
    struct sockaddr_un local;
};

static void add_address(const union address *address) {
    char text[INET6_ADDRSTRLEN] = "?";
    bool old = address->any.sa_family == AF_INET;
    const void *number = &address->six.sin6_addr;
    if (old)
        number = &address->four.sin_addr;
    inet_ntop(address->any.sa_family, number, text, sizeof text);
    add(" %s %d", text, ntohs(old ? address->four.sin_port : address->six.sin6_port));
}

static void address_line(const char *event, uint64_t cookie, const union address *address) {
    begin_line(event, cookie);
    add_address(address);
    add("\n");
}

static void introduce(int fd, uint64_t cookie) {
    union address local = {0}, peer = {0};
    socklen_t local_size = sizeof local, peer_size = sizeof peer;
    char congestion[17] = "?";
    socklen_t congestion_size = sizeof congestion - 1;
    if (introduced[cookie % COOKIES] == cookie || getpeername(fd, &peer.any, &peer_size) < 0 ||
        getsockname(fd, &local.any, &local_size) < 0)
        return;
    getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, congestion, &congestion_size);
    begin_line("socket", cookie);
    add_address(&local);
    add_address(&peer);
    add(" %d %d %d %d %d %s\n", number(fd, IPPROTO_TCP, TCP_NODELAY),
        number(fd, IPPROTO_TCP, TCP_CORK), number(fd, SOL_SOCKET, SO_SNDBUF),
        number(fd, SOL_SOCKET, SO_RCVBUF), number(fd, IPPROTO_TCP, TCP_MAXSEG), congestion);
    introduced[cookie % COOKIES] = cookie;
}

/* States of TCP, from include/net/tcp_states.h. */
enum {
    TCP_SYN_IS_SENT = 2,
    TCP_CLOSED = 7,
    TCP_CLOSE_WAIT = 8,
    TCP_LAST_ACK = 9,
    TCP_CLOSING = 11,
};

/* Bytes passed to TCP are those sent for the first time, plus those not sent yet. */
static void add_state(int fd) {
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    int unread = 0;
    getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size);
    if (ioctl(fd, SIOCINQ, &unread) < 0)
        unread = 0;
    /* TCP counts the peer's FIN like a byte, but SIOCINQ does not. */
    bool ended = info.tcpi_state == TCP_CLOSE_WAIT || info.tcpi_state == TCP_LAST_ACK ||
                 info.tcpi_state == TCP_CLOSING;
    add(" %lld %lld %d %u %u %u %u %u %u %u %u %llu %llu %u %u %u\n",
        (long long)(info.tcpi_bytes_sent - info.tcpi_bytes_retrans + info.tcpi_notsent_bytes),
        (long long)info.tcpi_bytes_received - unread - ended, unread, info.tcpi_unacked,
        info.tcpi_snd_cwnd, info.tcpi_snd_ssthresh, info.tcpi_sacked, info.tcpi_lost,
        info.tcpi_retrans, info.tcpi_notsent_bytes, info.tcpi_snd_wnd,
        (unsigned long long)info.tcpi_sndbuf_limited, (unsigned long long)info.tcpi_rwnd_limited,
        info.tcpi_rtt, info.tcpi_min_rtt, info.tcpi_total_retrans);
}

/* ---- a call's arguments ---- */

static uint64_t vector_bytes(uint64_t address, uint64_t count) {
    struct iovec parts[64];
    uint64_t total = 0;
    while (count > 0) {
        size_t wanted = count < COUNT(parts) ? count : COUNT(parts);
        size_t got = copy_from(caller, address, parts, wanted * sizeof *parts) / sizeof *parts;
        for (size_t i = 0; i < got; i++)
            total += parts[i].iov_len;
        if (got < wanted)
            break;
        address += got * sizeof *parts;
        count -= got;
    }
    return total;
}

static uint64_t message_bytes(uint64_t address) {
    struct msghdr message;
    if (copy_from(caller, address, &message, sizeof message) < sizeof message)
        return 0;
    return vector_bytes((uintptr_t)message.msg_iov, message.msg_iovlen);
}

static uint64_t bytes_asked(const struct watched_call *call, const __u64 *args) {
    uint64_t total = 0;
    switch (call->how) {
    default:
        return 0;
    case REGISTER:
        return args[call->size];
    case VECTOR:
        return vector_bytes(args[call->size], args[call->size + 1]);
    case MESSAGE:
        return message_bytes(args[call->size]);
    case MESSAGES:
        for (uint64_t i = 0; i < args[2] && i < IOV_MAX; i++)
            total += message_bytes(args[call->size] + i * sizeof(struct mmsghdr));
        return total;
    }
}

/* ---- the calls ---- */

static const char *write_name(const struct watched_call *call, const __u64 *args) {
    /* Like the kernel's fs/splice.c, assume that more data will come from the pipe. */
    if (call->number == SYS_splice)
        return args[5] & SPLICE_F_MORE ? "more" : "write";
    unsigned long long flags = call->flags < 0 ? 0 : args[call->flags];
    return flags & MSG_MORE ? "more" : flags & MSG_ZEROCOPY ? "zerocopy" : "write";
}

static const struct {
    int level, option;
    const char *name;
} known_options[] = {
    {IPPROTO_TCP, TCP_NODELAY, "nodelay"},
    {IPPROTO_TCP, TCP_CORK, "cork"},
    {IPPROTO_TCP, TCP_QUICKACK, "quickack"},
    {IPPROTO_TCP, TCP_MAXSEG, "maxseg"},
    {IPPROTO_TCP, TCP_NOTSENT_LOWAT, "notsent_lowat"},
    {IPPROTO_TCP, TCP_WINDOW_CLAMP, "window_clamp"},
    {IPPROTO_TCP, TCP_DEFER_ACCEPT, "defer_accept"},
    {SOL_SOCKET, SO_MAX_PACING_RATE, "max_pacing_rate"},
    {SOL_SOCKET, SO_SNDBUF, "sndbuf"},
    {SOL_SOCKET, SO_RCVBUF, "rcvbuf"},
    {SOL_SOCKET, SO_ZEROCOPY, "zerocopy"},
};

static void look_at_option(uint64_t cookie, const __u64 *args) {
    for (size_t i = 0; i < COUNT(known_options); i++)
        if ((int)args[1] == known_options[i].level && (int)args[2] == known_options[i].option) {
            int value = 0;
            copy_from(caller, args[3], &value, sizeof value);
            begin_line("option", cookie);
            add(" %s %d\n", known_options[i].name, value);
        }
}

/* ---- attempts to connect ---- */

/* The address of the last attempt of each socket, for the reason of a failure. */
static struct {
    uint64_t cookie;
    union address peer;
} attempts[COOKIES];

/* Copies a socket address of the caller; returns false unless it is an internet address. */
static bool copy_address(uint64_t at, uint64_t size, union address *address) {
    memset(address, 0, sizeof *address);
    copy_from(caller, at, address, size < sizeof *address ? size : sizeof *address);
    return address->any.sa_family == AF_INET || address->any.sa_family == AF_INET6;
}

/* A UDP socket sends nothing when it connects, so it shows whether the host has a route. */
static int route_error(const union address *peer) {
    int fd = socket(peer->any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int error = fd < 0 || connect(fd, &peer->any, sizeof peer->six) < 0 ? errno : 0;
    if (fd >= 0)
        close(fd);
    return error;
}

/* Logs an attempt that failed, when the program closes the socket or tries again. */
static void look_at_failure(int fd, uint64_t cookie) {
    struct tcp_info info = {0};
    getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &(socklen_t){sizeof info});
    if (attempts[cookie % COOKIES].cookie != cookie || introduced[cookie % COOKIES] == cookie)
        return;
    attempts[cookie % COOKIES].cookie = 0;
    if (info.tcpi_state != TCP_CLOSED && info.tcpi_state != TCP_SYN_IS_SENT)
        return;
    begin_line("failed", cookie);
    add_address(&attempts[cookie % COOKIES].peer);
    add(" %d\n", info.tcpi_state == TCP_SYN_IS_SENT
                     ? EINPROGRESS
                     : route_error(&attempts[cookie % COOKIES].peer));
}

static void look_at_connect(int fd, uint64_t cookie, uint64_t address, uint64_t size) {
    union address peer;
    if (!copy_address(address, size, &peer))
        return;
    look_at_failure(fd, cookie);
    address_line("connect", cookie, &peer);
    attempts[cookie % COOKIES].cookie = cookie;
    attempts[cookie % COOKIES].peer = peer;
}

/* ---- sockets other than TCP, sleeping, and the use of the CPU ---- */

/* Adds the peer of a UDP or Unix socket, which may be named in the call. */
static void add_other(int fd, enum kind_of_socket kind, uint64_t at, uint64_t size) {
    union address peer = {0};
    socklen_t length = sizeof peer;
    if (at)
        copy_from(caller, at, &peer, size < sizeof peer ? size : sizeof peer);
    else
        getpeername(fd, &peer.any, &length);
    if (kind == UDP_SOCKET) {
        add(" udp");
        add_address(&peer);
        return;
    }
    char *path = peer.local.sun_path, *last = path + sizeof peer.local.sun_path - 1;
    *last = '\0';
    if (!*path && path[1])
        *path = '@'; /* an abstract name (unix(7)) */
    for (char *letter = path; *letter; letter++)
        if (*letter <= ' ')
            *letter = '?';
    add(" unix %s 0", *path ? path : "?");
}

static void look_at_other(const struct watched_call *call, int fd, enum kind_of_socket kind,
                          uint64_t cookie, const __u64 *args) {
    bool connects = call->kind == CONNECTS;
    const __u64 *name = connects ? args + 1 : call->number == SYS_sendto ? args + 4 : NULL;
    if (call->kind != READS && call->kind != WRITES && !connects)
        return;
    begin_line("other", cookie);
    add(" %s", connects ? "connect" : call->kind == READS ? "read" : "write");
    add_other(fd, kind, name ? name[0] : 0, name ? name[1] : 0);
    add("\n");
}

/* Returns a time in the caller's memory in ns, or -1 if there is none. */
static int64_t copy_time(uint64_t at, int64_t unit_ns) {
    int64_t time[2];
    if (!at || copy_from(caller, at, time, sizeof time) < sizeof time)
        return -1;
    return time[0] * INT64_C(1000000000) + time[1] * unit_ns;
}

static void look_at_sleep(const struct watched_call *call, const __u64 *args) {
    int64_t time_ns = copy_time(args[call->size], 1);
    if (args[call->flags] & TIMER_ABSTIME)
        time_ns -= clock_ns((clockid_t)args[0]);
    begin_line("sleep", 0);
    add(" %lld\n", (long long)(time_ns > 0 ? time_ns : 0));
}

/* Logs a wait for events. If the first descriptor is a UDP or Unix socket, it is named. */
static void look_at_poll(const struct watched_call *call, const __u64 *args) {
    int timeout_ms = call->how == MILLISECONDS ? (int)args[call->size] : 0;
    int64_t timeout_ns = call->how == MILLISECONDS
                             ? (timeout_ms < 0 ? -1 : timeout_ms * INT64_C(1000000))
                             : copy_time(args[call->size], call->how == TIMEVAL ? 1000 : 1);
    if (timeout_ns == 0)
        return;
    begin_line("poll", 0);
    add(" %lld", (long long)timeout_ns);
    bool is_poll = call->size == 2; /* poll(2) or ppoll(2), whose timeout is the third argument */
    struct pollfd first;
    if (is_poll && args[1] > 0 &&
        copy_from(caller, args[0], &first, sizeof first) == sizeof first) {
        int fd = borrow(caller, first.fd);
        enum kind_of_socket kind = fd < 0 ? NO_SOCKET : kind_of(fd);
        if (kind == UDP_SOCKET || kind == UNIX_SOCKET)
            add_other(fd, kind, 0, 0);
        if (fd >= 0)
            close(fd);
    }
    add("\n");
}

/* Returns for how long a task has waited for a CPU, if the kernel counts it. */
static int64_t waited_for_cpu_ns(pid_t task) {
    char text[64];
    read_about(task, "schedstat", text, sizeof text);
    char *second = strchr(text, ' ');
    return second ? strtoll(second, NULL, 10) : 0;
}

/* Logs the CPU time of the caller's process, if its last line is old or the process ends. */
static void log_use(bool ends) {
    static struct {
        pid_t process;
        int64_t logged_ns;
    } latest[TASKS];
    pid_t process = process_of(caller);
    unsigned slot = (unsigned)process % TASKS;
    if (!ends && latest[slot].process == process && began_ns - latest[slot].logged_ns < USED_NS)
        return;
    latest[slot].process = process;
    latest[slot].logged_ns = began_ns;
    struct timespec cpu = {0};
    /* The clock of another process, as clock_getcpuclockid(3) makes it. */
    clock_gettime((clockid_t)((~(unsigned)process << 3) | 2), &cpu);
    fprintf(out, "%lld used 0 %d %d %lld %lld %lld\n", (long long)began_ns, caller, process,
            cpu.tv_sec * 1000000000LL + cpu.tv_nsec, (long long)waited_for_cpu_ns(caller),
            (long long)(stopped_total_ns + waited_for_cpu_ns(getpid())));
}

static void look_at_listen(int fd, uint64_t cookie) {
    union address local = {0};
    socklen_t size = sizeof local;
    if (getsockname(fd, &local.any, &size) < 0)
        return;
    address_line("listen", cookie, &local);
    /* Flush it, since a reader may wait for this line. */
    fwrite(lines, used, 1, out);
    used = 0;
    flush_log();
}

/* Copies the caller's string page by page, since the page after its last one may not be mapped. */
static void copy_text(uint64_t address, char *to, size_t size) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), filled = 0;
    while (filled < size - 1 && !memchr(to, '\0', filled)) {
        size_t wanted = page - (address + filled) % page;
        if (wanted > size - 1 - filled)
            wanted = size - 1 - filled;
        if (copy_from(caller, address + filled, to + filled, wanted) < wanted)
            break;
        filled += wanted;
    }
    to[filled] = '\0';
}

static void look_at_exec(const __u64 *args) {
    char path[PATH_MAX] = "";
    struct stat about = {0};
    copy_text(args[0], path, sizeof path);
    for (char *at = path; *at; at++)
        if (*at == '\n')
            *at = '?';
    /* A shell tries each directory of PATH. */
    if (path[0] == '/' && stat(path, &about) < 0)
        return;
    line("exec", path);
    if (path[0] == '/' && (about.st_mode & (S_ISUID | S_ISGID)))
        line("unseen", "setuid");
}

/* A socket that was never connected is not logged. */
static void look_at_transfer(const struct watched_call *call, int fd, uint64_t cookie,
                             const __u64 *args) {
    const char *name = call->kind == WRITES  ? write_name(call, args)
                       : call->kind == READS ? "read"
                       : call->kind == SHUTS ? "shutdown"
                                             : "close";
    introduce(fd, cookie);
    if (introduced[cookie % COOKIES] != cookie) {
        if (call->kind == CLOSES)
            look_at_failure(fd, cookie);
        else if (call->number == SYS_sendto && args[3] & MSG_FASTOPEN)
            look_at_connect(fd, cookie, args[4], args[5]);
        return;
    }
    begin_line(name, cookie);
    add(" %llu", (unsigned long long)bytes_asked(call, args));
    add_state(fd);
}

static void look_at_socket(const struct watched_call *call, int fd, const __u64 *args) {
    uint64_t cookie = 0;
    enum kind_of_socket kind = kind_of(fd);
    if (kind == NO_SOCKET)
        return;
    getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &(socklen_t){sizeof cookie});
    struct stat about = {0};
    /* An accepted MPTCP socket has the cookie of the socket that listens. */
    if (kind == TCP_SOCKET && number(fd, SOL_SOCKET, SO_PROTOCOL) == PROTOCOL_MPTCP &&
        fstat(fd, &about) == 0)
        cookie = about.st_ino | UINT64_C(1) << 62;
    if (kind != TCP_SOCKET)
        look_at_other(call, fd, kind, cookie, args);
    else if (call->kind == ANSWERS) {
        begin_line("accept", cookie);
        add("\n");
    } else if (call->kind == CONNECTS)
        look_at_connect(fd, cookie, args[1], args[2]);
    else if (call->kind == LISTENS)
        look_at_listen(fd, cookie);
    else if (call->kind == SETS)
        look_at_option(cookie, args);
    else
        look_at_transfer(call, fd, cookie, args);
}

void look_at(const struct seccomp_notif *notice, int64_t now_ns) {
    const struct watched_call *call = find_call(notice->data.nr);
    const __u64 *args = notice->data.args;
    caller = (pid_t)notice->pid;
    began_ns = now_ns;
    used = 0;
    if (logged >= most)
        return;
    if (notice->data.arch != THIS_ARCHITECTURE) {
        line("unseen", "32-bit");
        return;
    }
    if (!call)
        return;
    log_use(call->kind == EXITS);
    if (call->kind == UNSEEN) {
        line("unseen", "io_uring");
    } else if (call->kind == EXECS) {
        look_at_exec(args);
    } else if (call->kind == SLEEPS) {
        look_at_sleep(call, args);
    } else if (call->kind == POLLS) {
        look_at_poll(call, args);
    } else if (call->kind != EXITS) {
        int fd = borrow(caller, (int)args[call->fd]);
        if (fd < 0 && (errno == EPERM || errno == EACCES))
            line("unseen", "not-allowed");
        if (fd >= 0)
            look_at_socket(call, fd, args);
        if (fd >= 0)
            close(fd);
    }
}
