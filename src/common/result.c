/* result.c - see result.h. */
#define _GNU_SOURCE
#include "result.h"

#include "command_line.h"
#include "event_log.h"
#include "process.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>

/* ---- clocks and measurements ---- */

int64_t clock_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

void sleep_until_ns(int64_t monotonic_ns) {
    struct timespec when = {monotonic_ns / 1000000000, monotonic_ns % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL) == EINTR)
        continue;
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

/* ---- samples ---- */

struct samples allocate_samples(int64_t most) {
    return (struct samples){.ns = allocate((size_t)most, sizeof(int64_t))};
}

static int compare_samples(const void *a, const void *b) {
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

/* Of sorted samples, by nearest rank; NAN if there are none. */
static double percentile_us(const struct samples *samples, double share) {
    size_t rank = (size_t)ceil(share * (double)samples->count);
    return samples->count ? (double)samples->ns[rank == 0 ? 0 : rank - 1] / 1e3 : NAN;
}

/* ---- measuring ---- */

struct measurement start_measuring(int fd) {
    return (struct measurement){.granted = read_options(fd), .start = usage_now()};
}

void stop_measuring(struct measurement *m, int fd) {
    m->end = usage_now();
    if (m->granted.is_tcp)
        m->info = read_tcp_info(fd);
}

/* ---- the result ---- */

static double seconds_between(int64_t start_ns, int64_t end_ns) {
    return (double)(end_ns - start_ns) / 1e9;
}

static void json_usage(struct json *j, const struct usage *a, const struct usage *b) {
    json_double(j, "wall_s", seconds_between(a->wall_ns, b->wall_ns));
    json_double(j, "user_s", seconds_between(a->user_ns, b->user_ns));
    json_double(j, "system_s", seconds_between(a->system_ns, b->system_ns));
    json_int(j, "voluntary_switches", b->voluntary_switches - a->voluntary_switches);
    json_int(j, "involuntary_switches", b->involuntary_switches - a->involuntary_switches);
    json_int(j, "minor_faults", b->minor_faults - a->minor_faults);
    json_int(j, "major_faults", b->major_faults - a->major_faults);
}

static void json_options(struct json *j, const struct socket_options *options) {
    json_object(j, "options");
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

static void json_samples(struct json *j, const char *key, const struct samples *samples) {
    qsort(samples->ns, samples->count, sizeof(int64_t), compare_samples);
    json_object(j, key);
    json_double(j, "min", percentile_us(samples, 0));
    json_double(j, "median", percentile_us(samples, 0.5));
    json_double(j, "p99", percentile_us(samples, 0.99));
    json_double(j, "max", percentile_us(samples, 1));
    json_end_object(j);
}

static void json_field(struct json *j, const struct result_field *f, double wall_s) {
    if (f->whole)
        json_int(j, f->name, *f->whole);
    else if (f->decimal)
        json_double(j, f->name, *f->decimal);
    else if (f->flag)
        json_bool(j, f->name, *f->flag);
    else if (f->choice)
        json_string(j, f->name, f->names[*f->choice]);
    else if (f->samples)
        json_samples(j, f->name, f->samples);
    else if (f->rate_of)
        json_double(j, f->name, (double)*f->rate_of / f->unit / wall_s);
}

struct json start_result(FILE *out) {
    struct json j = json_start(out);
    j.plain = !common.json;
    json_object(&j, NULL);
    json_string(&j, "program", program_invocation_short_name);
    return j;
}

void print_result(FILE *out, const struct result_field *fields, const struct measurement *m) {
    struct json j = start_result(out);
    json_usage(&j, &m->start, &m->end);
    for (const struct result_field *f = fields; f->name; f++)
        json_field(&j, f, seconds_between(m->start.wall_ns, m->end.wall_ns));
    json_options(&j, &m->granted);
    if (m->granted.is_tcp)
        json_tcp_info(&j, "tcp_info", &m->info);
    json_end_object(&j);
    json_finish(&j);
    close_log();
}
