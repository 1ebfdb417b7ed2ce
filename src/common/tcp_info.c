/* tcp_info.c - see tcp_info.h. */
#include "tcp_info.h"

#include "process.h"
#include "socket_options.h"

#include <linux/sock_diag.h>
#include <math.h>
#include <netinet/in.h>
#include <pthread.h>
#include <semaphore.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

struct tcp_info read_tcp_info(int fd) {
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) < 0)
        fail("TCP_INFO");
    return info;
}

/* What a sender's result needs, by the kernel's names, with the unit added where linux/tcp.h omits
   it. `ss -ti` shows the rest. */
struct tcp_info_field {
    const char *name;
    size_t offset, size;
};

#define FIELD(name, member)                                                                        \
    {name, offsetof(struct tcp_info, member), sizeof(((struct tcp_info *)0)->member)}
static const struct tcp_info_field tcp_info_fields[] = {
    FIELD("snd_mss_bytes", tcpi_snd_mss),
    FIELD("unacked", tcpi_unacked),
    FIELD("rtt_us", tcpi_rtt),
    FIELD("snd_ssthresh", tcpi_snd_ssthresh),
    FIELD("snd_cwnd", tcpi_snd_cwnd),
    FIELD("total_retrans", tcpi_total_retrans),
    FIELD("bytes_acked", tcpi_bytes_acked),
    FIELD("bytes_received", tcpi_bytes_received),
    FIELD("segs_out", tcpi_segs_out),
    FIELD("notsent_bytes", tcpi_notsent_bytes),
    FIELD("min_rtt_us", tcpi_min_rtt),
    FIELD("data_segs_out", tcpi_data_segs_out),
    FIELD("delivery_rate_bytes_per_s", tcpi_delivery_rate),
    FIELD("busy_time_us", tcpi_busy_time),
    FIELD("rwnd_limited_us", tcpi_rwnd_limited),
    FIELD("sndbuf_limited_us", tcpi_sndbuf_limited),
    FIELD("delivered", tcpi_delivered),
    FIELD("delivered_ce", tcpi_delivered_ce),
    FIELD("bytes_sent", tcpi_bytes_sent),
    FIELD("bytes_retrans", tcpi_bytes_retrans),
    FIELD("snd_wnd_bytes", tcpi_snd_wnd),
};
#undef FIELD

/* UINT64_MAX, all ones, is the kernel's "no limit". */
static uint64_t field_value(const struct tcp_info *info, const struct tcp_info_field *field) {
    const char *start = (const char *)info + field->offset;
    uint64_t wide = UINT64_MAX;
    uint32_t word;
    if (field->size == sizeof wide)
        memcpy(&wide, start, sizeof wide);
    else if (field->size == sizeof word)
        wide = (memcpy(&word, start, sizeof word), word);
    else
        wide = *(const uint8_t *)start;
    return wide;
}

/* The fields for people: the amount sent, and the causes of TCP's waits. */
static bool is_main(const char *name) {
    static const char *const names[] = {"data_segs_out", "total_retrans", "busy_time_us",
                                        "rwnd_limited_us", "sndbuf_limited_us"};
    for (size_t i = 0; i < COUNT(names); i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

static void json_fields(struct json *j, const struct tcp_info *info) {
    for (size_t i = 0; i < COUNT(tcp_info_fields); i++) {
        const char *name = tcp_info_fields[i].name;
        uint64_t value = field_value(info, &tcp_info_fields[i]);
        if (j->plain && !is_main(name))
            continue;
        if (value == UINT64_MAX)
            json_double(j, name, NAN);
        else
            json_int(j, name, (int64_t)value);
    }
}

void json_tcp_info(struct json *j, const char *key, const struct tcp_info *info) {
    json_object(j, key);
    json_fields(j, info);
    json_end_object(j);
}

/* ---- samples ---- */

static struct {
    int fd;
    int64_t start_ns, interval_ns;
    pthread_t thread;
    sem_t stop;
} sampler;

static void print_sample(int64_t since_start_ns) {
    struct tcp_info info = read_tcp_info(sampler.fd);
    uint32_t memory[SK_MEMINFO_VARS] = {0};
    socklen_t size = sizeof memory;
    if (getsockopt(sampler.fd, SOL_SOCKET, SO_MEMINFO, memory, &size) < 0)
        fail("SO_MEMINFO");
    struct json j = json_start(stdout, false);
    json_double(&j, "sample_s", (double)since_start_ns / 1e9);
    json_int(&j, "time_ns", clock_ns(CLOCK_REALTIME)); /* the captures' clock */
    json_fields(&j, &info);
    json_int(&j, "sndbuf_bytes", get_option(sampler.fd, SOL_SOCKET, SO_SNDBUF, "SO_SNDBUF"));
    /* The memory at which the kernel blocks a writer ("w" of ss -m). */
    json_int(&j, "sndbuf_used_bytes", memory[SK_MEMINFO_WMEM_QUEUED]);
    json_finish(&j);
}

static void *take_samples(void *nothing) {
    int64_t due = sampler.start_ns + sampler.interval_ns;
    for (;;) {
        struct timespec until = {.tv_sec = due / 1000000000, .tv_nsec = due % 1000000000};
        if (sem_clockwait(&sampler.stop, CLOCK_MONOTONIC, &until) == 0)
            return nothing;
        if (errno == EINTR)
            continue;
        int64_t now = clock_ns(CLOCK_MONOTONIC);
        print_sample(now - sampler.start_ns);
        due = now + sampler.interval_ns;
    }
}

void start_sampler(int fd, double interval_ms) {
    if (interval_ms == 0)
        return;
    sampler.fd = fd;
    sampler.interval_ns = (int64_t)(interval_ms * 1e6);
    sampler.start_ns = clock_ns(CLOCK_MONOTONIC);
    print_sample(0);
    sem_init(&sampler.stop, 0, 0);
    if ((errno = pthread_create(&sampler.thread, NULL, take_samples, NULL)))
        fail("a thread for --interval");
}

void stop_sampler(void) {
    if (sampler.interval_ns == 0)
        return;
    sem_post(&sampler.stop);
    pthread_join(sampler.thread, NULL);
}
