/*
 * net.h - the odds and ends that every program of the course shares.
 *
 * Each function either does what its comment says or ends the program with one
 * line on standard error: exit status 2 for a mistake in the command line,
 * 1 for anything that went wrong later.
 */
#ifndef TCPLAB_NET_H
#define TCPLAB_NET_H

#include <linux/tcp.h> /* newer than netinet/tcp.h: the whole of struct tcp_info */
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <time.h>

/* ---- errors ---- */

/* "prog: what: EPIPE: Broken pipe", exit status 1. Reads errno. */
_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same without errno, for failures that no system call reported. */
_Noreturn void fail_because(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* "prog: what (try --help)", exit status 2. */
_Noreturn void usage_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- arguments ---- */

/* A whole number between min and max, or a usage error that names all of them. */
int64_t whole_number(const char *name, const char *text, int64_t min, int64_t max);

/* A decimal number between min and max, or a usage error that names all of them. */
double decimal_number(const char *name, const char *text, double min, double max);

/* ---- starting, and the command line ---- */

/*
 * Every program starts here: a peer that is gone becomes EPIPE instead of a
 * silent death, Ctrl-C says so, and a socket never takes the place of a closed
 * standard stream.
 */
void start_program(void);

/*
 * One option: "-s, --size B  bytes in a write (1 to 1048576; 2)". Exactly one of
 * the pointers says what kind it is and where it goes; what is there at first is
 * the default, and appears in the help. A table of options ends with an empty one.
 */
struct program_option {
    const char *name;  /* without the "--"; or NULL */
    char letter;       /* without the "-"; or 0 */
    const char *value; /* how the help calls the value; NULL for a flag */
    const char *help;
    bool *flag;
    int64_t *number; /* whole, min to max */
    double *decimal; /* min to max */
    const char **text;
    int *choice; /* index among the names (NULL at the end) */
    double min, max;
    const char *const *names;
    const char *zero; /* the word for number 0, e.g. "auto" */
};

/* A buffer size, where 0, "auto", leaves it to the kernel. */
#define BUFFER_SIZE(variable) .number = &(variable), .min = 1, .max = 1 << 30, .zero = "auto"

struct command {
    const char *usage;   /* "tcpsource [OPTION]... HOST" */
    const char *summary; /* what it does, for the help */
    const struct program_option *options;
    int arguments[2];  /* at least, at most, not counting the options */
    bool tcp, listens; /* which of the common options it takes */
};

/* What every program of the course takes, beside its own options. */
extern struct common {
    bool json;              /* --json: one JSON object instead of sentences */
    bool ipv4, ipv6;        /* -4, -6: only that */
    int64_t cpu;            /* --cpu N, or -1 */
    double deadline_s;      /* --deadline SECONDS without progress; 0 means for ever */
    const char *congestion; /* --congestion NAME, or NULL for the system's choice */
    const char *bind;       /* --bind ADDRESS of a listening program, or NULL for all */
} common;

/* Sets the variables behind the options, and returns the arguments that are left. */
char **parse_command_line(int argc, char **argv, const struct command *command);

/* The index of text among the names (NULL at the end), or a usage error that lists them. */
int one_of(const char *name, const char *text, const char *const *names);

/* Runs the process on the CPU of --cpu, if any. */
void pin_to_cpu(void);

/* ---- sockets ---- */

/*
 * A SOCK_STREAM or SOCK_DGRAM socket connected to the first of the host's
 * addresses that answers. prepare (or NULL) is called on the socket before
 * connect(): buffer sizes and the MSS must be known when the SYN leaves.
 */
int connect_to(int type, const char *host, const char *port, void (*prepare)(int fd));

/*
 * A socket bound to the port, and listening if it is SOCK_STREAM; IPv4 clients
 * reach it as well as IPv6 ones. prepare as above: accepted sockets inherit.
 */
int listen_on(int type, const char *port, void (*prepare)(int fd));

/* Tells whoever started us which port we listen on, so that nobody has to guess or sleep. */
void announce(FILE *out, int listener);

/* The next client; the deadline and the congestion control are set on its socket. */
int accept_from(int listener);

/* setsockopt and getsockopt for options that are an int; name is for the message. */
void set_option(int fd, int level, int option, int64_t value, const char *name);
int get_option(int fd, int level, int option, const char *name);

/* How long poll(2) may wait: the deadline in milliseconds, or -1 for ever. */
int deadline_ms(void);

/* Ends the program: what failed with errno, or with no progress for the deadline. */
_Noreturn void fail_transfer(const char *what);

/* The deadline of one socket's receiving, where a program wants another: 0 means for ever. */
void set_receive_limit(int fd, double limit_s);

/* As recv(2), but never fails and is not disturbed by signals. 0 at the end of the stream. */
size_t receive(int fd, void *buffer, size_t size, int flags);

/* As recvmsg(2), but not disturbed by signals, and waits awake for so long before it sleeps. */
ssize_t receive_message(int fd, struct msghdr *message, int64_t awake_us);

/* As send(2), but sends everything; returns how many system calls it took. */
int64_t send_all(int fd, const void *buffer, size_t size, int flags);

/* Reads until size bytes are there or the stream ends; returns the bytes, adds the calls. */
size_t receive_all(int fd, void *buffer, size_t size, int64_t *calls);

/* Says "no more" and waits for the peer's end: afterwards it has read everything. */
void finish_sending(int fd, const char *peer);

/*
 * MSG_ZEROCOPY: for each send the kernel reports when it no longer needs the
 * memory, and whether it copied the data after all. Waits for more reports.
 */
struct zerocopy {
    int64_t sends, done, copied, system_calls;
};

void await_zerocopy(int fd, struct zerocopy *z);

/* What the kernel granted, as opposed to what was asked for. */
struct socket_options {
    bool is_tcp;
    char congestion[16];
    int mss, nodelay; /* of TCP only */
    int sndbuf_bytes, rcvbuf_bytes;
    char local[96], peer[96]; /* "10.0.0.1 port 9000" */
};

struct socket_options read_options(int fd);
void print_options(FILE *out, const struct socket_options *options);

/* "send buffer: 32768 bytes requested, 65536 granted"; a request of 0 is "auto". */
void print_buffer(FILE *out, const char *which, int64_t requested_bytes, int granted_bytes);

/* Linux fills the fields it knows and leaves the rest 0. */
struct tcp_info read_tcp_info(int fd);

/*
 * When a receiver acknowledges: as its kernel likes, as late as it may, or at
 * once. The latter two last only until the kernel changes its mind, so they are
 * set anew after every read. Returns the number of system calls made: 0 or 1.
 */
enum quickack { QUICKACK_ON, QUICKACK_OFF, QUICKACK_ALWAYS };
extern const char *const quickack_names[];
int set_quickack(int fd, int when);

/* ---- clocks and measurements ---- */

int64_t clock_ns(clockid_t clock);

/* What the process has used, or used between two moments. */
struct usage {
    int64_t wall_ns, user_ns, system_ns;
    int64_t voluntary_switches, involuntary_switches;
    int64_t minor_faults, major_faults;
};

struct usage usage_now(void);
struct usage usage_since(const struct usage *start);

/* "0.0095 s by the clock, 0.0010 user, 0.0079 system" */
void print_usage(FILE *out, const struct usage *used);

/* Bytes over wall time, in 10^6 bytes a second. */
double mb_per_s(int64_t bytes, const struct usage *used);

/* A line with bytes, times, MB/s, CPU seconds per GB, system calls, switches and faults. */
void print_costs(FILE *out, int64_t bytes, const struct usage *used, int64_t system_calls);

/* User and system time for 10^9 bytes. */
double cpu_s_per_gb(int64_t bytes, const struct usage *used);

/* Sorts the samples; afterwards percentile() takes any share between 0 and 1 (nearest rank). */
void sort_samples(int64_t *samples, size_t count);
int64_t percentile(const int64_t *sorted, size_t count, double share);

/* ---- the page cache ---- */

enum cache { CACHE_COLD, CACHE_WARM, CACHE_ASIS };
extern const char *const cache_names[];

/* A regular file opened for reading, and its size. */
int open_regular_file(const char *path, int64_t *size);

/*
 * Drops the file from the page cache or reads it in, and returns the share of it
 * that is there (mincore(2)), 0 to 1; a failure if that isn't what was asked for.
 */
double prepare_cache(int file, const char *path, int cache);

/* ---- memory ---- */

/* calloc, or the end of the program. */
void *allocate(size_t count, size_t size);

/*
 * A record of what the program did and when, kept in memory until the end.
 * The file has a line of "#" comment, then lines of CLOCK_REALTIME ns, event, bytes.
 */
struct event_log {
    FILE *file; /* NULL: nobody asked, and log_event costs one comparison */
    struct event *events;
    size_t count, capacity;
};

struct event_log open_log(const char *path);
void append_event(struct event_log *events, const char *event, size_t bytes);
void close_log(struct event_log *events);

static inline void log_event(struct event_log *events, const char *event, size_t bytes) {
    if (events->file)
        append_event(events, event, bytes);
}

/* ---- JSON ---- */

/* Writes one JSON value to a stream, member by member; the commas look after themselves. */
struct json {
    FILE *out;
    bool needs_comma;
};

struct json json_start(FILE *out);
/* key is NULL for an element of an array and for the outermost value. */
void json_object(struct json *j, const char *key);
void json_end_object(struct json *j);
void json_array(struct json *j, const char *key);
void json_end_array(struct json *j);
void json_string(struct json *j, const char *key, const char *value);
void json_int(struct json *j, const char *key, int64_t value);
/* A value that is not finite is written as null: JSON has no word for it. */
void json_double(struct json *j, const char *key, double value);
void json_bool(struct json *j, const char *key, bool value);
void json_null(struct json *j, const char *key);
/* Ends the line and flushes; a closed or full output is a failure, not a silence. */
void json_finish(struct json *j);

/* The same flush and check for output that is not JSON. */
void finish_output(FILE *out);

/*
 * The result of a program: json_result begins the object
 * with the program's name and what it used; json_end_result adds the options and
 * the TCP_INFO (NULL for UDP), and ends the line.
 */
struct json json_result(FILE *out, const struct usage *used);
void json_end_result(struct json *j, const struct socket_options *options,
                     const struct tcp_info *info);

/* Members of the current object: wall_s, user_s, system_s, ... */
void json_usage(struct json *j, const struct usage *used);
/* An object of min, median, p99 and max in microseconds, from sorted samples in ns. */
void json_samples_us(struct json *j, const char *key, const int64_t *sorted, size_t count);
/* What print_options prints, and the addresses. */
void json_options(struct json *j, const char *key, const struct socket_options *options);
/* Every field of struct tcp_info; times and sizes named with their unit. */
void json_tcp_info(struct json *j, const char *key, const struct tcp_info *info);

#endif
