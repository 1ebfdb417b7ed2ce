/* result.c - see result.h. */
#include "result.h"

#include "command_line.h"
#include "event_log.h"
#include "process.h"

#include <math.h>
#include <stdlib.h>
#include <sys/time.h>

/* ---- samples ---- */

static int compare_samples(const void *a, const void *b) {
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

/* Returns a percentile of sorted samples by nearest rank, or NAN if there are none. */
static double percentile_us(const struct samples *samples, double share) {
    size_t rank = (size_t)ceil(share * (double)samples->count);
    return samples->count ? (double)samples->ns[rank == 0 ? 0 : rank - 1] / 1e3 : NAN;
}

/* ---- measuring ---- */

struct usage usage_now(void) {
    struct usage now;
    getrusage(RUSAGE_SELF, &now.process);
    now.wall_ns = clock_ns(CLOCK_MONOTONIC);
    return now;
}

struct measurement start_measuring(int fd) {
    return (struct measurement){.granted = read_options(fd), .start = usage_now()};
}

void stop_measuring(struct measurement *m, int fd) {
    m->end = usage_now();
    if (m->granted.is_tcp)
        m->info = read_tcp_info(fd);
}

/* ---- the result ---- */

static double seconds(struct timeval start, struct timeval end) {
    return (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_usec - start.tv_usec) / 1e6;
}

static double wall_s(const struct measurement *m) {
    return (double)(m->end.wall_ns - m->start.wall_ns) / 1e9;
}

double cpu_s(const struct measurement *m) {
    const struct rusage *a = &m->start.process, *b = &m->end.process;
    return seconds(a->ru_utime, b->ru_utime) + seconds(a->ru_stime, b->ru_stime);
}

static void json_usage(struct json *j, const struct measurement *m) {
    const struct rusage *a = &m->start.process, *b = &m->end.process;
    json_object(j, "usage");
    json_double(j, "wall_s", wall_s(m));
    json_double(j, "user_s", seconds(a->ru_utime, b->ru_utime));
    json_double(j, "system_s", seconds(a->ru_stime, b->ru_stime));
    json_int(j, "voluntary_switches", b->ru_nvcsw - a->ru_nvcsw);
    json_int(j, "involuntary_switches", b->ru_nivcsw - a->ru_nivcsw);
    json_int(j, "minor_faults", b->ru_minflt - a->ru_minflt);
    json_int(j, "major_faults", b->ru_majflt - a->ru_majflt);
    json_end_object(j);
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
    json_double(j, "cpu", common.cpu < 0 ? NAN : (double)common.cpu);
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

static void json_field(struct json *j, const struct result_field *f, double time_s) {
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
        json_double(j, f->name, (double)*f->rate_of / f->unit / time_s);
}

struct json start_result(FILE *out) {
    struct json j = json_start(out, !common.json);
    json_string(&j, "program", program_invocation_short_name);
    return j;
}

void print_result(FILE *out, const struct result_field *fields, const struct measurement *m) {
    struct json j = start_result(out);
    json_usage(&j, m);
    for (int i = 0; i < MAX_FIELDS && fields[i].name; i++)
        json_field(&j, &fields[i], wall_s(m));
    json_options(&j, &m->granted);
    if (m->granted.is_tcp)
        json_tcp_info(&j, "tcp_info", &m->info);
    json_finish(&j);
    close_log();
}
