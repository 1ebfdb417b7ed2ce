/* result.c - see result.h. */
#define _GNU_SOURCE
#include "result.h"

#include "command_line.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/time.h>

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

/* ---- results as JSON ---- */

static void json_usage(struct json *j, const struct usage *used) {
    json_double(j, "wall_s", (double)used->wall_ns / 1e9);
    json_double(j, "user_s", (double)used->user_ns / 1e9);
    json_double(j, "system_s", (double)used->system_ns / 1e9);
    json_int(j, "voluntary_switches", used->voluntary_switches);
    json_int(j, "involuntary_switches", used->involuntary_switches);
    json_int(j, "minor_faults", used->minor_faults);
    json_int(j, "major_faults", used->major_faults);
}

/* What print_options prints, and the addresses. */
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

struct json json_result(FILE *out, const struct usage *used) {
    struct json j = json_start(out);
    json_object(&j, NULL);
    json_string(&j, "program", program_invocation_short_name);
    json_usage(&j, used);
    return j;
}

void json_end_result(struct json *j, const struct socket_options *options,
                     const struct tcp_info *info) {
    json_options(j, options);
    if (info)
        json_tcp_info(j, "tcp_info", info);
    json_end_object(j);
    json_finish(j);
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
