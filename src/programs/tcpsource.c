/*
 * tcpsource - send blocks over TCP as fast as the connection takes them.
 *
 *     tcpsource [-s WRITE] [-b SNDBUF] [-c COUNT] [OPTION]... HOST
 *
 * Connects to a tcpsink at HOST, port 9000, and writes COUNT blocks of WRITE bytes. What it
 * measures ends when the sink has read everything, not when the kernel has merely taken it.
 *
 * From "A TCP Source and Sink" in J. Snader, Effective TCP/IP Programming, listings 2.18 to 2.20,
 * with its options and defaults: 5000 writes of 1440 bytes (what fits in an Ethernet segment with
 * room for options) and a send buffer of 32 KiB. "-b auto" leaves the buffer to the kernel, which
 * then makes it grow with the connection.
 *
 * The last line of the result says what TCP was waiting for (TCP_INFO): busy is the time with data
 * outstanding; of that it stood still for want of room in the receiver's window (rwnd_limited) and
 * because this program did not fill a larger send buffer (sndbuf_limited).
 *
 * Example, with `tcpsink` in another terminal:
 *
 *     $ tcpsource localhost
 *     options: congestion cubic, MSS 32741, TCP_NODELAY off, SO_SNDBUF 65536, ...
 *     send buffer: 32768 bytes requested, 65536 granted
 *     7200000 bytes in 5000 writes of 1440: 0.0095 s by the clock, 0.0010 user, 0.0079 system
 *     757.9 MB/s
 */
#define _GNU_SOURCE
#include "net.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

static const char *port = "9000";
static int64_t write_bytes = 1440, sndbuf_bytes = 32768, mss_bytes, count = 5000;
static double seconds, interval_ms;
static bool nodelay;

static const struct program_option options[] = {
    {NULL, 's', "BYTES", "size of a write", .number = &write_bytes, .min = 1, .max = 1 << 30},
    {NULL, 'b', "BYTES", "SO_SNDBUF, set before connect()", BUFFER_SIZE(sndbuf_bytes)},
    {NULL, 'c', "COUNT", "number of writes", .number = &count, .min = 1, .max = 1e9},
    {NULL, 't', "SECONDS", "write for so long instead", .decimal = &seconds, .min = 0.001,
     .max = 86400},
    {"port", 'p', "PORT", "the sink's", .text = &port},
    /* The limits are the kernel's: TCP_MIN_MSS and MAX_TCP_WINDOW. */
    {"mss", 0, "BYTES", "largest segment payload", .number = &mss_bytes, .min = 88, .max = 32767},
    {"nodelay", 0, NULL, "switch Nagle's algorithm off (TCP_NODELAY)", .flag = &nodelay},
    {"interval", 0, "MS", "TCP_INFO as a JSON line so often", .decimal = &interval_ms, .min = 0.1,
     .max = 1e6},
    {.help = NULL},
};

static const struct command command = {
    .usage = "tcpsource [OPTION]... HOST",
    .summary = "Sends blocks to a tcpsink as fast as the connection takes them.",
    .options = options,
    .arguments = {1, 1},
    .tcp = true,
};

static int granted_bytes;
static int64_t writes, system_calls;

/* Before connect(): the SYN announces the MSS, and the buffers decide what else it offers. */
static void prepare(int fd) {
    if (sndbuf_bytes)
        set_option(fd, SOL_SOCKET, SO_SNDBUF, sndbuf_bytes, "SO_SNDBUF");
    if (mss_bytes)
        set_option(fd, IPPROTO_TCP, TCP_MAXSEG, mss_bytes, "TCP_MAXSEG");
    granted_bytes = get_option(fd, SOL_SOCKET, SO_SNDBUF, "SO_SNDBUF");
}

/* ---- samples: a thread of its own, so that they go on while a write waits ---- */

struct sampler {
    int fd;
    int64_t start_ns;
    bool stop;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t stopped;
};

static void print_sample(int fd, int64_t since_start_ns) {
    struct tcp_info info = read_tcp_info(fd);
    struct json j = json_start(stdout);
    json_object(&j, NULL);
    json_double(&j, "sample_s", (double)since_start_ns / 1e9);
    json_int(&j, "snd_cwnd", info.tcpi_snd_cwnd);
    json_int(&j, "snd_ssthresh", info.tcpi_snd_ssthresh);
    json_int(&j, "unacked", info.tcpi_unacked);
    json_int(&j, "snd_wnd_bytes", info.tcpi_snd_wnd);
    json_int(&j, "notsent_bytes", info.tcpi_notsent_bytes);
    json_int(&j, "rtt_us", info.tcpi_rtt);
    json_int(&j, "min_rtt_us", info.tcpi_min_rtt);
    json_int(&j, "bytes_acked", (int64_t)info.tcpi_bytes_acked);
    json_int(&j, "total_retrans", info.tcpi_total_retrans);
    json_int(&j, "delivery_rate_bytes_per_s", (int64_t)info.tcpi_delivery_rate);
    json_int(&j, "sndbuf_bytes", get_option(fd, SOL_SOCKET, SO_SNDBUF, "SO_SNDBUF"));
    json_end_object(&j);
    json_finish(&j);
}

static void *take_samples(void *argument) {
    struct sampler *sampler = argument;
    int64_t due = sampler->start_ns + (int64_t)(interval_ms * 1e6);
    pthread_mutex_lock(&sampler->lock);
    while (!sampler->stop) {
        struct timespec until = {.tv_sec = due / 1000000000, .tv_nsec = due % 1000000000};
        pthread_cond_clockwait(&sampler->stopped, &sampler->lock, CLOCK_MONOTONIC, &until);
        int64_t now = clock_ns(CLOCK_MONOTONIC);
        if (now < due) /* stopped, or woken for no reason, which pthreads allow */
            continue;
        print_sample(sampler->fd, now - sampler->start_ns);
        due = now + (int64_t)(interval_ms * 1e6);
    }
    pthread_mutex_unlock(&sampler->lock);
    return NULL;
}

static void start_sampler(struct sampler *sampler, int fd) {
    if (interval_ms == 0)
        return;
    *sampler = (struct sampler){
        .fd = fd,
        .start_ns = clock_ns(CLOCK_MONOTONIC),
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .stopped = PTHREAD_COND_INITIALIZER,
    };
    print_sample(fd, 0);
    if (pthread_create(&sampler->thread, NULL, take_samples, sampler) != 0)
        fail("a thread for --interval");
}

static void stop_sampler(struct sampler *sampler) {
    if (interval_ms == 0)
        return;
    pthread_mutex_lock(&sampler->lock);
    sampler->stop = true;
    pthread_cond_signal(&sampler->stopped);
    pthread_mutex_unlock(&sampler->lock);
    pthread_join(sampler->thread, NULL);
}

/* ---- sending ---- */

static volatile sig_atomic_t time_is_up;

static void note_time_is_up(int signal_number) {
    (void)signal_number;
    time_is_up = 1;
}

/* An alarm, because to read the clock before each write would cost a twentieth of a small one. */
static void set_alarm(void) {
    struct sigaction action = {.sa_handler = note_time_is_up, .sa_flags = SA_RESTART};
    int64_t us = (int64_t)(seconds * 1e6);
    struct itimerval timer = {.it_value = {.tv_sec = us / 1000000, .tv_usec = us % 1000000}};
    sigaction(SIGALRM, &action, NULL);
    if (setitimer(ITIMER_REAL, &timer, NULL) < 0)
        fail("setitimer");
}

static void send_blocks(int fd, const char *block) {
    if (seconds > 0) {
        set_alarm();
        count = INT64_MAX;
    }
    for (writes = 0; writes < count && !time_is_up; writes++)
        system_calls += send_all(fd, block, (size_t)write_bytes, 0);
}

static void print_json(int fd, const struct socket_options *granted, const struct usage *used) {
    struct tcp_info info = read_tcp_info(fd);
    struct json j = json_result(stdout, used);
    json_int(&j, "bytes", writes * write_bytes);
    json_int(&j, "writes", writes);
    json_int(&j, "write_bytes", write_bytes);
    json_double(&j, "mb_per_s", mb_per_s(writes * write_bytes, used));
    json_int(&j, "system_calls", system_calls);
    json_int(&j, "sndbuf_requested_bytes", sndbuf_bytes);
    json_int(&j, "sndbuf_granted_bytes", granted_bytes);
    json_int(&j, "sndbuf_end_bytes", get_option(fd, SOL_SOCKET, SO_SNDBUF, "SO_SNDBUF"));
    json_end_result(&j, granted, &info);
}

static void print_text(int fd, const struct socket_options *granted, const struct usage *used) {
    struct tcp_info info = read_tcp_info(fd);
    print_options(stdout, granted);
    print_buffer(stdout, "send", sndbuf_bytes, granted_bytes);
    printf("%lld bytes in %lld writes of %lld: ", (long long)(writes * write_bytes),
           (long long)writes, (long long)write_bytes);
    print_usage(stdout, used);
    printf("\n%.1f MB/s\n", mb_per_s(writes * write_bytes, used));
    printf("TCP was busy for %.3f s, limited by the receiver's window for %.3f s, by the send "
           "buffer for %.3f s; %u retransmissions\n",
           (double)info.tcpi_busy_time / 1e6, (double)info.tcpi_rwnd_limited / 1e6,
           (double)info.tcpi_sndbuf_limited / 1e6, info.tcpi_total_retrans);
    finish_output(stdout);
}

int main(int argc, char **argv) {
    start_program();
    const char *host = parse_command_line(argc, argv, &command)[0];
    pin_to_cpu();

    /* What the block says does not matter, but it must be memory that was written: pages that
       never were are all one and the same page of zeros, and stay in the CPU's cache. */
    char *block = allocate((size_t)write_bytes, 1);
    memset(block, 'x', (size_t)write_bytes);

    int fd = connect_to(SOCK_STREAM, host, port, prepare);
    if (nodelay)
        set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY");
    struct socket_options granted = read_options(fd);

    struct sampler sampler;
    start_sampler(&sampler, fd);
    struct usage start = usage_now();
    send_blocks(fd, block);
    finish_sending(fd, "the sink");
    struct usage used = usage_since(&start);
    stop_sampler(&sampler);

    if (common.json)
        print_json(fd, &granted, &used);
    else
        print_text(fd, &granted, &used);
    close(fd);
    free(block);
}
