/* net.c - see net.h. */
#define _GNU_SOURCE
#include "net.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/errqueue.h>
#include <math.h>
#include <netdb.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

/* ---- errors ---- */

/* When two threads fail at once, one has the word: two lines would be one too many, and two calls
 * of exit() are undefined. */
static void be_the_only_one(void) {
    static atomic_flag taken = ATOMIC_FLAG_INIT;
    while (atomic_flag_test_and_set(&taken))
        pause();
}

static void complain(const char *format, va_list args) {
    be_the_only_one();
    fflush(stdout);
    fprintf(stderr, "%s: ", program_invocation_short_name);
    vfprintf(stderr, format, args);
}

void fail(const char *format, ...) {
    int error = errno;
    va_list args;
    va_start(args, format);
    complain(format, args);
    va_end(args);
    const char *name = strerrorname_np(error);
    fprintf(stderr, ": %s: %s\n", name ? name : "unknown error", strerror(error));
    exit(1);
}

void fail_because(const char *format, ...) {
    va_list args;
    va_start(args, format);
    complain(format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(1);
}

void usage_error(const char *format, ...) {
    va_list args;
    va_start(args, format);
    complain(format, args);
    va_end(args);
    fputs(" (try --help)\n", stderr);
    exit(2);
}

/* ---- arguments ---- */

int64_t whole_number(const char *name, const char *text, int64_t min, int64_t max) {
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end != '\0')
        usage_error("%s: '%s' is not a whole number", name, text);
    if (errno == ERANGE || value < min || value > max)
        usage_error("%s: %s is outside %lld to %lld", name, text, (long long)min, (long long)max);
    return value;
}

double decimal_number(const char *name, const char *text, double min, double max) {
    char *end;
    errno = 0;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(value))
        usage_error("%s: '%s' is not a number", name, text);
    if (errno == ERANGE || value < min || value > max)
        usage_error("%s: %s is outside %g to %g", name, text, min, max);
    return value;
}

/* ---- starting ---- */

/* In a signal handler: only what signal-safety(7) allows, no printf and no exit handlers. */
static _Noreturn void exit_from_handler(const char *what) {
    char line[128] = "";
    strncat(line, program_invocation_short_name, 64);
    strcat(strcat(line, what), "\n");
    ssize_t ignored = write(STDERR_FILENO, line, strlen(line));
    (void)ignored;
    _exit(1);
}

static void take_signal(int number) {
    exit_from_handler(number == SIGINT    ? ": stopped by SIGINT"
                      : number == SIGTERM ? ": stopped by SIGTERM"
                                          : ": stopped by SIGHUP");
}

/* Without this the next socket would be number 1, and the result would go to the peer. */
static void occupy_standard_streams(void) {
    for (int fd = 0; fd <= 2; fd++) {
        bool closed = fcntl(fd, F_GETFD) < 0;
        if (closed && open("/dev/null", O_RDWR) != fd)
            fail("/dev/null");
        if (closed && fd == STDOUT_FILENO)
            fail_because("standard output is closed, so the result has nowhere to go");
    }
}

void start_program(void) {
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
    signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        signal(ends[i], take_signal);
    occupy_standard_streams();
}

/* ---- the command line ---- */

struct common common = {.cpu = -1, .deadline_s = 60};

enum { MAX_OPTIONS = 40, LONG_ONLY = 256 };

/* The program's own options and the common ones, in one table as getopt_long() wants them. */
struct option_table {
    const struct command *command;
    struct program_option options[MAX_OPTIONS];
    struct option long_options[MAX_OPTIONS];
    char letters[2 * MAX_OPTIONS + 2];
    int count;
};

static void add_option(struct option_table *table, const struct program_option *option) {
    int i = table->count++;
    int kind = option->value ? required_argument : no_argument;
    table->options[i] = *option;
    table->long_options[i] =
        (struct option){option->name ? option->name : "", kind, NULL, LONG_ONLY + i};
    if (option->letter) {
        size_t used = strlen(table->letters);
        snprintf(table->letters + used, sizeof table->letters - used, "%c%s", option->letter,
                 option->value ? ":" : "");
    }
}

static void fill_option_table(struct option_table *table) {
    static const struct program_option bind_option = {
        "bind", 0, "ADDRESS", "listen on this address only", .text = &common.bind};
    static const struct program_option congestion_option = {
        "congestion", 0, "NAME", "congestion control, e.g. cubic", .text = &common.congestion};
    static const struct program_option common_options[] = {
        {NULL, '4', NULL, "only IPv4", .flag = &common.ipv4},
        {NULL, '6', NULL, "only IPv6", .flag = &common.ipv6},
        {"cpu", 0, "N", "run on this CPU only", .number = &common.cpu, .max = CPU_SETSIZE - 1},
        {"deadline", 0, "S", "give up after so long without progress, 0: never",
         .decimal = &common.deadline_s, .max = 1e6},
        {"json", 0, NULL, "the result as one JSON object", .flag = &common.json},
        {"help", 0, NULL, "this text", .flag = NULL}};
    strcpy(table->letters, ":"); /* getopt: be silent, tell a missing value from a wrong option */
    for (const struct program_option *own = table->command->options; own->help; own++)
        add_option(table, own);
    if (table->command->listens)
        add_option(table, &bind_option);
    if (table->command->tcp)
        add_option(table, &congestion_option);
    for (size_t i = 0; i < sizeof common_options / sizeof *common_options; i++)
        add_option(table, &common_options[i]);
}

static void list_names(const char *const *names, char *text, size_t size) {
    *text = '\0';
    for (int i = 0; names[i]; i++) {
        size_t used = strlen(text);
        snprintf(text + used, size - used, "%s%s", i ? ", " : "", names[i]);
    }
}

/* " (1 to 1024; 15)": the range and the default, as far as there are any. */
static void print_range(const struct program_option *option) {
    char range[128] = "", value[64] = "";
    if (option->number) {
        snprintf(range, sizeof range, "%.0f to %.0f%s%s", option->min, option->max,
                 option->zero ? ", " : "", option->zero ? option->zero : "");
        if (*option->number == 0 && option->zero)
            snprintf(value, sizeof value, "; %s", option->zero);
        else if (*option->number > 0)
            snprintf(value, sizeof value, "; %lld", (long long)*option->number);
    } else if (option->decimal && *option->decimal > 0) {
        snprintf(value, sizeof value, "%g", *option->decimal);
    } else if (option->text && *option->text) {
        snprintf(value, sizeof value, "%s", *option->text);
    } else if (option->choice) {
        list_names(option->names, range, sizeof range);
        snprintf(value, sizeof value, "; %s", option->names[*option->choice]);
    }
    if (*range || *value)
        printf(" (%s%s)", range, value);
}

static void print_option(const struct program_option *option) {
    char letter[8] = "", name[64] = "", left[96];
    if (option->letter)
        snprintf(letter, sizeof letter, "-%c%s", option->letter, option->name ? ", " : "");
    if (option->name)
        snprintf(name, sizeof name, "--%s", option->name);
    snprintf(left, sizeof left, "%s%s%s%s%s", *letter ? "" : "    ", letter, name,
             option->value ? " " : "", option->value ? option->value : "");
    printf("  %-22s %s", left, option->help);
    print_range(option);
    putchar('\n');
}

static _Noreturn void print_help(const struct option_table *table) {
    printf("usage: %s\n%s\n\n", table->command->usage, table->command->summary);
    for (int i = 0; i < table->count; i++)
        print_option(&table->options[i]);
    finish_output(stdout);
    exit(0);
}

int one_of(const char *name, const char *text, const char *const *names) {
    char choices[256];
    for (int i = 0; names[i]; i++) {
        if (strcmp(text, names[i]) == 0)
            return i;
    }
    list_names(names, choices, sizeof choices);
    usage_error("%s: '%s' is none of %s", name, text, choices);
}

static void set_variable(const struct program_option *option, const char *text) {
    char name[64];
    if (option->name)
        snprintf(name, sizeof name, "--%s", option->name);
    else
        snprintf(name, sizeof name, "-%c", option->letter);
    if (option->flag)
        *option->flag = true;
    else if (option->number && option->zero && strcmp(text, option->zero) == 0)
        *option->number = 0;
    else if (option->number)
        *option->number = whole_number(name, text, (int64_t)option->min, (int64_t)option->max);
    else if (option->decimal)
        *option->decimal = decimal_number(name, text, option->min, option->max);
    else if (option->text)
        *option->text = text;
    else
        *option->choice = one_of(name, text, option->names);
}

/* getopt_long's own complaints name argv[0], not the program, and don't point to --help. */
static _Noreturn void reject_option(int result, char **argv) {
    char letter[] = {'-', (char)optopt, '\0'};
    bool is_letter = optopt > 0 && optopt < LONG_ONLY;
    const char *option = is_letter ? letter : argv[optind - 1];
    if (result == ':')
        usage_error("%s needs a value", option);
    usage_error("%s is not an option of this program", option);
}

static const struct program_option *find_option(const struct option_table *table, int result) {
    if (result >= LONG_ONLY)
        return &table->options[result - LONG_ONLY];
    for (int i = 0; i < table->count; i++) {
        if (table->options[i].letter == result)
            return &table->options[i];
    }
    abort(); /* getopt returns no letter that it wasn't given */
}

static void expect_arguments(int given, char **arguments, const struct command *command) {
    if (given < command->arguments[0])
        usage_error("an argument is missing; usage: %s", command->usage);
    if (given > command->arguments[1])
        usage_error("'%s' is one argument too many; usage: %s", arguments[command->arguments[1]],
                    command->usage);
}

char **parse_command_line(int argc, char **argv, const struct command *command) {
    struct option_table table = {.command = command};
    fill_option_table(&table);
    opterr = 0;
    for (int o; (o = getopt_long(argc, argv, table.letters, table.long_options, NULL)) != -1;) {
        if (o == '?' || o == ':')
            reject_option(o, argv);
        const struct program_option *option = find_option(&table, o);
        if (option->name && strcmp(option->name, "help") == 0)
            print_help(&table);
        set_variable(option, optarg);
    }
    if (common.ipv4 && common.ipv6)
        usage_error("-4 and -6 exclude each other");
    expect_arguments(argc - optind, argv + optind, command);
    return argv + optind;
}

void pin_to_cpu(void) {
    if (common.cpu < 0)
        return;
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET((size_t)common.cpu, &only);
    if (sched_setaffinity(0, sizeof only, &only) < 0)
        fail("--cpu %lld (this machine has CPUs 0 to %ld)", (long long)common.cpu,
             sysconf(_SC_NPROCESSORS_CONF) - 1);
}

/* ---- sockets ---- */

int deadline_ms(void) {
    return common.deadline_s > 0 ? (int)fmin(ceil(common.deadline_s * 1000), 2e9) : -1;
}

void fail_transfer(const char *what) {
    if (errno == EAGAIN || errno == EINPROGRESS)
        fail_because("%s: no progress for %g s (--deadline)", what, common.deadline_s);
    if (errno == EFAULT) /* the pages of a mapping that are behind the end of its file */
        fail_because("%s: the file became shorter while it was sent", what);
    fail("%s", what);
}

static void set_limit(int fd, int option, const char *name, double limit_s) {
    struct timeval limit = {.tv_sec = (time_t)limit_s};
    limit.tv_usec = (suseconds_t)((limit_s - (double)limit.tv_sec) * 1e6);
    if (limit_s > 0 && limit.tv_sec == 0 && limit.tv_usec == 0)
        limit.tv_usec = 1; /* 0 would mean for ever */
    if (setsockopt(fd, SOL_SOCKET, option, &limit, sizeof limit) < 0)
        fail("%s", name);
}

void set_receive_limit(int fd, double limit_s) {
    set_limit(fd, SO_RCVTIMEO, "SO_RCVTIMEO", limit_s);
}

/* The kernel then gives up waiting with EAGAIN: no poll() and no timer in the programs' loops. */
static void set_deadline(int fd) {
    set_receive_limit(fd, common.deadline_s);
    set_limit(fd, SO_SNDTIMEO, "SO_SNDTIMEO", common.deadline_s);
}

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

static bool is_stream(int fd) {
    return get_option(fd, SOL_SOCKET, SO_TYPE, "SO_TYPE") == SOCK_STREAM;
}

enum {
    CONGESTION_NAME_MAX = 16
}; /* TCP_CA_NAME_MAX, which the kernel's headers for programs lack */

static void read_names(const char *which, char *names, int size) {
    char path[96];
    snprintf(path, sizeof path, "/proc/sys/net/ipv4/tcp_%s_congestion_control", which);
    FILE *file = fopen(path, "re");
    if (!file || !fgets(names, size, file))
        snprintf(names, (size_t)size, "?");
    names[strcspn(names, "\n")] = '\0';
    if (file)
        fclose(file);
}

static _Noreturn void fail_congestion(const char *wanted) {
    int error = errno;
    char names[256];
    if (error == EPERM) {
        read_names("allowed", names, sizeof names);
        fail_because(
            "--congestion %s: only root may choose it here, others: %s; to allow it, as root: "
            "sysctl -w net.ipv4.tcp_allowed_congestion_control='%s %s'",
            wanted, names, names, wanted);
    }
    read_names("available", names, sizeof names);
    errno = error;
    fail("--congestion %s (this kernel offers: %s; others are modules for root to load)", wanted,
         names);
}

static void choose_congestion(int fd, const char *wanted) {
    if (wanted &&
        setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, wanted, (socklen_t)strlen(wanted)) < 0)
        fail_congestion(wanted);
}

static void read_congestion(int fd, char name[CONGESTION_NAME_MAX]) {
    socklen_t size = CONGESTION_NAME_MAX;
    memset(name, 0, CONGESTION_NAME_MAX);
    if (getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &size) < 0)
        fail("reading TCP_CONGESTION");
}

/* A route with "congctl" overrides what was chosen before connect(), so look again afterwards. */
static void insist_on_congestion(int fd, const char *wanted) {
    char name[CONGESTION_NAME_MAX];
    read_congestion(fd, name);
    if (wanted && strcmp(name, wanted) != 0)
        choose_congestion(fd, wanted);
}

static int wanted_family(void) {
    return common.ipv4 ? AF_INET : common.ipv6 ? AF_INET6 : AF_UNSPEC;
}

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
        choose_congestion(fd, common.congestion);
    if (prepare)
        prepare(fd);
    return fd;
}

/* SIGSTOP and SIGCONT interrupt a connect() that has a time limit; asking again goes on waiting. */
static int connect_fully(int fd, const struct addrinfo *address) {
    int result;
    do
        result = connect(fd, address->ai_addr, address->ai_addrlen);
    while (result < 0 && errno == EINTR);
    return result < 0 && errno == EISCONN ? 0 : result;
}

int connect_to(int type, const char *host, const char *port, void (*prepare)(int fd)) {
    whole_number("PORT", port, 1, 65535);
    struct addrinfo *list = resolve(type, host, port, wanted_family());
    int fd = -1;
    for (struct addrinfo *address = list; address; address = address->ai_next) {
        fd = open_socket(address, prepare);
        if (fd >= 0 && connect_fully(fd, address) == 0)
            break;
        int error = errno;
        if (fd >= 0)
            close(fd);
        fd = -1;
        errno = error;
    }
    if (fd < 0) {
        char what[512];
        snprintf(what, sizeof what, "%s port %s", host, port);
        fail_transfer(what);
    }
    freeaddrinfo(list);
    if (type == SOCK_STREAM)
        insist_on_congestion(fd, common.congestion);
    return fd;
}

/* One socket for both families, where the machine has IPv6 at all. */
static int bind_socket(const struct addrinfo *address, void (*prepare)(int fd)) {
    int fd = open_socket(address, prepare);
    if (fd < 0)
        return -1;
    set_option(fd, SOL_SOCKET, SO_REUSEADDR, address->ai_socktype == SOCK_STREAM, "SO_REUSEADDR");
    if (address->ai_family == AF_INET6)
        set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, common.ipv6, "IPV6_V6ONLY");
    if (bind(fd, address->ai_addr, address->ai_addrlen) == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

int listen_on(int type, const char *port, void (*prepare)(int fd)) {
    whole_number("PORT", port, 0, 65535);
    bool any_family = !common.bind && wanted_family() == AF_UNSPEC;
    struct addrinfo *list =
        resolve(type, common.bind, port, any_family ? AF_INET6 : wanted_family());
    int fd = bind_socket(list, prepare);
    if (fd < 0 && any_family && (errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL)) {
        freeaddrinfo(list);
        list = resolve(type, NULL, port, AF_INET);
        fd = bind_socket(list, prepare);
    }
    freeaddrinfo(list);
    if (fd < 0)
        fail("port %s", port);
    if (type == SOCK_STREAM && listen(fd, SOMAXCONN) < 0)
        fail("listen");
    return fd;
}

static int local_port(int fd) {
    union {
        struct sockaddr any;
        struct sockaddr_in ipv4;
        struct sockaddr_in6 ipv6;
    } address = {.ipv6 = {0}};
    socklen_t size = sizeof address;
    if (getsockname(fd, &address.any, &size) < 0)
        fail("getsockname");
    return ntohs(address.any.sa_family == AF_INET6 ? address.ipv6.sin6_port
                                                   : address.ipv4.sin_port);
}

void announce(FILE *out, int listener) {
    const char *format = common.json ? "{\"listening\": %d}\n" : "listening on %d\n";
    fprintf(out, format, local_port(listener));
    finish_output(out);
}

int accept_from(int listener) {
    int fd;
    do
        fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    while (fd < 0 && (errno == EINTR || errno == ECONNABORTED));
    if (fd < 0)
        fail_transfer("waiting for a client");
    set_deadline(fd);
    insist_on_congestion(fd, common.congestion);
    return fd;
}

size_t receive(int fd, void *buffer, size_t size, int flags) {
    ssize_t got;
    do
        got = recv(fd, buffer, size, flags);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        fail_transfer("receiving");
    return (size_t)got;
}

ssize_t receive_message(int fd, struct msghdr *message, int64_t awake_us) {
    int64_t end_ns = awake_us > 0 ? clock_ns(CLOCK_MONOTONIC) + awake_us * 1000 : 0;
    ssize_t got = -1;
    while (got < 0 && end_ns > 0 && clock_ns(CLOCK_MONOTONIC) < end_ns)
        got = recvmsg(fd, message, MSG_DONTWAIT);
    while (got < 0) {
        got = recvmsg(fd, message, 0);
        if (got < 0 && errno != EINTR)
            break;
    }
    return got;
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
        fail_because("%s sent more than was asked of it", peer);
}

/* One message reports a range of sends. False when there is none. */
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
    struct pollfd errors = {.fd = fd}; /* POLLERR comes without asking */
    z->system_calls++;
    if (poll(&errors, 1, deadline_ms()) == 0)
        fail_because("the receiver has acknowledged nothing for %g s (--deadline)",
                     common.deadline_s);
    while (read_zerocopy_report(fd, z))
        ;
}

/* ---- what the kernel granted ---- */

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
        /* An IPv4 peer of a socket for both families shows as ::ffff:10.0.0.1. */
        snprintf(text, size, "%s port %s", strncmp(host, "::ffff:", 7) ? host : host + 7, port);
}

struct socket_options read_options(int fd) {
    struct socket_options options = {
        .is_tcp = is_stream(fd),
        .sndbuf_bytes = get_option(fd, SOL_SOCKET, SO_SNDBUF, "SO_SNDBUF"),
        .rcvbuf_bytes = get_option(fd, SOL_SOCKET, SO_RCVBUF, "SO_RCVBUF"),
    };
    if (options.is_tcp) {
        read_congestion(fd, options.congestion);
        options.mss = get_option(fd, IPPROTO_TCP, TCP_MAXSEG, "TCP_MAXSEG");
        options.nodelay = get_option(fd, IPPROTO_TCP, TCP_NODELAY, "TCP_NODELAY");
    }
    name_address(getsockname, fd, options.local, sizeof options.local);
    name_address(getpeername, fd, options.peer, sizeof options.peer);
    return options;
}

void print_options(FILE *out, const struct socket_options *options) {
    fputs("options: ", out);
    if (options->is_tcp)
        fprintf(out, "congestion %s, MSS %d, TCP_NODELAY %s, ", options->congestion, options->mss,
                options->nodelay ? "on" : "off");
    fprintf(out, "SO_SNDBUF %d, SO_RCVBUF %d, ", options->sndbuf_bytes, options->rcvbuf_bytes);
    if (common.cpu < 0)
        fputs("any CPU\n", out);
    else
        fprintf(out, "CPU %lld\n", (long long)common.cpu);
}

void print_buffer(FILE *out, const char *which, int64_t requested_bytes, int granted_bytes) {
    char requested[32] = "auto";
    if (requested_bytes)
        snprintf(requested, sizeof requested, "%lld bytes", (long long)requested_bytes);
    fprintf(out, "%s buffer: %s requested, %d granted\n", which, requested, granted_bytes);
}

struct tcp_info read_tcp_info(int fd) {
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) < 0)
        fail("TCP_INFO");
    return info;
}

const char *const quickack_names[] = {"on", "off", "always", NULL};

/* "This flag is not permanent" (tcp(7)). */
int set_quickack(int fd, int when) {
    if (when == QUICKACK_ON)
        return 0;
    set_option(fd, IPPROTO_TCP, TCP_QUICKACK, when == QUICKACK_ALWAYS, "TCP_QUICKACK");
    return 1;
}

/* ---- clocks and measurements ---- */

int64_t clock_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static int64_t timeval_ns(struct timeval time) {
    return time.tv_sec * INT64_C(1000000000) + time.tv_usec * INT64_C(1000);
}

struct usage usage_now(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (struct usage){
        .wall_ns = clock_ns(CLOCK_MONOTONIC),
        .user_ns = timeval_ns(used.ru_utime),
        .system_ns = timeval_ns(used.ru_stime),
        .voluntary_switches = used.ru_nvcsw,
        .involuntary_switches = used.ru_nivcsw,
        .minor_faults = used.ru_minflt,
        .major_faults = used.ru_majflt,
    };
}

struct usage usage_since(const struct usage *start) {
    struct usage now = usage_now();
    return (struct usage){
        .wall_ns = now.wall_ns - start->wall_ns,
        .user_ns = now.user_ns - start->user_ns,
        .system_ns = now.system_ns - start->system_ns,
        .voluntary_switches = now.voluntary_switches - start->voluntary_switches,
        .involuntary_switches = now.involuntary_switches - start->involuntary_switches,
        .minor_faults = now.minor_faults - start->minor_faults,
        .major_faults = now.major_faults - start->major_faults,
    };
}

void print_usage(FILE *out, const struct usage *used) {
    fprintf(out, "%.4f s by the clock, %.4f user, %.4f system", (double)used->wall_ns / 1e9,
            (double)used->user_ns / 1e9, (double)used->system_ns / 1e9);
}

double mb_per_s(int64_t bytes, const struct usage *used) {
    return (double)bytes * 1e3 / (double)used->wall_ns;
}

double cpu_s_per_gb(int64_t bytes, const struct usage *used) {
    return (double)(used->user_ns + used->system_ns) / (double)bytes;
}

void print_costs(FILE *out, int64_t bytes, const struct usage *used, int64_t system_calls) {
    fprintf(out, "%lld bytes, ", (long long)bytes);
    print_usage(out, used);
    fprintf(out,
            "\n%.1f MB/s, %.3f CPU s/GB, %lld system calls, %lld context switches, %lld page "
            "faults\n",
            mb_per_s(bytes, used), cpu_s_per_gb(bytes, used), (long long)system_calls,
            (long long)(used->voluntary_switches + used->involuntary_switches),
            (long long)(used->minor_faults + used->major_faults));
}

static int compare_samples(const void *a, const void *b) {
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

void sort_samples(int64_t *samples, size_t count) {
    qsort(samples, count, sizeof *samples, compare_samples);
}

int64_t percentile(const int64_t *sorted, size_t count, double share) {
    size_t rank = (size_t)ceil(share * (double)count);
    return sorted[rank == 0 ? 0 : rank - 1];
}

/* ---- the page cache ---- */

const char *const cache_names[] = {"cold", "warm", "asis", NULL};

int open_regular_file(const char *path, int64_t *size) {
    struct stat status;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, &status) < 0)
        fail("%s", path);
    if (!S_ISREG(status.st_mode))
        fail_because("%s is not a regular file", path);
    *size = status.st_size;
    return file;
}

enum { WINDOW_PAGES = 1024 };

/* How many pages from AT on, at most a window, are in memory; mincore(2) looks at a mapping. */
static size_t pages_in_memory(int file, const char *path, off_t at, size_t size) {
    unsigned char resident[WINDOW_PAGES];
    size_t page = (size_t)sysconf(_SC_PAGESIZE), in = 0;
    void *mapping = mmap(NULL, size, PROT_READ, MAP_SHARED, file, at);
    if (mapping == MAP_FAILED || mincore(mapping, size, resident) < 0)
        fail("mincore of %s", path);
    for (size_t i = 0; i < (size + page - 1) / page; i++)
        in += resident[i] & 1;
    munmap(mapping, size);
    return in;
}

/* In windows, so that it works for a file larger than the address space that we may have. */
static double cached_share(int file, const char *path) {
    off_t size = lseek(file, 0, SEEK_END), page = sysconf(_SC_PAGESIZE);
    off_t window = WINDOW_PAGES * page, pages = (size + page - 1) / page;
    size_t in = 0;
    if (size <= 0)
        return 1;
    for (off_t at = 0; at < size; at += window)
        in += pages_in_memory(file, path, at, (size_t)(size - at < window ? size - at : window));
    return (double)in / (double)pages;
}

static void read_through(int file, const char *path) {
    enum { BLOCK = 1 << 20 };
    char *buffer = allocate(BLOCK, 1);
    ssize_t got;
    for (off_t at = 0; (got = pread(file, buffer, BLOCK, at)) > 0;)
        at += got;
    if (got < 0)
        fail("reading %s", path);
    free(buffer);
}

double prepare_cache(int file, const char *path, int cache) {
    /* Pages that still have to be written to the disk would stay, so write them first. */
    if (cache == CACHE_COLD && fsync(file) == 0)
        posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    if (cache == CACHE_WARM)
        read_through(file, path);
    /* A kernel short of memory takes a page back at any time: a few change no measurement. */
    const double tolerance = 0.05;
    double share = cached_share(file, path);
    if (cache == CACHE_COLD && share > tolerance)
        fail_because("cold: %.0f %% of %s is still in the page cache (is it on a tmpfs, in use, or "
                     "not yours?)",
                     share * 100, path);
    if (cache == CACHE_WARM && share < 1 - tolerance)
        fail_because("warm: only %.0f %% of %s stays in the page cache (is it larger than that?)",
                     share * 100, path);
    return share;
}

/* ---- memory ---- */

void *allocate(size_t count, size_t size) {
    void *memory = calloc(count, size);
    if (!memory)
        fail("%zu x %zu bytes of memory", count, size);
    return memory;
}

/* ---- event log ---- */

struct event {
    int64_t time_ns;
    const char *name;
    size_t bytes;
};

struct event_log open_log(const char *path) {
    struct event_log events = {0};
    if (!path)
        return events;
    events.file = fopen(path, "we");
    if (!events.file)
        fail("--log %s", path);
    fputs("# CLOCK_REALTIME ns, event, bytes\n", events.file);
    return events;
}

void append_event(struct event_log *events, const char *event, size_t bytes) {
    if (events->count == events->capacity) {
        events->capacity = events->capacity ? 2 * events->capacity : 4096;
        events->events = realloc(events->events, events->capacity * sizeof *events->events);
        if (!events->events)
            fail("memory for %zu log lines", events->capacity);
    }
    events->events[events->count++] = (struct event){clock_ns(CLOCK_REALTIME), event, bytes};
}

void close_log(struct event_log *events) {
    if (!events->file)
        return;
    for (size_t i = 0; i < events->count; i++) {
        struct event *event = &events->events[i];
        fprintf(events->file, "%lld %s %zu\n", (long long)event->time_ns, event->name,
                event->bytes);
    }
    if (fclose(events->file) == EOF)
        fail("writing the --log file");
    free(events->events);
}

/* ---- JSON ---- */

static void write_quoted(FILE *out, const char *text) {
    fputc('"', out);
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '"' || *c == '\\')
            fprintf(out, "\\%c", *c);
        else if (*c < 0x20)
            fprintf(out, "\\u%04x", *c);
        else
            fputc(*c, out);
    }
    fputc('"', out);
}

/* The comma before a member, and its key. */
static void begin_member(struct json *j, const char *key) {
    if (j->needs_comma)
        fputs(", ", j->out);
    if (key) {
        write_quoted(j->out, key);
        fputs(": ", j->out);
    }
    j->needs_comma = true;
}

struct json json_start(FILE *out) {
    return (struct json){.out = out};
}

void json_object(struct json *j, const char *key) {
    begin_member(j, key);
    fputc('{', j->out);
    j->needs_comma = false;
}

void json_end_object(struct json *j) {
    fputc('}', j->out);
    j->needs_comma = true;
}

void json_array(struct json *j, const char *key) {
    begin_member(j, key);
    fputc('[', j->out);
    j->needs_comma = false;
}

void json_end_array(struct json *j) {
    fputc(']', j->out);
    j->needs_comma = true;
}

void json_string(struct json *j, const char *key, const char *value) {
    begin_member(j, key);
    write_quoted(j->out, value);
}

void json_int(struct json *j, const char *key, int64_t value) {
    begin_member(j, key);
    fprintf(j->out, "%lld", (long long)value);
}

void json_double(struct json *j, const char *key, double value) {
    begin_member(j, key);
    if (isfinite(value))
        fprintf(j->out, "%.9g", value);
    else
        fputs("null", j->out);
}

void json_bool(struct json *j, const char *key, bool value) {
    begin_member(j, key);
    fputs(value ? "true" : "false", j->out);
}

void json_null(struct json *j, const char *key) {
    begin_member(j, key);
    fputs("null", j->out);
}

void finish_output(FILE *out) {
    if (fflush(out) == EOF || ferror(out))
        fail("writing the result");
}

void json_finish(struct json *j) {
    fputc('\n', j->out);
    finish_output(j->out);
    j->needs_comma = false;
}

/* ---- results as JSON ---- */

struct json json_result(FILE *out, const struct usage *used) {
    struct json j = json_start(out);
    json_object(&j, NULL);
    json_string(&j, "program", program_invocation_short_name);
    json_usage(&j, used);
    return j;
}

void json_end_result(struct json *j, const struct socket_options *options,
                     const struct tcp_info *info) {
    json_options(j, "options", options);
    if (info)
        json_tcp_info(j, "tcp_info", info);
    json_end_object(j);
    json_finish(j);
}

void json_usage(struct json *j, const struct usage *used) {
    json_double(j, "wall_s", (double)used->wall_ns / 1e9);
    json_double(j, "user_s", (double)used->user_ns / 1e9);
    json_double(j, "system_s", (double)used->system_ns / 1e9);
    json_int(j, "voluntary_switches", used->voluntary_switches);
    json_int(j, "involuntary_switches", used->involuntary_switches);
    json_int(j, "minor_faults", used->minor_faults);
    json_int(j, "major_faults", used->major_faults);
}

void json_samples_us(struct json *j, const char *key, const int64_t *sorted, size_t count) {
    static const struct {
        const char *name;
        double share;
    } picks[] = {{"min", 0}, {"median", 0.5}, {"p99", 0.99}, {"max", 1}};
    json_object(j, key);
    for (size_t i = 0; i < sizeof picks / sizeof *picks; i++) {
        if (count == 0)
            json_null(j, picks[i].name);
        else
            json_double(j, picks[i].name, (double)percentile(sorted, count, picks[i].share) / 1e3);
    }
    json_end_object(j);
}

void json_options(struct json *j, const char *key, const struct socket_options *options) {
    json_object(j, key);
    if (options->is_tcp) {
        json_string(j, "congestion", options->congestion);
        json_int(j, "mss_bytes", options->mss);
        json_bool(j, "nodelay", options->nodelay);
    }
    json_int(j, "sndbuf_bytes", options->sndbuf_bytes);
    json_int(j, "rcvbuf_bytes", options->rcvbuf_bytes);
    json_string(j, "local", options->local);
    json_string(j, "peer", options->peer);
    if (common.cpu < 0)
        json_null(j, "cpu");
    else
        json_int(j, "cpu", common.cpu);
    json_double(j, "deadline_s", common.deadline_s);
    json_end_object(j);
}

/* The kernel's names, with the unit added where linux/tcp.h leaves it to be known. */
struct tcp_info_field {
    const char *name;
    size_t offset, size;
};

#define FIELD(name, member)                                                                        \
    {name, offsetof(struct tcp_info, member), sizeof(((struct tcp_info *)0)->member)}
static const struct tcp_info_field tcp_info_fields[] = {
    FIELD("ca_state", tcpi_ca_state),
    FIELD("retransmits", tcpi_retransmits),
    FIELD("probes", tcpi_probes),
    FIELD("backoff", tcpi_backoff),
    FIELD("options", tcpi_options),
    FIELD("rto_us", tcpi_rto),
    FIELD("ato_us", tcpi_ato),
    FIELD("snd_mss_bytes", tcpi_snd_mss),
    FIELD("rcv_mss_bytes", tcpi_rcv_mss),
    FIELD("unacked", tcpi_unacked),
    FIELD("sacked", tcpi_sacked),
    FIELD("lost", tcpi_lost),
    FIELD("retrans", tcpi_retrans),
    FIELD("last_data_sent_ms", tcpi_last_data_sent),
    FIELD("last_data_recv_ms", tcpi_last_data_recv),
    FIELD("last_ack_recv_ms", tcpi_last_ack_recv),
    FIELD("pmtu_bytes", tcpi_pmtu),
    FIELD("rcv_ssthresh_bytes", tcpi_rcv_ssthresh),
    FIELD("rtt_us", tcpi_rtt),
    FIELD("rttvar_us", tcpi_rttvar),
    FIELD("snd_ssthresh", tcpi_snd_ssthresh),
    FIELD("snd_cwnd", tcpi_snd_cwnd),
    FIELD("advmss_bytes", tcpi_advmss),
    FIELD("reordering", tcpi_reordering),
    FIELD("rcv_rtt_us", tcpi_rcv_rtt),
    FIELD("rcv_space_bytes", tcpi_rcv_space),
    FIELD("total_retrans", tcpi_total_retrans),
    FIELD("pacing_rate_bytes_per_s", tcpi_pacing_rate),
    FIELD("max_pacing_rate_bytes_per_s", tcpi_max_pacing_rate),
    FIELD("bytes_acked", tcpi_bytes_acked),
    FIELD("bytes_received", tcpi_bytes_received),
    FIELD("segs_out", tcpi_segs_out),
    FIELD("segs_in", tcpi_segs_in),
    FIELD("notsent_bytes", tcpi_notsent_bytes),
    FIELD("min_rtt_us", tcpi_min_rtt),
    FIELD("data_segs_in", tcpi_data_segs_in),
    FIELD("data_segs_out", tcpi_data_segs_out),
    FIELD("delivery_rate_bytes_per_s", tcpi_delivery_rate),
    FIELD("busy_time_us", tcpi_busy_time),
    FIELD("rwnd_limited_us", tcpi_rwnd_limited),
    FIELD("sndbuf_limited_us", tcpi_sndbuf_limited),
    FIELD("delivered", tcpi_delivered),
    FIELD("delivered_ce", tcpi_delivered_ce),
    FIELD("bytes_sent", tcpi_bytes_sent),
    FIELD("bytes_retrans", tcpi_bytes_retrans),
    FIELD("dsack_dups", tcpi_dsack_dups),
    FIELD("reord_seen", tcpi_reord_seen),
    FIELD("rcv_ooopack", tcpi_rcv_ooopack),
    FIELD("snd_wnd_bytes", tcpi_snd_wnd),
};
#undef FIELD

static const char *const tcp_states[] = {
    "unknown", "ESTABLISHED", "SYN_SENT", "SYN_RECV", "FIN_WAIT1", "FIN_WAIT2",   "TIME_WAIT",
    "CLOSE",   "CLOSE_WAIT",  "LAST_ACK", "LISTEN",   "CLOSING",   "NEW_SYN_RECV"};

/* "No limit" is all ones in the kernel, which would read as -1. */
static void json_tcp_info_field(struct json *j, const struct tcp_info *info,
                                const struct tcp_info_field *field) {
    const char *start = (const char *)info + field->offset;
    uint64_t wide = UINT64_MAX;
    uint32_t word;
    if (field->size == sizeof wide)
        memcpy(&wide, start, sizeof wide);
    else if (field->size == sizeof word)
        wide = (memcpy(&word, start, sizeof word), word);
    else
        wide = *(const uint8_t *)start;
    if (wide == UINT64_MAX)
        json_null(j, field->name);
    else
        json_int(j, field->name, (int64_t)wide);
}

void json_tcp_info(struct json *j, const char *key, const struct tcp_info *info) {
    size_t states = sizeof tcp_states / sizeof *tcp_states;
    json_object(j, key);
    json_string(j, "state", tcp_states[info->tcpi_state < states ? info->tcpi_state : 0]);
    json_int(j, "snd_wscale", info->tcpi_snd_wscale);
    json_int(j, "rcv_wscale", info->tcpi_rcv_wscale);
    json_bool(j, "delivery_rate_app_limited", info->tcpi_delivery_rate_app_limited);
    for (size_t i = 0; i < sizeof tcp_info_fields / sizeof *tcp_info_fields; i++)
        json_tcp_info_field(j, info, &tcp_info_fields[i]);
    json_end_object(j);
}
